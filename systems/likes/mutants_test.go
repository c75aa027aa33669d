package likes

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"stampede/harness/check"
	"stampede/harness/stores"
	"stampede/harness/suttest"
)

// mutant is a planted error: what it is planted in, the fault under which it
// shows, and the invariants that name it.
type mutant struct {
	name    string
	control making
	plant   func(making) making
	params  func(*Params)
	faults  func(*bubble)
	named   []string
}

// planted replaces what users call.
func planted[T Likes](replace func(T) Likes) func(making) making {
	return func(d making) making {
		return func(in ledgers) variant {
			v := d(in)
			open := v.Open
			v.Open = func(ctx context.Context, st *opened) (Likes, error) {
				l, err := open(ctx, st)
				if err != nil {
					return nil, err
				}
				return replace(l.(T)), nil
			}
			return v
		}
	}
}

func mutants() []mutant {
	none := func(*bubble) {}
	return []mutant{
		{
			name: "M20 read-modify-write of a shard", control: shardsFixed,
			plant:  planted(func(c *counting) Likes { return getSet{c} }),
			params: func(p *Params) { p.Shards = 1 },
			faults: none, named: []string{CountInBounds, StoresAgree},
		},
		{
			name: "M21 increment without a look at the set", control: redisKey,
			plant:  planted(func(c *counting) Likes { return blind{c} }),
			params: func(p *Params) { p.ClickTwice, p.Unlike = 0, 0 },
			faults: func(b *bubble) {
				b.during("lost-ack redis", 300*time.Millisecond, time.Second, b.toRedis.Silence)
			},
			named: []string{OneLike},
		},
		{
			name: "M22 offset committed before apply", control: redisKey,
			plant: func(making) making { return redisCommitFirst },
			faults: func(b *bubble) {
				b.mu.Lock()
				defer b.mu.Unlock()
				b.crashes[PlaceBetween] = 5
			},
			named: []string{AppliedFirst, LedgerIsLog},
		},
		{
			name: "M23 sum over the shards of a moment ago", control: shardsAdaptive,
			plant:  planted(func(b *buffering) Likes { return shortSum{b} }),
			params: func(p *Params) { p.FirstShards, p.Buffer = 2, 1000 },
			faults: none, named: []string{CountInBounds},
		},
		{
			name: "M24 a full buffer drops silently", control: shardsAdaptive,
			plant:  planted(func(b *buffering) Likes { return dropping{b} }),
			params: func(p *Params) { p.Buffer = 5 },
			// Redis, from where the repairer would log them, is lost too.
			faults: func(b *bubble) {
				b.during("pause kafka", 200*time.Millisecond, 1500*time.Millisecond, func() (heal func()) {
					heal = b.toKafka.Stall()
					b.during("kill redis wipe", 900*time.Millisecond, 100*time.Millisecond, b.wipe)
					return heal
				})
			},
			named: []string{AckedDurable},
		},
	}
}

// TestMutants: each planted error is named by its invariants within a few seeds,
// and what it was planted in is not, under the same seeds and faults.
func TestMutants(t *testing.T) {
	for _, m := range mutants() {
		t.Run(m.name, func(t *testing.T) {
			suttest.Killed(t, m.named,
				func(seed uint64) map[string]check.Verdict { return m.live(t, m.control, seed) },
				func(seed uint64) map[string]check.Verdict { return m.live(t, m.plant(m.control), seed) })
		})
	}
}

// live runs a design with a seed under the mutant's fault.
func (m mutant) live(t *testing.T, d making, seed uint64) (verdicts map[string]check.Verdict) {
	t.Helper()
	suttest.InBubble(t, func(t *testing.T) {
		p := bubbleParams()
		if m.params != nil {
			m.params(&p)
		}
		b := newBubble(t, seed, p)
		verdicts = b.live(d, nil, 100, func() { m.faults(b) })
		b.tell()
	})
	return verdicts
}

// getSet reads a counter and writes it back.
type getSet struct{ *counting }

func (m getSet) Change(ctx context.Context, req Request, likes bool) (Change, error) {
	where := m.store.writing(req)
	counter := where.keys[2]
	where.keys[2] = counter + ":elsewhere"
	answer, err := m.store.script.change.Run(ctx, m.store.rdb, where.keys,
		where.args(req.User, likes, req.OpID)...).Slice()
	if err != nil {
		return Change{}, stores.Failed("counting in Redis", err)
	}
	done, _, err := m.store.decode(ctx, req, where.keys[0], answer)
	if err != nil {
		return Change{}, err
	}
	if done.changed {
		n, err := m.store.rdb.Get(ctx, counter).Int64()
		if err != nil && !errors.Is(err, redis.Nil) {
			return Change{}, stores.Unknown("reading a counter", err)
		}
		step := int64(1)
		if !likes {
			step = -1
		}
		if err := m.store.rdb.Set(ctx, counter, n+step, 0).Err(); err != nil {
			return Change{}, stores.Unknown("writing a counter", err)
		}
	}
	return Change{done.changed}, m.log.append(ctx, eventOf(req, likes, done))
}

// blind counts whether the user likes the video already or not.
type blind struct{ *counting }

func (m blind) Change(ctx context.Context, req Request, likes bool) (Change, error) {
	if !likes {
		return m.counting.Change(ctx, req, likes)
	}
	done, err := m.store.change(ctx, req, true)
	if err == nil && !done.changed {
		done.changed, err = true, m.store.rdb.Incr(ctx, m.store.writing(req).keys[2]).Err()
	}
	if err != nil {
		return Change{}, err
	}
	return Change{done.changed}, m.log.append(ctx, eventOf(req, true, done))
}

// shortSum sums up as many counters as there were at first.
type shortSum struct{ *buffering }

func (m shortSum) Count(ctx context.Context, req CountRequest) (Count, error) {
	count, _, err := m.store.sum(ctx, req.Video, int64(m.store.layout.shards))
	return count, err
}

// dropping does not log what the buffer has no room for.
type dropping struct{ *buffering }

func (m dropping) Change(ctx context.Context, req Request, likes bool) (Change, error) {
	change, err := m.buffering.Change(ctx, req, likes)
	if !likes || !errors.Is(err, ErrOverloaded) {
		return change, err
	}
	done, err := m.store.change(ctx, req, true)
	return Change{done.changed}, err
}
