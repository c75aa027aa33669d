package events

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// FileName is where the events of a run are, in its directory.
const FileName = "events.ndjson"

// How a recorder bounds what it writes.
const (
	// tickEvery is how often the load is told.
	tickEvery = time.Second
	// fineTicks is how many ticks of a repeat come that often when they are kept:
	// after so many seconds each of them lets that share of the time pass.
	fineTicks = 600
	// mostBytes is how much of a run's load is kept in all.
	mostBytes = 32 << 20
	// mostWaiting is how many events wait for a slow disk or reader before the
	// load is no longer told.
	mostWaiting = 1 << 12
)

// Recorder writes events as they happen, one a line. Who tells them never waits
// for the disk or the reader: ticks of the load are left out where they come too
// fast, nothing else is. Its methods may be called from many goroutines.
type Recorder struct {
	out  io.Writer
	kept bool // bounds are those of what is kept, not of a stream

	mu      sync.Mutex
	more    sync.Cond
	waiting []Event
	closed  bool
	next    time.Duration // when the next tick of the load is due
	repeat  Repeat        // whose load it is
	written int64
	err     error
	done    chan struct{}
	lost    chan struct{}
	end     func() error // closes the file of KeepIn
}

// NewRecorder streams events to a reader, with the load once a second. Close it;
// out stays open.
func NewRecorder(out io.Writer) *Recorder { return startRecorder(out, false) }

// KeepIn starts the file of a new run's events, in which the load of a long run
// becomes coarser and the whole bounded.
func KeepIn(path string) (*Recorder, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("record events: %w", err)
	}
	r := startRecorder(file, true)
	r.end = sync.OnceValue(file.Close)
	return r, nil
}

func startRecorder(out io.Writer, kept bool) *Recorder {
	r := &Recorder{out: out, kept: kept, done: make(chan struct{}),
		lost: make(chan struct{})}
	r.more.L = &r.mu
	go r.write()
	return r
}

// Tell adds an event.
func (r *Recorder) Tell(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || e.Load != nil && !r.due(e.Load) {
		return
	}
	r.waiting = append(r.waiting, e)
	r.more.Signal()
}

// due says whether a tick is to be told.
func (r *Recorder) due(t *Tick) bool {
	elapsed := time.Duration(t.ElapsedNS)
	if r.repeat != t.Repeat {
		r.repeat, r.next = t.Repeat, 0
	}
	if elapsed < r.next || len(r.waiting) > mostWaiting || r.kept && r.written > mostBytes {
		return false
	}
	step := tickEvery
	if r.kept {
		step = max(step, elapsed/fineTicks)
	}
	r.next = elapsed.Truncate(step) + step
	return true
}

// write writes what is told until Close.
func (r *Recorder) write() {
	defer close(r.done)
	for {
		r.mu.Lock()
		for len(r.waiting) == 0 && !r.closed {
			r.more.Wait()
		}
		batch := r.waiting
		r.waiting = nil
		r.mu.Unlock()
		if len(batch) == 0 {
			return
		}
		n, err := writeEvents(r.out, batch)
		r.mu.Lock()
		r.written += n
		r.err = errors.Join(r.err, err)
		r.closed = r.closed || err != nil
		r.mu.Unlock()
		if err != nil {
			close(r.lost)
			return
		}
	}
}

// Lost is closed when an event could not be written, and those after it will not be.
func (r *Recorder) Lost() <-chan struct{} { return r.lost }

// writeEvents writes whole lines.
func writeEvents(out io.Writer, batch []Event) (n int64, err error) {
	buffer := bufio.NewWriter(out)
	for i := range batch {
		line, err := json.Marshal(&batch[i])
		if err != nil {
			return n, fmt.Errorf("record events: %w", err)
		}
		// Errors stay until Flush.
		_, _ = buffer.Write(append(line, '\n'))
		n += int64(len(line)) + 1
	}
	if err := buffer.Flush(); err != nil {
		return n, fmt.Errorf("record events: %w", err)
	}
	return n, nil
}

// Close writes what waits, ends the file if it is one of KeepIn, and returns what
// went wrong since the start.
func (r *Recorder) Close() error {
	r.mu.Lock()
	r.closed = true
	r.more.Broadcast()
	r.mu.Unlock()
	<-r.done
	if r.end == nil {
		return r.err
	}
	return errors.Join(r.err, r.end())
}

// Append adds events to a stored run's, after the run.
func Append(path string, added ...Event) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return fmt.Errorf("record events: %w", err)
	}
	_, err = writeEvents(file, added)
	return errors.Join(err, file.Close())
}
