package sim

import "time"

// Log is a write-ahead log with group commit: one flush at a time, and those that come during
// one share the next (DeWitt and others, Implementation techniques for main memory database
// systems, 1984).
//
// With Poisson arrivals of rate λ and a fixed flush time f, let a = λf. A flush is met by a
// commits on average, and followed with probability e⁻ᵃ by one that finds none: a share of
// a·eᵃ/(1 + a·eᵃ) of the commits waits for half a flush before its own, and the mean is
// f + f/2 · a·eᵃ/(1 + a·eᵃ).
type Log struct {
	meter
	flush         func(commits int) time.Duration
	busy          bool
	group, coming []entry
	flushes       int64
	life          int64 // flushes of an earlier one end no more
	in            *component
}

// entry is a commit. Its transaction, if any, ends when it is on disk, even if its chain is
// gone.
type entry struct {
	chain *chain
	tx    *tx
}

// NewLog returns a log whose flush of some commits takes what the function says.
func NewLog(s *Sim, name string, flush func(commits int) time.Duration) *Log {
	l := &Log{meter: meter{s: s, name: name, servers: 1}, flush: flush}
	s.reports = append(s.reports, l)
	return l
}

// Commit is a step that is done when what was appended before is on disk.
func (l *Log) Commit() Step { return Step{of: l} }

// Flushes is how many flushes have begun.
func (l *Log) Flushes() int64 { return l.flushes }

func (l *Log) start(c *chain, _ int64) bool {
	l.add(entry{c, nil})
	return false
}

func (l *Log) abandon(*chain) {} // it is flushed all the same

func (l *Log) add(e entry) {
	l.starts++
	if l.busy {
		l.waits++
	}
	l.change(0, 1)
	l.coming = append(l.coming, e)
	if !l.busy {
		l.next()
	}
}

// next begins a flush of those that have come.
func (l *Log) next() {
	l.group, l.coming, l.busy = l.coming, l.group[:0], true
	l.change(1, -int64(len(l.group)))
	l.flushes++
	l.s.schedule(l.s.now+l.flush(len(l.group)), flushed{l, l.life})
}

// flushed is the end of a flush.
type flushed struct {
	log  *Log
	life int64
}

func (f flushed) happen() {
	l := f.log
	switch {
	case f.life != l.life:
	case l.in != nil && l.in.paused:
		l.in.held = append(l.in.held, f)
	default:
		l.end()
	}
}

func (l *Log) end() {
	l.change(-1, 0)
	for i, e := range l.group {
		if e.tx != nil {
			e.tx.end(true)
		}
		if !e.chain.dead {
			e.chain.wake()
		}
		l.group[i] = entry{}
	}
	l.group = l.group[:0]
	if l.busy = false; len(l.coming) > 0 {
		l.next()
	}
}

// reset forgets everything, and returns what was being flushed and what waited for it.
func (l *Log) reset() (flushing, coming []entry) {
	flushing, coming = l.group, l.coming
	l.change(-l.inUse, -l.queue)
	l.group, l.coming, l.busy = nil, nil, false
	l.life++
	return flushing, coming
}
