package sim

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Kafka is a broker: the leader of its topics' partitions. acks=all is no flush but a round
// trip to followers.
type Kafka struct {
	component
	// Client is the application's side.
	Client *Client
	// Delivery is for how long a producer sends a batch again that failed, and waits for its answer,
	// before the records count as lost. With 0 it sends a batch once and waits for ever.
	Delivery time.Duration
	machine  KafkaMachine
	cpu      *CPU
	network  time.Duration
	demands  demands
}

func newKafka(s *Sim, m Machine, cpu *CPU, costs map[string]Cost) *Kafka {
	return &Kafka{
		component: component{s: s, name: "kafka"}, machine: m.Kafka, cpu: cpu,
		network: m.Network.Latency.D(), demands: s.demands("kafka", costs),
	}
}

// Kill ends the broker at once. What it has acknowledged it keeps.
func (k *Kafka) Kill() { k.die() }

// Restart starts the broker after a Kill.
func (k *Kafka) Restart() { k.restartAfter(k.machine.Restart.D()) }

// Topic is partitions with records.
type Topic[V any] struct {
	kafka      *Kafka
	partitions []*partition[V]
}

// partition has the records and who reads them.
type partition[V any] struct {
	kafka   *Kafka
	queue   *Partition
	thread  *Threads // the broker has one request of a connection at a time
	records []V
	// Batches are stored in the order in which they were sent, as an idempotent producer's are:
	// turn is the number of the next one, over are later ones that failed, and waiting others.
	sent, turn int64
	over       map[int64]bool
	waiting    map[int64]*chain
	readers    []*Signal // of its consumers
}

// NewTopic returns an empty topic.
func NewTopic[V any](k *Kafka, name string, partitions int) *Topic[V] {
	t := &Topic[V]{kafka: k}
	for i := range partitions {
		of := &partition[V]{kafka: k, over: map[int64]bool{}, waiting: map[int64]*chain{}}
		name := fmt.Sprintf("kafka.%s.%d", name, i)
		of.thread = NewThreads(k.s, name+".requests", 1, k.cpu)
		of.queue = NewPartition(k.s, name, k.machine.Linger.D(),
			int64(k.machine.BatchBytes), k.machine.InFlight, of.send)
		t.partitions = append(t.partitions, of)
	}
	return t
}

// Produce is a step: a record of so many bytes is in a partition, and acknowledged.
func (t *Topic[V]) Produce(partition int, v V, bytes int64) Step {
	return Step{of: &producing[V]{t.partitions[partition], v}, n: bytes}
}

type producing[V any] struct {
	to    *partition[V]
	value V
}

func (r *producing[V]) start(c *chain, bytes int64) bool {
	r.to.queue.add(record{chain: c, stored: r}, bytes)
	return false
}

func (*producing[V]) abandon(*chain) {} // it is sent all the same

func (r *producing[V]) stored() { r.to.records = append(r.to.records, r.value) }

// ProduceAll is Produce for records that are sent one after another and acknowledged when all
// are. It calls stored with the offset of each record once that is in the partition.
func (t *Topic[V]) ProduceAll(
	partition int, list []V, bytes func(V) int64, stored func(v V, offset int),
) Step {
	return Step{of: &producingAll[V]{t.partitions[partition], list, bytes, stored}}
}

type producingAll[V any] struct {
	to    *partition[V]
	list  []V
	bytes func(V) int64
	told  func(v V, offset int)
}

func (r *producingAll[V]) start(c *chain, _ int64) bool {
	for i, v := range r.list {
		one := record{chain: c, stored: &oneOf[V]{r, v}, more: i+1 < len(r.list)}
		r.to.queue.add(one, r.bytes(v))
	}
	return len(r.list) == 0
}

func (*producingAll[V]) abandon(*chain) {} // they are sent all the same

// oneOf is a record of several.
type oneOf[V any] struct {
	of    *producingAll[V]
	value V
}

func (r *oneOf[V]) stored() {
	to := r.of.to
	to.records = append(to.records, r.value)
	r.of.told(r.value, len(to.records)-1)
}

// The pauses before a batch is sent again: kgo's, without their jitter.
const (
	firstAgain = 250 * time.Millisecond
	lastAgain  = 2500 * time.Millisecond
)

// send takes a batch to the broker and its answer back, until the time for its delivery is over.
func (p *partition[V]) send(b *Batch, done func(error)) {
	b.number = p.sent
	p.sent++
	p.attempt(b, p.kafka.s.now+p.kafka.Delivery, firstAgain, done)
}

// attempt sends a batch, and once more after a pause if that fails.
func (p *partition[V]) attempt(
	b *Batch, until, pause time.Duration, done func(error),
) {
	k := p.kafka
	takes := k.demands.optional("request", 1) + k.demands.optional("batch", 1) +
		k.demands.optional("record", float64(b.Records)) +
		k.demands.optional("byte", float64(b.Bytes))
	work := p.thread.Burn(takes)
	work.in = &k.component
	replicate := Step{of: delay{}, in: &k.component}
	if k.machine.Followers > 0 {
		replicate.n = int64(2 * k.network)
	}
	limit := &Timer{}
	end := func(err error) {
		p.pass(b.number) // if it was not stored
		if err != nil && b.doubt {
			err = ErrLost
		}
		done(err)
	}
	request := k.s.chain(func(err error) {
		limit.Stop()
		b.doubt = b.doubt || err != nil && !errors.Is(err, ErrUnreachable)
		if err == nil || k.s.now >= until {
			end(err)
			return
		}
		k.s.After(min(pause, until-k.s.now), func() {
			if k.s.now >= until {
				end(err)
				return
			}
			p.attempt(b, until, min(2*pause, lastAgain), done)
		})
	}, k.Client.SendBytes(b.Bytes), work, replicate, Step{of: (*inTurn[V])(p), in: &k.component},
		Step{of: instant(p.store)}, k.Client.Receive())
	request.batch = b
	if k.Delivery > 0 {
		limit = k.s.After(until-k.s.now, func() { request.fail(ErrLost) })
	}
}

// inTurn waits until all batches that were sent before are stored or have failed.
type inTurn[V any] partition[V]

func (w *inTurn[V]) start(c *chain, _ int64) bool {
	if c.batch.number > w.turn {
		w.waiting[c.batch.number] = c
		return false
	}
	return true
}

func (w *inTurn[V]) abandon(c *chain) { delete(w.waiting, c.batch.number) }

// pass lets the batch after one have its turn.
func (p *partition[V]) pass(number int64) {
	if number < p.turn {
		return
	}
	for p.over[number] = true; p.over[p.turn]; p.turn++ {
		delete(p.over, p.turn)
	}
	if c := p.waiting[p.turn]; c != nil {
		delete(p.waiting, p.turn)
		c.wake()
	}
}

// store makes a batch visible, once however often it was sent.
func (p *partition[V]) store(c *chain, _ int64) {
	if c.batch.number < p.turn {
		return
	}
	for _, r := range c.batch.entries {
		r.stored.stored()
	}
	p.pass(c.batch.number)
	for _, reader := range p.readers {
		for reader.Wake() { // everybody
		}
	}
}

// Records are those of a partition, in order.
func (t *Topic[V]) Records(partition int) []V { return t.partitions[partition].records }

// Consumer reads partitions for a group: it polls, works and commits its positions. After a
// crash the group's next one begins at the committed positions, so that records come again.
type Consumer[V any] struct {
	kafka   *Kafka
	of      []*reading[V]
	next    int // of them it is that is fetched from first
	arrived *Signal
	from    time.Duration // before it, the group has not noticed the crash
}

// reading is how far a consumer is in a partition.
type reading[V any] struct {
	*partition[V]
	number, position, taken, committed int
	// sent is what the broker has answered the last fetch with: it is taken when that arrives.
	sent int
}

// Consumer returns a reader of some partitions that begins at their first records.
func (t *Topic[V]) Consumer(partitions ...int) *Consumer[V] {
	c := &Consumer[V]{kafka: t.kafka, arrived: NewSignal(t.kafka.s)}
	for _, n := range partitions {
		p := t.partitions[n]
		p.readers = append(p.readers, c.arrived)
		c.of = append(c.of, &reading[V]{partition: p, number: n})
	}
	return c
}

// Poll is a step that fetches at most so many records, at least one; it waits for it.
func (c *Consumer[V]) Poll(most int) Step { return Step{of: instant(c.poll), n: int64(most)} }

// PollWithin is Poll for a process that waits no longer than d. What was fetched too late, at the
// instant of the deadline too, is fetched again.
func (c *Consumer[V]) PollWithin(p *Process, d time.Duration, most int) error {
	err := p.Within(d, func() { p.Do(c.Poll(most)) })
	if err != nil {
		for _, r := range c.of {
			r.taken = r.position
		}
	}
	return err
}

// Records are what the last Poll fetched.
func (c *Consumer[V]) Records() (all []V) {
	if len(c.of) == 1 {
		return c.of[0].fetched()
	}
	for _, p := range c.of {
		all = append(all, p.fetched()...)
	}
	return all
}

func (p *reading[V]) fetched() []V { return p.records[p.position:p.taken] }

// Fetched calls see for each record that the last Poll fetched.
func (c *Consumer[V]) Fetched(see func(partition, offset int, v V)) {
	for _, p := range c.of {
		for i, v := range p.fetched() {
			see(p.number, p.position+i, v)
		}
	}
}

// Committed is the position of a partition that the group has.
func (c *Consumer[V]) Committed(partition int) int { return c.at(partition).committed }

// Seek makes the next Poll go on at an offset.
func (c *Consumer[V]) Seek(partition, offset int) {
	p := c.at(partition)
	p.position, p.taken, p.sent = offset, offset, offset // what is on its way is not taken
}

func (c *Consumer[V]) at(partition int) *reading[V] {
	for _, p := range c.of {
		if p.number == partition {
			return p
		}
	}
	panic(fmt.Sprintf("the consumer does not read partition %d", partition))
}

// Reads says whether the consumer has a partition.
func (c *Consumer[V]) Reads(partition int) bool {
	return slices.ContainsFunc(c.of, func(p *reading[V]) bool { return p.number == partition })
}

// Lag is how many records are not committed.
func (c *Consumer[V]) Lag() (n int) {
	for _, p := range c.of {
		n += len(p.records) - p.committed
	}
	return n
}

// Commit is a step: what the last Poll fetched is done with.
func (c *Consumer[V]) Commit() Step { return Step{of: instant(c.commit)} }

// Crash is the end of the process that reads: the positions are the committed ones again, and
// polls wait until the group has noticed, which takes its session's timeout.
func (c *Consumer[V]) Crash(timeout time.Duration) {
	for _, p := range c.of {
		p.position, p.taken, p.sent = p.committed, p.committed, p.committed
	}
	c.from = c.kafka.s.now + timeout
}

// Fetch polls until records have come, as a client does that hides its errors: no request waits
// longer than limit for its answer.
func (c *Consumer[V]) Fetch(p *Process, most int, limit time.Duration) {
	for {
		err := c.PollWithin(p, limit, most)
		if err == nil {
			return
		}
		if !errors.Is(err, ErrDeadline) {
			p.Do(p.s.Delay(firstAgain))
		}
	}
}

func (c *Consumer[V]) poll(ch *chain, most int64) {
	k := c.kafka
	for _, p := range c.of {
		p.position = p.taken
	}
	in := &k.component
	fetch := instant(func(*chain, int64) { c.fetch(int(most)) })
	ch.push(Step{of: delay{}, n: int64(max(c.from-k.s.now, 0))}, k.Client.Send(),
		Step{of: (*available[V])(c), in: in},
		Step{of: k.cpu, n: int64(k.demands.optional("fetch", 1)), in: in},
		Step{of: fetch, in: in}, k.Client.Receive(), Step{of: instant(c.take)})
}

// take is the arrival of what was fetched. A poll that was given up before has no effect.
func (c *Consumer[V]) take(*chain, int64) {
	for _, p := range c.of {
		p.taken = p.sent
	}
}

// fetch takes records, from another partition first each time.
func (c *Consumer[V]) fetch(most int) {
	for i := range c.of {
		p := c.of[(c.next+i)%len(c.of)]
		p.sent = min(len(p.records), p.position+most)
		most -= p.sent - p.position
	}
	c.next = (c.next + 1) % len(c.of)
}

func (c *Consumer[V]) commit(ch *chain, _ int64) {
	k := c.kafka
	mark := instant(func(*chain, int64) {
		for _, p := range c.of {
			p.committed, p.position = p.taken, p.taken
		}
	})
	k.ask(ch, mark)
}

// Ask is a step: a request without records, such as for offsets.
func (k *Kafka) Ask() Step {
	return Step{of: instant(func(ch *chain, _ int64) { k.ask(ch, func(*chain, int64) {}) })}
}

func (k *Kafka) ask(ch *chain, do instant) {
	ch.push(k.Client.Send(),
		Step{of: k.cpu, n: int64(k.demands.optional("request", 1)), in: &k.component},
		Step{of: do}, k.Client.Receive())
}

// available waits for a record.
type available[V any] Consumer[V]

func (w *available[V]) start(c *chain, _ int64) bool {
	for _, p := range w.of {
		if p.position < len(p.records) {
			return true
		}
	}
	return w.arrived.start(c, 0)
}

func (w *available[V]) abandon(c *chain) { w.arrived.abandon(c) }
