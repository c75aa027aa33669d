package sim

import "time"

// Partition is a producer's queue to one partition of Kafka. A batch is complete once it has
// waited for linger or is full, and leaves when a request may go: with an idempotent producer
// five are under way at most. Until it leaves, more records may join it.
//
// With Poisson arrivals of rate λ, a linger of L, batches without bound and requests that take
// no time, the first record of a batch waits for L and the λL others for half of it:
// the mean is L(1 + λL/2)/(1 + λL).
type Partition struct {
	meter
	linger   time.Duration
	bytes    int64
	open     *Batch
	full     fifo[*Batch]
	timer    *Timer
	requests int64
	// send sends a batch and calls done once it has an answer.
	send func(b *Batch, done func(error))
}

// Batch is records that are sent together.
type Batch struct {
	// Records is how many, Bytes how large they are.
	Records int
	Bytes   int64
	entries []record
	due     bool // it has waited long enough
	doubt   bool // it may be stored, although it was not acknowledged
	number  int64
}

// record is a record of a batch: stored is called at the broker.
type record struct {
	chain  *chain
	stored interface{ stored() }
	more   bool // the chain waits for others after it
}

// NewPartition returns an empty queue.
func NewPartition(
	s *Sim, name string, linger time.Duration, batchBytes int64, inFlight int,
	send func(b *Batch, done func(error)),
) *Partition {
	p := &Partition{
		meter: meter{s: s, name: name, servers: inFlight}, linger: linger, bytes: batchBytes,
		open: &Batch{}, send: send,
	}
	s.reports = append(s.reports, p)
	return p
}

// Produce is a step: a record of so many bytes is sent, and the answer has come.
func (p *Partition) Produce(bytes int64) Step { return Step{of: p, n: bytes} }

func (p *Partition) start(c *chain, bytes int64) bool {
	p.add(record{chain: c}, bytes)
	return false
}

func (*Partition) abandon(*chain) {} // it is sent all the same

func (p *Partition) add(r record, bytes int64) {
	p.starts++
	r.chain.acts()
	p.change(0, 1)
	if p.open.Records > 0 && p.open.Bytes+bytes > p.bytes {
		p.close()
	}
	b := p.open
	b.entries = append(b.entries, r)
	b.Records, b.Bytes = b.Records+1, b.Bytes+bytes
	switch {
	case b.Bytes >= p.bytes:
		p.close()
	case p.linger == 0:
		b.due = true
	case b.Records == 1:
		p.timer = p.s.After(p.linger, func() {
			b.due = true
			p.pump()
		})
	}
	p.pump()
}

// close puts a full batch behind the others.
func (p *Partition) close() {
	if p.timer != nil {
		p.timer.Stop()
	}
	p.full.put(p.open)
	p.open = &Batch{}
}

// pump sends what may be sent.
func (p *Partition) pump() {
	for p.inUse < int64(p.servers) {
		var b *Batch
		switch {
		case p.full.len() > 0:
			b = p.full.take()
		case p.open.due:
			b, p.open = p.open, &Batch{}
		default:
			return
		}
		p.change(1, -int64(b.Records))
		p.requests++
		p.send(b, func(err error) {
			p.change(-1, 0)
			b.answered(err)
			p.pump()
		})
	}
}

// Requests is how many batches have been sent.
func (p *Partition) Requests() int64 { return p.requests }

func (b *Batch) answered(err error) {
	for _, r := range b.entries {
		switch {
		case r.chain.dead:
		case err != nil:
			r.chain.fail(err)
		case r.more:
		default:
			r.chain.wake()
		}
	}
}
