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
			kept := watched(t, gauge{want.takes, one}, time.Second-time.Millisecond)
			if len(kept) != len(want.from) {
				t.Fatalf("%d samples, want %d: %+v", len(kept), len(want.from), kept)
			}
			for i, s := range kept {
				if s.From != want.from[i] || s.To != s.From+want.takes || string(s.Body) != "1" {
					t.Errorf("sample %d is %+v, want it from %v for %v", i, s, want.from[i], want.takes)
				}
			}
		})
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
