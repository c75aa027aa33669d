package sut

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"stampede/harness/history"
	"stampede/harness/sim"
)

// gauge answers after some time, unless its context ends before.
type gauge struct {
	takes  time.Duration
	answer func() (json.RawMessage, error)
}

func (g gauge) Sample(ctx context.Context) (json.RawMessage, error) {
	if !Pause(ctx, g.takes) {
		return nil, ctx.Err()
	}
	return g.answer()
}

func (gauge) Close() error { return nil }

const period = 250 * time.Millisecond

// watched returns what is kept of a gauge in a span of time.
func watched(t *testing.T, g gauge, span time.Duration) (kept []history.Sample) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		stop := Watch(t.Context(), g, time.Now(), period, func(s history.Sample) error {
			kept = append(kept, s)
			return nil
		})
		time.Sleep(span)
		stop()
	})
	return kept
}

func one() (json.RawMessage, error) { return json.RawMessage("1"), nil }

// TestWatch: a gauge is asked at once and every period, and less often if it
// takes long.
func TestWatch(t *testing.T) {
	for name, want := range map[string]struct {
		takes time.Duration
		from  []time.Duration
	}{
		"quick": {time.Millisecond, []time.Duration{0, 250 * time.Millisecond,
			500 * time.Millisecond, 750 * time.Millisecond}},
		"slow":      {50 * time.Millisecond, []time.Duration{0, 500 * time.Millisecond}},
		"very slow": {900 * time.Millisecond, []time.Duration{0}},
	} {
		t.Run(name, func(t *testing.T) {
			const span = time.Second - time.Millisecond
			for where, kept := range map[string][]history.Sample{
				"really":    watched(t, gauge{want.takes, one}, span),
				"simulated": watchedSimulated(t, gauge{want.takes, one}, span),
			} {
				if len(kept) != len(want.from) {
					t.Fatalf("%s: %d samples, want %d: %+v", where, len(kept), len(want.from), kept)
				}
				for i, s := range kept {
					if s.From != want.from[i] || s.To != s.From+want.takes || string(s.Body) != "1" {
						t.Errorf("%s: sample %d is %+v, want it from %v for %v", where, i, s, want.from[i],
							want.takes)
					}
				}
			}
		})
	}
}

// simulatedGauge takes virtual time.
type simulatedGauge struct{ gauge }

func (g simulatedGauge) Sample(ctx context.Context) (json.RawMessage, error) {
	p := sim.In(ctx)
	p.Do(p.Sim().Delay(g.takes))
	return g.answer()
}

// watchedSimulated is watched in a simulation, which goes on after its end.
func watchedSimulated(t *testing.T, g gauge, span time.Duration) (kept []history.Sample) {
	t.Helper()
	s := sim.New(1)
	defer s.Close()
	stop := WatchSimulated(t.Context(), s, simulatedGauge{g}, period, func(s history.Sample) error {
		kept = append(kept, s)
		return nil
	})
	for _, until := range []time.Duration{span, 2 * span} {
		if err := s.Run(t.Context(), until); err != nil {
			t.Fatal(err)
		}
		stop()
	}
	return kept
}

// TestWatchSimulatedGaps: an error and an answer that takes too long are gaps, and the gauge is
// asked again.
func TestWatchSimulatedGaps(t *testing.T) {
	fails := func() (json.RawMessage, error) { return json.RawMessage("1"), errors.New("no way") }
	for text, g := range map[string]gauge{"no way": {0, fails}, "deadline": {time.Hour, one}} {
		kept := watchedSimulated(t, g, 3*time.Second)
		if len(kept) < 2 {
			t.Fatalf("%s: %d samples, want more", text, len(kept))
		}
		for _, s := range kept {
			if s.Seen() || !strings.Contains(s.Err, text) || s.To-s.From > sampleTimeout {
				t.Errorf("kept %+v, want a gap with %q", s, text)
			}
		}
	}
}

// TestRest: one slow answer among quick ones is a stall, not a cost.
func TestRest(t *testing.T) {
	const ms = time.Millisecond
	for name, test := range map[string]struct {
		last time.Duration
		took []time.Duration
		want time.Duration
	}{
		"quick":         {5 * ms, []time.Duration{5 * ms}, 245 * ms},
		"slow":          {60 * ms, []time.Duration{50 * ms, 60 * ms}, 450 * ms},
		"very slow":     {800 * ms, []time.Duration{900 * ms, 800 * ms}, restAtMost * period},
		"stalled":       {900 * ms, []time.Duration{5 * ms, 900 * ms}, 45 * ms},
		"after a stall": {5 * ms, []time.Duration{900 * ms, 5 * ms}, 245 * ms},
		"no answer":     {200 * ms, []time.Duration{5 * ms}, 50 * ms},
		"never any":     {time.Second, nil, 0},
	} {
		if got := rest(period, test.last, test.took); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

// TestWatchGaps: whatever goes wrong with a gauge is kept as a gap, and it is
// asked again.
func TestWatchGaps(t *testing.T) {
	fails := func() (json.RawMessage, error) { return nil, errors.New("no way") }
	panics := func() (json.RawMessage, error) { panic("oh") }
	says := func(text string) func() (json.RawMessage, error) {
		return func() (json.RawMessage, error) { return json.RawMessage(text), nil }
	}
	for name, want := range map[string]struct {
		gauge gauge
		text  string
	}{
		"an error":   {gauge{0, fails}, "no way"},
		"a panic":    {gauge{0, panics}, "panic: oh"},
		"no JSON":    {gauge{0, says("{")}, "JSON"},
		"nothing":    {gauge{0, says("")}, "JSON"},
		"no answer":  {gauge{time.Hour, one}, "deadline"},
		"too slowly": {gauge{sampleTimeout + 1, one}, "deadline"},
	} {
		t.Run(name, func(t *testing.T) {
			kept := watched(t, want.gauge, 3*time.Second)
			if len(kept) < 2 {
				t.Fatalf("%d samples, want more", len(kept))
			}
			for _, s := range kept {
				if s.Seen() || !strings.Contains(s.Err, want.text) || s.To-s.From > sampleTimeout {
					t.Errorf("kept %+v, want a gap with %q", s, want.text)
				}
			}
		})
	}
}

// TestWatchEnds: nothing is asked any more once nothing can be kept, and the
// question under way at the end is no gap.
func TestWatchEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		g := gauge{0, func() (json.RawMessage, error) { asked++; return one() }}
		stop := Watch(t.Context(), g, time.Now(), period, func(history.Sample) error {
			return errors.New("full")
		})
		time.Sleep(time.Minute)
		stop()
		if asked != 1 {
			t.Errorf("asked %d times, want once", asked)
		}
	})
	if kept := watched(t, gauge{time.Hour, one}, sampleTimeout/2); len(kept) > 0 {
		t.Errorf("kept %+v of a question that was cut off", kept)
	}
	Watch(t.Context(), nil, time.Now(), period, nil)()
}
