package views

import (
	"context"
	"fmt"
	"time"

	"stampede/harness/sut"
)

// counterBatch bounds the records of one poll of the counter.
const counterBatch = 20_000

// The places of the counter, in the order of its work.
const (
	placeCounting = "counting" // the sums are made, and not stored
	placeCounted  = "counted"  // the sums are stored, the offsets are not committed
)

// counter adds views up by windows of event time. Sums are stored when a window
// would be over by the clock, and sooner if one video has many; which window a
// view belongs to is its event time's matter alone.
type counter struct {
	member
	params  Params
	every   time.Duration // between two flushes
	flushed time.Time
	buffers map[int32]*buffer
	full    bool // a video has so many views that it is time to store them

	// What a design may do differently: store stores sums and progress, added is called after
	// each view and read after each batch, and when says at what time a view counts.
	store func(ctx context.Context, moves []move, sums []sum) error
	added func(ctx context.Context) error
	read  func(ctx context.Context, s stand) error
	when  func(*Event) (ms int64)
}

// buffer is what was read of a partition and is not stored.
type buffer struct {
	from     stand
	to       int64
	toSource int64
	sums     map[sumKey]int64
	byVideo  map[string]int64
}

type sumKey struct {
	video       string
	windowStart int64
}

// counterRole is the role of the counter.
func counterRole(changes func(*counter)) role {
	return role{
		Name:    "counter",
		Summary: "adds views up by windows of event time and stores the sums",
		Places:  []string{placeCounting, placeCounted},
		Needs:   []sut.Service{},
		Timeout: roleTimeout,
		Do: func(ctx context.Context, st *opened) error {
			return consume(ctx, st.Config, "counter", func(ctx context.Context) (consumer, error) {
				return openCounter(ctx, st, database{st.DB}, 1, "counter", changes)
			})
		},
	}
}

// openCounter opens a counter of a generation. An empty group means that it
// reads every partition itself.
func openCounter(
	ctx context.Context, st *opened, b books, generation int64, group string,
	changes func(*counter),
) (*counter, error) {
	c := newCounter(st, b, generation, changes)
	return c, c.join(ctx, st.Params, topicValid, group)
}

func newCounter(st *opened, b books, generation int64, changes func(*counter)) *counter {
	c := &counter{
		member: member{cfg: st.Config, who: station{stageCounter, generation}, books: b},
		params: st.Params, every: st.Params.clock(st.Params.CountWindow),
		flushed: time.Now(), buffers: make(map[int32]*buffer),
		added: func(context.Context) error { return nil },
		read:  func(context.Context, stand) error { return nil },
		when:  func(e *Event) int64 { return e.TimeMS },
	}
	c.store, c.leaving = c.storeAtOnce, c.hand
	if changes != nil {
		changes(c)
	}
	return c
}

// hand stores what was read of partitions that go, so that their next owner
// need not read it again. What was lost to another owner is that one's.
func (c *counter) hand(ctx context.Context, gone []int32, orderly bool) {
	if orderly {
		if err := c.flush(ctx); err != nil {
			c.cfg.Logger.Warn("views counter: the next owner counts again", "error", err)
			c.drop()
		}
	}
	for _, p := range gone {
		delete(c.buffers, p)
	}
}

// drop forgets what was read and not stored, so that it is read again. One that goes on where
// Kafka's commits say cannot read it again.
func (c *counter) drop() {
	if !c.byCommits {
		clear(c.buffers)
		c.forget()
	}
}

func (c *counter) close(ctx context.Context) {
	c.work.begin()
	if err := c.flush(ctx); err != nil {
		c.cfg.Logger.Warn("views counter: the next owner counts again", "error", err)
	}
	clear(c.buffers) // leaving stores nothing twice
	c.work.end()
	c.leave()
}

// step reads what one poll brings and stores what is due.
func (c *counter) step(ctx context.Context) error {
	wait := min(pollWait, max(time.Millisecond, c.every-time.Since(c.flushed)))
	batches, err := c.poll(ctx, counterBatch, wait)
	defer c.client.AllowRebalance()
	c.work.begin()
	defer c.work.end()
	for _, b := range batches {
		if err == nil {
			err = c.add(ctx, b)
		}
		if s, ok := c.standOf(b.partition); ok && err == nil && c.group != "" {
			err = c.read(ctx, s)
		}
	}
	if err == nil && (c.full || time.Since(c.flushed) >= c.every) {
		err = c.flush(ctx)
	}
	if err != nil {
		c.drop()
	}
	return err
}

// add puts a batch into its partition's buffer.
func (c *counter) add(ctx context.Context, b batch) error {
	for _, r := range b.records {
		buf := c.buffers[b.partition]
		if buf == nil {
			s, ok := c.standOf(b.partition)
			if !ok {
				return nil
			}
			buf = &buffer{from: s, toSource: s.source, sums: make(map[sumKey]int64),
				byVideo: make(map[string]int64)}
			c.buffers[b.partition] = buf
		}
		var e Event
		at, err := decodeView(r.Value, &e)
		if err != nil {
			return fmt.Errorf("at %s/%d/%d: %w", r.Topic, r.Partition, r.Offset, err)
		}
		buf.to = r.Offset + 1
		if at <= buf.toSource {
			continue // it was forwarded before
		}
		buf.toSource = at
		window := c.params.CountWindow.D().Milliseconds()
		buf.sums[sumKey{e.Video, c.when(&e) / window * window}]++
		buf.byVideo[e.Video]++
		c.full = c.full || buf.byVideo[e.Video] >= int64(c.params.FlushAt)
		if err := c.added(ctx); err != nil {
			return err
		}
	}
	return nil
}

// flush stores all buffers.
func (c *counter) flush(ctx context.Context) error {
	c.flushed, c.full = time.Now(), false
	var moves []move
	var sums []sum
	for p, b := range c.buffers {
		moves = append(moves, move{stand: b.from, to: b.to, toSource: b.toSource})
		for k, n := range b.sums {
			sums = append(sums, sum{k.video, k.windowStart, p, n})
		}
	}
	if len(moves) == 0 {
		return nil
	}
	c.cfg.Passed(placeCounting)
	err := c.store(ctx, moves, sums)
	if err == nil {
		c.moved(moves)
		clear(c.buffers)
	}
	return err
}

// storeAtOnce stores sums and progress in one transaction, if nobody else has taken the
// partitions.
func (c *counter) storeAtOnce(ctx context.Context, moves []move, sums []sum) error {
	if err := c.books.counted(ctx, c.who, moves, sums); err != nil {
		return err
	}
	c.cfg.Passed(placeCounted)
	if c.group == "" {
		return nil
	}
	if err := c.commit(ctx, moves); err != nil {
		c.cfg.Logger.Warn("views counter: lag will look larger than it is", "error", err)
	}
	return nil
}
