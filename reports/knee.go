package reports

import (
	"bytes"
	"cmp"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"stampede/harness/knee"
	"stampede/harness/plain"
	"stampede/harness/rundir"
)

// kneePage is what the template of a search shows.
type kneePage struct {
	Title      string
	CSP        template.HTMLAttr
	Style      template.HTML
	Script     template.HTML
	Mark       mark
	Icons      []mark
	Nav        []navItem
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
	Toggles    []legendItem
	Panels     []kneePanel
	// Left says which windows no chart shows.
	Left        string
	Environment []section
}

// kneeVariant is a design's row with its windows.
type kneeVariant struct {
	knee.Variant
	ID, Letter, Sentence        string
	Mark                        mark
	Rate, P50, P99, Above, Kind string
	Why, Notes                  []string
	Windows                     int
	Rows                        []kneeRow
}

// kneeRow is one window.
type kneeRow struct {
	Rate, Step, Offered, Achieved, P50, P99, Count string
	Seed                                           uint64
	Mark                                           mark
	Reasons                                        []string
	Run, RunID                                     string
}

// mostReasons is how many reasons a row shows.
const mostReasons = 3

// Knee writes the page of a search for knees: one file, as HTML writes that of a
// run.
func Knee(w io.Writer, s knee.Summary) error {
	p, err := newKneePage(s)
	if err != nil {
		return fmt.Errorf("make report: %w", err)
	}
	return fill(w, "knee.gohtml", p)
}

func newKneePage(s knee.Summary) (kneePage, error) {
	p := kneePage{Mark: kneeMark(s), Icons: []mark{kneeMark(s)}, Search: s.Search,
		Date:      instant(s.Search.Started),
		Took:      took(rundir.RunInfo{Started: s.Search.Started, Finished: s.Search.Finished}),
		Window:    seconds(float64(s.WindowNS) / 1e9),
		Glance:    glance(rundir.Summary{Environment: s.Environment}),
		Precision: significant(s.Plan.Precision*100) + " %", Repeats: timesText(s.Plan.Repeats),
		Warnings: s.Warnings, Objectives: s.Objectives,
		Environment: kneeSections(s)}
	p.Title = plain.Text(strings.Join([]string{p.Mark.Word, "knee of " + s.Search.Scenario,
		plural(len(s.Variants), "variant")}, " · "))
	var indices []int
	for i, v := range s.Variants {
		p.Sentences = append(p.Sentences, v.Name+": "+KneeSentence(v))
		p.Variants = append(p.Variants, kneeRowOf(v, i))
		p.Toggles = append(p.Toggles, legendItem{Variant: i, Letter: letter(i), Name: v.Name})
		indices = append(indices, i)
	}
	var err error
	if p.Panels, err = kneePanels(s); err != nil {
		return p, err
	}
	p.Left = undrawn(s)
	p.Style, p.Script, p.CSP = dressing(toggleRules(indices))
	p.Nav = shown([]navSection{
		{navItem{"verdict", "Verdict"}, true}, {navItem{"variants", "Variants"}, true},
		{navItem{"curves", "Curves"}, len(p.Panels) > 0},
		{navItem{"windows", "Windows"}, len(p.Variants) > 0},
		{navItem{"environment", "Environment"}, true},
		{navItem{"reproduce", "Reproduce"}, true}, {navItem{"method", "Method"}, true},
	})
	return p, nil
}

// timesText says how often.
func timesText(n int) string {
	if n == 1 {
		return "once"
	}
	return plural(n, "time")
}

func kneeRowOf(v knee.Variant, index int) kneeVariant {
	r := v.Result
	row := kneeVariant{Variant: v, ID: fmt.Sprintf("w-%d", index), Letter: letter(index),
		Sentence: KneeSentence(v), Mark: outcomeMark(v), Kind: v.Kind, Notes: r.Notes,
		Rate: none, P50: none, P99: none, Above: none, Windows: len(r.Windows)}
	if r.RatePerS > 0 {
		row.Rate, row.P50, row.P99 = rate(r.RatePerS), latency(r.P50NS), latency(r.P99NS)
	}
	if r.AbovePerS > 0 {
		row.Above, row.Why = rate(r.AbovePerS), fewest(r.Above)
		if r.Approximate {
			row.Above = "≈ " + row.Above
		}
	}
	for _, w := range r.Windows {
		row.Rows = append(row.Rows, kneeRow{Rate: rate(w.RatePerS), Step: string(w.Step),
			Mark: windowMark(w.Verdict), Offered: rate(w.OfferedPerS),
			Achieved: rate(w.AchievedPerS), P50: windowTime(w, w.P50NS),
			P99: windowTime(w, w.P99NS), Count: grouped(w.Count), Seed: w.Seed,
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
		return none
	}
	return latency(ns)
}

func windowMark(v knee.Verdict) mark {
	switch v {
	case knee.Held:
		return mark{"✓", "held", "good"}
	case knee.Missed, knee.Broke:
		return mark{"✗", string(v), "bad"}
	}
	return mark{"?", string(v), "warn"}
}

// outcomeMark is the mark of a design: an unexpected violation comes before
// whatever rate was found.
func outcomeMark(v knee.Variant) mark {
	switch {
	case v.Broken():
		return mark{"✗", "broke an invariant", "bad"}
	case v.Result.Outcome == knee.Found:
		return mark{"✓", "found", "good"}
	case v.Result.Outcome == knee.Between:
		return mark{"✓", "found an interval", "good"}
	case v.Result.Outcome == knee.Beyond:
		return mark{"✓", "held at the highest rate tried", "good"}
	case v.Result.Outcome == knee.Nowhere:
		return mark{"✗", "holds at no rate tried", "bad"}
	case v.Result.Outcome == knee.Stopped:
		return mark{"■", "stopped", "warn"}
	}
	return mark{"?", "not decided", "warn"}
}

// kneeMark is the mark of a whole search: for how many designs there is an answer, but
// a violation comes first.
func kneeMark(s knee.Summary) mark {
	m := mark{"✓", "FOUND", "good"}
	for _, v := range s.Variants {
		switch class := outcomeMark(v).Class; {
		case v.Broken():
			return mark{"✗", "BROKEN", "bad"}
		case class == "bad":
			m.Icon, m.Class = "✗", "bad"
		case class == "warn" && m.Class == "good":
			m.Icon, m.Class = "?", "warn"
		}
	}
	switch n := answered(s); {
	case s.Search.Interrupted:
		return verdictMark(Interrupted)
	case len(s.Variants) == 0:
		return mark{"?", "NOT FOUND", "warn"}
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
		above = ": " + short(r.Above[0], 160)
	}
	at := fmt.Sprintf("%s with a p50 of %s and a p99 of %s", rate(r.RatePerS), latency(r.P50NS),
		latency(r.P99NS))
	var text string
	switch {
	case r.Outcome == knee.Found:
		text = fmt.Sprintf("holds up to %s; %s fails%s%s", at, rate(r.AbovePerS), noisily(r), above)
	case r.Outcome == knee.Between:
		text = fmt.Sprintf("holds up to %s at least; %s fails%s%s", at, rate(r.AbovePerS), noisily(r),
			above)
	case r.Outcome == knee.Beyond:
		text = fmt.Sprintf("holds at %s, the highest rate allowed", at)
	case r.Outcome == knee.Nowhere:
		text = fmt.Sprintf("holds at no rate: %s, the lowest one, fails%s%s", rate(r.AbovePerS),
			noisily(r), above)
	case r.Outcome == knee.Stopped:
		text = "the search was stopped"
	case r.RatePerS > 0:
		text = fmt.Sprintf("holds at %s; whether it does above is not decided", at)
	case r.AbovePerS > 0:
		text = fmt.Sprintf("no rate was confirmed; from %s on it fails or is not decided%s",
			rate(r.AbovePerS), above)
	default:
		text = "no rate was confirmed"
	}
	if r.RatePerS == 0 && r.HeldOncePerS > 0 {
		text += fmt.Sprintf(" (%s held, without confirmation)", rate(r.HeldOncePerS))
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
	text := fmt.Sprintf("%-24s %9s  %s  done %s of %s due, p50 %s, p99 %s", oneLine(variant),
		rate(ratePerS), verdict, rate(w.AchievedPerS), rate(w.OfferedPerS), windowTime(w, w.P50NS),
		windowTime(w, w.P99NS))
	if len(w.Reasons) > 0 {
		text += "\n      " + short(oneLine(w.Reasons[0]), 200)
	}
	return text
}

// kneeSections lists what the search stood on.
func kneeSections(s knee.Summary) []section {
	sections := environmentSections(rundir.Summary{Tool: s.Tool, Environment: s.Environment,
		SchemaVersion: s.SchemaVersion, Run: rundir.RunInfo{ID: s.Search.ID,
			Scenario: s.Search.Scenario, Profile: s.Search.Profile, System: s.Search.System,
			Seed: s.Search.Seed, Repeats: s.Plan.Repeats, Started: s.Search.Started,
			Finished: s.Search.Finished}})
	sections[0].Title = "Search"
	sections[0].Facts = append(sections[0].Facts,
		fact{Term: "Windows", Value: fmt.Sprintf("%s each, %s of it warm-up; at most %d for a design",
			time.Duration(s.WindowNS), time.Duration(s.WarmUpNS), s.Plan.Windows)},
		fact{Term: "Rates", Value: fmt.Sprintf("%s to %s, from %s", rate(s.Plan.LeastPerS),
			rate(s.Plan.MostPerS), rate(s.Plan.FromPerS))},
		fact{Term: "Precision", Value: significant(s.Plan.Precision*100) + " %"})
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
func KneeText(w io.Writer, s knee.Summary, o TextOptions) error {
	var out, table bytes.Buffer
	fmt.Fprintf(&out, "%s · highest steady rate, in windows of %s\n\n", oneLine(s.Search.Scenario),
		seconds(float64(s.WindowNS)/1e9))
	tw := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "DESIGN\tKNEE\tp50\tp99\tFIRST ABOVE\tWINDOWS\tOUTCOME")
	for i, v := range s.Variants {
		row := kneeRowOf(v, i)
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%d\t%s %s\n", oneLine(v.Name), row.Rate, row.P50, row.P99,
			row.Above, row.Windows, row.Mark.Icon, row.Mark.Word)
	}
	_ = tw.Flush() // to a buffer: it cannot fail
	for i, line := range strings.SplitAfter(table.String(), "\n") {
		if i > 0 && i <= len(s.Variants) && o.Colour {
			m := outcomeMark(s.Variants[i-1])
			word := m.Icon + " " + m.Word
			line = strings.Replace(line, word, paint(word, m.Class, true), 1)
		}
		out.WriteString(line)
	}
	out.WriteByte('\n')
	for _, v := range s.Variants {
		fmt.Fprintf(&out, "%s %s\n", oneLine(v.Name), oneLine(KneeSentence(v)))
		for _, note := range v.Result.Notes {
			fmt.Fprintf(&out, "  %s\n", oneLine(note))
		}
	}
	m := kneeMark(s)
	fmt.Fprintf(&out, "RESULT %s knee %s found=%d/%d report=%s exit=%d\n", oneLine(s.Search.Scenario),
		paint(m.Word, m.Class, o.Colour), answered(s), len(s.Variants), oneLine(cmp.Or(o.Report, "none")),
		o.Exit)
	if _, err := w.Write(out.Bytes()); err != nil {
		return fmt.Errorf("write the search: %w", err)
	}
	return nil
}
