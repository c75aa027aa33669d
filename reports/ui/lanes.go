package ui

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"stampede/harness/events"
	"stampede/harness/plain"
	"stampede/harness/rundir"
	"stampede/reports/answer"
	"stampede/reports/words"
)

// runPage is a run as it stands.
type runPage struct {
	Title, Name      string
	Scenario, Meta   string
	Question, Folder string
	State, Clock     string
	Icon, Class      string
	Reasons          []string
	Lanes            []lane
	Notes            []string
	Report, Files    string
	Problem          string
	Live, Dead       bool
	// Own says that the run was started here and goes on, so that it can be
	// interrupted; Interrupts how often it was.
	Own        bool
	Interrupts int
	Form       string
	Follow     string
}

// lane is one variant of a run.
type lane struct {
	ID, Variant string
	Icon, Class string
	State       string
	Done        string
	Numbers     []number
	Faults      []string
	Reason      string
	Rate, P99   spark
}

// number is a figure with its name.
type number struct {
	Name, Value string
	Bad         bool
}

// spark is a small curve.
type spark struct {
	Path, Label, Caption string
}

// runPage says how a run stands.
func (s *Server) runPage(f *found, now time.Time) runPage {
	b := &f.progress
	p := runPage{Title: f.name, Name: f.name, Scenario: path.Dir(f.name), Form: s.keys.form,
		Folder: f.path, Report: s.report(f.name), Follow: "/run/" + f.name + "/live"}
	state := rundir.StateOf(f.path)
	p.Live = state == rundir.Running
	if j := s.current(); j != nil && !j.ended() {
		js := s.stateOf(j)
		p.Own, p.Interrupts = js.Directory == f.name, js.Interrupts
		p.Live = p.Live || p.Own // it writes its report
	}
	p.Dead = !p.Live && state == rundir.Unfinished
	if !p.Live {
		// It may have told its end since it was read.
		if err := f.read(); err != nil {
			p.Problem = err.Error()
		}
	}
	p.Notes = b.Notes
	if b.Plan != nil {
		p.Title = b.Plan.Scenario
		p.Question = b.Plan.Question
		p.Meta = fmt.Sprintf("%s · profile %s · seed %d · started %s", b.Plan.System, b.Plan.Profile,
			b.Plan.Seed, cmp.Or(words.Instant(b.Begun), "?"))
	}
	for i := range b.Lines {
		p.Lanes = append(p.Lanes, laneOf(i, &b.Lines[i], b.Plan, !p.Live))
	}
	p.stateOf(b, now)
	return p
}

// stateOf says in a sentence how the run stands, and about how long it will go on.
func (p *runPage) stateOf(b *events.Progress, now time.Time) {
	running := b.Running()
	p.Icon, p.Class = "▶", "live"
	switch {
	case b.Failed != "":
		p.Icon, p.Class, p.State = "✗", "bad", "Failed: "+b.Failed
		p.Reasons = p.whatToDo()
	case p.Dead:
		p.Icon, p.Class = "■", "warn"
		p.State = "Ended without a report: its process is gone"
		p.Reasons = p.whatToDo()
	case b.Judged != nil && p.Live:
		p.State = "Writing the report"
	case b.Judged != nil:
		verdict := b.Judged.Verdict.Overall
		if b.Judged.Interrupted {
			verdict = answer.Interrupted
		}
		mark := answer.VerdictMark(verdict)
		p.Icon, p.Class = mark.Icon, mark.Class
		v := b.Judged.Verdict
		p.State, p.Reasons = fmt.Sprintf("%s · correct: %s · timing: %s · objectives: %s", verdict,
			v.Correctness, v.Timing, v.Objectives), v.Reasons
	case !p.Live:
		p.Icon, p.Class = "?", "warn"
		p.State = "This run has no events: it is from before there were any."
	case b.Plan == nil || b.Environment == nil:
		p.State = "Starting the stores"
	case running != nil:
		p.State = fmt.Sprintf("Repeat %d of %d: %s, %s", b.Done()+1, b.Total(), running.Variant,
			cmp.Or(running.Phase, events.Prepare))
	default:
		p.State = fmt.Sprintf("%d of %d repeats done", b.Done(), b.Total())
	}
	if !p.Live || b.Plan == nil {
		return
	}
	p.Clock = "running for " + durationText(now.Sub(b.Begun))
	if left, atLeast, known := b.Remaining(now); known {
		about := "about"
		if atLeast {
			about = "at least"
		}
		p.Clock += fmt.Sprintf(" · %s %s left", about, durationText(left))
	}
}

// whatToDo says how a dead run can be judged, if it has recorded operations.
func (p *runPage) whatToDo() []string {
	histories, err := os.ReadDir(filepath.Join(p.Folder, "history"))
	if !p.Dead || err != nil || len(histories) == 0 {
		return nil
	}
	return []string{"stampede check " + p.Folder + " judges the recorded operations."}
}

// durationText is a duration in whole seconds.
func durationText(d time.Duration) string {
	return (max(0, d) + time.Second/2).Truncate(time.Second).String()
}

// laneOf is a variant as it stands. over says that it will not go on.
func laneOf(i int, l *events.VariantLine, p *events.Plan, over bool) lane {
	out := lane{ID: fmt.Sprintf("lane-%d", i), Variant: l.Variant}
	if !over {
		out.Faults = l.Faults
	}
	if l.Of > 1 {
		out.Done = fmt.Sprintf("%d of %d", l.Done, l.Of)
	}
	switch {
	case l.Running && !over:
		out.Icon, out.Class, out.State = "▶", "live", string(cmp.Or(l.Phase, events.Prepare))
		if l.Phase.Loaded() && p.LoadNS > 0 {
			out.State += fmt.Sprintf(" %s of %s", durationText(time.Duration(min(l.Tick.ElapsedNS,
				p.LoadNS))), durationText(time.Duration(p.LoadNS)))
		}
	case l.Done > 0:
		mark := answer.OutcomeMark(l.Verdict, l.Correctness)
		out.Icon, out.State, out.Class = mark.Icon, mark.Word, mark.Class
		if len(l.Reasons) > 0 {
			out.Reason = l.Reasons[0]
		}
	case over:
		out.Icon, out.Class, out.State = "·", "idle", "did not come to its end"
	default:
		out.Icon, out.Class, out.State = "·", "idle", "waiting"
	}
	if l.Tick.Scheduled > 0 || l.Done > 0 {
		out.Numbers = numbersOf(l, l.Running && !over)
	}
	out.Rate = sparkOf(l.Trace, "rate", func(t events.TracePoint) float64 { return t.DonePerS },
		func(v float64) string { return fmt.Sprintf("%.0f/s", v) })
	out.P99 = sparkOf(l.Trace, "p99", func(t events.TracePoint) float64 { return t.P99.Seconds() },
		words.Seconds)
	return out
}

func numbersOf(l *events.VariantLine, running bool) []number {
	t := l.Tick
	numbers := []number{}
	if running {
		numbers = append(numbers, number{Name: "offered → done", Value: fmt.Sprintf("%.0f → %.0f/s",
			t.OfferedPerS, t.AchievedPerS)})
	}
	p99 := "–"
	if t.P99NS > 0 {
		p99 = words.Latency(t.P99NS)
	}
	if !running && l.Timing == rundir.Noisy {
		p99 = "≈ " + p99
	}
	of, kind := t.Load, ""
	if !running && l.Kind != "" {
		of, kind = l.Main, l.Kind+" "
	}
	return append(numbers, number{Name: "p99", Value: p99},
		number{Name: kind + "ok", Value: plain.Count(of.OK)},
		number{Name: kind + "refused", Value: plain.Count(of.Refused)},
		number{Name: "unknown", Value: plain.Count(t.Unknown), Bad: t.Unknown > 0},
		number{Name: "dropped", Value: plain.Count(t.Dropped), Bad: t.Dropped > 0})
}

// The size of a spark's drawing.
const (
	sparkWidth  = 160.0
	sparkHeight = 32.0
)

// sparkOf draws a trace, from zero to its largest value; fewer than two points are none.
func sparkOf(trace []events.TracePoint, name string, value func(events.TracePoint) float64,
	text func(float64) string,
) spark {
	if len(trace) < 2 {
		return spark{}
	}
	last := trace[len(trace)-1]
	most, span := 0.0, (last.Elapsed - trace[0].Elapsed).Seconds()
	for _, t := range trace {
		most = math.Max(most, value(t))
	}
	if most <= 0 || span <= 0 {
		return spark{}
	}
	var b strings.Builder
	for i, t := range trace {
		command := "L"
		if i == 0 {
			command = "M"
		}
		fmt.Fprintf(&b, "%s%.1f %.1f", command, (t.Elapsed-trace[0].Elapsed).Seconds()/span*sparkWidth,
			1+(sparkHeight-2)*(1-value(t)/most))
	}
	return spark{Path: b.String(), Caption: name + ", up to " + text(most),
		Label: fmt.Sprintf("%s over time: %s now, at most %s", name, text(value(last)), text(most))}
}
