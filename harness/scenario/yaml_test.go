package scenario_test

import (
	"errors"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"stampede/harness/scenario"
)

// mustRoundTrip writes a resolved scenario and decodes it again.
func mustRoundTrip(t interface {
	Helper()
	Fatalf(string, ...any)
}, sc scenario.Scenario) {
	t.Helper()
	text, err := sc.YAML()
	if err != nil {
		t.Fatalf("write: %v", err)
	}
	again, res, err := scenario.Decode(text, "scenario.resolved.yaml", options())
	if err != nil {
		t.Fatalf("decode what was written: %v\n%s", err, text)
	}
	if !reflect.DeepEqual(sc, again) {
		t.Fatalf("read back\n%+v\nwant\n%+v\nfrom\n%s", again, sc, text)
	}
	for _, o := range res.Origins {
		if o.From != "file" {
			t.Fatalf("%s is from %s: it is not in\n%s", o.Path, o.From, text)
		}
	}
}

func TestResolvedRoundTrip(t *testing.T) {
	for _, profile := range []string{"", "smoke", "full"} {
		sc, _ := decode(t, base, profile)
		mustRoundTrip(t, sc)
	}
	sc, _ := decode(t, minimal, "")
	mustRoundTrip(t, sc)
	closed, _ := decode(t, minimal, "", "load.arrival=null", "load.users=5", "load.duration=3s")
	mustRoundTrip(t, closed)
}

// TestRecorded: what was written is read back without the system's part, and what cannot be
// read is nothing.
func TestRecorded(t *testing.T) {
	sc, _ := decode(t, base, "smoke")
	text, err := sc.YAML()
	if err != nil {
		t.Fatal(err)
	}
	if got := scenario.Recorded(text); !reflect.DeepEqual(got.Load, sc.Load) || got.Params != nil {
		t.Errorf("read back %+v, want %+v", got.Load, sc.Load)
	}
	for _, text := range []string{"", "- 1", "load: [", "load: 3"} {
		if got := scenario.Recorded([]byte(text)); !reflect.DeepEqual(got, scenario.Scenario{}) {
			t.Errorf("of %q it reads %+v", text, got.Load)
		}
	}
}

func TestResolvedKeepsItsProfile(t *testing.T) {
	sc, _ := decode(t, base, "smoke")
	text, err := sc.YAML()
	if err != nil {
		t.Fatal(err)
	}
	opts := options()
	opts.Profile = "full"
	_, _, err = scenario.Decode(text, "x.yaml", opts)
	var all scenario.Errors
	if !errors.As(err, &all) || all[0].What != `already resolved for profile "smoke"` {
		t.Errorf("asking for another profile gives %v", err)
	}
}

// TestAnyTextRoundTrips puts text that YAML could take for something else
// wherever text may stand.
func TestAnyTextRoundTrips(t *testing.T) {
	tricky := rapid.OneOf(
		rapid.String(),
		rapid.StringOf(rapid.RuneFrom([]rune(" \t\n\r:#-?&*!|>'\"%@`{}[],\\~=.0019eExX_+"+
			"nulftrayso\x00\x7f\u0085\u2028\ufeff😀"))),
		rapid.SampledFrom([]string{
			"null", "~", "true", "no", "1e3", "0x1F", "0o7", ".inf", "-", "- a", "a: b", "a #b",
			"2026-11-21", "12:30:00", "<<", "=", "", " ", "\n", "'", `"`, "%a", "---", "...",
		}),
	)
	sc, _ := decode(t, base, "")
	rapid.Check(t, func(t *rapid.T) {
		sc := sc
		sc.Question = "?" + tricky.Draw(t, "question")
		sc.Stores.Postgres = rapid.MapOfN(tricky, tricky, 0, 3).Draw(t, "settings")
		if len(sc.Stores.Postgres) == 0 {
			sc.Stores.Postgres = nil
		}
		mustRoundTrip(t, sc)
	})
}

// TestAnyScenarioRoundTrips draws whole scenarios.
func TestAnyScenarioRoundTrips(t *testing.T) {
	sc, _ := decode(t, base, "")
	rapid.Check(t, func(t *rapid.T) {
		sc := sc
		sc.Repeats = rapid.IntRange(1, 100).Draw(t, "repeats")
		sc.Load.Arrival = anyArrival().Draw(t, "arrival")
		sc.Load.WarmUp = 0
		sc.Load.Queue = rapid.IntRange(0, 1_000_000).Draw(t, "queue")
		sc.Load.Timeout = duration().Draw(t, "timeout")
		sc.Faults, sc.Provokes = nil, []string{}
		sc.SLOs = nil
		mustRoundTrip(t, sc)
	})
}

func duration() *rapid.Generator[scenario.Duration] {
	return rapid.Map(rapid.Int64Range(1_000_001, 3_600_000_000_000),
		func(ns int64) scenario.Duration { return scenario.Duration(ns) })
}

func anyArrival() *rapid.Generator[scenario.Arrival] {
	return rapid.Custom(func(t *rapid.T) scenario.Arrival {
		rate := rapid.Float64Range(1, 1000).Draw(t, "rate")
		bound := duration().Draw(t, "over")
		over := scenario.Over(bound)
		poisson := rapid.Bool().Draw(t, "poisson")
		switch rapid.IntRange(0, 6).Draw(t, "process") {
		case 0:
			return scenario.Arrival{Process: "poisson", Rate: rate, Over: over}
		case 1:
			return scenario.Arrival{Process: "ramp", Rate: rate, To: 2 * rate, Over: over, Poisson: poisson}
		case 2:
			steps := []scenario.Step{{Rate: rate, For: bound}, {Rate: 0, For: bound}}
			return scenario.Arrival{Process: "step", Steps: steps, Poisson: poisson}
		case 3:
			return scenario.Arrival{Process: "trace", Trace: []scenario.Duration{0, bound, bound + 1}}
		case 4:
			return scenario.Arrival{Process: "burst", Ops: int(rate), Over: scenario.Fit,
				OverLeast: bound, OverMost: bound + 1, Poisson: poisson}
		case 5:
			at := rapid.SampledFrom([]scenario.Duration{0, bound / 4}).Draw(t, "at")
			return scenario.Arrival{Process: "spike", Rate: rate, To: 2 * rate, At: at, For: bound / 2,
				Over: over, Poisson: poisson}
		}
		return scenario.Arrival{Process: "burst", Ops: int(rate), Over: over, Poisson: poisson,
			Peak: rapid.SampledFrom([]float64{0, 1, 1.25, 2}).Draw(t, "peak")}
	})
}

// FuzzDecode: whatever a file holds, decoding gives problems that point into
// it, or a scenario that survives being written.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(base), "smoke", "repeats=3")
	f.Add([]byte(minimal), "", "load.arrival=null")
	f.Add([]byte("a: [1, {b: c}]\n? x\n: y\n--- |\n z"), "full", "faults.0.at=1s")
	for _, c := range badScenarios() {
		f.Add([]byte(c.new), "default", "=")
	}
	f.Fuzz(func(t *testing.T, src []byte, profile, set string) {
		opts := options()
		opts.Profile = profile
		if set != "" {
			opts.Set = []string{set}
		}
		sc, _, err := scenario.Decode(src, "x.yaml", opts)
		if err != nil {
			mustPointIntoFile(t, string(src), err)
			return
		}
		mustRoundTrip(t, sc)
	})
}
