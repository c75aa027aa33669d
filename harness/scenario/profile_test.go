package scenario_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"stampede/harness/scenario"
)

func decode(
	t *testing.T, src, profile string, set ...string,
) (scenario.Scenario, scenario.Resolved) {
	t.Helper()
	opts := options(set...)
	opts.Profile = profile
	sc, res, err := scenario.Decode([]byte(src), "shop-rush.yaml", opts)
	if err != nil {
		t.Fatalf("profile %q, set %q: %v", profile, set, err)
	}
	return sc, res
}

func TestProfilesOverlay(t *testing.T) {
	smoke, res := decode(t, base, "smoke")
	if got := smoke.Load.Arrival; got.Over.String() != "8s" || got.Rate != 100.5 {
		t.Errorf("a profile changes one field of a mapping: %+v", got)
	}
	if got := res.Params.(*shopParams); got.Items != 2 || got.Fail != 0.25 {
		t.Errorf("a profile changes one parameter: %+v", got)
	}
	full, _ := decode(t, base, "full")
	if full.Repeats != 6 || full.Load.Arrival.Over.String() != "10s" {
		t.Errorf("full: %+v", full)
	}
	if plain, _ := decode(t, base, ""); plain.Profile != "default" || plain.Repeats != 2 {
		t.Errorf("no profile asked for: %+v", plain)
	}
}

func TestProfileReplacesListsAndRemovesFields(t *testing.T) {
	src := strings.Replace(base, "full: {repeats: 6}", `full:
    repeats: null
    variants: [cached]
    baseline: null
    faults: [{name: solo, kind: kill, target: redis, at: 1s, for: 1s, wipe: true}]
    slos: []
    load:
      arrival: {process: burst, rate: null, ops: 50}`, 1)
	full, _ := decode(t, src, "full")
	if full.Repeats != 1 || full.Baseline != "cached" || len(full.Faults) != 1 || len(full.SLOs) != 0 {
		t.Errorf("lists replace and null removes: %+v", full)
	}
	if a := full.Load.Arrival; a.Process != "burst" || a.Rate != 0 || a.Ops != 50 {
		t.Errorf("the arrival process became %+v", a)
	}
}

// fitted is a scenario whose load is fitted, but for the profile full.
var fitted = strings.NewReplacer(
	"process: constant\n    rate: 100.5\n    over: 10s",
	"process: burst\n    ops: 500\n    over: fit\n    over_least: 8s\n    over_most: 20s",
	"smoke:\n    params: {items: 2}\n    load: {arrival: {over: 8s}}",
	"smoke:\n    load: {arrival: {over_most: 9s}}",
	"full: {repeats: 6}", "full: {load: {arrival: {over: 12s}}}").Replace(base)

func TestFit(t *testing.T) {
	for profile, want := range map[string]string{
		"": "fit 8s 20s", "smoke": "fit 8s 9s", "full": "12s 8s 20s",
	} {
		sc, _ := decode(t, fitted, profile)
		a := sc.Load.Arrival
		if got := fmt.Sprint(a.Over, " ", a.OverLeast, " ", a.OverMost); got != want {
			t.Errorf("profile %q: %s, want %s", profile, got, want)
		}
	}
	// A length that is given needs no measurement, and what was measured is given.
	sc, _ := decode(t, fitted, "", "load.arrival.over=14.5s")
	if over := sc.Load.Arrival.Over; over == scenario.Fit || over.D() != 14500*time.Millisecond {
		t.Errorf("--set load.arrival.over=14.5s gives %s", over)
	}
	// Faults and warm-up must have room in the shortest load.
	sc, _ = decode(t, fitted, "")
	if got := sc.Load.Length(); got != 8*time.Second {
		t.Errorf("the load lasts %s at least, want 8s", got)
	}
}

// TestQuick: the quick profile is the default one where a file has none.
func TestQuick(t *testing.T) {
	src := mustReplace(t, base, "  default:\n", "  default: {repeats: 3}\n")
	if sc, _ := decode(t, src, "quick"); sc.Repeats != 3 || sc.Profile != "quick" {
		t.Errorf("without a profile quick: profile %s with %d repeats, want quick with those of "+
			"default, 3", sc.Profile, sc.Repeats)
	}
	src = mustReplace(t, src, "profiles:\n", "profiles:\n  quick: {variants: [locked, cached]}\n")
	if sc, _ := decode(t, src, "quick"); sc.Repeats != 2 || len(sc.Variants) != 2 {
		t.Errorf("profile quick has %d repeats of %v, want its own variants and the file's 2 repeats",
			sc.Repeats, sc.Variants)
	}
}

func TestUnknownProfileIsRefused(t *testing.T) {
	opts := options()
	opts.Profile = "smoke"
	_, _, err := scenario.Decode([]byte(minimal), "x.yaml", opts)
	want := `--profile smoke: x.yaml has no profile "smoke"; expected one of quick, default`
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestSet(t *testing.T) {
	for _, c := range []struct {
		set  string
		got  func(scenario.Scenario, *shopParams) any
		want any
	}{
		{"load.arrival.rate=500", rateOf, 500.0},
		{"load.arrival.rate=5e2", rateOf, 500.0},
		{"params.items=50", func(_ scenario.Scenario, p *shopParams) any { return p.Items }, 50},
		{"params.labels.new=yes", func(_ scenario.Scenario, p *shopParams) any { return p.Labels["new"] },
			"yes"},
		{"params.weights=[1, 0.5]", func(_ scenario.Scenario, p *shopParams) any { return p.Weights },
			[]float64{1, 0.5}},
		{"faults.1.at=3s", func(s scenario.Scenario, _ *shopParams) any {
			return s.Faults[1].At.String()
		}, "3s"},
		{"variants=[locked, cached]", func(s scenario.Scenario, _ *shopParams) any { return s.Variants },
			[]string{"locked", "cached"}},
		{"baseline=null", func(s scenario.Scenario, _ *shopParams) any { return s.Baseline }, "naive"},
		{"question=why, and: how?", func(s scenario.Scenario, _ *shopParams) any { return s.Question },
			"why, and: how?"},
		{"stores.redis.appendonly=no", func(s scenario.Scenario, _ *shopParams) any {
			return s.Stores.Redis["appendonly"]
		}, "no"},
	} {
		sc, res := decode(t, base, "smoke", c.set)
		if got := c.got(sc, res.Params.(*shopParams)); !reflect.DeepEqual(got, c.want) {
			t.Errorf("--set %s gives %v, want %v", c.set, got, c.want)
		}
	}
}

func rateOf(s scenario.Scenario, _ *shopParams) any { return s.Load.Arrival.Rate }

func TestSetAppliesInOrderAfterTheProfile(t *testing.T) {
	sc, res := decode(t, base, "smoke", "params.items=7", "repeats=3", "repeats=4")
	if got := res.Params.(*shopParams).Items; got != 7 || sc.Repeats != 4 {
		t.Errorf("items %d, repeats %d; want 7 and 4", got, sc.Repeats)
	}
}

func TestBadSets(t *testing.T) {
	for set, want := range map[string]string{
		"load.arrival.rate": `--set load.arrival.rate: this is not path=value`,
		"profiles.smoke.x=5": `--set profiles.smoke.x=5: profiles cannot be set; set the value itself, ` +
			`or use --profile`,
		"=5":                     `--set =5: this is not path=value`,
		"load.arival.rate=5":     `--set load.arival.rate=5: unknown field "arival"`,
		"load.arrival.rate=-5":   `--set load.arrival.rate=-5: rate is -5; expected a number from 0`,
		"load.timeout=500":       `--set load.timeout=500: the unit of 500 is missing`,
		"repeats=many":           `--set repeats=many: unexpected "many"; expected a whole number`,
		"repeats=":               `--set repeats=: unexpected ""; expected a whole number`,
		"repeats=[1":             `--set repeats=[1: not valid YAML`,
		"repeats.x=1":            `--set repeats.x=1: "repeats" is a value, not a mapping or a list`,
		"faults.9.at=1s":         `there is no "faults.9"; expected an index from 0 to 2`,
		"faults.-1.at=1s":        `--set faults.-1.at=1s: there is no "faults.-1"`,
		"faults.x=1":             `--set faults.x=1: there is no "faults.x"`,
		"params.fail=0.9":        `--set params.fail=0.9: pay + fail is 1.4`,
		"system=queue":           `--set system=queue: unknown system "queue"`,
		"slos.0.objective=p99(x": `--set slos.0.objective=p99(x: unexpected "x" in the objective`,
		"variants=[naive]":       `--set variants=[naive]: baseline "locked" is not among the designs`,
		"load.arrival.over=1s":   `--set load.arrival.over=1s: the fault begins at 2s, after the end`,
		"load.warm_up=11s":       `--set load.warm_up=11s: warm_up 11s leaves nothing`,
		"load.arrival.rate=0":    `--set load.arrival.rate=0: constant 0/s over 10s never has`,
		"faults.0.wipe=false":    `--set faults.0.wipe=false: no fault wipes redis`,
		"variants=[locked]":      `--set variants=[locked]: no design needs redis`,
	} {
		_, _, err := scenario.Decode([]byte(base), "x.yaml", options(set))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v\nwant %s", err, want)
		}
	}
}

func TestOrigins(t *testing.T) {
	_, res := decode(t, base, "smoke", "repeats=3")
	from := make(map[string]string)
	for _, o := range res.Origins {
		from[o.Path] = o.From + " " + o.Value
	}
	for path, want := range map[string]string{
		"name":                  "file shop-rush",
		"repeats":               "--set repeats=3 3",
		"params.items":          "profile smoke 2",
		"params.fail":           "file 0.25",
		"params.skew":           "built in uniform",
		"load.arrival.over":     "profile smoke 8s",
		"load.arrival.rate":     "file 100.5",
		"faults.0.wipe":         "file true",
		"variants":              "file [naive, locked, cached]",
		"stores.postgres.fsync": `file "on"`,
		"profile":               "built in smoke",
	} {
		if from[path] != want {
			t.Errorf("%s is from %q, want %q", path, from[path], want)
		}
	}
}

// anyTree draws what encoding/json could give, without null. As in a file of
// a fixed format, a field's name decides whether it is a mapping.
func anyTree(depth int) *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		tree := make(map[string]any)
		for _, name := range []string{"a", "b", "c"} {
			if rapid.Bool().Draw(t, name) {
				tree[name] = anyLeaf().Draw(t, "value")
			}
		}
		for _, name := range []string{"m", "n"} {
			if depth > 0 && rapid.Bool().Draw(t, name) {
				tree[name] = anyTree(depth-1).Draw(t, "inner")
			}
		}
		return tree
	})
}

func anyLeaf() *rapid.Generator[any] {
	return rapid.OneOf(
		rapid.Map(rapid.StringN(0, 3, -1), func(s string) any { return s }),
		rapid.Map(rapid.IntRange(-5, 5), func(i int) any { return i }),
		rapid.Map(rapid.Bool(), func(b bool) any { return b }),
		rapid.Map(rapid.SliceOfN(rapid.Bool(), 0, 2), func(l []bool) any { return l }),
	)
}

// TestMergeLaws: overlays are a monoid. The empty one changes nothing, doing
// it twice is doing it once, and the grouping does not matter.
func TestMergeLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := anyTree(2).Draw(t, "a"), anyTree(2).Draw(t, "b"), anyTree(2).Draw(t, "c")
		same := func(law string, x, y any) {
			if !reflect.DeepEqual(x, y) {
				t.Errorf("%s: %v is not %v", law, x, y)
			}
		}
		ab := scenario.Merge(a, b)
		same("right identity", scenario.Merge(a, map[string]any{}), scenario.Normal(a))
		same("left identity", scenario.Merge(map[string]any{}, b), scenario.Normal(b))
		same("idempotence", scenario.Merge(ab, b), ab)
		same("associativity", scenario.Merge(ab, c), scenario.Merge(a, scenario.Merge(b, c)))
	})
}

// TestMergeAgainstTheStandard runs the examples of RFC 7396, appendix A.
func TestMergeAgainstTheStandard(t *testing.T) {
	for _, c := range [][3]string{
		{`{"a": b}`, `{"a": c}`, `{"a": c}`},
		{`{"a": b}`, `{"b": c}`, `{"a": b, "b": c}`},
		{`{"a": b}`, `{"a": null}`, `{}`},
		{`{"a": b, "b": c}`, `{"a": null}`, `{"b": c}`},
		{`{"a": [b]}`, `{"a": c}`, `{"a": c}`},
		{`{"a": c}`, `{"a": [b]}`, `{"a": [b]}`},
		{`{"a": {"b": c}}`, `{"a": {"b": d, "c": null}}`, `{"a": {"b": d}}`},
		{`{"a": [{"b": c}]}`, `{"a": [1]}`, `{"a": [1]}`},
		{`[a, b]`, `[c, d]`, `[c, d]`},
		{`{"a": b}`, `[c]`, `[c]`},
		{`{"a": foo}`, `bar`, `bar`},
		{`{"e": null}`, `{"a": 1}`, `{"e": null, "a": 1}`},
		{`[1, 2]`, `{"a": b, "c": null}`, `{"a": b}`},
		{`{}`, `{"a": {"bb": {"ccc": null}}}`, `{"a": {"bb": {}}}`},
	} {
		got := scenario.Merge(tree(t, c[0]), tree(t, c[1]))
		if want := scenario.Normal(tree(t, c[2])); !reflect.DeepEqual(got, want) {
			t.Errorf("%s with %s gives %v, want %v", c[0], c[1], got, want)
		}
	}
}

func tree(t *testing.T, src string) any {
	t.Helper()
	v, err := scenario.Tree([]byte(src))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestDecodeParams(t *testing.T) {
	params, err := scenario.DecodeParams(shop(), []string{"items=9", "ttl=3s"})
	if err != nil {
		t.Fatal(err)
	}
	if got := params.(*shopParams); got.Items != 9 || got.TTL.String() != "3s" || got.Pay != 0.5 {
		t.Errorf("got %+v", got)
	}
	for set, want := range map[string]string{
		"itms=9":   `--set itms=9: unknown field "itms"`,
		"ttl=3":    `--set ttl=3: the unit of 3 is missing`,
		"fail=0.9": `--set fail=0.9: pay + fail is 1.4`,
	} {
		if _, err := scenario.DecodeParams(shop(), []string{set}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
