package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"stampede/harness/events"
	"stampede/harness/plain"
	"stampede/reports/answer"
)

// A log without a terminal gets a line during the load every quietEvery, so that a long one is
// not taken for a hanging one, and with --verbose every verboseEvery.
const (
	quietEvery   = time.Minute
	verboseEvery = 15 * time.Second
)

// plainView prints a line for each repeat that is over, now and then one during a long load,
// and with --verbose one for each phase and fault.
type plainView struct {
	palette
	github, verbose bool

	mu       sync.Mutex
	out      *outbox
	progress events.Progress
	last     time.Time
	open     bool // a group of GitHub's
}

func newPlainView(out io.Writer, p palette, verbose bool) *plainView {
	return &plainView{out: newOutbox(out), palette: p, verbose: verbose,
		github: onGitHub()}
}

// Logf prints a line.
func (v *plainView) Logf(format string, args ...any) {
	v.print(plain.Lines(fmt.Sprintf(format, args...)))
}

func (v *plainView) print(line string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	fmt.Fprintln(v.out, line)
}

// Observe shows an event.
func (v *plainView) Observe(e events.Event) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.progress.Add(e)
	every := quietEvery
	if v.verbose {
		every = verboseEvery
		v.detail(e)
	}
	switch {
	case e.RepeatStarted != nil:
		v.last = e.At
		if v.github && v.verbose {
			v.open = true
			fmt.Fprintf(v.out, "::group::%s\n", v.position(*e.RepeatStarted))
		}
	case e.Load != nil && e.At.Sub(v.last) >= every:
		v.last = e.At
		fmt.Fprintf(v.out, "%s: %s\n", v.position(e.Load.Repeat), v.loadText(e.Load.Variant))
	case e.RepeatDone != nil:
		v.endGroup()
		fmt.Fprintln(v.out, v.doneText(*e.RepeatDone))
	case e.RunFailed != nil:
		v.endGroup()
	}
}

// detail prints the events that only --verbose shows.
func (v *plainView) detail(e events.Event) {
	switch {
	case e.Phase != nil:
		v.last = e.At
		fmt.Fprintf(v.out, "%s: %s\n", v.position(e.Phase.Repeat), e.Phase.Phase)
	case e.Fault != nil:
		fmt.Fprintf(v.out, "%s: %s\n", v.position(e.Fault.Repeat),
			plain.Line(faultText(*e.Fault)))
	}
}

// endGroup lets what follows stand outside of the repeat's group.
func (v *plainView) endGroup() {
	if v.open {
		v.open = false
		fmt.Fprintln(v.out, "::endgroup::")
	}
}

func (v *plainView) close() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.endGroup()
	v.out.flush()
	return nil
}

// position says which repeat it is, of how many.
func (v *plainView) position(r events.Repeat) string {
	text := fmt.Sprintf("[%d/%d] %s", r.Order+1, v.progress.Total(), plain.Line(r.Variant))
	switch p := v.progress.Plan; {
	case p == nil:
	case r.Order < len(p.Slots) && p.Slots[r.Order].Control:
		text += " (again, for the noise floor)"
	case p.Repeats > 1:
		text += fmt.Sprintf(" #%d", r.Repeat+1)
	}
	return text
}

// loadText has the numbers of the load under way, and how long the run will go on.
func (v *plainView) loadText(variant string) string {
	for _, l := range v.progress.Lines {
		if l.Variant == variant {
			text := fmt.Sprintf("%s %s, %s, ok %s, refused %s", l.Phase,
				elapsedText(l.Tick, v.progress.Plan), rateText(l.Tick), plain.Count(l.Tick.OK),
				plain.Count(l.Tick.Refused))
			for _, part := range troubles(l) {
				text += ", " + part
			}
			return text + ", " + remainingText(&v.progress, v.last)
		}
	}
	return ""
}

// doneText is what a repeat came to, with the reasons on lines of their own.
func (v *plainView) doneText(o events.Outcome) string {
	mark := answer.OutcomeMark(o.Verdict, o.Correctness)
	text := fmt.Sprintf("%-34s %s  %s; unknown %s, dropped %s", v.position(o.Repeat),
		v.paint(colourOf(mark), fmt.Sprintf("%-6s", mark.Word)),
		answersText(o.Kind, o.Main, o.Load, ", "), plain.Count(o.Load.Unknown),
		plain.Count(o.Load.Dropped))
	if p99 := p99Text(o.Timing, o.P99NS); p99 != "" {
		text += ", " + p99
	}
	for _, reason := range o.Reasons {
		text += "\n      " + strings.ReplaceAll(plain.Lines(reason), "\n", "\n      ")
	}
	return text
}

// mostPending is how much waits for a reader who takes nothing, in bytes: more than a
// run of a day says.
const mostPending = 1 << 20

// outbox takes whatever it is given at once and passes it on in the background: a
// reader who takes nothing, like a terminal on hold, holds up no run. Its end waits for
// him, as that of every program does.
type outbox struct {
	out io.Writer

	mu      sync.Mutex
	idle    *sync.Cond // busy has become false
	pending []byte
	left    int  // writes that were left out since
	busy    bool // a goroutine passes on what is pending
}

func newOutbox(out io.Writer) *outbox {
	o := &outbox{out: out}
	o.idle = sync.NewCond(&o.mu)
	return o
}

// Write implements io.Writer and never fails.
func (o *outbox) Write(text []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.pending)+len(text) > mostPending {
		o.left++
		return len(text), nil
	}
	o.pending = append(o.pending, text...)
	if !o.busy {
		o.busy = true
		go o.pass()
	}
	return len(text), nil
}

// pass writes until nothing is pending. Progress that nobody can read is no reason to
// fail.
func (o *outbox) pass() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.pending) > 0 {
		text := o.pending
		o.pending = nil
		if o.left > 0 {
			text = fmt.Appendf(text, "(%d lines were left out: the reader did not keep up)\n", o.left)
			o.left = 0
		}
		o.mu.Unlock()
		_, _ = o.out.Write(text)
		o.mu.Lock()
	}
	o.busy = false
	o.idle.Broadcast()
}

// flush waits until all has been passed on.
func (o *outbox) flush() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.busy {
		o.idle.Wait()
	}
}
