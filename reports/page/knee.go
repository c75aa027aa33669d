package page

import (
	"bytes"
	"cmp"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"time"

	"stampede/harness/knee"
	"stampede/harness/plain"
	"stampede/harness/rundir"
	"stampede/reports/answer"
	"stampede/reports/chart"
	"stampede/reports/words"
)

// kneePage is what the template of a search shows.
type kneePage struct {
	Title      string
	CSP        template.HTMLAttr
	Style      template.HTML
	Script     template.HTML
	Mark       words.Mark
	Icons      []words.Mark
	Nav        []NavItem
	Search     knee.Info
	Sentences  []string
	Date, Took string
	Window     string
	Glance     string
	Precision  string
	Repeats    string
	Warnings   []string
	Objectives []knee.Objective
	Variants   []kneeVariant
	Toggles    []chart.LegendItem
	Panels     []kneePanel
	// Left says which windows no chart shows.
	Left        string
	Environment []answer.Section
}

// kneeVariant is a design's row with its windows.
type kneeVariant struct {
	knee.Variant
	ID, Letter, Sentence        string
	Mark                        words.Mark
	Rate, P50, P99, Above, Kind string
	Why, Notes                  []string
	Windows                     int
	Rows                        []kneeRow
}

// kneeRow is one window.
type kneeRow struct {
	Rate, Step, Offered, Achieved, P50, P99, Count string
	Seed                                           uint64
	Mark                                           words.Mark
	Reasons                                        []string
	Run, RunID                                     string
}

// mostReasons is how many reasons a row shows.
const mostReasons = 3

// Knee writes the page of a search for knees: one file, as HTML writes that of a
// run.
func Knee(w io.Writer, s knee.Summary) error {
	return Fill(w, "knee.gohtml", newKneePage(s))
}

func newKneePage(s knee.Summary) kneePage {
	p := kneePage{Mark: kneeMark(s), Icons: []words.Mark{kneeMark(s)}, Search: s.Search,
		Date:      words.Instant(s.Search.Started),
		Took:      took(rundir.RunInfo{Started: s.Search.Started, Finished: s.Search.Finished}),
		Window:    words.Seconds(float64(s.WindowNS) / 1e9),
		Glance:    answer.Glance(rundir.Summary{Environment: s.Environment}),
		Precision: words.Significant(s.Plan.Precision*100) + " %", Repeats: timesText(s.Plan.Repeats),
		Warnings: s.Warnings, Objectives: s.Objectives,
		Environment: kneeSections(s)}
	p.Title = plain.Text(strings.Join([]string{p.Mark.Word, "knee of " + s.Search.Scenario,
		words.Plural(len(s.Variants), "variant")}, " · "))
	var indices []int
	for i, v := range s.Variants {
		p.Sentences = append(p.Sentences, v.Name+": "+KneeSentence(v))
		p.Variants = append(p.Variants, kneeRowOf(v, i))
		p.Toggles = append(p.Toggles, chart.LegendItem{Variant: i, Letter: words.Letter(i), Name: v.Name})
		indices = append(indices, i)
	}
	p.Panels = kneePanels(s)
	p.Left = undrawn(s)
	p.Style, p.Script, p.CSP = Dressing(toggleRules(indices))
	p.Nav = shown([]navSection{
		{NavItem{"verdict", "Verdict"}, true}, {NavItem{"variants", "Variants"}, true},
		{NavItem{"curves", "Curves"}, len(p.Panels) > 0},
		{NavItem{"windows", "Windows"}, len(p.Variants) > 0},
		{NavItem{"environment", "Environment"}, true},
		{NavItem{"reproduce", "Reproduce"}, true}, {NavItem{"method", "Method"}, true},
	})
	return p
}

// timesText says how often.
func timesText(n int) string {
	if n == 1 {
		return "once"
	}
	return words.Plural(n, "time")
}

func kneeRowOf(v knee.Variant, index int) kneeVariant {
	r := v.Result
	row := kneeVariant{Variant: v, ID: fmt.Sprintf("w-%d", index), Letter: words.Letter(index),
		Sentence: KneeSentence(v), Mark: outcomeMark(v), Kind: v.Kind, Notes: r.Notes,
		Rate: words.None, P50: words.None, P99: words.None, Above: words.None, Windows: len(r.Windows)}
	if r.RatePerS > 0 {
		row.Rate, row.P50, row.P99 = words.Rate(r.RatePerS), words.Latency(r.P50NS),
			words.Latency(r.P99NS)
	}
	if r.AbovePerS > 0 {
		row.Above, row.Why = words.Rate(r.AbovePerS), fewest(r.Above)
		if r.Approximate {
			row.Above = "≈ " + row.Above
		}
	}
	for _, w := range r.Windows {
		row.Rows = append(row.Rows, kneeRow{Rate: words.Rate(w.RatePerS), Step: string(w.Step),
			Mark: windowMark(w.Verdict), Offered: words.Rate(w.OfferedPerS),
			Achieved: words.Rate(w.AchievedPerS), P50: windowTime(w, w.P50NS),
			P99: windowTime(w, w.P99NS), Count: words.Grouped(w.Count), Seed: w.Seed,
			Reasons: fewest(w.Reasons), Run: w.Run, RunID: w.Run[strings.LastIndexByte(w.Run, '-')+1:]})
	}
	return row
}

// fewest are the first reasons, with the number of the others.
func fewest(reasons []string) []string {
	if len(reasons) <= mostReasons {
		return reasons
	}
	return append(slices.Clone(reasons[:mostReasons]),
		fmt.Sprintf("and %d more", len(reasons)-mostReasons))
}

// windowTime formats a response time of a window, none if it has none.
func windowTime(w knee.Window, ns int64) string {
	if w.Count == 0 {
		return words.None
	}
	return words.Latency(ns)
}

func windowMark(v knee.Verdict) words.Mark {
	switch v {
	case knee.Held:
		return words.Mark{Icon: "✓", Word: "held", Class: "good"}
	case knee.Missed, knee.Broke:
		return words.Mark{Icon: "✗", Word: string(v), Class: "bad"}
	}
	return words.Mark{Icon: "?", Word: string(v), Class: "warn"}
}

// outcomeMark is the mark of a design: an unexpected violation comes before
// whatever rate was found.
func outcomeMark(v knee.Variant) words.Mark {
	switch {
	case v.Broken():
		return words.Mark{Icon: "✗", Word: "broke an invariant", Class: "bad"}
	case v.Result.Outcome == knee.Found:
		return words.Mark{Icon: "✓", Word: "found", Class: "good"}
	case v.Result.Outcome == knee.Between:
		return words.Mark{Icon: "✓", Word: "found an interval", Class: "good"}
	case v.Result.Outcome == knee.Beyond:
		return words.Mark{Icon: "✓", Word: "held at the highest rate tried", Class: "good"}
	case v.Result.Outcome == knee.Nowhere:
		return words.Mark{Icon: "✗", Word: "holds at no rate tried", Class: "bad"}
	case v.Result.Outcome == knee.Stopped:
		return words.Mark{Icon: "■", Word: "stopped", Class: "warn"}
	}
	return words.Mark{Icon: "?", Word: "not decided", Class: "warn"}
}

// kneeMark is the mark of a whole search: for how many designs there is an answer, but
// a violation comes first.
func kneeMark(s knee.Summary) words.Mark {
	m := words.Mark{Icon: "✓", Word: "FOUND", Class: "good"}
	for _, v := range s.Variants {
		switch class := outcomeMark(v).Class; {
		case v.Broken():
			return words.Mark{Icon: "✗", Word: "BROKEN", Class: "bad"}
		case class == "bad":
			m.Icon, m.Class = "✗", "bad"
		case class == "warn" && m.Class == "good":
			m.Icon, m.Class = "?", "warn"
		}
	}
	switch n := answered(s); {
	case s.Search.Interrupted:
		return answer.VerdictMark(answer.Interrupted)
	case len(s.Variants) == 0:
		return words.Mark{Icon: "?", Word: "NOT FOUND", Class: "warn"}
	case n == 0:
		m.Word = "NOT FOUND"
	case n < len(s.Variants):
		m.Word = fmt.Sprintf("%d OF %d FOUND", n, len(s.Variants))
	}
	return m
}

// answered counts the designs whose knee was found, as a number or an interval, or that
// held at the highest rate.
func answered(s knee.Summary) (n int) {
	for _, v := range s.Variants {
		switch v.Result.Outcome {
		case knee.Found, knee.Between, knee.Beyond:
			n++
		}
	}
	return n
}

// KneeSentence says what a search came to for a design.
func KneeSentence(v knee.Variant) string {
	r := v.Result
	above := ""
	if len(r.Above) > 0 {
		above = ": " + words.Short(r.Above[0], 160)
	}
	at := fmt.Sprintf("%s with a p50 of %s and a p99 of %s", words.Rate(r.RatePerS),
		words.Latency(r.P50NS),
		words.Latency(r.P99NS))
	var text string
	switch {
	case r.Outcome == knee.Found:
		text = fmt.Sprintf("holds up to %s; %s fails%s%s", at, words.Rate(r.AbovePerS), noisily(r), above)
	case r.Outcome == knee.Between:
		text = fmt.Sprintf("holds up to %s at least; %s fails%s%s", at, words.Rate(r.AbovePerS),
			noisily(r),
			above)
	case r.Outcome == knee.Beyond:
		text = fmt.Sprintf("holds at %s, the highest rate allowed", at)
	case r.Outcome == knee.Nowhere:
		text = fmt.Sprintf("holds at no rate: %s, the lowest one, fails%s%s", words.Rate(r.AbovePerS),
			noisily(r), above)
	case r.Outcome == knee.Stopped:
		text = "the search was stopped"
	case r.RatePerS > 0:
		text = fmt.Sprintf("holds at %s; whether it does above is not decided", at)
	case r.AbovePerS > 0:
		text = fmt.Sprintf("no rate was confirmed; from %s on it fails or is not decided%s",
			words.Rate(r.AbovePerS), above)
	default:
		text = "no rate was confirmed"
	}
	if r.RatePerS == 0 && r.HeldOncePerS > 0 {
		text += fmt.Sprintf(" (%s held, without confirmation)", words.Rate(r.HeldOncePerS))
	}
	return plain.Text(text)
}

// noisily says that a rate may have failed by the machine's doing.
func noisily(r knee.Result) string {
	if r.Approximate {
		return " (≈: only while the machine interfered)"
	}
	return ""
}

// KneeWindowLine is one line of progress: a window of a variant, with its
// verdict as it is to be printed.
func KneeWindowLine(variant string, ratePerS float64, verdict string, w knee.Window) string {
	text := fmt.Sprintf("%-24s %9s  %s  done %s of %s due, p50 %s, p99 %s", words.OneLine(variant),
		words.Rate(ratePerS), verdict, words.Rate(w.AchievedPerS), words.Rate(w.OfferedPerS),
		windowTime(w, w.P50NS),
		windowTime(w, w.P99NS))
	if len(w.Reasons) > 0 {
		text += "\n      " + words.Short(words.OneLine(w.Reasons[0]), 200)
	}
	return text
}

// kneeSections lists what the search stood on.
func kneeSections(s knee.Summary) []answer.Section {
	sections := answer.EnvironmentSections(rundir.Summary{Tool: s.Tool, Environment: s.Environment,
		SchemaVersion: s.SchemaVersion, Run: rundir.RunInfo{ID: s.Search.ID,
			Scenario: s.Search.Scenario, Profile: s.Search.Profile, System: s.Search.System,
			Seed: s.Search.Seed, Repeats: s.Plan.Repeats, Started: s.Search.Started,
			Finished: s.Search.Finished}})
	sections[0].Title = "Search"
	sections[0].Facts = append(sections[0].Facts,
		words.Fact{Term: "Windows", Value: fmt.Sprintf(
			"%s each, %s of it warm-up; at most %d for a design",
			time.Duration(s.WindowNS), time.Duration(s.WarmUpNS), s.Plan.Windows)},
		words.Fact{Term: "Rates", Value: fmt.Sprintf("%s to %s, from %s", words.Rate(s.Plan.LeastPerS),
			words.Rate(s.Plan.MostPerS), words.Rate(s.Plan.FromPerS))},
		words.Fact{Term: "Precision", Value: words.Significant(s.Plan.Precision*100) + " %"})
	return sections
}

// undrawn says how many windows have no mark in the charts.
func undrawn(s knee.Summary) string {
	n := 0
	for _, v := range s.Variants {
		for _, w := range v.Result.Windows {
			if w.Verdict == knee.Undecided {
				n++
			}
		}
	}
	switch n {
	case 0:
		return ""
	case 1:
		return "One window that was not decided is in the tables only: what it measured proves nothing."
	}
	return fmt.Sprintf("%d windows that were not decided are in the tables only: what they "+
		"measured proves nothing.", n)
}

// KneeText writes the knee of every design as a table, what failed above it, and
// as its last line
//
//	RESULT <scenario> knee <VERDICT> found=N/M report=PATH exit=N
//
// where found counts the designs whose knee was found, or that held at the highest
// rate.
func KneeText(w io.Writer, s knee.Summary, o words.TextOptions) error {
	var out bytes.Buffer
	rows := [][]string{{"DESIGN", "KNEE", "p50", "p99", "FIRST ABOVE", "WINDOWS", "OUTCOME"}}
	var marks []words.Mark
	for i, v := range s.Variants {
		row := kneeRowOf(v, i)
		marks = append(marks, row.Mark)
		rows = append(rows, []string{words.OneLine(v.Name), row.Rate, row.P50, row.P99, row.Above,
			fmt.Sprint(row.Windows), row.Mark.Icon + " " + row.Mark.Word})
	}
	fmt.Fprintf(&out, "%s · highest steady rate, in windows of %s\n\n%s\n\n",
		words.OneLine(s.Search.Scenario), words.Seconds(float64(s.WindowNS)/1e9),
		strings.Join(words.Marked(rows, len(rows[0]), marks, o.Colour), "\n"))
	for _, v := range s.Variants {
		fmt.Fprintf(&out, "%s %s\n", words.OneLine(v.Name), words.OneLine(KneeSentence(v)))
		for _, note := range v.Result.Notes {
			fmt.Fprintf(&out, "  %s\n", words.OneLine(note))
		}
	}
	m := kneeMark(s)
	fmt.Fprintf(&out, "RESULT %s knee %s found=%d/%d report=%s exit=%d\n",
		words.OneLine(s.Search.Scenario), words.Paint(m.Word, m.Class, o.Colour), answered(s),
		len(s.Variants), words.OneLine(cmp.Or(o.Report, "none")), o.Exit)
	if _, err := w.Write(out.Bytes()); err != nil {
		return fmt.Errorf("write the search: %w", err)
	}
	return nil
}
