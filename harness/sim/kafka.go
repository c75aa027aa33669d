package sim

import (
	"fmt"
	"time"
)

// Kafka is a broker: the leader of its topics' partitions. acks=all is no flush but a round
// trip to followers.
type Kafka struct {
	component
	// Client is the application's side.
	Client  *Client
	machine KafkaMachine
	cpu     *CPU
	network time.Duration
	demands demands
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
	arrived *Signal
}

// NewTopic returns an empty topic.
func NewTopic[V any](k *Kafka, name string, partitions int) *Topic[V] {
	t := &Topic[V]{kafka: k}
	for i := range partitions {
		of := &partition[V]{kafka: k, arrived: NewSignal(k.s)}
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
	r.to.queue.add(record{c, r}, bytes)
	return false
}

func (*producing[V]) abandon(*chain) {} // it is sent all the same

func (r *producing[V]) stored() { r.to.records = append(r.to.records, r.value) }

// send takes a batch to the broker and its answer back.
func (p *partition[V]) send(b *Batch, done func(error)) {
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
	k.s.chain(done, k.Client.SendBytes(b.Bytes), work, replicate, Step{of: instant(p.store)},
		k.Client.Receive()).batch = b
}

// store makes a batch visible.
func (p *partition[V]) store(c *chain, _ int64) {
	for _, r := range c.batch.entries {
		r.stored.stored()
	}
	for p.arrived.Wake() { // everybody
	}
}

// Consumer reads a partition for a group: it polls, works and commits its position. After a
// crash the group's next one begins at the committed position, so that records come again.
type Consumer[V any] struct {
	of              *partition[V]
	position, taken int
	committed       int
	from            time.Duration // before it, the group has not noticed the crash
}

// Consumer returns a reader that begins at the first record.
func (t *Topic[V]) Consumer(partition int) *Consumer[V] {
	return &Consumer[V]{of: t.partitions[partition]}
}

// Poll is a step that fetches at most so many records, at least one; it waits for it.
func (c *Consumer[V]) Poll(most int) Step { return Step{of: instant(c.poll), n: int64(most)} }

// Records are what the last Poll fetched.
func (c *Consumer[V]) Records() []V { return c.of.records[c.position:c.taken] }

// Lag is how many records are not committed.
func (c *Consumer[V]) Lag() int { return len(c.of.records) - c.committed }

// Commit is a step: what the last Poll fetched is done with.
func (c *Consumer[V]) Commit() Step { return Step{of: instant(c.commit)} }

// Crash is the end of the process that reads: the position is the committed one again, and
// polls wait until the group has noticed, which takes its session's timeout.
func (c *Consumer[V]) Crash(timeout time.Duration) {
	c.position, c.taken = c.committed, c.committed
	c.from = c.of.kafka.s.now + timeout
}

func (c *Consumer[V]) poll(ch *chain, most int64) {
	k := c.of.kafka
	c.position = c.taken
	in := &k.component
	fetch := instant(func(*chain, int64) {
		c.taken = min(len(c.of.records), c.position+int(most))
	})
	ch.push(Step{of: delay{}, n: int64(c.from - k.s.now)}, k.Client.Send(),
		Step{of: (*available[V])(c), in: in},
		Step{of: k.cpu, n: int64(k.demands.optional("fetch", 1)), in: in},
		Step{of: fetch, in: in}, k.Client.Receive())
}

func (c *Consumer[V]) commit(ch *chain, _ int64) {
	k := c.of.kafka
	mark := instant(func(*chain, int64) { c.committed, c.position = c.taken, c.taken })
	ch.push(k.Client.Send(),
		Step{of: k.cpu, n: int64(k.demands.optional("request", 1)), in: &k.component},
		Step{of: mark}, k.Client.Receive())
}

// available waits for a record.
type available[V any] Consumer[V]

func (w *available[V]) start(c *chain, _ int64) bool {
	return w.position < len(w.of.records) || w.of.arrived.start(c, 0)
}

func (w *available[V]) abandon(c *chain) { w.of.arrived.abandon(c) }
