package likes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	mini "github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"

	"stampede/harness/check"
	"stampede/harness/design"
	"stampede/harness/history"
	"stampede/harness/keys"
	"stampede/harness/stores"
	"stampede/harness/sut"
	"stampede/harness/suttest"
	"stampede/harness/topics"
)

// books are the ledger of a bubble: as postgres, one transaction at a time.
// They survive whoever opens them.
type books struct {
	mu     sync.Mutex
	epochs []int64
	rows   map[pairID]Event
	ops    map[uint64]bool
	next   map[int32]int64
	// gaps counts the batches that were refused.
	gaps int
}

func newBooks(videos int) *books {
	return &books{epochs: slices.Repeat([]int64{1}, videos), rows: map[pairID]Event{},
		ops: map[uint64]bool{}, next: map[int32]int64{}}
}

// memoryLedger is the books as one process reaches them: not when it is dead.
type memoryLedger struct {
	*books
	alive func() error
}

const ledgerDelay = 2 * time.Millisecond

// transaction does something with the books, after the way there.
func (l memoryLedger) transaction(ctx context.Context, do func() error) error {
	sut.Pause(ctx, ledgerDelay)
	if err := errors.Join(ctx.Err(), l.alive()); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return do()
}

func (l memoryLedger) apply(
	ctx context.Context, batch []Event, spans map[int32]span,
) (epochs map[uint64]int64, err error) {
	return epochs, l.transaction(ctx, func() error {
		for partition, s := range spans {
			if s.first > l.next[partition] {
				l.gaps++
				return errGap
			}
		}
		epochs = map[uint64]int64{}
		for _, e := range batch {
			l.ops[e.OpID] = true
			if who := (pairID{e.Video, e.User}); e.Version > l.rows[who].Version {
				l.rows[who] = e
			}
			epochs[e.Video] = l.epochs[e.Video-1]
		}
		for partition, s := range spans {
			l.next[partition] = max(l.next[partition], s.next)
		}
		return nil
	})
}

func (l memoryLedger) applied(ctx context.Context) (next map[int32]int64, err error) {
	return next, l.transaction(ctx, func() error {
		next = maps.Clone(l.next)
		return nil
	})
}

func (l memoryLedger) newEpoch(ctx context.Context, video uint64) (epoch int64, err error) {
	return epoch, l.transaction(ctx, func() error {
		l.epochs[video-1]++
		epoch = l.epochs[video-1]
		return nil
	})
}

func (l memoryLedger) pairs(ctx context.Context, video uint64) (list []pair, err error) {
	return list, l.transaction(ctx, func() error {
		for who, e := range l.rows {
			if who.video == video {
				list = append(list, pair{user: who.user, liked: e.Liked, version: e.Version, op: e.OpID})
			}
		}
		return nil
	})
}

func (l memoryLedger) audit(_ context.Context, videos int) ([]Packed, Packed, error) {
	likers := make([]Packed, videos)
	for i := range likers {
		likers[i] = Packed{}
	}
	for who, e := range l.rows {
		if e.Liked {
			likers[who.video-1] = append(likers[who.video-1], who.user)
		}
	}
	for _, users := range likers {
		slices.Sort(users)
	}
	ops := Packed{}
	for op := range l.ops {
		ops = append(ops, op)
	}
	slices.Sort(ops)
	return likers, ops, nil
}

// bubble is a whole run in virtual time on the variant's own code for Redis and
// Kafka, with a ledger in memory.
type bubble struct {
	*suttest.Bubble
	seed   uint64
	rng    *rand.Rand // of the faults
	ledger *books
	// usersToKafka is on the way of those whom users call only.
	toRedis, toKafka, usersToKafka *suttest.Link
	inst                           *inhabitant
	// lives is how often Redis was started again.
	lives atomic.Int64

	mu sync.Mutex
	// crashes are the passages of fail points at which a role dies.
	crashes map[string]int
	crashed int
}

// errCrash ends a role as a kill would.
var errCrash = errors.New("killed at a fail point")

func newBubble(t *testing.T, seed uint64, p Params) *bubble {
	t.Helper()
	b := &bubble{Bubble: suttest.NewBubble(t, &p, 3), seed: seed,
		rng: rand.New(rand.NewPCG(seed, 3)), ledger: newBooks(p.Videos), toRedis: suttest.NewLink(),
		toKafka: suttest.NewLink(), usersToKafka: suttest.NewLink(), crashes: map[string]int{}}
	tellRun(b.Redis, func() string { return fmt.Sprint("life-", b.lives.Load()) })
	b.Config.FailPoint = b.pass
	b.Config.Dial = choose(b.toRedis.Through(b.Config.Dial), b.toKafka.Through(b.Config.Dial))
	return b
}

// choose dials Redis one way and Kafka another.
func choose(redis, kafka suttest.Dialer) suttest.Dialer {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if suttest.ToRedis(address) {
			return redis(ctx, network, address)
		}
		return kafka(ctx, network, address)
	}
}

// tellRun lets miniredis answer with a run_id, which it does not have.
func tellRun(redis *miniredis.Miniredis, run func() string) {
	redis.Server().SetPreHook(func(c *mini.Peer, cmd string, args ...string) bool {
		if cmd != "INFO" || len(args) != 1 || args[0] != "server" {
			return false
		}
		c.WriteBulk("# Server\r\nrun_id:" + run() + "\r\n")
		return true
	})
}

// pass kills the role that comes to a fail point for the chosen time.
func (b *bubble) pass(place string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.crashes[place] == 0 {
		return
	}
	if b.crashes[place]--; b.crashes[place] == 0 {
		b.crashed++
		panic(errCrash)
	}
}

// making makes a variant with its ledger in a place.
type making func(ledgers) variant

// inhabitant is a variant that is opened without Postgres, as package design opens others.
type inhabitant struct {
	variant variant
	stores  *opened
	likes   Likes
}

// openStores opens the stores of a variant, for users, or for a role.
func openStores(ctx context.Context, v variant, cfg sut.Config) (*opened, error) {
	st := &opened{Config: cfg, Params: *cfg.Params.(*Params)}
	var err error
	options := func(o *redis.Options) { v.Redis(st, o) }
	if st.Redis, err = stores.OpenRedis(ctx, cfg, options); err != nil {
		return nil, err
	}
	if st.Kafka, err = topics.Open(cfg); err != nil {
		return nil, errors.Join(err, st.Redis.Close())
	}
	return st, nil
}

func closeStores(st *opened) {
	st.Kafka.Close()
	_ = st.Redis.Close() // its connections may be closed already
}

func (i *inhabitant) pending(ctx context.Context) (int64, error) {
	waiting := int64(0)
	if w, is := i.likes.(design.Waiter); is {
		waiting, _ = w.Waiting()
	}
	left, _, err := i.variant.State.Pending(ctx, i.stores)
	return waiting + left, err
}

func (i *inhabitant) close() (err error) {
	if c, is := i.likes.(io.Closer); is {
		err = c.Close()
	}
	closeStores(i.stores)
	return err
}

// open lets users in, whose way to Kafka is one of their own.
func (b *bubble) open(ctx context.Context, v variant) (*inhabitant, error) {
	cfg := b.Config
	cfg.Dial = choose(cfg.Dial, b.usersToKafka.Through(cfg.Dial))
	st, err := openStores(ctx, v, cfg)
	if err != nil {
		return nil, err
	}
	i := &inhabitant{variant: v, stores: st}
	if i.likes, err = v.Open(ctx, st); err == nil {
		err = v.State.Ready(ctx, st)
	}
	return i, err
}

// live is the life of a variant: its roles run, users come, faults happen, all
// heals, and it comes to rest. It returns the verdicts.
func (b *bubble) live(d making, roles []string, ops int, faults func()) map[string]check.Verdict {
	b.T.Helper()
	ctx, cancel := context.WithCancel(b.T.Context())
	var err error
	users := memoryLedger{b.ledger, func() error { return nil }}
	if b.inst, err = b.open(ctx, d(func(*opened) ledger { return users })); err != nil {
		b.T.Fatal(err)
	}
	var running sync.WaitGroup
	closing := sync.OnceValue(func() error { return b.inst.close() })
	stop := func() {
		cancel()
		running.Wait()
	}
	// Also where the test fails: nothing may be left in the bubble.
	b.T.Cleanup(func() {
		stop()
		_ = closing() // it is closed, or the test has failed
	})
	for _, r := range b.inst.variant.Roles {
		if roles == nil || slices.Contains(roles, r.Name) {
			running.Go(func() { b.keep(ctx, d, r.Name) })
		}
	}
	var all sync.WaitGroup
	all.Go(faults)
	b.users(ctx, &all, ops)
	all.Wait()
	b.settle(ctx)
	stop()
	final, err := b.inst.variant.State.Audit(b.T.Context(), b.inst.stores)
	if err != nil {
		b.T.Fatal(err)
	}
	audit, err := json.Marshal(final)
	if err := errors.Join(err, closing()); err != nil {
		b.T.Fatal(err)
	}
	return b.Verdicts(System().Invariants(b.Config.Params), audit)
}

// keep runs a role, and starts it again a while after it was killed.
func (b *bubble) keep(ctx context.Context, d making, role string) {
	for b.once(ctx, d, role) && sut.Pause(ctx, time.Second) {
		continue
	}
}

// once is one life of a role, and says whether it was killed. A fail point kills it
// there and then: what its driver does on the way out reaches nobody.
func (b *bubble) once(ctx context.Context, d making, name string) (killed bool) {
	me := suttest.NewLink()
	defer func() {
		if p := recover(); p != nil {
			if p != any(errCrash) {
				panic(p)
			}
			killed = true
		}
	}()
	v := d(func(*opened) ledger { return memoryLedger{b.ledger, me.Alive} })
	cfg := b.Config
	cfg.MaxConns = 2
	cfg.Dial = me.Through(b.Config.Dial)
	cfg.FailPoint = func(place string) {
		defer func() {
			if p := recover(); p != nil {
				me.Die()
				panic(p)
			}
		}()
		b.Config.FailPoint(place)
	}
	r := v.Roles[slices.IndexFunc(v.Roles, func(r role) bool { return r.Name == name })]
	do := r.Do
	if do == nil {
		do = func(ctx context.Context, st *opened) error {
			return cfg.Steps(ctx, func() (time.Duration, error) { return r.Step(ctx, st) })
		}
	}
	work := sut.Work[*opened]{Name: name, Close: closeStores, Do: do,
		Open: func(ctx context.Context, cfg sut.Config) (*opened, error) {
			return openStores(ctx, v, cfg)
		}}
	if err := work.Run(ctx, cfg); err != nil {
		b.T.Errorf("role %s: %v", name, err)
	}
	return false
}

// users offers the operations over two seconds, and what follows from them.
func (b *bubble) users(ctx context.Context, all *sync.WaitGroup, ops int) {
	load, err := System().Workload(b.seed, b.inst.stores.Params)
	if err != nil {
		b.T.Fatal(err)
	}
	table := API()
	b.Users(ctx, all, load, ops,
		func(i int) time.Duration {
			return time.Duration(i/2) * 2 * 2 * time.Second / time.Duration(ops)
		},
		func(ctx context.Context, op history.Op) (history.Reply, error) {
			ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
			defer cancel()
			return table.Do(ctx, b.inst.likes, op)
		})
}

// settle waits until the instance is at rest, a minute at most: whoever is wrong
// may never be.
func (b *bubble) settle(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		left, err := b.inst.pending(ctx)
		if err == nil && left == 0 || !sut.Pause(ctx, 200*time.Millisecond) {
			return
		}
	}
}

// during breaks something for a while.
func (b *bubble) during(text string, start, span time.Duration, broken func() (heal func())) {
	b.Wait(start)
	from := b.Elapsed()
	heal := broken()
	b.Wait(span)
	heal()
	b.Fault(text, from)
}

// wipe takes Redis away, and brings it back empty.
func (b *bubble) wipe() (heal func()) {
	heal = b.toRedis.Stall()
	b.Redis.FlushAll()
	b.toRedis.Cut()
	b.lives.Add(1)
	return heal
}

// losePower takes Redis away, and brings it back as it was so long before, but for
// the estimates.
func (b *bubble) losePower(after time.Duration) func() (heal func()) {
	return func() (heal func()) {
		hashes, texts := map[string]map[string]string{}, map[string]string{}
		for _, key := range b.Redis.Keys() {
			fields, _ := b.Redis.HKeys(key) // none if it is no hash
			for _, field := range fields {
				if hashes[key] == nil {
					hashes[key] = map[string]string{}
				}
				hashes[key][field] = b.Redis.HGet(key, field)
			}
			if text, err := b.Redis.Get(key); err == nil {
				texts[key] = text
			}
		}
		b.Wait(after)
		heal = b.toRedis.Stall()
		b.toRedis.Cut()
		b.Wait(10 * time.Millisecond) // what had arrived is answered to nobody
		b.Redis.FlushAll()
		for key, fields := range hashes {
			for field, text := range fields {
				b.Redis.HSet(key, field, text)
			}
		}
		for key, text := range texts {
			if err := b.Redis.Set(key, text); err != nil {
				b.T.Error(err)
			}
		}
		b.lives.Add(1)
		return heal
	}
}

// trouble is what befalls a seed: one to three faults at moments of its own.
func (b *bubble) trouble() {
	var all sync.WaitGroup
	some := func(d time.Duration) time.Duration {
		return time.Duration(b.rng.Int64N(int64(d)))
	}
	for range 1 + b.rng.IntN(3) {
		start, span := some(2*time.Second), 200*time.Millisecond+some(1500*time.Millisecond)
		place := []string{PlaceBetween, PlaceRebuilt, PlaceMerged}[b.rng.IntN(3)]
		passage, which := 1+b.rng.IntN(5), b.rng.IntN(6)
		all.Go(func() {
			switch which {
			case 0:
				b.during("lost-ack redis", start, span, b.toRedis.Silence)
			case 1:
				b.during("pause redis", start, span, b.toRedis.Stall)
			case 2:
				b.during("kill redis wipe", start, span, b.wipe)
			case 3:
				b.during("pause kafka", start, 2*span, b.toKafka.Stall)
			case 4:
				b.during("power-loss redis 500ms", start, span, b.losePower(500*time.Millisecond))
			case 5:
				b.Wait(start)
				b.mu.Lock()
				b.crashes[place] = passage
				b.mu.Unlock()
			}
		})
	}
	all.Wait()
}

// bubbleParams are many repeats on few videos.
func bubbleParams() Params {
	p := DefaultParams()
	p.Videos, p.VideoSkew = 2, keys.SkewHot
	p.ClickTwice, p.Unlike, p.Relike = 0.3, 0.3, 0.5
	p.Reads, p.Views, p.Think = 0.5, 0.3, sut.Duration(time.Second)
	p.HeatPerShard, p.Buffer = 1, 20
	p.Shards, p.Resend = 5, 0 // the users of a bubble send no request twice
	return p
}

// TestBubble: in virtual time, on the variants' own code for Redis and Kafka, no
// pause, lost answer, loss, crash or redelivery makes a correct variant break
// anything, whatever the seed.
func TestBubble(t *testing.T) {
	seeds := uint64(suttest.Share(50))
	for _, d := range []making{redisKey, shardsFixed, shardsAdaptive, redisPipelined, regionsCRDT} {
		t.Run(d(nil).Name, func(t *testing.T) {
			for seed := range seeds {
				t.Run(fmt.Sprint(seed), func(t *testing.T) {
					suttest.InBubble(t, func(t *testing.T) {
						b := newBubble(t, seed, bubbleParams())
						for name, v := range b.live(d, nil, 60, b.trouble) {
							if v.Status == check.Broken {
								t.Errorf("%s is broken: %+v (faults %+v)", name, v.Violations, b.Windows)
							}
						}
						b.tell()
					})
				})
			}
		})
	}
}

// TestRebuildWaitsForBuffers: a server that cannot reach Kafka has acknowledged likes
// that nobody else knows of when Redis is lost; the counters are not rebuilt without
// them.
func TestRebuildWaitsForBuffers(t *testing.T) {
	for seed := range uint64(3) {
		suttest.InBubble(t, func(t *testing.T) {
			p := bubbleParams()
			p.Buffer = 1000
			b := newBubble(t, seed, p)
			verdicts := b.live(shardsAdaptive, nil, 200, func() {
				b.Wait(300 * time.Millisecond)
				heal := b.usersToKafka.Stall()
				b.Wait(500 * time.Millisecond)
				b.during("kill redis wipe", 0, 100*time.Millisecond, b.wipe)
				b.Wait(3 * time.Second)
				s := newStore(b.inst.stores, oneKey(p))
				if open, err := s.ready(t.Context(), 1); open || err != nil {
					t.Errorf("seed %d: rebuilt without what a server has yet to log: %v, %v", seed, open, err)
				}
				heal()
			})
			for name, v := range verdicts {
				if v.Status == check.Broken {
					t.Errorf("seed %d: %s is broken: %+v", seed, name, v.Violations)
				}
			}
		})
	}
}

// TestRedisComesBackOlder: what Redis forgets between two moments neither gives a
// version out twice nor is told to anybody.
func TestRedisComesBackOlder(t *testing.T) {
	for _, d := range []making{redisKey, shardsAdaptive, regionsCRDT} {
		t.Run(d(nil).Name, func(t *testing.T) {
			for seed := range uint64(3) {
				suttest.InBubble(t, func(t *testing.T) {
					b := newBubble(t, seed, bubbleParams())
					twice := func() {
						for range 2 {
							b.during("power-loss redis 500ms", 300*time.Millisecond, 50*time.Millisecond,
								b.losePower(500*time.Millisecond))
						}
					}
					for name, v := range b.live(d, nil, 200, twice) {
						if v.Status == check.Broken {
							t.Errorf("seed %d: %s is broken: %+v", seed, name, v.Violations)
						}
					}
					if b.lives.Load() != 2 {
						t.Errorf("Redis was started again %d times", b.lives.Load())
					}
				})
			}
		})
	}
}

// TestWorkerGoesOnWhereTheLedgerIs: a ledger that falls back gets everything again,
// whether its worker starts anew because it died, or because a batch was refused
// that begins beyond what the ledger has. Nobody repairs it here.
func TestWorkerGoesOnWhereTheLedgerIs(t *testing.T) {
	for name, dies := range map[string]bool{"died": true, "lived on": false} {
		t.Run(name, func(t *testing.T) {
			suttest.InBubble(t, func(t *testing.T) { forgetful(t, dies) })
		})
	}
}

func forgetful(t *testing.T, dies bool) {
	t.Helper()
	b := newBubble(t, 1, bubbleParams())
	passages := 0
	b.Config.FailPoint = func(place string) {
		if place != PlaceBetween {
			return
		}
		if passages++; passages == 5 {
			b.ledger.forget()
			if dies {
				panic(errCrash)
			}
		}
	}
	verdicts := b.live(redisKey, []string{RoleLedger}, 100, func() {})
	if passages < 6 || dies == (b.ledger.gaps > 0) {
		t.Fatalf("the worker came between ledger and commit %d times, %d batches were refused",
			passages, b.ledger.gaps)
	}
	for _, name := range []string{LedgerIsLog, AckedDurable, StoresAgree} {
		if v := verdicts[name]; v.Status != check.Held {
			t.Errorf("%s is %s: %s %+v", name, v.Status, v.Reason, v.Violations)
		}
	}
}

// forget takes all back that was applied.
func (l *books) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.rows)
	clear(l.ops)
	clear(l.next)
}

// tell logs what happened.
func (b *bubble) tell() {
	outcomes := map[history.Outcome]int{}
	for _, r := range b.Records {
		outcomes[r.Outcome]++
	}
	b.T.Logf("%v in %v, %d faults, %d crashes", outcomes, b.Elapsed(), len(b.Windows),
		b.crashed)
}
