package scenario_test

import (
	"slices"
	"strings"
	"testing"

	"stampede/harness/scenario"
)

// withFaults decodes the base with a file of faults in place of its own.
func withFaults(faults string, set ...string) (scenario.Scenario, scenario.Resolved, error) {
	opts := options(append([]string{"provokes=[load]", "slos=[]"}, set...)...)
	opts.FaultsFile, opts.Faults = "f.yaml", []byte(faults)
	return scenario.Decode([]byte(base), "shop-rush.yaml", opts)
}

func TestFaultsFileReplacesTheFaults(t *testing.T) {
	sc, res, err := withFaults("- {name: stall, kind: pause, target: redis, at: 1s, for: 2s}\n",
		"faults.0.for=3s")
	if err != nil {
		t.Fatal(err)
	}
	if len(sc.Faults) != 1 || sc.Faults[0].Name != "stall" || sc.Faults[0].For.String() != "3s" {
		t.Errorf("faults %+v", sc.Faults)
	}
	from := map[string]string{}
	for _, o := range res.Origins {
		from[o.Path] = o.From
	}
	if got := from["faults.0.kind"]; got != "--fault f.yaml" {
		t.Errorf("the kind is said to come from %q", got)
	}
}

// TestNoFaults: without any, what they provoke and what is asked of them goes, too.
func TestNoFaults(t *testing.T) {
	whole, _, err := scenario.Decode([]byte(base), "shop-rush.yaml", options())
	if err != nil {
		t.Fatal(err)
	}
	opts := options()
	opts.FaultsFile, opts.Faults = "none", []byte("[]")
	sc, _, err := scenario.Decode([]byte(base), "shop-rush.yaml", opts)
	if err != nil {
		t.Fatal(err)
	}
	if len(whole.SLOs) == 0 || len(sc.Faults)+len(sc.SLOs) > 0 ||
		!slices.Equal(sc.Provokes, []string{"load"}) {
		t.Errorf("left are %v, %v and %v", sc.Faults, sc.Provokes, sc.SLOs)
	}
}

func TestBadFaultsFiles(t *testing.T) {
	const good = "- {name: stall, kind: pause, target: redis, at: 1s, for: 2s}\n"
	for name, c := range map[string]struct{ faults, want string }{
		"empty":          {"", "f.yaml:1:1: the file is empty; expected a list of faults"},
		"a mapping":      {"faults: []\n", "f.yaml:1:1: unexpected a mapping; expected a list of"},
		"not YAML":       {"- {name: [\n", "f.yaml:1:"},
		"unknown field":  {good + "- {nam: x}\n", `f.yaml:2:4: unknown field "nam"`},
		"unknown kind":   {"- name: x\n  kind: paus\n", `f.yaml:2:9: unknown kind "paus"`},
		"a unit missing": {strings.Replace(good, "2s", "2", 1), "f.yaml:1:58: "},
		"after the load": {strings.Replace(good, "at: 1s", "at: 1h", 1), "f.yaml:1:49: the fault"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := withFaults(c.faults)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v\nwant %q in it", err, c.want)
			}
		})
	}
}

// What only the scenario's own faults provoke or break is an error, because
// without them it would not be judged.
func TestFaultsFileMustFitTheScenario(t *testing.T) {
	opts := options()
	opts.FaultsFile = "f.yaml"
	opts.Faults = []byte("- {name: stall, kind: pause, target: redis, at: 1s, for: 2s}\n")
	_, _, err := scenario.Decode([]byte(base), "shop-rush.yaml", opts)
	for _, want := range []string{"no fault wipes redis", `unexpected "slow"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
}
