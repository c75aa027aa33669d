package fit_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"stampede/harness/fit"
	"stampede/harness/scenario"
)

// machine pretends to be a machine that sends so many operations a second cleanly, and
// most of them on time up to most. The probes whose numbers are in disturbed, from 1 on,
// have an unclean tail, those in frozen are late altogether.
type machine struct {
	clean, most       float64
	disturbed, frozen []int
	tried             []float64
}

func (m *machine) probe(_ context.Context, perS float64) (fit.Sample, error) {
	m.tried = append(m.tried, perS)
	s := fit.Sample{LagP50: 100 * time.Microsecond, LagP99: 500 * time.Microsecond, CPUShare: 0.5}
	if perS > m.clean || slices.Contains(m.disturbed, len(m.tried)) {
		s.LagP99 = 5 * time.Millisecond
	}
	if perS > m.most || slices.Contains(m.frozen, len(m.tried)) {
		s.LagP50, s.LagP99 = 2*time.Millisecond, 5*time.Millisecond
	}
	return s, nil
}

func TestCleanRate(t *testing.T) {
	for name, c := range map[string]struct {
		machine machine
		// The rate is from least to the clean one, after so many probes.
		least  float64
		probes int
	}{
		"between two rates": {machine{clean: 5500, most: 6000}, 5000, 11},
		"a fast machine":    {machine{clean: 1e9, most: 1e9}, 1000 * 1 << 11, 12},
		"a slow machine":    {machine{clean: 1000, most: 1100}, 1000, 11},
		// What happens beside the load does not end the search.
		"tails while it rises": {machine{clean: 5500, most: 6000, disturbed: []int{2, 3}}, 4000, 12},
		"a tail once":          {machine{clean: 5500, most: 6000, disturbed: []int{6}}, 5000, 12},
		"frozen once":          {machine{clean: 5500, most: 6000, frozen: []int{1}}, 5000, 12},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := fit.CleanRate(t.Context(), c.machine.probe)
			tried := c.machine.tried
			if err != nil || got < c.least || got > c.machine.clean || len(tried) > c.probes {
				t.Errorf("%v a second after %d probes (%.0f), %v; want %v or more after %d at most",
					got, len(tried), tried, err, c.least, c.probes)
			}
		})
	}
}

// A machine on which no rate is clean still gets one: the best that was seen.
func TestNeverClean(t *testing.T) {
	for name, c := range map[string]struct {
		machine machine
		want    float64
	}{
		"tails":   {machine{most: 4500}, 4000},
		"nothing": {machine{}, 1000},
	} {
		got, err := fit.CleanRate(t.Context(), c.machine.probe)
		if err != nil || got != c.want {
			t.Errorf("%s: %v a second, %v; want %v", name, got, err, c.want)
		}
	}
}

// A rate at which this process needs most of the CPU leaves nothing to the stores, however
// punctual it is; nor is one clean that leaves a queue.
func TestNotClean(t *testing.T) {
	for name, s := range map[string]fit.Sample{
		"CPU": {CPUShare: 0.6}, "lag": {LagP99: time.Millisecond},
		"queue": {Behind: 20 * time.Millisecond},
	} {
		got, err := fit.CleanRate(t.Context(),
			func(_ context.Context, perS float64) (fit.Sample, error) {
				if perS > 1000 {
					return s, nil
				}
				return fit.Sample{}, nil
			})
		if err != nil || got != 1000 {
			t.Errorf("%s: %v a second, %v; want 1000", name, got, err)
		}
	}
}

// TestCarries: a load that needs at most half of what is sent cleanly is carried, also where
// a tail disturbs a try.
func TestCarries(t *testing.T) {
	for name, c := range map[string]struct {
		machine machine
		peak    float64
		yes     bool
		probes  int
	}{
		"easily":       {machine{clean: 1e9, most: 1e9}, 400, true, 1},
		"just":         {machine{clean: 5000, most: 5000}, 2500, true, 1},
		"behind tails": {machine{clean: 5000, most: 5000, disturbed: []int{1, 2}}, 400, true, 3},
		"too much":     {machine{clean: 5000, most: 5500}, 4000, false, 3},
		"frozen":       {machine{}, 400, false, 3},
	} {
		yes, err := fit.Carries(t.Context(), c.machine.probe, c.peak)
		if tried := c.machine.tried; err != nil || yes != c.yes || len(tried) != c.probes {
			t.Errorf("%s: %v after %d probes (%.0f), %v", name, yes, len(tried), tried, err)
		}
	}
}

func TestProbeFails(t *testing.T) {
	broken := errors.New("broken")
	_, err := fit.CleanRate(t.Context(), func(context.Context, float64) (fit.Sample, error) {
		return fit.Sample{}, broken
	})
	if !errors.Is(err, broken) {
		t.Errorf("got %v, want the probe's error", err)
	}
}

func TestOver(t *testing.T) {
	a := scenario.Arrival{Process: "burst", Ops: 100_000, Peak: 1.1, Over: scenario.Fit,
		OverLeast: scenario.Duration(6 * time.Second), OverMost: scenario.Duration(30 * time.Second)}
	steep := a
	steep.Peak = 0 // the steepest
	for _, c := range []struct {
		arrival scenario.Arrival
		clean   float64
		want    time.Duration
		capped  bool
	}{
		{a, 1e6, 6 * time.Second, false},
		{a, 20_000, 11 * time.Second, false},
		{a, 15_000, 14700 * time.Millisecond, false}, // 14.67 s, in steps of 100 ms
		{a, 7334, 30 * time.Second, false},
		{a, 7000, 30 * time.Second, true},
		{a, 1, 30 * time.Second, true},
		{steep, 20_000, 20 * time.Second, false},
	} {
		over, capped := fit.Over(c.arrival, c.clean)
		if over != c.want || capped != c.capped {
			t.Errorf("at %v a second: %s, capped %v; want %s, %v", c.clean, over, capped, c.want,
				c.capped)
		}
	}
}

// The real generator ends and gives a rate, whatever the machine does meanwhile.
func TestSend(t *testing.T) {
	rate, err := fit.CleanRate(t.Context(), fit.Send)
	if err != nil {
		t.Fatal(err)
	}
	if rate < 1000 || rate > 1000*1<<11 {
		t.Errorf("%v operations a second, want what can be tried", rate)
	}
}

func TestSendInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	cancel(why)
	if _, err := fit.CleanRate(ctx, fit.Send); !errors.Is(err, why) {
		t.Errorf("got %v, want what stopped it", err)
	}
}
