package fault

import (
	"sync"
	"time"

	"stampede/harness/sut"
)

// Joint lets several schedules that run at the same time on the same stores break them
// once: what is done to the processes of a store is done to all who use it, and so is
// what is done to the proxies before brokers. The zero value is ready for use; a nil one
// is that of a schedule that runs alone.
type Joint struct {
	mu   sync.Mutex
	made map[int]*joined
}

// joined is one injection for all schedules.
type joined struct {
	once  sync.Once
	in    *Injection
	start time.Duration
	err   error
}

// shared says that a fault meets all who use its target.
func (f Fault) shared() bool {
	return f.From == "" && f.Target.Store() &&
		(f.Kind.about().process || f.Target.Whole() == sut.Kafka)
}

// inject makes the injection of the fault of a number, or waits for that which another
// schedule makes, and returns it with its start as an offset from the base.
func (j *Joint) inject(
	number int, f Fault, once func() (*Injection, time.Duration, error),
) (*Injection, time.Duration, error) {
	if j == nil || !f.shared() {
		return once()
	}
	j.mu.Lock()
	if j.made == nil {
		j.made = map[int]*joined{}
	}
	if j.made[number] == nil {
		j.made[number] = &joined{}
	}
	one := j.made[number]
	j.mu.Unlock()
	one.once.Do(func() { one.in, one.start, one.err = once() })
	return one.in, one.start, one.err
}
