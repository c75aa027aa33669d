package likes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	mini "github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"
	"github.com/twmb/franz-go/pkg/kfake"

	"stampede/harness/check"
	"stampede/harness/design"
	"stampede/harness/history"
	"stampede/harness/keys"
	"stampede/harness/stores"
	"stampede/harness/sut"
	"stampede/harness/suttest"
	"stampede/harness/topics"
)

// memoryLedger is the ledger of a bubble: as postgres, one transaction at a time.
// It survives whoever opens it.
type memoryLedger struct {
	mu     sync.Mutex
	epochs []int64
	rows   map[pairID]Event
	ops    map[uint64]bool
	next   map[int32]int64
	// gaps counts the batches that were refused.
	gaps int
}

func newMemoryLedger(videos int) *memoryLedger {
	return &memoryLedger{epochs: slices.Repeat([]int64{1}, videos), rows: map[pairID]Event{},
		ops: map[uint64]bool{}, next: map[int32]int64{}}
}

const ledgerDelay = 2 * time.Millisecond

// begin is a transaction's way to the store.
func (l *memoryLedger) begin(ctx context.Context) error {
	sut.Pause(ctx, ledgerDelay)
	return ctx.Err()
}

// reached is the ledger as one process reaches it: not when it is dead.
type reached struct {
	*memoryLedger
	process *process
}

func (l reached) apply(
	ctx context.Context, batch []Event, spans map[int32]span,
) (map[uint64]int64, error) {
	if err := l.process.alive(); err != nil {
		return nil, err
	}
	return l.memoryLedger.apply(ctx, batch, spans)
}

func (l reached) newEpoch(ctx context.Context, video uint64) (int64, error) {
	if err := l.process.alive(); err != nil {
		return 0, err
	}
	return l.memoryLedger.newEpoch(ctx, video)
}

func (l *memoryLedger) apply(
	ctx context.Context, batch []Event, spans map[int32]span,
) (map[uint64]int64, error) {
	if err := l.begin(ctx); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for partition, s := range spans {
		if s.first > l.next[partition] {
			l.gaps++
			return nil, errGap
		}
	}
	epochs := map[uint64]int64{}
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
	return epochs, nil
}

func (l *memoryLedger) applied(ctx context.Context) (map[int32]int64, error) {
	err := l.begin(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.next), err
}

func (l *memoryLedger) newEpoch(ctx context.Context, video uint64) (int64, error) {
	if err := l.begin(ctx); err != nil {
		return 0, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.epochs[video-1]++
	return l.epochs[video-1], nil
}

func (l *memoryLedger) pairs(ctx context.Context, video uint64) ([]pair, error) {
	err := l.begin(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	var list []pair
	for who, e := range l.rows {
		if who.video == video {
			list = append(list, pair{user: who.user, liked: e.Liked, version: e.Version, op: e.OpID})
		}
	}
	return list, err
}

func (l *memoryLedger) audit(_ context.Context, videos int) ([]Packed, Packed, error) {
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

// link is the way to one store, which can be broken.
type link struct {
	mu    sync.Mutex
	open  chan struct{} // closed while bytes pass
	mute  bool          // what the store answers is lost
	conns []net.Conn
}

func newLink() *link {
	l := &link{open: make(chan struct{})}
	close(l.open)
	return l
}

// stall stops all bytes until the returned function is called.
func (l *link) stall() (heal func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	gate := make(chan struct{})
	l.open = gate
	return func() { close(gate) }
}

// silence loses all answers until the returned function is called.
func (l *link) silence() (heal func()) {
	set := func(mute bool) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.mute = mute
	}
	set(true)
	return func() { set(false) }
}

// cut ends all connections.
func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.conns {
		_ = c.Close() // it may be closed already
	}
	l.conns = nil
}

func (l *link) muted() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mute
}

func (l *link) gate() chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open
}

// wrap puts a connection on the link.
func (l *link) wrap(inner net.Conn, err error) (net.Conn, error) {
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	c := &linked{Conn: inner, link: l, closed: make(chan struct{})}
	l.conns = append(l.conns, c)
	return c, nil
}

// linked is a connection on a link.
type linked struct {
	net.Conn
	link   *link
	once   sync.Once
	closed chan struct{}
}

// pass waits while the link is stalled.
func (c *linked) pass() error {
	select {
	case <-c.link.gate():
		return nil
	case <-c.closed:
		return net.ErrClosed
	}
}

func (c *linked) Read(b []byte) (int, error) {
	for {
		n, err := c.Conn.Read(b)
		if passing := c.pass(); err == nil && passing != nil {
			return 0, passing
		}
		if err == nil && c.link.muted() {
			continue
		}
		return n, err
	}
}

func (c *linked) Write(b []byte) (int, error) {
	if err := c.pass(); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}

func (c *linked) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// SyscallConn lets the Redis driver see, as it does of a socket, whether a connection
// of its pool was closed while nobody used it.
func (c *linked) SyscallConn() (syscall.RawConn, error) {
	select {
	case <-c.closed:
		return nil, net.ErrClosed
	default:
		return openSocket{}, nil
	}
}

// openSocket is a socket with nothing to read.
type openSocket struct{}

func (openSocket) Control(func(uintptr)) error    { return nil }
func (openSocket) Read(func(uintptr) bool) error  { return nil }
func (openSocket) Write(func(uintptr) bool) error { return nil }

// process is one life of a role.
type process struct {
	mu    sync.Mutex
	dead  bool
	conns []net.Conn
}

// errDead is what a process that was killed gets of whatever it still tries.
var errDead = errors.New("the process is dead")

func (p *process) alive() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead {
		return errDead
	}
	return nil
}

// die is kill -9: nothing that the process does from now on reaches anybody.
func (p *process) die() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dead = true
	for _, c := range p.conns {
		_ = c.Close() // it may be closed already
	}
}

// through lets the process make its connections by dial.
func (p *process) through(
	dial func(context.Context, string, string) (net.Conn, error),
) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if err := p.alive(); err != nil {
			return nil, err
		}
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.dead {
			return nil, errors.Join(errDead, c.Close())
		}
		p.conns = append(p.conns, c)
		return c, nil
	}
}

// bubble is a whole run in virtual time on the variant's own code for Redis and
// Kafka: miniredis and kfake behind links, and a ledger in memory.
type bubble struct {
	t       *testing.T
	seed    uint64
	rng     *rand.Rand // of the faults
	base    time.Time
	cfg     sut.Config
	ledger  *memoryLedger
	redis   *miniredis.Miniredis
	toRedis *link
	toKafka *link
	// usersToKafka is on the way of those whom users call only.
	usersToKafka *link
	inst         *inhabitant
	// lives is how often Redis was started again.
	lives atomic.Int64

	mu      sync.Mutex
	records []history.Record
	windows []history.Window
	// crashes are the passages of fail points at which a role dies.
	crashes map[string]int
	crashed int
}

// errCrash ends a role as a kill would.
var errCrash = errors.New("killed at a fail point")

func newBubble(t *testing.T, seed uint64, p Params) *bubble {
	t.Helper()
	b := &bubble{t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 3)), base: time.Now(),
		ledger: newMemoryLedger(p.Videos), redis: miniredis.NewMiniRedis(),
		toRedis: newLink(), toKafka: newLink(), usersToKafka: newLink(), crashes: map[string]int{}}
	network := &kfake.VirtualNetwork{}
	brokers, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.ListenFn(network.Listen),
		kfake.GroupMinSessionTimeout(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(brokers.Close)
	t.Cleanup(b.redis.Close)
	if conn, err := b.redis.Dial(); err != nil || conn.Close() != nil {
		t.Fatal("miniredis does not start")
	}
	tellRun(b.redis, func() string { return fmt.Sprint("life-", b.lives.Load()) })
	kafka := sut.DefaultKafka()
	kafka.Partitions, kafka.Compression = 3, "none"
	b.cfg = sut.Config{
		RedisURL: "redis://redis:6379/0", KafkaBrokers: brokers.ListenAddrs(), Kafka: kafka,
		Prefix: "bubble:", Params: &p, MaxConns: 8, Timeout: time.Second,
		Logger: slog.New(slog.DiscardHandler), FailPoint: b.pass,
		Dial: func(ctx context.Context, network_, address string) (net.Conn, error) {
			if strings.HasPrefix(address, "redis:") {
				return b.toRedis.wrap(b.redis.Dial())
			}
			return b.toKafka.wrap(network.DialContext(ctx, network_, address))
		},
	}
	return b
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
	cfg, dial := b.cfg, b.cfg.Dial
	cfg.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil || strings.HasPrefix(address, "redis:") {
			return c, err
		}
		return b.usersToKafka.wrap(c, nil)
	}
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
	b.t.Helper()
	ctx, cancel := context.WithCancel(b.t.Context())
	var err error
	if b.inst, err = b.open(ctx, d(func(*opened) ledger { return b.ledger })); err != nil {
		b.t.Fatal(err)
	}
	var running sync.WaitGroup
	closing := sync.OnceValue(func() error { return b.inst.close() })
	stop := func() {
		cancel()
		running.Wait()
	}
	// Also where the test fails: nothing may be left in the bubble.
	b.t.Cleanup(func() {
		stop()
		_ = closing() // it is closed, or the test has failed
	})
	for _, r := range b.inst.variant.Roles {
		if roles == nil || slices.Contains(roles, r.Name) {
			running.Go(func() { b.keep(ctx, d, r.Name) })
		}
	}
	var users sync.WaitGroup
	users.Go(faults)
	b.users(ctx, &users, ops)
	users.Wait()
	b.settle(ctx)
	stop()
	final, err := b.inst.variant.State.Audit(b.t.Context(), b.inst.stores)
	if err != nil {
		b.t.Fatal(err)
	}
	audit, err := json.Marshal(final)
	if err := errors.Join(err, closing()); err != nil {
		b.t.Fatal(err)
	}
	return b.verdicts(audit)
}

func (b *bubble) verdicts(audit json.RawMessage) map[string]check.Verdict {
	return suttest.Verdicts(System().Invariants(b.cfg.Params), history.Slice(b.records, b.windows...),
		audit)
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
	me := &process{}
	defer func() {
		if p := recover(); p != nil {
			if p != any(errCrash) {
				panic(p)
			}
			killed = true
		}
	}()
	v := d(func(*opened) ledger { return reached{b.ledger, me} })
	cfg := b.cfg
	cfg.MaxConns = 2
	cfg.Dial = me.through(b.cfg.Dial)
	cfg.FailPoint = func(place string) {
		defer func() {
			if p := recover(); p != nil {
				me.die()
				panic(p)
			}
		}()
		b.cfg.FailPoint(place)
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
		b.t.Errorf("role %s: %v", name, err)
	}
	return false
}

// users offers the operations over two seconds, and what follows from them.
func (b *bubble) users(ctx context.Context, all *sync.WaitGroup, ops int) {
	load, err := NewWorkload(b.seed, b.inst.stores.Params)
	if err != nil {
		b.t.Fatal(err)
	}
	table := API()
	var send func(op history.Op, after time.Duration)
	send = func(op history.Op, after time.Duration) {
		all.Go(func() {
			sut.Pause(ctx, after)
			start := time.Since(b.base)
			ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
			defer cancel()
			reply, err := table.Do(ctx, b.inst.likes, op)
			rec := history.Record{Op: op, Reply: reply, Intended: start, Start: start,
				End: time.Since(b.base), Outcome: history.OK}
			if err != nil {
				rec.Outcome, rec.Err, rec.Reply = history.Unknown, err.Error(), history.Reply{}
			}
			if errors.Is(err, sut.ErrRefused) {
				rec.Outcome = history.Refused
			}
			b.mu.Lock()
			rec.Seq = uint64(len(b.records))
			b.records = append(b.records, rec)
			b.mu.Unlock()
			for _, next := range load.Follow(op, rec.Outcome, rec.Reply) {
				send(next.Op, next.After)
			}
		})
	}
	for i := range ops {
		send(load.Op(uint64(i)), time.Duration(i/2)*2*2*time.Second/time.Duration(ops))
	}
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

// fault notes what was done, while it was.
func (b *bubble) fault(text string, start time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	end := time.Since(b.base)
	b.windows = append(b.windows, history.Window{Kind: history.FaultWindow, Name: text, Fault: text,
		Start: start, End: end, Recovered: end, Evidence: []string{"in the bubble"}})
}

// wait lets virtual time pass.
func (b *bubble) wait(d time.Duration) { sut.Pause(b.t.Context(), d) }

// during breaks something for a while.
func (b *bubble) during(text string, start, span time.Duration, broken func() (heal func())) {
	b.wait(start)
	from := time.Since(b.base)
	heal := broken()
	b.wait(span)
	heal()
	b.fault(text, from)
}

// wipe takes Redis away, and brings it back empty.
func (b *bubble) wipe() (heal func()) {
	heal = b.toRedis.stall()
	b.redis.FlushAll()
	b.toRedis.cut()
	b.lives.Add(1)
	return heal
}

// losePower takes Redis away, and brings it back as it was so long before, but for
// the estimates.
func (b *bubble) losePower(after time.Duration) func() (heal func()) {
	return func() (heal func()) {
		hashes, texts := map[string]map[string]string{}, map[string]string{}
		for _, key := range b.redis.Keys() {
			fields, _ := b.redis.HKeys(key) // none if it is no hash
			for _, field := range fields {
				if hashes[key] == nil {
					hashes[key] = map[string]string{}
				}
				hashes[key][field] = b.redis.HGet(key, field)
			}
			if text, err := b.redis.Get(key); err == nil {
				texts[key] = text
			}
		}
		b.wait(after)
		heal = b.toRedis.stall()
		b.toRedis.cut()
		b.wait(10 * time.Millisecond) // what had arrived is answered to nobody
		b.redis.FlushAll()
		for key, fields := range hashes {
			for field, text := range fields {
				b.redis.HSet(key, field, text)
			}
		}
		for key, text := range texts {
			if err := b.redis.Set(key, text); err != nil {
				b.t.Error(err)
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
				b.during("lost-ack redis", start, span, b.toRedis.silence)
			case 1:
				b.during("pause redis", start, span, b.toRedis.stall)
			case 2:
				b.during("kill redis wipe", start, span, b.wipe)
			case 3:
				b.during("pause kafka", start, 2*span, b.toKafka.stall)
			case 4:
				b.during("power-loss redis 500ms", start, span, b.losePower(500*time.Millisecond))
			case 5:
				b.wait(start)
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
	p.Shards = 5
	return p
}

// TestBubble: in virtual time, on the variants' own code for Redis and Kafka, no
// pause, lost answer, loss, crash or redelivery makes a correct variant break
// anything, whatever the seed.
func TestBubble(t *testing.T) {
	seeds := uint64(50)
	switch {
	case testing.Short():
		seeds = 3
	case suttest.RaceDetected:
		seeds = 10
	}
	for _, d := range []making{redisKey, shardsFixed, shardsAdaptive, redisPipelined, regionsCRDT} {
		t.Run(d(nil).Name, func(t *testing.T) {
			for seed := range seeds {
				t.Run(fmt.Sprint(seed), func(t *testing.T) {
					inBubble(t, func(t *testing.T) {
						b := newBubble(t, seed, bubbleParams())
						for name, v := range b.live(d, nil, 60, b.trouble) {
							if v.Status == check.Broken {
								t.Errorf("%s is broken: %+v (faults %+v)", name, v.Violations, b.windows)
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
		inBubble(t, func(t *testing.T) {
			p := bubbleParams()
			p.Buffer = 1000
			b := newBubble(t, seed, p)
			verdicts := b.live(shardsAdaptive, nil, 200, func() {
				b.wait(300 * time.Millisecond)
				heal := b.usersToKafka.stall()
				b.wait(500 * time.Millisecond)
				b.during("kill redis wipe", 0, 100*time.Millisecond, b.wipe)
				b.wait(3 * time.Second)
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
				inBubble(t, func(t *testing.T) {
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
			inBubble(t, func(t *testing.T) { forgetful(t, dies) })
		})
	}
}

func forgetful(t *testing.T, dies bool) {
	t.Helper()
	b := newBubble(t, 1, bubbleParams())
	passages := 0
	b.cfg.FailPoint = func(place string) {
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
func (l *memoryLedger) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.rows)
	clear(l.ops)
	clear(l.next)
}

// inBubble runs a test in virtual time. The Redis driver keeps timers and channels
// for reuse in a sync.Pool, which those of one bubble must not leave: two
// collections empty it.
func inBubble(t *testing.T, f func(*testing.T)) {
	t.Helper()
	runtime.GC()
	runtime.GC()
	synctest.Test(t, f)
}

// tell logs what happened.
func (b *bubble) tell() {
	outcomes := map[history.Outcome]int{}
	for _, r := range b.records {
		outcomes[r.Outcome]++
	}
	b.t.Logf("%v in %v, %d faults, %d crashes", outcomes, time.Since(b.base), len(b.windows),
		b.crashed)
}
