//go:build !linux

package load

import "time"

// newWaiter falls back to Go timers, whose lateness the pacer's lag shows.
func newWaiter(now func() time.Duration) waiter { return newTimerWaiter(now) }
