package sqlbroker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/harness/check"
	"stampede/harness/interleave"
	"stampede/harness/sut"
)

// orders is a lab whose sessions' statements are run in every order. A watch sees who waits.
type orders struct {
	*lab
	watch *pgx.Conn
}

// inOrders opens a design with one queue, that its consumers work off if it is worked.
func inOrders(t *testing.T, name string, worked int) orders {
	t.Helper()
	p := DefaultParams()
	p.Queues, p.Worked, p.MaxReceives = 1, worked, 2
	p.Visibility = sut.Duration(time.Hour) // what has to pass is made to pass
	l := openLab(t, name, configOf(t, p), interleave.Tracer{})
	watch, err := pgx.Connect(t.Context(), l.cfg.PostgresURL)
	must(t, err)
	t.Cleanup(func() { _ = watch.Close(context.Background()) })
	return orders{l, watch}
}

// inEach is a test of each right design, and of mutants by what they break.
func inEach(
	t *testing.T, worked int, designs string, mutants map[string][]string,
	test func(t *testing.T, l orders, breaks []string),
) {
	for _, name := range append(strings.Fields(designs), slices.Sorted(maps.Keys(mutants))...) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, inOrders(t, name, worked), mutants[name])
		})
	}
}

// step is what a session does, or what is done before and after all.
type step = func(context.Context) error

func session(name string, do step) interleave.Session {
	return interleave.Session{Name: name, Do: do}
}

// after receives a message, if there is one, and does something with it.
func (l *lab) after(do func(context.Context, []Delivery) error) step {
	return func(ctx context.Context) error {
		batch, err := l.receives(ctx)
		if err != nil || len(batch) == 0 {
			return err
		}
		return do(ctx, batch)
	}
}

// consume and acknowledge receive a message and work it off, or acknowledge it, once.
func (l *lab) consume(ctx context.Context) error { return l.after(l.works)(ctx) }

func (l *lab) acknowledge(ctx context.Context) error {
	return l.after(func(ctx context.Context, batch []Delivery) error {
		return l.settles(ctx, KindAck, 0, batch)
	})(ctx)
}

// hold receives a message and keeps it.
func (l *lab) hold(ctx context.Context) error {
	_, err := l.receives(ctx)
	return err
}

// steps does some steps one after the other, whatever becomes of them.
func steps(list ...step) step {
	return func(ctx context.Context) (err error) {
		for _, do := range list {
			err = errors.Join(err, do(ctx))
		}
		return err
	}
}

// with begins with so many messages of a group, 0 for none.
func (l *lab) with(messages int, group uint64) step {
	return func(ctx context.Context) error { return l.begin(ctx, messages, group) }
}

// drain works off what is left of so many messages.
func (l *lab) drain(messages int) step {
	return steps(slices.Repeat([]step{l.expire, l.consume}, 2*messages)...)
}

// found is what a search found: how many orders there are, and in how many of them an
// invariant has this status.
type found struct {
	orders int
	count  map[string]map[check.Status]int
	first  map[string]string // order that broke it
}

// explore runs the sessions in every order, each time from a fresh beginning, then does
// what is left to do, and has the invariants judge.
func (l orders) explore(t *testing.T, begin, rest step, sessions ...interleave.Session) found {
	t.Helper()
	f := found{count: map[string]map[check.Status]int{}, first: map[string]string{}}
	var broken [][]string
	judge := func(ctx context.Context, errs []error) error {
		for _, err := range errs {
			if err != nil && !errors.Is(err, ErrStaleReceipt) {
				return err
			}
		}
		if err := rest(ctx); err != nil {
			return err
		}
		verdicts, err := l.judge(ctx)
		if err != nil {
			return err
		}
		names, reasons := f.add(verdicts)
		if len(names) == 0 {
			return nil
		}
		broken = append(broken, names)
		return errors.New(strings.Join(reasons, "; "))
	}
	result, err := interleave.Explore(t.Context(), l.watch,
		func(ctx context.Context) (interleave.World, error) {
			return interleave.World{Sessions: sessions, Judge: judge}, begin(ctx)
		})
	must(t, err)
	if len(result.Violations) != len(broken) {
		t.Fatalf("of %d orders some ended in errors: %v", result.Orders, result.Violations)
	}
	for i, names := range broken {
		for _, name := range names {
			if f.first[name] == "" {
				f.first[name] = result.Violations[i].String()
			}
		}
	}
	f.orders = result.Orders
	return f
}

// add counts verdicts and returns which are broken, with reasons.
func (f *found) add(verdicts map[string]check.Verdict) (names, reasons []string) {
	for name, v := range verdicts {
		if f.count[name] == nil {
			f.count[name] = map[check.Status]int{}
		}
		if v.NotExercised && strings.Contains(v.Reason, "beside a message of another consumer's") {
			v.Status = check.Held // every order is tried here: nothing is left to chance
		}
		if f.count[name][v.Status]++; v.Status == check.Broken {
			names, reasons = append(names, name), append(reasons, name+": "+v.Reason)
		}
	}
	slices.Sort(reasons)
	return names, reasons
}

// breaks fails the test unless each of these invariants is broken in some order, or, if
// there are none, nothing is broken in any, and held are held in all of them.
func (f found) breaks(t *testing.T, names []string, held ...string) {
	t.Helper()
	if f.orders < 2 {
		t.Errorf("there were %d orders", f.orders)
	}
	for _, name := range names {
		t.Logf("%d of %d orders break %s", f.count[name][check.Broken], f.orders, name)
		if f.count[name][check.Broken] == 0 {
			t.Errorf("no order breaks %s: %v", name, f.count)
		}
	}
	if len(names) > 0 {
		return
	}
	for name, order := range f.first {
		t.Errorf("%d of %d orders break %s: %v", f.count[name][check.Broken], f.orders, name, order)
	}
	for _, name := range held {
		if f.count[name][check.Held] != f.orders {
			t.Errorf("%s is not held in all of %d orders: %v", name, f.orders, f.count[name])
		}
	}
}

// ours are the right designs with statements of our own, all also River's.
const (
	ours = "batched row_at_a_time partitioned listen_notify"
	all  = ours + " river"
)

// TestEveryOrder runs the statements of two consumers, and of one that is too late
// while another one gets its message, in every order. The right designs break nothing
// whatever the order; of the wrong ones the invariants that are named are broken, here
// without load and without faults. Of ack_before_effect it takes a crash.
func TestEveryOrder(t *testing.T) {
	inEach(t, 1, all+" ack_before_effect unfenced_delete", map[string][]string{
		"claim_without_marking":                  {VisibilityKept, EffectsOnce},
		"M51 claim by a read and an update":      {VisibilityKept, EffectsOnce},
		"M53 effect, then unfenced ack":          nil,
		"M54 a look for the effect, then insert": nil,
	}, func(t *testing.T, l orders, breaks []string) {
		l.explore(t, l.with(1, 0), l.drain(1), session("a", l.consume), session("b", l.consume)).
			breaks(t, breaks, EffectsOnce, WorkedOff, NoLoss)
	})
	once := []string{EffectsOnce}
	inEach(t, 1, all+" ack_before_effect", map[string][]string{
		"unfenced_delete": once, "claim_without_marking": once,
		"M51 claim by a read and an update": once, "M53 effect, then unfenced ack": once,
		"M54 a look for the effect, then insert": once,
	}, func(t *testing.T, l orders, breaks []string) {
		l.explore(t, l.with(1, 0), l.drain(1), session("a", l.consume),
			session("too late", steps(l.expire, l.consume))).
			breaks(t, breaks, EffectsOnce, WorkedOff, NoLoss)
	})
}

// TestExtensionMeetsSweeper: whatever the order of an extension and the end of the
// time, either the extension is refused and the message comes back, or it holds. M56
// extends from when the message was received, which is over by then.
func TestExtensionMeetsSweeper(t *testing.T) {
	inEach(t, 1, "batched partitioned listen_notify", map[string][]string{
		"M56 extended from the claim": {VisibilityKept},
	}, func(t *testing.T, l orders, breaks []string) {
		passes := func(d time.Duration) step {
			return func(ctx context.Context) error { return l.age(ctx, d) }
		}
		// An extension by an hour has half an hour left; without one, all is over.
		l.explore(t, l.with(1, 0), steps(passes(30*time.Minute), l.messages.sweep, l.hold, l.drain(1)),
			session("a", l.after(func(ctx context.Context, held []Delivery) error {
				if err := l.age(ctx, 50*time.Minute); err != nil {
					return err
				}
				return l.settles(ctx, KindExtend, time.Hour, held)
			})), session("sweeper", l.messages.sweep)).
			breaks(t, breaks, VisibilityKept, NoLoss)
	})
}

// TestPublicationMeetsItsIdentity: of two publications with one identity, one is stored, in
// any order. The other one is told so if it is the same, and refused if it is another.
func TestPublicationMeetsItsIdentity(t *testing.T) {
	for others, want := range map[int]int64{1: 0, 2: 1} {
		inEach(t, 0, all, nil, func(t *testing.T, l orders, _ []string) {
			var refused atomic.Int64
			publisher := func(
				name string, n int, by func(context.Context, string, Publication) (int, error),
			) interleave.Session {
				return session(name, func(ctx context.Context) error {
					r := Recipe{Messages: n}
					_, err := by(ctx, labQueue, Publication{OpID: 512, Messages: r.messages(512)})
					if errors.Is(err, ErrTaken) {
						refused.Add(1)
						return nil
					}
					return errors.Join(err, l.does(512, KindPublish, Publication{Make: &r},
						func() (any, error) { return nil, nil }))
				})
			}
			l.explore(t, func(ctx context.Context) error {
				refused.Store(0)
				return l.begin(ctx, 1, 0)
			}, func(context.Context) error {
				if got := refused.Load(); got != want {
					return fmt.Errorf("%d refused, want %d", got, want)
				}
				return nil
			}, publisher("slow", 1, l.publishSlowly), publisher("quick", others, l.messages.Publish)).
				breaks(t, nil, NoLoss)
		})
	}
}

// publishSlowly publishes in a transaction that ends later than its statement.
func (l *lab) publishSlowly(ctx context.Context, queue string, p Publication) (int, error) {
	if _, perRow := l.messages.(oneByOne); perRow || l.river != nil { // which is slow enough
		return l.messages.Publish(ctx, queue, p)
	}
	sql, err := l.narrow(ctx, l.sql.publish)
	if err != nil {
		return 0, err
	}
	var known bool
	var stored int
	err = l.DB.Transaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, sql, queue, int64(p.OpID), []string{p.Messages[0].Body},
			[]int64{int64(p.Messages[0].Group)}, []int32{0}, []int64{0}, p.digest()).
			Scan(&known, &stored)
	})
	if err == nil && stored == 0 {
		err = l.repeated(ctx, queue, p)
	}
	return stored, err
}

// TestRepeatedAckMeetsFirst: an acknowledgement that is repeated while the first one is
// under way is as good as that one, in any order. M5B goes by one statement, whose
// snapshot may be older than the first one's commit.
func TestRepeatedAckMeetsFirst(t *testing.T) {
	repeat := func(t *testing.T, l orders, again func(
		context.Context, string, string, Settlement,
	) (Settled, error)) (refused int) {
		var held []Delivery
		acks := func(name string, by func(
			context.Context, string, string, Settlement,
		) (Settled, error)) interleave.Session {
			return session(name, func(ctx context.Context) error {
				err := l.settlesBy(ctx, KindAck, 0, held, by)
				if errors.Is(err, ErrStaleReceipt) {
					refused++
				}
				return err
			})
		}
		l.explore(t, steps(l.with(1, 0), func(ctx context.Context) (err error) {
			held, err = l.receives(ctx)
			return err
		}), steps(), acks("first", l.ackSlowly), acks("again", again)).
			breaks(t, nil, NoLoss, AckFinal)
		return refused
	}
	inEach(t, 0, all, nil, func(t *testing.T, l orders, _ []string) {
		if refused := repeat(t, l, l.messages.Settle); refused > 0 {
			t.Errorf("a good receipt was called stale in %d orders", refused)
		}
	})
	l := inOrders(t, "batched", 0)
	if repeat(t, l, func(ctx context.Context, queue, _ string, s Settlement) (Settled, error) {
		done, err := l.settleParts(ctx, l.sql.ack, queue, []receipts{parseReceipts(s.Receipts)}, nil)
		if err != nil {
			return Settled{}, err
		}
		return s.result(done)
	}) == 0 {
		t.Error("M5B: no good receipt was called stale")
	}
}

// ackSlowly acknowledges in a transaction that ends later than its statement.
func (l *lab) ackSlowly(
	ctx context.Context, queue, how string, s Settlement,
) (Settled, error) {
	if l.river != nil { // which is slow enough
		return l.messages.Settle(ctx, queue, how, s)
	}
	var done []settled
	err := l.DB.Transaction(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
		done, err = l.settle(ctx, tx, l.sql.ack, queue, parseReceipts(s.Receipts))
		return err
	})
	if err != nil {
		return Settled{}, err
	}
	return s.result(done)
}

// TestGroupInEveryOrder: two messages of a group are never with two consumers at a
// time. M58 forgets those that somebody has in hand.
func TestGroupInEveryOrder(t *testing.T) {
	inEach(t, 1, ours, map[string][]string{"M58 ignores what is in flight": {GroupOrder}},
		func(t *testing.T, l orders, breaks []string) {
			l.explore(t, l.with(2, 7), l.drain(2), session("a", l.consume), session("b", l.consume)).
				breaks(t, breaks, GroupOrder, EffectsOnce, WorkedOff, NoLoss)
		})
}

// TestGroupOfTwoPublishers: a publication that takes long to commit does not come to
// light when a later message of its group is with a consumer. M5A draws the identity of
// a message without waiting for the publishers of the same group.
func TestGroupOfTwoPublishers(t *testing.T) {
	inEach(t, 0, ours, map[string][]string{"M5A publishers of a group do not wait": {GroupOrder}},
		func(t *testing.T, l orders, breaks []string) {
			l.explore(t, l.with(0, 0), steps(l.hold, l.expire), session("slow", l.slow(512, 7)),
				session("quick", l.slow(768, 7)), session("a", l.hold), session("b", l.hold)).
				breaks(t, breaks, NoLoss)
		})
}

// slow publishes a message of a group, in a transaction of several statements.
func (l *lab) slow(id, group uint64) step {
	return func(ctx context.Context) error {
		return l.publishes(ctx, id, Recipe{Messages: 1, Group: group}, l.publishSlowly)
	}
}

// TestBurialMeetsConsumer: a message that dies while its last consumer is at work is
// worked off or dead, and not both, in any order; so is one that an operation acknowledges.
func TestBurialMeetsConsumer(t *testing.T) {
	for worked, by := range []func(*lab) step{
		func(l *lab) step { return l.acknowledge }, func(l *lab) step { return l.consume },
	} {
		inEach(t, worked, all, nil, func(t *testing.T, l orders, _ []string) {
			l.explore(t, steps(l.with(1, 0), l.hold, l.expire), // all deliveries but the last
				steps(l.expire, by(l.lab)), session("a", by(l.lab)), session("sweeper", l.expire)).
				breaks(t, nil, NoLoss)
		})
	}
}

// TestBurialByHalves is M57: a sweeper that inserts a dead letter in one transaction
// and deletes the message in another one is ended in between. The message is in two
// places then; in the other order, it is in none.
func TestBurialByHalves(t *testing.T) {
	for half, want := range map[string]string{
		`INSERT INTO dead_letters SELECT id, queue, op_id, idx, grp, priority, 2, redrives,
			created_at, clock_timestamp(), 'receives', body FROM messages`: OncePlaced,
		`DELETE FROM messages`: NoLoss,
	} {
		l := inOrders(t, "batched", 1)
		must(t, l.begin(t.Context(), 1, 0), l.run(t.Context(), []string{half}))
		verdicts, err := l.judge(t.Context())
		if v := verdicts[want]; err != nil || v.Status != check.Broken {
			t.Errorf("%s alone: %s is %s: %s, %v", half, want, v.Status, v.Reason, err)
		}
	}
}

// TestRingInEveryOrder: whatever the order of a ring that turns and of a publisher, or a
// consumer, the message is delivered and acknowledged once. M59 closes a slot, which is
// truncated then, without waiting for publications that still go there.
func TestRingInEveryOrder(t *testing.T) {
	for name, c := range map[string]struct {
		states     []string
		messages   int
		breaks     []string
		user, ring func(*lab) step
	}{
		"a publisher": {states: []string{"current"},
			user: func(l *lab) step { return l.slow(512, 0) },
			ring: func(l *lab) step { return steps(l.advance, l.closes, l.empties) }},
		"M59 closes too early": {states: []string{"current"}, breaks: []string{NoLoss},
			user: func(l *lab) step { return l.slow(512, 0) },
			ring: func(l *lab) step { return steps(l.advance, l.closesAtOnce, l.empties) }},
		"a consumer": {states: []string{"open", "current"}, messages: 1,
			user: func(l *lab) step { return l.acknowledge },
			ring: func(l *lab) step { return steps(l.closes, l.empties) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := inOrders(t, "partitioned", 0)
			// In the end whatever is left is acknowledged.
			l.explore(t, steps(l.ringIs("current"), l.with(c.messages, 0), l.ringIs(c.states...)),
				steps(l.empties, l.look, l.acknowledge, l.acknowledge),
				session("user", c.user(l.lab)), session("ring", c.ring(l.lab))).
				breaks(t, c.breaks, NoLoss, AckFinal)
		})
	}
}

// ringIs makes slot 0 and the next ones what these states say, since long ago, and
// all others empty.
func (l *lab) ringIs(states ...string) step {
	return func(ctx context.Context) error {
		err := l.run(ctx, []string{`UPDATE slots SET state = 'empty', turn = 0`})
		for slot, state := range states {
			err = errors.Join(err, l.run(ctx, []string{`UPDATE slots SET state = $2, turn = 1 + $1::int,
				since = clock_timestamp() - interval '1 hour' WHERE slot = $1`}, slot, state))
		}
		l.ring.patience = time.Minute
		l.ring.storing = nil
		return errors.Join(err, l.look(ctx))
	}
}

// advance makes the next slot current; closes closes slot 0 if it may, by the second look, and
// closesAtOnce does not ask who stores there; empties empties it if it is closed.
func (l *lab) advance(ctx context.Context) error { return l.ring.advance(ctx, 0) }

func (l *lab) closes(ctx context.Context) error {
	slot := ringSlot{0, 1}
	return errors.Join(l.ring.close(ctx, slot, 0), l.ring.close(ctx, slot, 0))
}

func (l *lab) closesAtOnce(ctx context.Context) error {
	return l.run(ctx, []string{`UPDATE slots SET state = 'closed' WHERE slot = 0 AND state = 'open'
		AND NOT EXISTS (SELECT FROM messages_0 WHERE state <> 'acked')`})
}

func (l *lab) empties(ctx context.Context) error {
	closed, err := l.ring.list(ctx, `slot = 0 AND state = 'closed'`)
	if err != nil || len(closed) == 0 {
		return err
	}
	return l.ring.empty(ctx, 0)
}

// TestWaitsEndBeforeDeadlines: whoever waits for longer than a call may take is told in
// time that there is nothing.
func TestWaitsEndBeforeDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &table{opened: &opened{}, tally: &tally{}, pollEvery: 20 * time.Millisecond}
		for _, limit := range []time.Duration{50 * time.Millisecond, 5 * time.Second} {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			began := time.Now()
			got, err := b.await(ctx, labQueue, Demand{Most: 1, WaitMS: 20_000},
				func(context.Context, string, int) ([]Delivery, error) { return nil, nil })
			took := time.Since(began)
			cancel()
			if err != nil || len(got) > 0 || took >= limit || took < limit*3/4 {
				t.Errorf("with %v: %d messages after %v, %v", limit, len(got), took, err)
			}
		}
	})
}
