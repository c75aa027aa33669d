package main

import (
	"cmp"
	"os"

	"golang.org/x/sys/unix"

	"stampede/harness/events"
	"stampede/harness/run"
	"stampede/reports/words"
)

// view shows a run's progress. close leaves the terminal as it was, or ends the
// stream, and says what could not be written.
type view interface {
	run.Observer
	// print prints a line of ours as it is, with its colours; Logf takes from a line what
	// a terminal or a log would obey, for it may quote somebody else.
	print(line string)
	close() error
}

// printer shows progress in the way that the user asked for.
type printer struct {
	view
	palette
	// live says that it is a block on a terminal, which is drawn again and again.
	live bool
	// verbose says that details are to be shown.
	verbose bool
	// kept are the stores that were left running.
	kept []run.Place
}

// newPrinter shows progress on standard error. format is pretty, plain, json or
// quiet; the empty one means pretty on a terminal and plain elsewhere. What is
// pretty on no terminal is plain, and what prints its result as JSON is quiet.
func (a *app) newPrinter(format, colour string, verbose bool) *printer {
	p := &printer{palette: palette(wantColour(colour, a.stderr)), verbose: verbose}
	switch {
	case format == "quiet" || format == "json":
		p.view = silence{}
	case format != "plain" && canRedraw(a.stderr):
		p.live = true
		p.view = a.startLive(p.palette)
	default:
		p.view = newPlainView(a.stderr, p.palette, verbose)
	}
	return p
}

// runPrinter shows a run: with --format json as a stream of events on standard
// output.
func (a *app) runPrinter(f runFlags) *printer {
	if f.format == "json" {
		return &printer{view: newStream(a.stdout, a.interrupts.readerGone), verbose: true}
	}
	return a.newPrinter(f.format, f.colour, f.verbose)
}

// detailf prints a line that only --verbose shows.
func (p *printer) detailf(format string, args ...any) {
	if p.verbose {
		p.Logf(format, args...)
	}
}

// silence shows nothing.
type silence struct{}

// Observe shows nothing.
func (silence) Observe(events.Event) {}

// Logf prints nothing.
func (silence) Logf(string, ...any) {}

func (silence) print(string) {}

func (silence) close() error { return nil }

// isTerminal reports whether f is a terminal that understands escapes.
func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	return err == nil && os.Getenv("TERM") != "dumb" && os.Getenv("TERM") != ""
}

// canRedraw reports whether f is a terminal on which somebody looks.
func canRedraw(f *os.File) bool { return isTerminal(f) && os.Getenv("CI") == "" }

// wantColour decides by --color, then NO_COLOR, CLICOLOR_FORCE and
// FORCE_COLOR, of which 0 forces nothing, then the terminal.
func wantColour(flag string, out *os.File) bool {
	switch {
	case flag == "always":
		return true
	case flag == "never", os.Getenv("NO_COLOR") != "":
		return false
	case forces("CLICOLOR_FORCE"), forces("FORCE_COLOR"):
		return true
	}
	return isTerminal(out)
}

// forces reports whether a variable that forces colour is set to do so.
func forces(variable string) bool {
	value := os.Getenv(variable)
	return value != "" && value != "0"
}

// palette paints words, if it is true.
type palette bool

// The codes of what is painted beside verdicts.
const (
	dimCode  = "2"
	boldCode = "1"
	warnCode = "33"
)

// colourOf is the code of a mark's class.
func colourOf(m words.Mark) string {
	code := map[string]string{"good": "32", "bad": "31", "wrong": "35"}[m.Class]
	return cmp.Or(code, warnCode)
}

// paint colours a text.
func (p palette) paint(code, text string) string {
	if !p || code == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}
