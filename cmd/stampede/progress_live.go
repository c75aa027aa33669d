package main

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"stampede/harness/events"
	"stampede/harness/plain"
)

// Escapes of terminals (ECMA-48, and DEC's for the cursor).
const (
	hideCursor = "\x1b[?25l"
	showCursor = "\x1b[?25h"
	eraseRight = "\x1b[K"
	eraseBelow = "\x1b[J"
)

// The block is drawn at most every drawEvery, and when nothing happens every
// redrawEvery, for its clocks.
const (
	drawEvery   = time.Second / 10
	redrawEvery = time.Second
)

// liveView shows a run as a block at the bottom of a terminal, which a goroutine
// draws: a terminal that takes nothing holds up nobody but that.
type liveView struct {
	palette
	out      io.Writer
	size     func() (columns, rows int)
	now      func() time.Time
	stopping func() bool // the user has interrupted the run

	mu       sync.Mutex // guards what is to be shown
	progress events.Progress
	lines    []string // to be printed above the block
	changed  bool

	screen sync.Mutex // guards what is on the terminal
	hidden bool       // the cursor
	drawn  []int      // how many columns each line of the block has
	last   time.Time

	stop    chan struct{}
	stopped sync.WaitGroup
	once    sync.Once
}

// startLive draws on standard error until close.
func (a *app) startLive(p palette) *liveView {
	v := &liveView{palette: p, out: a.stderr, now: time.Now, stop: make(chan struct{}),
		size:     func() (int, int) { return terminalSize(a.stderr) },
		stopping: func() bool { return a.interrupts.soft.Err() != nil }}
	a.interrupts.beforeExit(v.restore)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGQUIT, syscall.SIGTSTP)
	v.stopped.Go(func() {
		defer signal.Stop(signals)
		v.run(signals)
	})
	return v
}

// terminalSize is the size of a terminal, 80 by 24 where it does not know.
func terminalSize(f *os.File) (columns, rows int) {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil || size.Col == 0 || size.Row == 0 {
		return 80, 24
	}
	return int(size.Col), int(size.Row)
}

// run draws until the view is closed. Before a signal that ends or suspends the
// process, Ctrl-\ or Ctrl-Z, it gives the terminal back; so it does before a panic.
func (v *liveView) run(signals chan os.Signal) {
	defer func() {
		if p := recover(); p != nil {
			v.restore()
			panic(p)
		}
	}()
	tick := time.NewTicker(drawEvery)
	defer tick.Stop()
	for {
		select {
		case <-v.stop:
			return
		case <-tick.C:
			if v.wanted() {
				v.draw(false)
			}
		case sig := <-signals:
			v.leave()
			signal.Reset(sig)
			_ = syscall.Kill(os.Getpid(), sig.(syscall.Signal)) // us: it cannot fail
			signal.Notify(signals, sig)
		}
	}
}

// leave gives the terminal back for now: the next block is drawn below this one.
func (v *liveView) leave() {
	v.screen.Lock()
	defer v.screen.Unlock()
	if v.hidden {
		_, _ = io.WriteString(v.out, showCursor)
	}
	v.hidden, v.drawn = false, nil
}

// wanted says whether there is something new to draw.
func (v *liveView) wanted() bool {
	v.screen.Lock()
	last := v.last
	v.screen.Unlock()
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.changed || v.progress.Plan != nil && v.now().Sub(last) >= redrawEvery
}

// Observe takes an event in.
func (v *liveView) Observe(e events.Event) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.progress.Add(e)
	v.changed = true
}

// Logf prints lines above the block. Those that are wider than the terminal are broken at
// their words.
func (v *liveView) Logf(format string, args ...any) {
	columns, _ := v.size()
	for line := range strings.Lines(plain.Lines(fmt.Sprintf(format, args...)) + "\n") {
		line = strings.TrimSuffix(line, "\n")
		if utf8.RuneCountInString(line) <= columns {
			v.print(line)
			continue
		}
		indent := line[:len(line)-len(strings.TrimLeft(line, " "))]
		for _, part := range plain.Wrap(line, max(1, columns-len(indent))) {
			v.print(indent + part)
		}
	}
}

func (v *liveView) print(line string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.lines = append(v.lines, line)
	v.changed = true
}

// close draws what has not been drawn and gives the terminal back. The block of a
// run that came to its end goes, because its result is printed; what an unfinished
// run had found stays.
func (v *liveView) close() error {
	v.once.Do(func() {
		close(v.stop)
		v.stopped.Wait()
		v.draw(true)
	})
	return nil
}

// restore shows the cursor again, whatever else is going on: the process ends.
func (v *liveView) restore() {
	if v.screen.TryLock() {
		if !v.hidden {
			return
		}
		v.hidden = false
	}
	_, _ = io.WriteString(v.out, "\r\n"+showCursor)
}

// draw prints the lines that wait and the block, in one piece. The last time it
// leaves the cursor where it belongs.
func (v *liveView) draw(last bool) {
	v.screen.Lock()
	defer v.screen.Unlock()
	columns, rows := v.size()
	v.last = v.now()
	v.mu.Lock()
	lines, block := v.lines, []text(nil)
	if v.progress.Plan != nil && !(last && v.progress.Judged != nil) {
		block = blockOf(&v.progress, v.last, rows-1, v.stopping())
	}
	v.lines, v.changed = nil, false
	v.mu.Unlock()

	frame := &strings.Builder{}
	if !v.hidden && len(block) > 0 && !last {
		frame.WriteString(hideCursor)
		v.hidden = true
	}
	frame.WriteString(v.toTop(columns))
	for i, line := range lines {
		if i == 0 {
			frame.WriteString(eraseBelow)
		}
		frame.WriteString(line + "\n")
	}
	v.drawn = nil
	for _, line := range block {
		// One column stays free: a full line would wrap.
		line = line.cut(columns - 1)
		frame.WriteString(line.paint(v.palette) + eraseRight + "\n")
		v.drawn = append(v.drawn, line.width())
	}
	frame.WriteString(eraseBelow)
	if last && v.hidden {
		frame.WriteString(showCursor)
		v.hidden = false
	}
	// Where the terminal is gone there is nobody to tell.
	_, _ = io.WriteString(v.out, frame.String())
}

// toTop moves the cursor to where the block begins. Lines that were drawn on a wider
// terminal have been wrapped since.
func (v *liveView) toTop(columns int) string {
	up := 0
	for _, width := range v.drawn {
		up += max(1, (width+columns-1)/columns)
	}
	if up == 0 {
		return ""
	}
	return fmt.Sprintf("\r\x1b[%dA", up)
}
