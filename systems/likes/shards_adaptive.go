package likes

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/twmb/franz-go/pkg/kgo"

	"stampede/harness/stores"
	"stampede/harness/sut"
)

// shardsAdaptive has as many counters as a video is hot, and answers before the log has it.
//
// A video gets more counters when its writes a second exceed what they should take, measured by
// the server. No data moves: writers begin to use the new keys, and readers find their number in
// the video's meta. A like is acknowledged as soon as Redis has it, and waits in a bounded buffer
// for the log; when the buffer is full, likes are refused before they count.
//
// What a server that dies had in its buffer is still in Redis, from where the repairer logs it.
// Redis remembers the last interaction of each user and video: those before it that were in the
// buffer, too, are missing from the list of events.
func shardsAdaptive(in ledgers) variant {
	adaptive := counted{ledger: in, settle: tellWithin,
		layout:   func(p Params) layout { return layout{shards: p.FirstShards, most: p.MaxShards} },
		contract: func(c *Contract, p Params) { c.Ack, c.LossBound = AckBuffer, int64(p.Buffer) },
	}
	v := adaptive.variant()
	v.Name = "shards_adaptive"
	v.Idea = "counters are added to a video as it gets hot, without moving data; Redis acknowledges " +
		"likes, which are logged later"
	v.Guarantees = "a like that is in Redis or in the log reaches the ledger exactly once"
	v.GivesUp = "a bounded number of acknowledged likes if a server and Redis are lost together; if " +
		"only a server is lost, the record of likes that were repeated or taken back since"
	v.Open = func(ctx context.Context, st *opened) (Likes, error) {
		return adaptive.openBuffering(ctx, st)
	}
	return v
}

const (
	// flushTimeout bounds the wait for what is on its way to the log when a server ends.
	flushTimeout = 10 * time.Second
	// produceAgain is the pause before an event is produced again.
	produceAgain = 50 * time.Millisecond
	// tellEvery is how often a server looks whether what it has in its buffer is of an
	// earlier life of Redis.
	tellEvery = 100 * time.Millisecond
	// tellBound bounds one look, whatever Redis has become, and tellWithin is how long
	// a rebuild gives the servers to tell anything at all.
	tellBound  = 250 * time.Millisecond
	tellWithin = 2 * time.Second
)

// buffering is a counting that acknowledges before the log has the interaction.
type buffering struct {
	*counting
	slots chan struct{} // bound what is acknowledged and not yet logged
	lives lives
	// logging are the events in the buffer, telling is tellBuffer. They go on until end.
	logging, telling sync.WaitGroup
	ended            context.Context
	end              context.CancelFunc
}

func (c counted) openBuffering(ctx context.Context, st *opened) (*buffering, error) {
	base, err := c.open(ctx, st)
	if err != nil {
		return nil, err
	}
	b := &buffering{counting: base, slots: make(chan struct{}, st.Params.Buffer),
		lives: lives{held: map[int64]int{}}}
	info, err := st.Redis.Info(ctx, "server").Result()
	if err != nil {
		return nil, stores.Failed("asking Redis for its run_id", err)
	}
	run, err := runID(info)
	if err != nil {
		return nil, err
	}
	b.lives.see(run)
	own, err := b.teller()
	if err != nil {
		return nil, err
	}
	b.ended, b.end = context.WithCancel(context.WithoutCancel(ctx))
	b.telling.Go(func() {
		defer own.Close() // nothing is buffered in it
		b.tellBuffer(b.ended, own)
	})
	return b, nil
}

// Waiting counts what is not logged.
func (b *buffering) Waiting() (left int64, what string) {
	n := len(b.slots)
	return int64(n), fmt.Sprintf("%d interactions wait to be logged", n)
}

// Close waits for what is in the buffer, but not for ever.
func (b *buffering) Close() error {
	done := make(chan struct{})
	go func() { b.logging.Wait(); close(done) }()
	timer := time.NewTimer(flushTimeout)
	defer timer.Stop()
	var err error
	select {
	case <-done:
	case <-timer.C:
		err = fmt.Errorf("%d acknowledged interactions were not logged within %v",
			len(b.slots), flushTimeout)
	}
	b.end()
	<-done
	b.telling.Wait()
	return err
}

// Change takes a place in the buffer, counts, and leaves the rest for later.
func (b *buffering) Change(ctx context.Context, req Request, likes bool) (Change, error) {
	life := b.lives.number()
	if !b.reserve(life) {
		return Change{}, ErrOverloaded
	}
	done, err := b.store.change(ctx, req, likes)
	if err != nil {
		b.release(life)
		return Change{}, err
	}
	b.logging.Add(1)
	b.try(eventOf(req, likes, done), life)
	return Change{done.changed}, nil
}

// reserve takes a place in the buffer for an interaction that is about to be counted
// in a life of Redis, to be filled by try or given up by release. It reports false
// if there is none.
func (b *buffering) reserve(life int64) bool {
	select {
	case b.slots <- struct{}{}:
		b.lives.hold(life, 1)
		return true
	default:
		return false
	}
}

func (b *buffering) release(life int64) {
	b.lives.hold(life, -1)
	<-b.slots
}

// try logs an event in its own time, again and again until the brokers have
// it or the server ends. The place that was reserved is free afterwards.
func (b *buffering) try(e Event, life int64) {
	r, err := b.log.record(e)
	if err != nil {
		b.drop(e, life, err)
		return
	}
	b.Kafka.Produce(b.ended, r, func(_ *kgo.Record, err error) {
		switch {
		case err == nil:
			b.release(life)
			b.logging.Done()
		case b.ended.Err() != nil || errors.Is(err, kgo.ErrClientClosed):
			b.drop(e, life, err)
		default:
			// Versions make it harmless to log an event twice.
			go b.tryAgain(e, life)
		}
	})
}

func (b *buffering) tryAgain(e Event, life int64) {
	if !sut.Pause(b.ended, produceAgain) {
		b.drop(e, life, b.ended.Err())
		return
	}
	b.try(e, life)
}

func (b *buffering) drop(e Event, life int64, err error) {
	b.Config.Warn(fmt.Sprintf("likes: the server ends and operation %d is not logged", e.OpID), err)
	b.release(life)
	b.logging.Done()
}

// lives numbers the lives of Redis that this process has seen, from 0, and counts what is in the
// buffer by the life that it was counted in.
type lives struct {
	mu   sync.Mutex
	run  string
	n    int64
	held map[int64]int
}

func (l *lives) number() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.n
}

// see notes what a new connection was told.
func (l *lives) see(run string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.run != "" && l.run != run {
		l.n++
	}
	l.run = run
}

func (l *lives) hold(life int64, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held[life] += n; l.held[life] == 0 {
		delete(l.held, life)
	}
}

// before counts those of earlier lives.
func (l *lives) before() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for life, some := range l.held {
		if life < l.n {
			n += some
		}
	}
	return n
}

// tellBuffer lets the repairer wait with its rebuild until this server has logged what
// it acknowledged in an earlier life of Redis: the ledger, from which counters are
// rebuilt, has it only then. It returns when ctx is cancelled. A server that sleeps, or
// cannot reach Redis, is not waited for. It has a connection of its own: those of users
// may all wait for a Redis that is gone.
func (b *buffering) tellBuffer(ctx context.Context, own *redis.Client) {
	server, told := strconv.Itoa(b.Config.Replica), false
	for sut.Pause(ctx, tellEvery) {
		// Whoever asks Redis for anything finds out that it is another one.
		if _, err := b.store.buffers(ctx, own, tellBound, ""); err != nil {
			continue
		}
		var err error
		switch old := b.lives.before(); {
		case old > 0:
			_, err = b.store.buffers(ctx, own, tellBound, server)
			told = true
		case told:
			err = own.ZRem(ctx, b.store.prefix+"buffers", server).Err()
			told = err != nil
		}
		if err != nil {
			b.Config.Warn("likes: a server could not tell what is in its buffer", err)
		}
	}
}

// teller makes the client of tellBuffer, which counts the lives of Redis.
func (b *buffering) teller() (*redis.Client, error) {
	opts, err := stores.RedisOptions(b.Config)
	if err != nil {
		return nil, err
	}
	opts.PoolSize, opts.MaxActiveConns = 1, 1
	opts.DialTimeout, opts.PoolTimeout = tellBound, tellBound
	opts.ReadTimeout, opts.WriteTimeout = tellBound, tellBound
	opts.OnConnect = func(ctx context.Context, conn *redis.Conn) error {
		run, err := b.store.connected(ctx, conn)
		if err == nil {
			b.lives.see(run)
		}
		return err
	}
	return redis.NewClient(opts), nil
}
