package suttest

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/twmb/franz-go/pkg/kfake"

	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/sut"
)

// InBubble runs a test in virtual time. The Redis driver keeps timers and channels for reuse in
// a sync.Pool, which those of one bubble must not leave: two collections empty it. Why this is
// for tests alone: docs/decisions/2026-11-29-real-code-in-virtual-time-is-a-test.md.
func InBubble(t *testing.T, f func(*testing.T)) {
	t.Helper()
	runtime.GC()
	runtime.GC()
	synctest.Test(t, f)
}

// Bubble is a whole run in virtual time on a system's own code for Redis and Kafka: servers of
// both in memory, and a history. It is made in InBubble.
type Bubble struct {
	T     *testing.T
	Redis *miniredis.Miniredis
	// Config reaches both servers. A process that can be killed or cut off has a Link to them.
	Config sut.Config

	base time.Time
	mu   sync.Mutex
	// Records and Windows are the history, complete when everybody is done.
	Records []history.Record
	Windows []history.Window
}

// NewBubble makes a bubble for a run with some parameters.
func NewBubble(t *testing.T, params any, partitions int) *Bubble {
	t.Helper()
	b := &Bubble{T: t, base: time.Now(), Redis: miniredis.NewMiniRedis()}
	network := &kfake.VirtualNetwork{}
	brokers, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.ListenFn(network.Listen),
		kfake.GroupMinSessionTimeout(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(brokers.Close)
	t.Cleanup(b.Redis.Close)
	if conn, err := b.Redis.Dial(); err != nil || conn.Close() != nil {
		t.Fatal("miniredis does not start")
	}
	kafka := sut.DefaultKafka()
	kafka.Partitions, kafka.Compression = partitions, "none"
	b.Config = sut.Config{
		RedisURL: "redis://redis:6379/0", KafkaBrokers: brokers.ListenAddrs(), Kafka: kafka,
		Prefix: "bubble:", Params: params, MaxConns: 8, Timeout: time.Second,
		Logger: slog.New(slog.DiscardHandler),
		Dial: func(ctx context.Context, over, address string) (net.Conn, error) {
			if ToRedis(address) {
				return b.Redis.Dial()
			}
			return network.DialContext(ctx, over, address)
		},
	}
	return b
}

// ToRedis says whether an address is that of a bubble's Redis, and not of its Kafka.
func ToRedis(address string) bool { return strings.HasPrefix(address, "redis:") }

// Elapsed is how long the run has taken.
func (b *Bubble) Elapsed() time.Duration { return time.Since(b.base) }

// Wait lets virtual time pass.
func (b *Bubble) Wait(d time.Duration) { sut.Pause(b.T.Context(), d) }

// Fault notes a fault that was in force from some moment until now.
func (b *Bubble) Fault(text string, from time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	end := b.Elapsed()
	b.Windows = append(b.Windows, history.Window{Kind: history.FaultWindow, Name: text, Fault: text,
		Start: from, End: end, Recovered: end, Evidence: []string{"in the bubble"}})
}

// Users offers the first operations of a workload, each so long from now, and what follows from
// them, and adds them to the records.
func (b *Bubble) Users(
	ctx context.Context, all *sync.WaitGroup, load sut.Workload, ops int,
	when func(i int) time.Duration, do func(context.Context, history.Op) (history.Reply, error),
) {
	var send func(op history.Op, after time.Duration)
	send = func(op history.Op, after time.Duration) {
		all.Go(func() {
			sut.Pause(ctx, after)
			start := b.Elapsed()
			reply, err := do(ctx, op)
			rec := history.Record{Op: op, Reply: reply, Intended: start, Start: start,
				End: b.Elapsed(), Outcome: sut.Outcome(err)}
			if err != nil {
				rec.Err, rec.Code, rec.Reply = err.Error(), sut.Code(err), history.Reply{}
			}
			b.mu.Lock()
			rec.Seq = uint64(len(b.Records))
			b.Records = append(b.Records, rec)
			b.mu.Unlock()
			for _, next := range load.Follow(op, rec.Outcome, rec.Reply) {
				send(next.Op, next.After)
			}
		})
	}
	for i := range ops {
		send(load.Op(uint64(i)), when(i))
	}
}

// Verdicts judges the run and returns the verdicts by name.
func (b *Bubble) Verdicts(
	invariants []check.Invariant, audit json.RawMessage,
) map[string]check.Verdict {
	return Verdicts(invariants, history.Slice(b.Records, b.Windows...), audit)
}

// Link is how a process reaches its stores, or how all reach one. It can be broken.
type Link struct {
	// Delay is how long the bytes of a write travel.
	Delay time.Duration

	mu    sync.Mutex
	open  chan struct{} // closed while bytes pass
	mute  bool          // answers are lost
	dead  bool
	conns []net.Conn
}

// NewLink makes a link on which bytes pass.
func NewLink() *Link {
	w := &Link{open: make(chan struct{})}
	close(w.open)
	return w
}

// Stall stops all bytes until the returned function is called.
func (w *Link) Stall() (heal func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	gate := make(chan struct{})
	w.open = gate
	return func() { close(gate) }
}

// Silence loses all answers until the returned function is called.
func (w *Link) Silence() (heal func()) {
	set := func(mute bool) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.mute = mute
	}
	set(true)
	return func() { set(false) }
}

func (w *Link) muted() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mute
}

// Cut ends all connections.
func (w *Link) Cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.conns {
		_ = c.Close() // it may be closed already
	}
	w.conns = nil
}

// errDead is what a process that was killed gets of whatever it still tries.
var errDead = errors.New("the process is dead")

// Die is kill -9 of the process: nothing that it does from now on reaches anybody.
func (w *Link) Die() {
	w.mu.Lock()
	w.dead = true
	w.mu.Unlock()
	w.Cut()
}

// Alive returns an error if the process is dead.
func (w *Link) Alive() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.dead {
		return errDead
	}
	return nil
}

// Dialer connects, as sut.Config's Dial.
type Dialer = func(ctx context.Context, network, address string) (net.Conn, error)

// Through lets what connects by a dialer go over this link.
func (w *Link) Through(dial Dialer) Dialer {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		inner, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.dead {
			return nil, errors.Join(errDead, inner.Close())
		}
		c := &linked{Conn: inner, link: w, closed: make(chan struct{})}
		w.conns = append(w.conns, c)
		return c, nil
	}
}

// linked is a connection that goes over a link.
type linked struct {
	net.Conn
	link   *Link
	once   sync.Once
	closed chan struct{}
}

// pass waits while the link is stalled.
func (c *linked) pass() error {
	c.link.mu.Lock()
	gate := c.link.open
	c.link.mu.Unlock()
	select {
	case <-gate:
		return nil
	case <-c.closed:
		return net.ErrClosed
	}
}

func (c *linked) Read(b []byte) (int, error) {
	for {
		n, err := c.Conn.Read(b)
		closed := c.pass()
		switch {
		case err != nil || closed == nil && !c.link.muted():
			return n, err
		case closed != nil:
			return 0, closed
		}
	}
}

func (c *linked) Write(b []byte) (int, error) {
	if err := c.pass(); err != nil {
		return 0, err
	}
	if c.link.Delay > 0 {
		sut.Pause(context.Background(), c.link.Delay)
	}
	return c.Conn.Write(b)
}

func (c *linked) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// SyscallConn lets the Redis driver see, as it does of a socket, whether a connection of its
// pool was closed while nobody used it.
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

// seedsToKill bounds how many seeds a mutant may survive.
const seedsToKill = 5

// Killed checks that a planted error is named, with witnesses, by its invariants within a few
// seeds, and that what it is planted in breaks nothing under the same seeds and faults, where
// each of those invariants holds with one seed at least. Each function runs one of the two with
// a seed and judges.
func Killed(
	t *testing.T, named []string, control, planted func(seed uint64) map[string]check.Verdict,
) {
	t.Helper()
	open, killed := slices.Clone(named), false // open: not held by the control yet
	for seed := uint64(1); !killed || len(open) > 0; seed++ {
		fine := control(seed)
		for name, v := range fine {
			if v.Status == check.Broken {
				t.Fatalf("seed %d: the control breaks %s: %+v", seed, name, v.Violations)
			}
		}
		open = slices.DeleteFunc(open, func(name string) bool {
			return fine[name].Status == check.Held
		})
		if !killed {
			killed = kills(t, seed, named, planted(seed))
		}
		if seed == seedsToKill && len(open) > 0 {
			t.Fatalf("in %d seeds the control never holds %q: %s", seed, open, fine[open[0]].Reason)
		}
	}
}

// kills says whether verdicts name all of some invariants with witnesses; the last seed must.
func kills(
	t *testing.T, seed uint64, named []string, verdicts map[string]check.Verdict,
) (killed bool) {
	t.Helper()
	killed = !slices.ContainsFunc(named, func(name string) bool {
		return verdicts[name].Status != check.Broken || len(verdicts[name].Witness) == 0
	})
	switch {
	case killed:
		t.Logf("killed by seed %d: %s", seed, verdicts[named[0]].Reason)
	case seed == seedsToKill:
		t.Fatalf("survives %d seeds: %+v", seed, verdicts)
	}
	return killed
}
