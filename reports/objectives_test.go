package reports

import (
	"testing"

	"stampede/harness/check"
)

// TestMargins: a margin says how far a missed objective is from its limit, in words that fit
// the size of the miss; what was met or not judged has none.
func TestMargins(t *testing.T) {
	for _, c := range []struct {
		objective, actual string
		status            check.Status
		margin            float64
		noise             bool
		want, shown       string
	}{
		{"share(dropped) <= 0.1%", "8.2446%", check.Broken, -81.446, false, "82.4× the limit", "8.24 %"},
		{"p99(response, buy) <= 500ms", "560ms", check.Broken, -0.12, false, "12.0 % over the limit",
			"560 ms"},
		{"rate(ok) >= 1000/s", "250/s", check.Broken, -0.75, false, "75.0 % below the limit", "250/s"},
		{"p99(response) < 1ms", "1h0m0s", check.Broken, -check.MaxMargin, false,
			"more than 1,000× the limit", "3,600 s"},
		{"p99(response) < 1ms", "never", check.Broken, -check.MaxMargin, false, "", "∞ (dropped)"},
		{"share(unknown) <= 0%", "5%", check.Broken, -5, false, "", "5.00 %"},
		{"share(dropped) <= 0.1%", "0%", check.Held, 1, false, "", "0 %"},
		{"share(dropped) <= 0.1%", "8%", check.Undecided, -80, true, "", "8.00 %"},
		{"of another time", "8", check.Broken, -80, false, "", "8"},
	} {
		v := check.SLOVerdict{Name: "x", Objective: c.objective, Actual: c.actual, Status: c.status,
			Margin: c.margin, NotJudged: c.noise}
		if got := marginText(v); got != c.want {
			t.Errorf("%s, actual %s: %q, want %q", c.objective, c.actual, got, c.want)
		}
		if got := atAGlance(c.actual); got != c.shown {
			t.Errorf("%s is shown as %q, want %q", c.actual, got, c.shown)
		}
		if m := sloMark(v); c.noise && (m.Class != "na" || m.Word != "not judged") {
			t.Errorf("what noise leaves open is marked %+v", m)
		}
	}
}

// TestALimitIsSaidOnce: an objective that has its limit in it is not followed by it.
func TestALimitIsSaidOnce(t *testing.T) {
	for objective, want := range map[string]string{"p99(response, buy) <= 500ms in steady": "",
		"p99(response, buy) <= 0.5s": "500ms"} {
		if got := sloColumnOf(check.SLOVerdict{Objective: objective, Limit: "500ms"}); got.Limit != want {
			t.Errorf("beside %s stands the limit %q, want %q", objective, got.Limit, want)
		}
	}
}
