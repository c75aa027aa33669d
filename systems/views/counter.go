package views

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
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

// progress says where a counter keeps how far it has come.
type progress uint8

const (
	// withCounts: in the transaction that stores the counts, if nobody else has
	// taken the partition.
	withCounts progress = iota
	// afterCounts: in Kafka, after the counts were stored.
	afterCounts
	// beforeCounts: in Kafka, before the counts are stored.
	beforeCounts
	// unfenced: beside the counts, whoever has taken the partition.
	unfenced
)

// counting is how a design counts.
type counting struct {
	progress progress
	// perEvent stores every view by itself.
	perEvent bool
	// deaf takes no notice when partitions are taken away.
	deaf bool
	// byArrival puts views into the window in which they are read.
	byArrival bool
}

// counter adds views up by windows of event time. Sums are stored when a window
// would be over by the clock, and sooner if one video has many; which window a
// view belongs to is its event time's matter alone.
type counter struct {
	member
	counting
	params  Params
	every   time.Duration // between two flushes
	flushed time.Time
	buffers map[int32]*buffer
	// owed are, of partitions whose progress is in Kafka alone, the offsets up to
	// which all is stored and Kafka does not know it.
	owed map[int32]move
	full bool // a video has so many views that it is time to store them
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
func (d design) counterRole() sut.Role {
	return sut.Role{
		Name:    "counter",
		Summary: "adds views up by windows of event time and stores the sums",
		Places:  []string{placeCounting, placeCounted},
		Run: func(ctx context.Context, cfg sut.Config) error {
			return d.work(ctx, cfg, "counter", func(ctx context.Context, g *gear) (worker, error) {
				return d.newCounter(ctx, g, 1, "counter")
			})
		},
	}
}

// newCounter opens a counter of a generation. An empty group means that it
// reads every partition itself.
func (d design) newCounter(
	ctx context.Context, g *gear, generation int64, group string,
) (*counter, error) {
	c := &counter{
		member:   member{cfg: g.cfg, who: station{stageCounter, generation}, books: g.books},
		counting: d.counting, params: g.params, every: g.params.clock(g.params.CountWindow),
		flushed: time.Now(), buffers: make(map[int32]*buffer), owed: make(map[int32]move),
	}
	if group == "" {
		c.counting = counting{progress: withCounts} // a recount is done right
	}
	c.byCommits = c.counting.progress == afterCounts || c.counting.progress == beforeCounts
	c.leaving = c.hand
	return c, c.join(ctx, g.params, topicValid, group)
}

// hand stores what was read of partitions that go, so that their next owner
// need not read it again. What was lost to another owner is that one's.
func (c *counter) hand(ctx context.Context, gone []int32, orderly bool) {
	if c.deaf {
		return
	}
	if orderly {
		err := errors.Join(c.flush(ctx), c.settle(ctx))
		if err == nil {
			return
		}
		c.cfg.Logger.Warn("views counter: the next owner counts again", "error", err)
		if !c.byCommits {
			clear(c.buffers)
			c.forget()
		}
	}
	for _, p := range gone {
		delete(c.buffers, p)
		delete(c.owed, p)
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
		if s, ok := c.standOf(b.partition); c.perEvent && ok && err == nil && c.who.generation == 1 {
			err = c.commit(ctx, []move{{stand: s, to: s.next}})
		}
	}
	if err == nil && (c.full || time.Since(c.flushed) >= c.every) {
		err = c.flush(ctx)
	}
	if err != nil && !c.byCommits {
		clear(c.buffers)
		c.forget()
	}
	return err
}

// add puts a batch into its partition's buffer.
func (c *counter) add(ctx context.Context, b batch) error {
	s, ok := c.standOf(b.partition)
	if !ok {
		return nil
	}
	for _, r := range b.records {
		buf := c.buffers[b.partition]
		if buf == nil {
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
		when := e.TimeMS
		if c.byArrival {
			when = time.Now().UnixMilli()
		}
		buf.sums[sumKey{e.Video, when / window * window}]++
		buf.byVideo[e.Video]++
		c.full = c.full || buf.byVideo[e.Video] >= int64(c.params.FlushAt)
		if c.perEvent {
			if err := c.flush(ctx); err != nil {
				return err
			}
			if s, ok = c.standOf(b.partition); !ok {
				return nil
			}
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

// store stores sums and progress in the order of the design.
func (c *counter) store(ctx context.Context, moves []move, sums []sum) error {
	switch c.counting.progress {
	case beforeCounts:
		if err := c.commit(ctx, moves); err != nil {
			return err
		}
		c.cfg.Passed(placeCounted)
		return errors.Join(c.books.counts(ctx, c.who, sums), c.books.reports(ctx, c.who, moves))
	case afterCounts:
		if err := c.books.counts(ctx, c.who, sums); err != nil {
			return err
		}
		c.cfg.Passed(placeCounted)
		clear(c.buffers) // whatever becomes of the commit
		for _, m := range moves {
			c.owed[m.partition] = m
		}
		return errors.Join(c.settle(ctx), c.books.reports(ctx, c.who, moves))
	case unfenced:
		if err := c.books.counts(ctx, c.who, sums); err != nil {
			return err
		}
		c.cfg.Passed(placeCounted)
		return c.books.reports(ctx, c.who, moves)
	}
	if err := c.books.counted(ctx, c.who, moves, sums); err != nil {
		return err
	}
	c.cfg.Passed(placeCounted)
	if c.who.generation > 1 || c.perEvent {
		return nil // it has no group, or will commit a batch at once
	}
	if err := c.commit(ctx, moves); err != nil {
		c.cfg.Logger.Warn("views counter: lag will look larger than it is", "error", err)
	}
	return nil
}

// settle tells Kafka what it is owed. It may have refused a commit because the
// group was just being joined.
func (c *counter) settle(ctx context.Context) error {
	if len(c.owed) == 0 {
		return nil
	}
	err := c.commit(ctx, slices.Collect(maps.Values(c.owed)))
	if err == nil {
		clear(c.owed)
	}
	return err
}
