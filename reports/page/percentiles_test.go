package page

import (
	"math"
	"strings"
	"testing"

	"github.com/HdrHistogram/hdrhistogram-go"

	"stampede/reports/answer"
)

// spreadOf is a design of which each of the first operations took as long as given and the
// rest got no answer.
func spreadOf(t *testing.T, name string, ms, answered, total int64) spread {
	t.Helper()
	h := hdrhistogram.New(1000, 60e9, 3)
	if err := h.RecordValues(ms*1e6, answered); err != nil {
		t.Fatal(err)
	}
	return withName(name, answer.Distribution{Finite: h, Total: total})
}

func withName(name string, d answer.Distribution) spread {
	s := spread{all: d}
	s.Name = name
	return s
}

// TestPercentileFinding: an infinite percentile is not taken for a fast one, and designs
// that left operations without an answer are named with their share.
func TestPercentileFinding(t *testing.T) {
	fast, slow := spreadOf(t, "fast", 677, 1000, 1000), spreadOf(t, "slow", 14400, 1000, 1000)
	near, lossy := spreadOf(t, "near", 680, 1000, 1000), spreadOf(t, "lossy", 10, 918, 1000)
	deaf := spreadOf(t, "deaf", 10, 0, 1000)
	for _, c := range []struct {
		spreads []spread
		want    string
	}{
		{[]spread{fast, slow}, "99 % of buy operations were answered within 677 ms by fast, the " +
			"fastest here, and within 14.4 s by slow, the slowest."},
		{[]spread{fast, near}, "99 % of buy operations were answered within 677 ms to 680 ms by all: " +
			"no difference of 5 %."},
		{[]spread{lossy, fast, slow}, "Dropped or never answered buy operations: lossy 8.20 %. Of the " +
			"others, 99 % of buy operations were answered within 677 ms by fast, the fastest here, and " +
			"within 14.4 s by slow, the slowest."},
		{[]spread{fast, lossy}, "Dropped or never answered buy operations: lossy 8.20 %. 99 % of buy " +
			"operations were answered within 677 ms by fast."},
		{[]spread{deaf, lossy}, "Dropped or never answered buy operations: deaf 100 % and lossy 8.20 %."},
	} {
		got := percentileFinding("buy", c.spreads)
		got = strings.NewReplacer("678 ms", "677 ms", "681 ms", "680 ms").Replace(got)
		if got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
	if answer.ClearlyFaster(math.Inf(1), 1) || !answer.ClearlyFaster(1, math.Inf(1)) {
		t.Error("an infinite time is not the slower one")
	}
}
