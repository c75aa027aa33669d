package calibrate_test

import (
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"stampede/harness/calibrate"
	"stampede/harness/check"
	"stampede/harness/rundir"
	"stampede/harness/sim"
)

// recorded are four seconds of a load, as a busy machine of two cores gave them: a program of
// somebody else's took a core in the third second.
func recorded() (rundir.Telemetry, rundir.Timeline) {
	at := []int64{1e9, 2e9, 3e9, 4e9, 5e9}
	series := func(quantity, part string, values ...float64) rundir.Series {
		return rundir.Series{Quantity: quantity, Part: part, AtNS: at[len(at)-len(values):],
			Values: values}
	}
	line := rundir.Timeline{BucketNS: 5e8}
	kind := rundir.KindTimeline{Kind: "buy"}
	for i := range 10 { // 100, 200, 200, … operations in each half second
		kind.Buckets = append(kind.Buckets, rundir.Bucket{Ended: min(100*int64(i+1), 200)})
	}
	line.Kinds = []rundir.KindTimeline{kind}
	return rundir.Telemetry{Sources: []rundir.TelemetrySource{
		{Name: "postgres"},
		{Name: "cpu", Series: []rundir.Series{
			series("processor", "generator", 0.1, 0.1, 0.1, 0.2, 0.1),
			series("processor", "postgres", 0.2, 0.2, 0.2, 0.4, 0.2),
			series(rundir.Taken, rundir.Hypervisor, 0, 0, 0, 0, 0),
			series(rundir.Taken, rundir.OtherPrograms, 0.01, 0.01, 1, 0.01),
		}},
	}}, line
}

func TestWindows(t *testing.T) {
	said, line := recorded()
	all := calibrate.Windows(said, line, time.Second, 5*time.Second, 2)
	if len(all) != 4 {
		t.Fatalf("%d windows lie between 1 s and 5 s, not 4: %+v", len(all), all)
	}
	quiet := []bool{}
	for _, w := range all {
		quiet = append(quiet, w.Quiet())
		if w.Ended != 400 {
			t.Errorf("in a window %v operations ended, not 400", w.Ended)
		}
	}
	if want := []bool{true, true, false, true}; !slices.Equal(quiet, want) {
		t.Errorf("the quiet windows are %v, not %v", quiet, want)
	}
	if got := calibrate.Windows(said, line, time.Second, 4*time.Second, 2); len(got) != 3 {
		t.Errorf("%d windows lie between 1 s and 4 s, not 3", len(got))
	}
	demand := calibrate.Demand(all[:2])
	if math.Abs(demand["postgres"]-0.4/800) > 1e-9 {
		t.Errorf("an operation takes %v s of postgres, not 500 µs", demand["postgres"])
	}
	if got := calibrate.Taken(all); math.Abs(got-0.12875) > 1e-9 {
		t.Errorf("others had %v of the machine, not 0.12875", got)
	}
	// What nobody knows is not quiet.
	unknown := said
	unknown.Sources = slices.Clone(said.Sources)
	cpu := &unknown.Sources[1]
	cpu.Series = slices.Clone(cpu.Series)
	cpu.Series[3].AtNS, cpu.Series[3].Values = cpu.Series[3].AtNS[:1], cpu.Series[3].Values[:1]
	for _, w := range calibrate.Windows(unknown, line, 2*time.Second, 5*time.Second, 2) {
		if w.Quiet() {
			t.Errorf("a window is quiet although nobody knows what others took: %+v", w)
		}
	}
}

func TestChoose(t *testing.T) {
	quiet := calibrate.Window{Seconds: 1, Known: true}
	busy := calibrate.Window{Seconds: 1, Known: true, Foreign: 0.3}
	busier := calibrate.Window{Seconds: 1, Known: true, Foreign: 0.5}
	all := append(slices.Repeat([]calibrate.Window{quiet}, calibrate.Least), busy)
	if got, is := calibrate.Choose(all); !is || len(got) != calibrate.Least {
		t.Errorf("of enough quiet windows %d are chosen, quiet: %v", len(got), is)
	}
	got, is := calibrate.Choose([]calibrate.Window{busier, quiet, busy})
	if want := []calibrate.Window{quiet, busy}; is || !reflect.DeepEqual(got, want) {
		t.Errorf("of one quiet window and two busy ones %+v are chosen, quiet: %v", got, is)
	}
	if got, is := calibrate.Choose(nil); is || len(got) != 0 {
		t.Errorf("of no windows %d are chosen, quiet: %v", len(got), is)
	}
}

func TestWeigh(t *testing.T) {
	got := calibrate.Weigh([]calibrate.Statement{
		{Text: "BEGIN", Calls: 30, MeanNS: 1000}, {Text: "commit", Calls: 10, MeanNS: 5000},
		{Text: "UPDATE items\n\tSET  available = available - $2", Calls: 5, MeanNS: 40_000},
		{Text: "SELECT $1", Calls: 1000, MeanNS: 1},
	}, map[string][]string{"begin": {"begin", "commit"}, "count": {"update items set available"},
		"never": {"delete"}})
	if want := map[string]float64{"begin": 2000, "count": 40_000}; !reflect.DeepEqual(got, want) {
		t.Errorf("the weights are %v, not %v", got, want)
	}
}

func TestSplit(t *testing.T) {
	drawn := map[string]float64{"begin": 2, "count": 1, "buy": 1, "reclaim": 0.01}
	known := map[string]float64{"reclaim": 100_000, "buy": 77}
	finds := []string{"begin", "count", "buy", "look"} // the model does not look
	weights := map[string]float64{"begin": 30_000, "count": 60_000, "buy": 120_000}
	got, err := calibrate.Split(481_000, drawn, known, finds, weights)
	want := map[string]float64{"begin": 60_000, "count": 120_000, "buy": 240_000}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("480 µs are split into %v (%v), not %v", got, err, want)
	}
	// One name needs no weight.
	got, err = calibrate.Split(300_000, map[string]float64{"buy": 1, "place": 0.5},
		map[string]float64{"buy": 200_000}, []string{"place"}, nil)
	if err != nil || got["place"] != 200_000 {
		t.Errorf("half a place of 100 µs costs %v (%v)", got, err)
	}
	for _, bad := range []struct {
		demand  float64
		weights map[string]float64
		want    string
	}{
		{900, weights, "nothing of the CPU time is left for begin, count, buy"},
		{481_000, map[string]float64{"begin": 1, "count": 1}, `no statement was seen whose cost is "buy"`},
	} {
		_, err := calibrate.Split(bad.demand, drawn, known, finds, bad.weights)
		if err == nil || !strings.Contains(err.Error(), bad.want) {
			t.Errorf("a split says %v, not %q", err, bad.want)
		}
	}
}

// sample is a calibration.
func sample() calibrate.File {
	m := sim.DefaultMachine()
	m.Postgres.Fsync, m.Stalls.Share = sim.Duration(442*time.Microsecond), 0.012
	return calibrate.File{System: "flashsale", Date: "2026-11-28T12:00:00Z", Host: "abc",
		Machine: m, Known: map[string]string{"postgres.fsync": calibrate.Measured},
		Notes: []string{"the machine was not quiet"},
		Designs: map[string]calibrate.Design{"for_all": {Model: "123e45", Windows: 8, Quiet: 7,
			MeasuredP50: sim.Duration(time.Millisecond),
			Costs:       sim.Costs{App: cost("postgres", 1000), Postgres: cost("buy", 2500)}}}}
}

func cost(name string, ns float64) map[string]sim.Cost {
	return map[string]sim.Cost{name: {MeanNS: ns, CV: 0.5, Known: calibrate.Measured}}
}

func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "c.yaml")
	if err := sample().Write(path); err != nil {
		t.Fatal(err)
	}
	got, err := calibrate.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, sample()) {
		t.Errorf("a calibration came back as %+v, not as %+v", got, sample())
	}
}

func TestCheck(t *testing.T) {
	wanted := func() calibrate.Wanted {
		return calibrate.Wanted{System: "flashsale", Host: "abc",
			Models: map[string]string{"for_all": "123e45"}, Assumed: sample().Designs["for_all"].Costs}
	}
	if err := sample().Check(wanted()); err != nil {
		t.Errorf("what was just calibrated is refused: %v", err)
	}
	elsewhere := wanted()
	elsewhere.Host = ""
	if err := sample().Check(elsewhere); err != nil {
		t.Errorf("a calibration is refused on a machine that is given: %v", err)
	}
	for want, spoil := range map[string]func(*calibrate.Wanted){
		"is of flashsale, and this is likes": func(w *calibrate.Wanted) { w.System = "likes" },
		"of another machine; --machine says": func(w *calibrate.Wanted) { w.Host = "def" },
		"the model of for_all has changed since it was calibrated; `stampede calibrate flashsale`": func(
			w *calibrate.Wanted) {
			w.Models["for_all"] = "other"
		},
		"does not have per_unit, but [for_all]": func(w *calibrate.Wanted) { w.Models["per_unit"] = "x" },
		`a cost of postgres, "buy", that no model knows`: func(w *calibrate.Wanted) {
			w.Assumed = sim.Costs{App: w.Assumed.App}
		},
		`lacks the cost "look" of postgres`: func(w *calibrate.Wanted) {
			w.Assumed.Postgres["look"] = sim.Cost{}
		},
	} {
		w := wanted()
		spoil(&w)
		if err := sample().Check(w); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a calibration is refused with %v, not with %q", err, want)
		}
	}
}

func TestBeside(t *testing.T) {
	summary := func(p50, p99 int64, status check.Status, designs ...string) (s rundir.Summary) {
		for _, name := range designs {
			of := rundir.Latencies{Response: rundir.Percentiles{P50: p50, P99: p99}}
			s.Variants = append(s.Variants, rundir.Variant{Name: name, ThroughputPerS: 10,
				Operations: []rundir.Operation{{Kind: "buy", Latency: of}},
				Invariants: []check.Verdict{{Invariant: "no-oversell", Status: status}}})
		}
		return s
	}
	got := calibrate.Beside(summary(100, 300, check.Held, "b", "a"),
		summary(200, 100, check.Broken, "a", "c"))
	if len(got) != 1 || got[0].Design != "a" || len(got[0].Predicted) != 0 ||
		!slices.Equal(got[0].Measured, []string{"no-oversell"}) {
		t.Fatalf("beside each other are %+v", got)
	}
	want := []rundir.Quantity{{Name: "p50", Unit: "ns", Predicted: 100, Measured: 200},
		{Name: "p99", Unit: "ns", Predicted: 300, Measured: 100},
		{Name: "throughput", Unit: "/s", Predicted: 10, Measured: 10}}
	if !slices.Equal(got[0].Quantities, want) {
		t.Errorf("the quantities are %+v, not %+v", got[0].Quantities, want)
	}
	if e := want[0].Error(); math.Abs(e-math.Ln2) > 1e-12 || want[2].Error() != 0 {
		t.Errorf("the errors are %v and %v, not ln 2 and 0", e, want[2].Error())
	}
}

func TestErrors(t *testing.T) {
	of := func(load, design string, predicted, measured float64) calibrate.Sample {
		return calibrate.Sample{Load: load, PredictedDesign: rundir.PredictedDesign{Design: design,
			Quantities: []rundir.Quantity{{Name: "p99", Predicted: predicted, Measured: measured}}}}
	}
	samples := []calibrate.Sample{of("half", "a", 1, 2), of("half", "b", 3, 4), of("half", "c", 9, 3),
		of("burst", "a", 5, 5)}
	// The errors are 1, 1/3, 2 and 0.
	if got, n := calibrate.Median(samples, "p99"); n != 4 || math.Abs(got-2.0/3) > 1e-12 {
		t.Errorf("the median error of %d is %v, not 2/3 of 4", n, got)
	}
	if got, n := calibrate.Median(samples, "knee"); n != 0 || !math.IsNaN(got) {
		t.Errorf("the median error of nothing is %v of %d", got, n)
	}
	// a and b differ by 2, a and c by half, b and c by a third.
	right, pairs, wrong := calibrate.Order(samples)
	if right != 1 || pairs != 1 || len(wrong) != 0 {
		t.Errorf("%d of %d pairs are right, wrong are %v", right, pairs, wrong)
	}
	// Who predicts no difference has no order.
	samples = append(samples, of("burst", "b", 4, 50), of("same", "a", 7, 9), of("same", "b", 7, 2))
	if right, pairs, wrong = calibrate.Order(samples); right != 1 || pairs != 3 ||
		!slices.Equal(wrong, []string{"a and b at burst", "a and b at same"}) {
		t.Errorf("%d of %d pairs are right, wrong are %v", right, pairs, wrong)
	}
}
