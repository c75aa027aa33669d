package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"stampede/harness/run"
)

// quietEvery is how often a log without a terminal gets a line during the
// load.
const quietEvery = 15 * time.Second

// printer shows a run's progress: on a terminal one line that is rewritten,
// elsewhere a line for each repeat that is over and one every quietEvery.
type printer struct {
	mu     sync.Mutex
	out    io.Writer
	live   bool
	github bool
	colour bool
	quiet  bool
	last   time.Time
	phase  string
	drawn  bool
	now    func() time.Time
}

// newPrinter prints to out. format is pretty, plain, json or quiet; the empty
// one means pretty on a terminal and plain elsewhere.
func newPrinter(out *os.File, format string, colour bool) *printer {
	live := format == "pretty" || format == "" && isTerminal(out)
	return &printer{out: out, live: live && isTerminal(out), colour: colour,
		quiet: format == "quiet" || format == "json", now: time.Now,
		github: os.Getenv("GITHUB_ACTIONS") == "true"}
}

// isTerminal reports whether f is a terminal that understands escapes.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && f.Name() != os.DevNull &&
		os.Getenv("TERM") != "dumb" && os.Getenv("TERM") != ""
}

// wantColour decides by --color, then NO_COLOR, CLICOLOR_FORCE and
// FORCE_COLOR, then the terminal.
func wantColour(flag string, out *os.File) bool {
	switch {
	case flag == "always":
		return true
	case flag == "never", os.Getenv("NO_COLOR") != "":
		return false
	case os.Getenv("CLICOLOR_FORCE") != "", os.Getenv("FORCE_COLOR") != "":
		return true
	}
	return isTerminal(out)
}

// Logf prints a line above the live one.
func (p *printer) Logf(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.quiet {
		return
	}
	p.erase()
	fmt.Fprintf(p.out, format+"\n", args...)
}

// Observe shows an event.
func (p *printer) Observe(e run.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.quiet {
		return
	}
	changed := e.Phase+e.Variant != p.phase
	every := quietEvery
	if p.live {
		every = 100 * time.Millisecond
	}
	now := p.now()
	if !changed && now.Sub(p.last) < every {
		return
	}
	p.phase, p.last = e.Phase+e.Variant, now
	p.show(e, changed)
}

func (p *printer) show(e run.Event, changed bool) {
	switch {
	case e.Phase == "done":
		p.erase()
		p.endGroup()
		fmt.Fprintln(p.out, p.doneLine(e))
	case p.live:
		p.erase()
		fmt.Fprint(p.out, line(e))
		p.drawn = true
	case changed && e.Phase == "prepare":
		p.startGroup(e)
	case e.Phase == "load" && !changed:
		fmt.Fprintln(p.out, "  "+line(e))
	}
}

func (p *printer) startGroup(e run.Event) {
	if p.github {
		fmt.Fprintf(p.out, "::group::%s\n", position(e))
	}
}

func (p *printer) endGroup() {
	if p.github {
		fmt.Fprintln(p.out, "::endgroup::")
	}
}

// erase removes the live line, so that what follows starts a line of its own.
func (p *printer) erase() {
	if p.drawn {
		fmt.Fprint(p.out, "\r\x1b[K")
		p.drawn = false
	}
}

// close leaves the terminal as it was.
func (p *printer) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.erase()
}

func position(e run.Event) string {
	text := fmt.Sprintf("[%d/%d] %s", e.Order+1, e.Total, e.Variant)
	if e.Repeat > 0 {
		text += fmt.Sprintf(" #%d", e.Repeat+1)
	}
	return text
}

func line(e run.Event) string {
	if e.Phase != "load" {
		return position(e) + " " + e.Phase
	}
	text := fmt.Sprintf("%s %s/%s offered %d ok %d refused %d unknown %d dropped %d p99 %s",
		position(e), e.Elapsed.Round(time.Second/10), e.Length.Round(time.Second/10),
		e.Scheduled, e.OK, e.Refused, e.Unknown, e.Dropped, e.P99.Round(10*time.Microsecond))
	if len(e.Faults) > 0 {
		text += " FAULT " + strings.Join(e.Faults, ",")
	}
	return text
}

func (p *printer) doneLine(e run.Event) string {
	text := fmt.Sprintf("%-34s %s", position(e), p.paint(e.Verdict))
	text += fmt.Sprintf("  ok %d, refused %d, unknown %d, dropped %d",
		e.OK, e.Refused, e.Unknown, e.Dropped)
	if e.P99 > 0 {
		text += ", p99 " + e.P99.Round(10*time.Microsecond).String()
	}
	for _, reason := range e.Reasons {
		text += "\n      " + reason
	}
	return text
}

// paint colours a verdict's word.
func (p *printer) paint(verdict string) string { return p.paintAs(verdict, verdict) }

// paintAs colours a word as that of a verdict.
func (p *printer) paintAs(verdict, word string) string {
	if !p.colour {
		return word
	}
	code := map[string]string{"PASS": "32", "FAIL": "31"}[verdict]
	if code == "" {
		code = "33"
	}
	return "\x1b[" + code + "m" + word + "\x1b[0m"
}
