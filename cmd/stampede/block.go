package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"

	"stampede/harness/events"
	"stampede/harness/plain"
	"stampede/harness/rundir"
	"stampede/reports/answer"
	"stampede/reports/words"
)

// text is a line in colours.
type text []span

// span is a part of a line.
type span struct {
	text string
	code string // of its colour, "" for none
}

// columnsOf is how many columns a character takes: two for Hangul's leading letters,
// and from the CJK radicals on, where most wide ones are.
func columnsOf(r rune) int {
	if r >= 0x1100 && r < 0x1160 || r >= 0x2e80 && r != unicode.ReplacementChar {
		return 2
	}
	return 1
}

func (t text) width() int {
	n := 0
	for _, s := range t {
		for _, r := range s.text {
			n += columnsOf(r)
		}
	}
	return n
}

// cut shortens a line to a number of columns, without what a terminal would obey, such
// as an escape in an error's text.
func (t text) cut(columns int) text {
	t = slices.Clone(t)
	for i := range t {
		t[i].text = plain.Text(t[i].text)
	}
	room, out := columns, text{}
	whole := t.width() <= columns
	for _, s := range t {
		kept := strings.Builder{}
		for _, r := range s.text {
			if room -= columnsOf(r); room < 1 && !whole {
				if columns > 0 {
					kept.WriteRune('…')
				}
				return append(out, span{kept.String(), s.code})
			}
			kept.WriteRune(r)
		}
		out = append(out, span{kept.String(), s.code})
	}
	return out
}

func (t text) paint(p palette) string {
	out := strings.Builder{}
	for _, s := range t {
		out.WriteString(p.paint(s.code, s.text))
	}
	return out.String()
}

// blockOf is a run as it stands: a line on the whole and one for each variant, in
// at most so many lines.
func blockOf(b *events.Progress, now time.Time, most int, stopping bool) []text {
	lines := []text{headText(b, now, stopping)}
	shown, judged, waiting := fitted(b.Lines, most-1)
	if len(judged) > 0 {
		lines = append(lines, judgedText(judged))
	}
	names := 0
	for _, l := range shown {
		names = max(names, len(l.Variant))
	}
	for i := range shown {
		lines = append(lines, variantText(&shown[i], names, b.Plan, now))
	}
	if waiting > 0 {
		lines = append(lines, text{{fmt.Sprintf("· %d more waiting", waiting), dimCode}})
	}
	return lines[:max(0, min(len(lines), most))]
}

// fitted chooses which variants have a line of their own, where all take too many:
// first the finished ones share a line, then those that wait, then those that have
// been judged and will run again.
func fitted(lines []events.VariantLine, most int) (
	shown, judged []events.VariantLine, waiting int,
) {
	shown = slices.Clone(lines)
	for len(shown)+min(len(judged), 1)+min(waiting, 1) > most {
		finished, waits, idle := -1, -1, -1
		for i, l := range slices.Backward(shown) {
			switch {
			case l.Finished():
				finished = i
			case l.Waiting():
				waits = max(waits, i)
			case !l.Running:
				idle = i
			}
		}
		fold := finished
		if fold < 0 {
			fold = waits
		}
		if fold < 0 {
			fold = idle
		}
		if fold < 0 {
			break
		}
		if fold == waits {
			waiting++
		} else {
			judged = append(judged, shown[fold])
		}
		shown = slices.Delete(shown, fold, fold+1)
	}
	return shown, judged, waiting
}

// judgedText sums up the variants that share a line.
func judgedText(lines []events.VariantLine) text {
	line := text{{fmt.Sprintf("✓ %d judged:", len(lines)), ""}}
	for _, verdict := range []string{rundir.Pass, rundir.Fail, rundir.Invalid,
		rundir.Inconclusive} {
		n := 0
		for _, l := range lines {
			if l.Verdict == verdict {
				n++
			}
		}
		if n > 0 {
			line = append(line, span{fmt.Sprintf(" %d", n), ""},
				span{" " + verdict, colourOf(answer.VerdictMark(verdict))})
		}
	}
	return line
}

// headText is about the run as a whole.
func headText(b *events.Progress, now time.Time, stopping bool) text {
	p := b.Plan
	line := text{{p.Scenario, boldCode},
		{fmt.Sprintf(" · %s · seed %d · ", p.Profile, p.Seed), dimCode}}
	running := b.Running()
	switch {
	case stopping:
		line = append(line, span{"stopping; Ctrl-C again leaves at once", warnCode})
	case b.Environment == nil:
		line = append(line, span{"starting the stores, " + durationText(now.Sub(b.Begun)), ""})
	case running == nil:
		line = append(line, span{fmt.Sprintf("%d of %d repeats done", b.Done(), b.Total()), ""})
	default:
		line = append(line, span{fmt.Sprintf("repeat %d of %d · %s", b.Done()+1, b.Total(),
			remainingText(b, now)), ""})
	}
	return line
}

// variantText is one variant's line.
func variantText(l *events.VariantLine, names int, p *events.Plan, now time.Time) text {
	name := fmt.Sprintf("%-*s", names, l.Variant)
	switch {
	case l.Running:
		return runningText(l, name, p, now)
	case l.Waiting():
		return text{{"· " + name + "  waiting", dimCode}}
	}
	mark := answer.OutcomeMark(l.Verdict, l.Correctness)
	code := colourOf(mark)
	line := text{{mark.Icon, code}, {" " + name + "  ", ""}, {mark.Word, code}}
	if l.Of > 1 {
		line = append(line, span{fmt.Sprintf(" after %d/%d", l.Done, l.Of), ""})
	}
	reason := ""
	if len(l.Reasons) > 0 {
		reason = l.Reasons[0]
	}
	if l.Correctness == rundir.Caught && reason != "" { // what it was caught at comes first
		reason = strings.TrimPrefix(reason, "violated as expected: ")
		line, reason = append(line, span{": " + reason, dimCode}), ""
	}
	if p99 := p99Text(l.Timing, l.Tick.P99NS); p99 != "" {
		line = append(line, span{"  " + p99, ""})
	}
	line = append(line, span{"  " + answersText(l.Kind, l.Main, l.Tick.Load, "  "), ""})
	for _, part := range troubles(*l) {
		line = append(line, span{"  " + part, warnCode})
	}
	if reason != "" {
		line = append(line, span{"  " + reason, dimCode})
	}
	return line
}

// answersText counts the successful and the refused main operations of a finished repeat,
// those of all where it has none: "buy ok 1,672, refused 2,473".
func answersText(kind string, main, all rundir.Load, separator string) string {
	if kind == "" {
		main = all
	} else {
		kind = plain.Line(kind) + " "
	}
	return fmt.Sprintf("%sok %s%srefused %s", kind, plain.Count(main.OK), separator,
		plain.Count(main.Refused))
}

// p99Text is the p99 of a repeat, marked where the machine interfered; "" if there is none.
func p99Text(timing string, ns int64) string {
	if ns <= 0 || timing == rundir.NoTimes {
		return ""
	}
	approximately := ""
	if timing == rundir.Noisy {
		approximately = "≈ "
	}
	return "p99 " + approximately + words.Latency(ns)
}

// runningText is the line of the variant that is at work.
func runningText(l *events.VariantLine, name string, p *events.Plan, now time.Time) text {
	phase := string(cmp.Or(l.Phase, events.Prepare))
	if l.Of > 1 {
		phase = fmt.Sprintf("#%d/%d %s", l.Repeat+1, l.Of, phase)
	}
	line := text{{"▶", boldCode}, {" " + name + "  ", boldCode}, {phase, ""}}
	if !l.Phase.Loaded() {
		return append(line, span{" " + durationText(now.Sub(l.PhaseSince)), ""})
	}
	clock := " " + elapsedText(l.Tick, p)
	if l.Phase == events.Drain {
		clock = fmt.Sprintf(" %s, %d left", durationText(now.Sub(l.PhaseSince)),
			l.Tick.InFlight+l.Tick.Waiting)
	}
	line = append(line, span{clock, ""})
	// What is cut on a narrow terminal should be the rates.
	for _, part := range troubles(*l) {
		line = append(line, span{"  " + part, warnCode})
	}
	if len(l.Faults) > 0 {
		line = append(line, span{"  FAULT " + strings.Join(l.Faults, ", "), "31"})
	}
	return append(line, span{"  " + rateText(l.Tick), ""})
}

// elapsedText is how much of the load has passed.
func elapsedText(t events.Tick, p *events.Plan) string {
	return durationText(time.Duration(min(t.ElapsedNS, p.LoadNS))) + "/" +
		durationText(time.Duration(p.LoadNS))
}

// rateText is what is due, what is done, and how fast, all in the last one to two seconds. The
// p99 of a finished repeat is that of the whole, so this one must not be taken for it.
func rateText(t events.Tick) string {
	s := fmt.Sprintf("%s/s due, %s/s done", plain.Count(int64(math.Round(t.OfferedPerS))),
		plain.Count(int64(math.Round(t.AchievedPerS))))
	if t.P99RecentNS > 0 {
		s += ", p99 " + words.Latency(t.P99RecentNS) + " in the last second"
	}
	return s
}

// troubles are the counts that should be zero and are not.
func troubles(l events.VariantLine) (parts []string) {
	if n := l.Tick.Unknown; n > 0 {
		parts = append(parts, "unknown "+plain.Count(n))
	}
	if n := l.Tick.Dropped; n > 0 {
		parts = append(parts, "dropped "+plain.Count(n))
	}
	return parts
}

// faultText says that a fault began or ended.
func faultText(f events.FaultChange) string {
	if f.On {
		return "fault " + f.Fault + " begins"
	}
	return "fault " + f.Fault + " ends"
}

// remainingText is about how long the run will go on.
func remainingText(b *events.Progress, now time.Time) string {
	left, atLeast, known := b.Remaining(now)
	switch {
	case !known:
		return "nothing left to run"
	case atLeast:
		return "at least " + roughText(left) + " left"
	}
	return "about " + roughText(left) + " left"
}

// roughText is a duration no finer than it can be known.
func roughText(d time.Duration) string {
	step := 10 * time.Second
	if d < time.Minute {
		step = time.Second
	}
	return durationText((d + step - 1).Truncate(step))
}

// durationText is a duration in tenths of seconds, from a minute on in seconds: "1.5s",
// "1m", "1m30s".
func durationText(d time.Duration) string {
	if d = max(0, d); d < time.Minute {
		return strings.TrimSuffix(fmt.Sprintf("%.1f", d.Seconds()), ".0") + "s"
	}
	text := d.Round(time.Second).String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	return text
}
