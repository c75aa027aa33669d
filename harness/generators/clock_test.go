package generators

import (
	"context"
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestClocksAreBounded: whatever the other clock's zero and drift, and however the two ways of a
// round trip differ, a generator's times are no further from the other clock than it says.
func TestClocksAreBounded(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		zero := time.Duration(rapid.Int64Range(-int64(time.Hour), int64(time.Hour)).Draw(rt, "zero"))
		drift := float64(rapid.IntRange(-500, 500).Draw(rt, "parts per million")) / 1e6
		now := time.Duration(0) // by our clock
		other := func() time.Duration { return now + zero + time.Duration(float64(now)*drift) }
		trip := func(longest int) func(context.Context) (time.Duration, error) {
			return func(context.Context) (time.Duration, error) {
				way := func(name string) time.Duration {
					return time.Duration(rapid.IntRange(0, longest).Draw(rt, name))
				}
				now += way("there")
				at := other()
				now += way("back")
				return at, nil
			}
		}
		read := func(trips, longest int) Reading {
			r, err := compare(t.Context(), trips, func() time.Duration { return now }, trip(longest))
			if err != nil {
				rt.Fatal(err)
			}
			return r
		}
		const quick, slow = 100_000, 20_000_000
		before := read(5, quick)
		var during []Reading
		var moments []time.Duration
		for range 3 {
			moments = append(moments, now)
			now += time.Duration(rapid.IntRange(0, 30).Draw(rt, "seconds")) * time.Second
			during = append(during, read(2, slow))
		}
		moments = append(moments, now)
		after := read(5, quick)
		off := clockError(before.Ahead, before, after, during)
		for _, m := range moments {
			now = m
			if is := (other() - (now + before.Ahead)).Abs(); is > off+time.Microsecond {
				rt.Fatalf("at %s a time is off by %s, and the bound is %s", m, is, off)
			}
		}
		if most := max(before.Within, after.Within) + time.Duration(float64(now)*0.0005) +
			2*quick; off > most {
			rt.Fatalf("the bound is %s, more than %s", off, most)
		}
	})
}

// TestAClockThatSteps: a reading of during the load that the others do not explain counts.
func TestAClockThatSteps(t *testing.T) {
	const ms = time.Millisecond
	end := Reading{Ahead: time.Hour, Within: ms}
	for _, c := range []struct {
		during Reading
		want   time.Duration
	}{
		{Reading{time.Hour, ms}, ms}, {Reading{time.Hour + 9*ms, 20 * ms}, ms},
		{Reading{time.Hour - 9*ms, 2 * ms}, 11 * ms}, {Reading{time.Hour + time.Second, ms}, 1001 * ms},
	} {
		if got := clockError(time.Hour, end, end, []Reading{c.during}); got != c.want {
			t.Errorf("%v: %s, want %s", c.during, got, c.want)
		}
	}
	if _, err := compare(t.Context(), 3, func() time.Duration { return 0 },
		func(context.Context) (time.Duration, error) { return 0, errors.New("gone") }); err == nil {
		t.Error("a clock that cannot be read was")
	}
}
