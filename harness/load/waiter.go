package load

import "time"

// waiter is how the pacer sleeps until a moment of the run's clock, so that
// another goroutine can wake it: for a follow-up that is due earlier, for the
// end of the last operation, or to stop.
//
// A wake is never lost: wait returns at once if there was a wake after the
// ticket was taken, so the caller takes a ticket first, then looks at what
// there is to do, then waits.
type waiter interface {
	// ticket and wait are called by the pacer.
	ticket() uint32
	wait(ticket uint32, until time.Duration)
	// wake is called from any goroutine.
	wake()
}

// timerWaiter waits with a Go timer: portable, under virtual time too, but up
// to a millisecond late.
type timerWaiter struct {
	now   func() time.Duration
	woken chan struct{} // one token while there was a wake since the last wait
}

func newTimerWaiter(now func() time.Duration) waiter {
	return &timerWaiter{now: now, woken: make(chan struct{}, 1)}
}

// ticket needs no number: the token outlives the time between ticket and wait.
func (t *timerWaiter) ticket() uint32 {
	select {
	case <-t.woken:
	default:
	}
	return 0
}

func (t *timerWaiter) wait(_ uint32, until time.Duration) {
	timer := time.NewTimer(until - t.now())
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.woken:
	}
}

func (t *timerWaiter) wake() {
	select {
	case t.woken <- struct{}{}:
	default:
	}
}
