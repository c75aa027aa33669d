package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

var (
	errInterrupted = errors.New("interrupted")
	errReaderGone  = errors.New("interrupted: the event reader closed its pipe")
)

// interrupts turns signals into two contexts. The first signal, or the end of
// the time that the user allows, cancels soft: arrivals stop, what happened is
// judged and reported, everything is stopped in order. The second ends the
// process at once; what it started dies with it.
type interrupts struct {
	soft, hard context.Context
	code       atomic.Int32
	signals    chan os.Signal
	cancel     context.CancelFunc
	stopSoft   context.CancelCauseFunc

	mu       sync.Mutex
	onSecond []func() // run before the process ends on a second signal
}

// catchSignals starts listening for SIGINT and SIGTERM. It is called before
// anything else is started.
func catchSignals() *interrupts {
	i := &interrupts{signals: make(chan os.Signal, 4)}
	hard, cancelHard := context.WithCancel(context.Background())
	soft, cancelSoft := context.WithCancelCause(hard)
	i.soft, i.hard, i.cancel, i.stopSoft = soft, hard, cancelHard, cancelSoft
	signal.Notify(i.signals, os.Interrupt, syscall.SIGTERM)
	go i.listen()
	return i
}

func (i *interrupts) listen() {
	for sig := range i.signals {
		code := int32(exitInterrupted)
		if sig == syscall.SIGTERM {
			code = exitTerminated
		}
		if !i.first(code, errInterrupted) {
			i.mu.Lock() // for ever: there is nothing after this
			for _, f := range i.onSecond {
				f()
			}
			os.Exit(int(i.code.Load()))
		}
	}
}

// first interrupts what is going on, if nothing has before.
func (i *interrupts) first(code int32, why error) bool {
	if !i.code.CompareAndSwap(0, code) {
		return false
	}
	i.stopSoft(why)
	return true
}

// readerGone interrupts what is going on because nobody reads what it tells.
func (i *interrupts) readerGone() { i.first(exitInterrupted, errReaderGone) }

// after interrupts what is going on when so much time has passed, as a first
// Ctrl-C does. The returned function calls it off.
func (i *interrupts) after(limit time.Duration) (callOff func()) {
	timer := time.AfterFunc(limit, func() {
		i.first(exitInterrupted, fmt.Errorf("stopped after %s (--timeout)", limit))
	})
	return func() { timer.Stop() }
}

// beforeExit adds what runs before the process ends on a second signal.
func (i *interrupts) beforeExit(f func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.onSecond = append(i.onSecond, f)
}

// exit returns the exit code of the first interruption, 0 if there was none.
func (i *interrupts) exit() int { return int(i.code.Load()) }

func (i *interrupts) stop() {
	signal.Stop(i.signals)
	close(i.signals)
	i.cancel()
}
