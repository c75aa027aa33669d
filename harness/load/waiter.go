package load

import (
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

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

// futexWaiter sleeps in the kernel until an absolute time of CLOCK_MONOTONIC.
//
// Go's own timers wake up to a millisecond late when the process is idle
// (golang/go#44343), which would be most of the latency of a fast system.
// futex(FUTEX_WAIT_BITSET) takes an absolute deadline and arms the same
// high-resolution timer as clock_nanosleep(TIMER_ABSTIME) does, and unlike
// that it can be woken from another thread. The timer slack, by which the
// kernel may delay a wake-up to save power, is set to its minimum.
type futexWaiter struct {
	word   atomic.Uint32 // counts wakes
	offset time.Duration // CLOCK_MONOTONIC minus the run's clock
}

// The operations of futex(2), from linux/futex.h.
const (
	futexWake       = 1
	futexWaitBitset = 9
	futexPrivate    = 128
	futexAny        = 0xffffffff
)

func newWaiter(now func() time.Duration) waiter {
	return &futexWaiter{offset: clockOffset(now)}
}

// clockOffset compares the two clocks, which are the same but for their zero:
// the tightest of a few readings is right to well under a microsecond.
func clockOffset(now func() time.Duration) time.Duration {
	const readings = 16
	best, offset := time.Duration(1<<62), time.Duration(0)
	for range readings {
		before := now()
		var ts unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
			panic("load: CLOCK_MONOTONIC cannot be read: " + err.Error()) // cannot happen on Linux
		}
		after := now()
		if after-before < best {
			best = after - before
			offset = time.Duration(ts.Nano()) - before - best/2
		}
	}
	return offset
}

func (f *futexWaiter) ticket() uint32 { return f.word.Load() }

func (f *futexWaiter) wait(ticket uint32, until time.Duration) {
	// The slack belongs to the thread, which may be another one each time.
	// Failing that, wake-ups are 50 µs later on average, which the pacer's lag
	// then shows.
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	ts := unix.NsecToTimespec(int64(until + f.offset))
	for {
		_, _, errno := unix.Syscall6(unix.SYS_FUTEX,
			uintptr(unsafe.Pointer(&f.word)), futexWaitBitset|futexPrivate, uintptr(ticket),
			uintptr(unsafe.Pointer(&ts)), 0, futexAny)
		// EINTR is a signal, such as the Go scheduler's; everything else is a
		// wake (0), a wake before the sleep (EAGAIN) or the deadline
		// (ETIMEDOUT), all of which the caller tells apart by looking.
		if errno != unix.EINTR {
			return
		}
	}
}

func (f *futexWaiter) wake() {
	f.word.Add(1)
	_, _, _ = unix.Syscall6(unix.SYS_FUTEX,
		uintptr(unsafe.Pointer(&f.word)), futexWake|futexPrivate, 1, 0, 0, 0)
}
