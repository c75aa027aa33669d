package reports_test

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"stampede/harness/knee"
	"stampede/harness/rundir"
	"stampede/reports/page"
	"stampede/reports/words"
)

// rates is a design that a search is made of: it serves up to a rate, breaks from
// another on, and cannot be measured from a third on.
type rates struct {
	name                  string
	upTo, breaks, invalid float64
	knownWrong            bool
	stop                  bool
}

// search is what searching such designs finds.
func search(t testing.TB, plan knee.Plan, designs ...rates) knee.Summary {
	t.Helper()
	s := knee.Summary{SchemaVersion: knee.SchemaVersion, Plan: plan,
		Tool:     rundir.Tool{Name: "stampede", Version: "1.2.3", Commit: "abc", Go: "go1.26"},
		WindowNS: int64(10 * time.Second), WarmUpNS: int64(time.Second),
		Search: knee.Info{ID: "0123abcd", Scenario: "flash-sale-100k", System: "flashsale",
			Question: "Which design sells exactly 1,000 units?", Profile: "smoke", Seed: 7,
			Started:   time.Date(2026, 11, 22, 7, 0, 0, 0, time.UTC),
			Finished:  time.Date(2026, 11, 22, 7, 9, 30, 0, time.UTC),
			Reproduce: "stampede knee flash-sale-100k --seed 7"},
		Objectives: []knee.Objective{{Name: "quick", Objective: "p99(response, buy) <= 100ms"}},
		Environment: rundir.Environment{Backend: "processes", BackendReason: "no engine", Cores: 2,
			Components: map[string]rundir.Component{"redis": {Kind: "redis", Version: "8.0"}}},
		Warnings: []string{"its fault stall is left out"}}
	for _, d := range designs {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		r, err := knee.Search(ctx, plan, func(ctx context.Context, rate float64) (knee.Window, error) {
			if d.stop {
				cancel()
			}
			return d.try(rate), nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for i := range r.Windows {
			r.Windows[i].Seed = 7 + uint64(i)
			r.Windows[i].Run = fmt.Sprintf("windows/flash-sale-100k/20261122T070000Z-%d-%08x", 7+i, i)
		}
		s.Variants = append(s.Variants, knee.Variant{Name: d.name, Idea: "The idea of " + d.name + ".",
			KnownWrong: d.knownWrong, Kind: "buy", Result: r})
		s.Search.Interrupted = s.Search.Interrupted || d.stop
	}
	return s
}

// try is a window of the design, whose times rise towards its limit.
func (d rates) try(rate float64) knee.Window {
	load := rate / (d.upTo * 1.2)
	w := knee.Window{Verdict: knee.Held, Count: int64(rate * 10), OfferedPerS: rate,
		AchievedPerS: min(rate, d.upTo*1.2), P50NS: rundir.Infinite, P99NS: rundir.Infinite}
	if load < 1 {
		w.P50NS, w.P99NS = int64(1e6/(1-load)), int64(8e6/(1-load))
	} else if load < 1.5 {
		w.P50NS, w.P99NS = int64(9e8*load), int64(2e9*load)
	}
	switch {
	case d.breaks > 0 && rate >= d.breaks:
		w.Verdict, w.Reasons = knee.Broke, []string{"broke no-oversell: 3 too many", "b", "c", "d"}
	case d.invalid > 0 && rate >= d.invalid:
		w.Verdict = knee.Undecided
		w.Reasons = []string{"the measurement is not valid: pacer-lag: 9 ms late"}
	case rate > d.upTo:
		w.Verdict, w.Reasons = knee.Missed, []string{"missed quick: 2 s, limit 100 ms"}
	}
	return w
}

func usualPlan() knee.Plan {
	return knee.Plan{FromPerS: 100, LeastPerS: 50, MostPerS: 5000, Precision: 0.1, Repeats: 3,
		Again: 1, Windows: 40}
}

// mixed has a design for each outcome.
func mixed(t testing.TB) knee.Summary {
	return search(t, usualPlan(), rates{name: "redis_lua", upTo: 2100},
		rates{name: "for_update", upTo: 310}, rates{name: "endless", upTo: 9000},
		rates{name: "too_quick_to_measure", upTo: 9000, invalid: 900},
		rates{name: "slow", upTo: 20},
		rates{name: "naive_read_write", upTo: 5000, breaks: 150, knownWrong: true})
}

func kneePage(t testing.TB, s knee.Summary) string {
	t.Helper()
	var out bytes.Buffer
	if err := page.Knee(&out, s); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestKneeGolden(t *testing.T) {
	s := mixed(t)
	html := kneePage(t, s)
	golden(t, "knee.html.txt", outline(html))
	svg := regexp.MustCompile(`(?s)<svg viewBox[^>]*"k1-0-t k1-0-d".*?</svg>`).FindString(html)
	golden(t, "knee.svg", strings.ReplaceAll(svg, "><", ">\n<")+"\n")
	var text bytes.Buffer
	options := words.TextOptions{Report: "x/report.html", Exit: 4}
	if err := page.KneeText(&text, s, options); err != nil {
		t.Fatal(err)
	}
	golden(t, "knee.txt", text.String())
	if again := kneePage(t, mixed(t)); again != html {
		t.Error("the same search gave two pages")
	}
}

// kneeScenes are searches of every shape.
func kneeScenes(t testing.TB) map[string]knee.Summary {
	var many []rates
	for i := range 9 {
		many = append(many, rates{name: fmt.Sprintf("design_%d", i), upTo: 300 * float64(i+1)})
	}
	nasty := search(t, usualPlan(), rates{name: hostile, upTo: 400, breaks: 500},
		rates{name: "größe_日本", upTo: 300})
	nasty.Search.Scenario, nasty.Search.Question, nasty.Search.Reproduce = hostile, hostile, hostile
	nasty.Objectives = []knee.Objective{{Name: hostile, Objective: hostile}}
	nasty.Warnings, nasty.Environment.CPU = []string{hostile}, hostile
	v := &nasty.Variants[0]
	v.Idea, v.Kind = hostile, hostile
	v.Result.Notes, v.Result.Above = []string{hostile}, []string{hostile}
	for i := range v.Result.Windows {
		w := &v.Result.Windows[i]
		w.Reasons, w.Run = []string{hostile}, "windows/"+hostile
	}
	return map[string]knee.Summary{
		"mixed": mixed(t), "many": search(t, usualPlan(), many...), "hostile": nasty,
		"one":          search(t, usualPlan(), rates{name: "one", upTo: 700}),
		"nothing":      search(t, usualPlan()),
		"none decided": search(t, usualPlan(), rates{name: "x", upTo: 900, invalid: 1}),
		"one window":   search(t, usualPlan(), rates{name: "x", upTo: 900, stop: true}),
	}
}

func TestKneeKeepsThePagesRules(t *testing.T) {
	for name, s := range kneeScenes(t) {
		page := kneePage(t, s)
		keepsPolicy(t, name, page)
		keepsAnchors(t, name, page)
		if len(s.Variants) > 0 {
			keepsTables(t, page)
		}
		if len(page) > 200_000 {
			t.Errorf("%s: %d bytes", name, len(page))
		}
		for _, bad := range []string{"<script>alert", "<img", "\x1b", "\u202e", `href="javascript`} {
			if strings.Contains(page, bad) {
				t.Errorf("%s: the page contains %q", name, bad)
			}
		}
	}
}

func TestKneeSaysTheWorst(t *testing.T) {
	for name, c := range map[string]struct {
		designs []rates
		word    string
	}{
		"all found": {[]rates{{name: "a", upTo: 300}, {name: "b", upTo: 9000}}, "FOUND"},
		"one between": {[]rates{{name: "a", upTo: 300}, {name: "b", upTo: 900, invalid: 200}},
			"FOUND"},
		"nowhere, between": {[]rates{{name: "a", upTo: 9}, {name: "b", upTo: 900, invalid: 200}},
			"1 OF 2 FOUND"},
		"one broke": {[]rates{{name: "a", upTo: 9}, {name: "b", upTo: 900, breaks: 700}},
			"BROKEN"},
		"a known-wrong one broke": {[]rates{{name: "b", upTo: 900, breaks: 700, knownWrong: true}},
			"FOUND"},
		"stopped": {[]rates{{name: "a", upTo: 300}, {name: "b", upTo: 900, stop: true}}, "INTERRUPTED"},
		"nothing": {nil, "NOT FOUND"},
	} {
		page := kneePage(t, search(t, usualPlan(), c.designs...))
		want := fmt.Sprintf("<title>%s · knee of flash-sale-100k", c.word)
		if !strings.Contains(page, want) {
			t.Errorf("%s: no %q, but %q", name, want, between(t, page, "<title>", "</title>"))
		}
	}
}

// What was not decided has no mark in a chart, what failed a hollow one, and all
// are in the table behind it.
func TestKneeDrawsWhatWasMeasured(t *testing.T) {
	s := search(t, usualPlan(), rates{name: "a", upTo: 900, invalid: 500})
	page := kneePage(t, s)
	chart := between(t, page, `id="k1-0-t"`, "</svg>")
	if strings.Contains(chart, "∞") {
		t.Error("an undecided window is drawn")
	}
	open := 0
	for _, w := range s.Variants[0].Result.Windows {
		if w.Verdict == knee.Undecided {
			open++
		}
	}
	if open == 0 || !strings.Contains(page, fmt.Sprintf("%d windows that were not decided", open)) {
		t.Errorf("it is not said that %d windows are not drawn", open)
	}
	data := between(t, page, "Data: p99", "</table>")
	if rows := strings.Count(data, "<td>undecided"); rows != open {
		t.Errorf("%d rows of undecided windows, want %d", rows, open)
	}
	if page := kneePage(t, search(t, usualPlan(), rates{name: "a", upTo: 300})); !strings.Contains(
		between(t, page, `id="k1-0-t"`, "</svg>"), `fill="none" stroke="#0072B2" stroke-width="1.2"`) {
		t.Error("no hollow mark for windows that failed")
	}
}

func TestKneeTextColours(t *testing.T) {
	var plain, coloured bytes.Buffer
	s := mixed(t)
	for out, colour := range map[*bytes.Buffer]bool{&plain: false, &coloured: true} {
		if err := page.KneeText(out, s, words.TextOptions{Colour: colour}); err != nil {
			t.Fatal(err)
		}
	}
	escapes := regexp.MustCompile("\x1b\\[[0-9;]*m")
	if n := len(escapes.FindAllString(coloured.String(), -1)); n != 2*(len(s.Variants)+1) {
		t.Errorf("%d escapes", n)
	}
	if escapes.ReplaceAllString(coloured.String(), "") != plain.String() {
		t.Error("colours change the text")
	}
}
