package sim

import "time"

// Usage is what a resource did since the simulation began.
type Usage struct {
	// Name is the resource's, Key that of a lock, if it is about one.
	Name, Key string
	// Pool says that it only hands out, such as connections: what waits for one waits for
	// something behind it.
	Pool bool
	// Servers is how many cores, connections or flushes at a time it has; 0 is no limit.
	Servers int
	// Elapsed is the time that the figures are about.
	Elapsed time.Duration
	// Busy is the time its servers were used, added up: of two cores at most twice the time.
	Busy time.Duration
	// Stolen is the time that Stall took from its servers.
	Stolen time.Duration
	// Queued is how long there was a queue, Waited how long all in it waited, added up.
	Queued, Waited time.Duration
	// Starts counts what it was asked for, Waits those that had to wait.
	Starts, Waits int64
	// Queue is how many wait now, InUse how many servers are used now.
	Queue, InUse int64
}

// Utilisation is the share of the servers' time that was used, from 0 to 1; 0 where there is
// no limit.
func (u Usage) Utilisation() float64 {
	if u.Servers == 0 || u.Elapsed == 0 {
		return 0
	}
	return float64(u.Busy) / float64(u.Elapsed) / float64(u.Servers)
}

// MeanQueue is the mean number that waited.
func (u Usage) MeanQueue() float64 {
	if u.Elapsed == 0 {
		return 0
	}
	return float64(u.Waited) / float64(u.Elapsed)
}

// reporter is a resource that knows what it did.
type reporter interface{ Usage() []Usage }

// Usage is what every resource did, in the order in which they were made.
func (s *Sim) Usage() (all []Usage) {
	for _, r := range s.reports {
		all = append(all, r.Usage()...)
	}
	return all
}

// meter adds up how many servers are used and how many wait. Waits need no times of their
// own: what all waited is the integral of the queue's length (Little, 1961).
type meter struct {
	s                    *Sim
	name                 string
	servers              int
	inUse, queue         int64
	since                time.Duration
	busy, queued, waited time.Duration
	starts, waits        int64
}

// settle adds what has passed since the last change.
func (m *meter) settle() {
	d := m.s.now - m.since
	if d == 0 {
		return
	}
	m.since = m.s.now
	m.busy += d * time.Duration(m.inUse)
	m.waited += d * time.Duration(m.queue)
	if m.queue > 0 {
		m.queued += d
	}
}

// change adds to the servers that are used and to the queue.
func (m *meter) change(inUse, queue int64) {
	m.settle()
	m.inUse += inUse
	m.queue += queue
}

func (m *meter) usage() Usage {
	m.settle()
	return Usage{
		Name: m.name, Servers: m.servers, Elapsed: m.s.now, Busy: m.busy, Queued: m.queued,
		Waited: m.waited, Starts: m.starts, Waits: m.waits, Queue: m.queue, InUse: m.inUse,
	}
}

// Usage is what the resource did.
func (m *meter) Usage() []Usage { return []Usage{m.usage()} }
