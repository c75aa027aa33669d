package answer

import (
	"maps"
	"strings"
	"testing"

	"stampede/harness/check"
	"stampede/harness/rundir"
	"stampede/reports/words"
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
		if got := MarginText(v); got != c.want {
			t.Errorf("%s, actual %s: %q, want %q", c.objective, c.actual, got, c.want)
		}
		if got := AtAGlance(c.actual); got != c.shown {
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

// TestValidityDetails: designs of which an assumption says the same share a row, and only
// those.
func TestValidityDetails(t *testing.T) {
	said := func(name, text string, ok bool) rundir.Validity {
		return rundir.Validity{Name: name, Class: rundir.Evidence, OK: ok, Detail: text}
	}
	var standings []Standing
	for i, all := range [][]rundir.Validity{
		{said("empty", "nothing", true), said("lag", "1 ms", true), said("clock", "set", true)},
		{said("empty", "nothing", true), said("lag", "9 ms", false), said("clock", "set", true)},
		{said("empty", "nothing", true), said("lag", "1 ms", true)},
	} {
		st := Standing{Letter: words.Letter(i)}
		st.Repeats = []rundir.Repeat{{Validity: all}}
		standings = append(standings, st)
	}
	got := map[string]string{}
	parts := ValidityOf(standings)
	if len(parts) != 1 || parts[0].Title != "Evidence" {
		t.Fatalf("parts %+v", parts)
	}
	for _, d := range parts[0].Details {
		got[d.Mark.Icon+d.Name+": "+d.Detail] = strings.Join(d.Letters, " ")
	}
	want := map[string]string{"✓empty: nothing": "", "✓lag: 1 ms": "A C", "✗lag: 9 ms": "B",
		"✓clock: set": "A B"}
	if !maps.Equal(got, want) {
		t.Errorf("details %q, want %q", got, want)
	}
}
