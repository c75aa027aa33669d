package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
)

var errInterrupted = errors.New("interrupted")

// interrupts turns signals into two contexts. The first signal cancels soft:
// arrivals stop, what happened is judged and reported, everything is stopped
// in order. The second ends the process at once; what it started dies with
// it.
type interrupts struct {
	soft, hard context.Context
	code       atomic.Int32
	signals    chan os.Signal
	cancel     context.CancelFunc
	// onSecond runs before the process ends on a second signal.
	onSecond atomic.Pointer[func()]
}

// catchSignals starts listening for SIGINT and SIGTERM. It is called before
// anything else is started.
func catchSignals() *interrupts {
	i := &interrupts{signals: make(chan os.Signal, 4)}
	hard, cancelHard := context.WithCancel(context.Background())
	soft, cancelSoft := context.WithCancelCause(hard)
	i.soft, i.hard, i.cancel = soft, hard, cancelHard
	signal.Notify(i.signals, os.Interrupt, syscall.SIGTERM)
	go i.listen(cancelSoft)
	return i
}

func (i *interrupts) listen(cancelSoft context.CancelCauseFunc) {
	for sig := range i.signals {
		if i.code.Load() != 0 {
			if f := i.onSecond.Load(); f != nil {
				(*f)()
			}
			os.Exit(int(i.code.Load()))
		}
		code := int32(exitInterrupted)
		if sig == syscall.SIGTERM {
			code = exitTerminated
		}
		i.code.Store(code)
		cancelSoft(errInterrupted)
	}
}

// beforeExit sets what runs before the process ends on a second signal.
func (i *interrupts) beforeExit(f func()) { i.onSecond.Store(&f) }

// exit returns the exit code of the first signal, 0 if there was none.
func (i *interrupts) exit() int { return int(i.code.Load()) }

func (i *interrupts) stop() {
	signal.Stop(i.signals)
	close(i.signals)
	i.cancel()
}
