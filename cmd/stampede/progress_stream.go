package main

import (
	"errors"
	"fmt"
	"io"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"stampede/harness/events"
)

// stream tells of a run as events, one JSON object a line.
type stream struct {
	record *events.Recorder
	failed atomic.Bool // that the run failed has been told
	closed chan struct{}
	once   sync.Once
}

// newStream writes to standard output. When its reader has gone, gone is called, once:
// that ends the process for most programs, and a run in an orderly way.
func newStream(out io.Writer, gone func()) *stream {
	signal.Ignore(syscall.SIGPIPE)
	s := &stream{record: events.NewRecorder(out), closed: make(chan struct{})}
	go func() {
		select {
		case <-s.record.Lost():
			gone()
		case <-s.closed:
		}
	}()
	return s
}

// Observe writes an event.
func (s *stream) Observe(e events.Event) {
	if e.RunFailed != nil {
		s.failed.Store(true)
	}
	s.record.Tell(e)
}

// Logf writes a line of text as an event.
func (s *stream) Logf(format string, args ...any) {
	s.tell(events.Event{Log: &events.Line{Text: fmt.Sprintf(format, args...)}})
}

func (s *stream) print(line string) { s.Logf("%s", line) }

func (s *stream) tell(e events.Event) { s.Observe(events.Stamped(e, time.Now())) }

// fail tells why there is no result, unless the run has told it.
func (s *stream) fail(err error) {
	if err != nil && !s.failed.Load() {
		s.tell(events.Event{RunFailed: &events.Failure{Error: err.Error()}})
	}
}

func (s *stream) close() error {
	s.once.Do(func() { close(s.closed) })
	err := s.record.Close()
	if errors.Is(err, syscall.EPIPE) {
		return nil // nobody misses it
	}
	return err
}
