package sqlbroker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/interleave"
	"stampede/harness/sut"
	"stampede/systems/sqlbroker"
)

// lab is a design whose statements can be put in order, on tables of its own. It
// remembers what publishers and consumers did and saw, so that the invariants judge it.
//
// Time is made to pass: it is that of a clock which is ahead of Postgres' by all that has
// passed so far, while the rows that are there already become older by as much.
type lab struct {
	*sqlbroker.Lab
	watch *pgx.Conn
	begun time.Time

	mu    sync.Mutex
	ahead time.Duration
	began time.Duration // how far ahead it was at the last beginning
	seen  evidence
}

// openLab opens a design with one queue, that its consumers work off if it is worked.
func openLab(t *testing.T, name string, worked int) *lab {
	t.Helper()
	p := sqlbroker.DefaultParams()
	p.Queues, p.Worked, p.MaxReceives = 1, worked, 2
	p.Visibility = sut.Duration(time.Hour) // what has to pass is made to pass
	cfg := configOf(t, p)
	l, err := sqlbroker.OpenLab(t.Context(), name, cfg, interleave.Tracer{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	watch, err := pgx.Connect(t.Context(), cfg.PostgresURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = watch.Close(context.Background()) })
	return &lab{Lab: l, watch: watch, begun: time.Now()}
}

const labQueue = sqlbroker.LabQueue

// Begin puts so many messages of a group, 0 for none, into an empty queue.
func (l *lab) Begin(ctx context.Context, messages int, group uint64) error {
	l.mu.Lock()
	l.seen, l.began = evidence{params: l.Params}, l.ahead
	l.mu.Unlock()
	return l.does(256, sqlbroker.KindPublish, publicationOf(messages, group), func() (any, error) {
		return nil, l.Lab.Begin(ctx, labQueue, messages, group)
	})
}

func publicationOf(messages int, group uint64) sqlbroker.Publication {
	return sqlbroker.Publication{Make: &sqlbroker.Recipe{Messages: messages, Group: group}}
}

// does something and remembers it: id 0 is any that is free.
func (l *lab) does(id uint64, kind string, asks any, do func() (any, error)) error {
	start := l.now()
	reply, err := do()
	if err != nil && !errors.Is(err, sut.ErrRefused) {
		return err
	}
	end := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if id == 0 {
		id = 1<<20 + uint64(len(l.seen.records))
	}
	r := l.seen.do(id, kind, labQueue, start, asks, 0, reply)
	if r.End = end; err != nil {
		r.Outcome, r.Err = history.Refused, err.Error()
	}
	return err
}

// now is the time by the driver's clock.
func (l *lab) now() time.Duration { return time.Since(l.begun) + l.passed() }

// passed is how far the clock is ahead.
func (l *lab) passed() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ahead
}

// Receive receives one message.
func (l *lab) Receive(ctx context.Context) (got []sqlbroker.Delivery, err error) {
	d := sqlbroker.Demand{Most: 1}
	err = l.does(0, sqlbroker.KindReceive, d, func() (any, error) {
		got, err = l.Lab.Receive(ctx, labQueue, d)
		for i := range got {
			got[i].ReceivedNS += int64(l.passed())
			got[i].VisibleNS += int64(l.passed())
		}
		return got, err
	})
	return got, err
}

// Settle settles what was received.
func (l *lab) Settle(
	ctx context.Context, kind string, by time.Duration, batch []sqlbroker.Delivery,
) error {
	s := sqlbroker.Settlement{ByMS: by.Milliseconds()}
	for _, d := range batch {
		s.Receipts = append(s.Receipts, d.Receipt)
	}
	return l.does(0, kind, s, func() (any, error) {
		done, err := l.Lab.Settle(ctx, labQueue, kind, s)
		if done.VisibleNS > 0 {
			done.VisibleNS += int64(l.passed())
		}
		return done, err
	})
}

// Work works off what was received.
func (l *lab) Work(ctx context.Context, batch []sqlbroker.Delivery) error {
	batch = slices.Clone(batch)
	for i := range batch {
		batch[i].ReceivedNS -= int64(l.passed())
		batch[i].VisibleNS -= int64(l.passed())
	}
	return l.Lab.Work(ctx, labQueue, batch)
}

// Age lets some time pass, and nobody come.
func (l *lab) Age(ctx context.Context, d time.Duration) error {
	err := l.Lab.Age(ctx, d)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ahead += d
	return err
}

// Expire lets the time of all deliveries pass, and a sweeper come at once.
func (l *lab) Expire(ctx context.Context) error {
	return errors.Join(l.Age(ctx, 24*time.Hour), l.SweepApart(ctx))
}

// consumer is a session that receives and works off what it got, once.
func (l *lab) consumer(name string) interleave.Session {
	return interleave.Session{Name: name, Do: func(ctx context.Context) error {
		batch, err := l.Receive(ctx)
		if err != nil || len(batch) == 0 {
			return err
		}
		return l.Work(ctx, batch)
	}}
}

// acknowledger is a session that receives and acknowledges what it got, once.
func (l *lab) acknowledger(name string) interleave.Session {
	return interleave.Session{Name: name, Do: func(ctx context.Context) error {
		batch, err := l.Receive(ctx)
		if err != nil || len(batch) == 0 {
			return err
		}
		return l.Settle(ctx, sqlbroker.KindAck, 0, batch)
	}}
}

// tooLate is a consumer that comes when the time of all deliveries is over and a
// sweeper has been there.
func (l *lab) tooLate(name string) interleave.Session {
	return interleave.Session{Name: name, Do: func(ctx context.Context) error {
		if err := l.Expire(ctx); err != nil {
			return err
		}
		return l.consumer(name).Do(ctx)
	}}
}

// judge is what the invariants say in the end.
func (l *lab) judge(ctx context.Context) (map[string]check.Verdict, error) {
	raw, err := l.Audit(ctx)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := json.Unmarshal(raw, &l.seen.audit); err != nil {
		return nil, err
	}
	a := l.seen.audit
	for i := range a.Messages {
		if a.Messages[i].AckedNS > 0 {
			a.Messages[i].AckedNS += int64(l.ahead)
		}
	}
	for i := range a.Dead { // as old as it is by now: nobody says when it died
		a.Dead[i].AgeNS += int64(l.ahead - l.began)
	}
	for i := range a.Effects {
		a.Effects[i].ReceivedNS += int64(l.ahead)
		a.Effects[i].VisibleNS += int64(l.ahead)
		a.Effects[i].StoredNS += int64(l.ahead)
	}
	return l.seen.judgeRaw(text(a)), nil
}

// found is what a search found: how many orders there are, and in how many of them an
// invariant has this status.
type found struct {
	orders int
	count  map[string]map[check.Status]int
	first  map[string]interleave.Violation // that broke it
}

// explore runs the sessions in every order, each time from a fresh beginning, then does
// what is left to do, and has the invariants judge.
func (l *lab) explore(
	t *testing.T, begin func(context.Context) error, rest func(context.Context) error,
	sessions func() []interleave.Session,
) found {
	t.Helper()
	f := found{count: map[string]map[check.Status]int{}, first: map[string]interleave.Violation{}}
	var broken [][]string
	result, err := interleave.Explore(t.Context(), l.watch,
		func(ctx context.Context) (interleave.World, error) {
			err := begin(ctx)
			return interleave.World{Sessions: sessions(),
				Judge: func(ctx context.Context, errs []error) error {
					for _, err := range errs {
						if err != nil && !errors.Is(err, sqlbroker.ErrStaleReceipt) {
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
				}}, err
		})
	if err != nil {
		t.Fatal(err)
	}
	if len(result.Violations) != len(broken) {
		t.Fatalf("of %d orders some ended in errors: %v", result.Orders, result.Violations)
	}
	for i, names := range broken {
		for _, name := range names {
			if _, is := f.first[name]; !is {
				f.first[name] = result.Violations[i]
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
			v.Status = pass // every order is tried here: nothing is left to chance
		}
		f.count[name][v.Status]++
		if v.Status == fail {
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
		t.Logf("%d of %d orders break %s", f.count[name][fail], f.orders, name)
		if f.count[name][fail] == 0 {
			t.Errorf("no order breaks %s: %v", name, f.count)
		}
	}
	if len(names) > 0 {
		return
	}
	for name, v := range f.first {
		t.Errorf("%d of %d orders break %s: %v", f.count[name][fail], f.orders, name, v)
	}
	for _, name := range held {
		if f.count[name][pass] != f.orders {
			t.Errorf("%s is not held in all of %d orders: %v", name, f.orders, f.count[name])
		}
	}
}

// drain works off what is left.
func (l *lab) drain(messages int) func(context.Context) error {
	return func(ctx context.Context) error {
		for range 2 * messages {
			if err := errors.Join(l.Expire(ctx), l.consumer("last").Do(ctx)); err != nil {
				return err
			}
		}
		return nil
	}
}

// with begins with some messages of a group, 0 for none.
func (l *lab) with(messages int, group uint64) func(context.Context) error {
	return func(ctx context.Context) error { return l.Begin(ctx, messages, group) }
}

// TestEveryOrder runs the statements of two consumers, and of one that is too late
// while another one gets its message, in every order. The right designs break nothing
// whatever the order; of the wrong ones the invariants that are named are broken, here
// without load and without faults.
func TestEveryOrder(t *testing.T) {
	kept, once := sqlbroker.VisibilityKept, sqlbroker.EffectsOnce
	for name, breaks := range map[string]struct{ together, late []string }{
		"row_at_a_time": {}, "batched": {}, "partitioned": {}, "listen_notify": {}, "river": {},
		"ack_before_effect":     {}, // it takes a crash
		"unfenced_delete":       {late: []string{once}},
		"claim_without_marking": {together: []string{kept, once}, late: []string{once}},

		"M51 claim by a read and an update":      {together: []string{kept, once}, late: []string{once}},
		"M53 effect, then unfenced ack":          {late: []string{once}},
		"M54 a look for the effect, then insert": {late: []string{once}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := openLab(t, name, 1)
			l.explore(t, l.with(1, 0), l.drain(1), func() []interleave.Session {
				return []interleave.Session{l.consumer("a"), l.consumer("b")}
			}).breaks(t, breaks.together, once, sqlbroker.WorkedOff, sqlbroker.NoLoss)
			l.explore(t, l.with(1, 0), l.drain(1), func() []interleave.Session {
				return []interleave.Session{l.consumer("a"), l.tooLate("b")}
			}).breaks(t, breaks.late, once, sqlbroker.WorkedOff, sqlbroker.NoLoss)
		})
	}
}

// TestExtensionMeetsSweeper: whatever the order of an extension and the end of the
// time, either the extension is refused and the message comes back, or it holds. M56
// extends from when the message was received, which is over by then.
func TestExtensionMeetsSweeper(t *testing.T) {
	for name, breaks := range map[string][]string{
		"batched": nil, "partitioned": nil, "listen_notify": nil,
		"M56 extended from the claim": {sqlbroker.VisibilityKept},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := openLab(t, name, 1)
			l.explore(t, l.with(1, 0), func(ctx context.Context) error {
				// An extension by an hour has half an hour left; without one, all is over.
				err := errors.Join(l.Age(ctx, 30*time.Minute), l.Sweep(ctx))
				_, received := l.Receive(ctx)
				return errors.Join(err, received, l.drain(1)(ctx))
			}, func() []interleave.Session {
				return []interleave.Session{{Name: "a", Do: func(ctx context.Context) error {
					held, err := l.Receive(ctx)
					if err != nil || len(held) == 0 {
						return err
					}
					if err := l.Age(ctx, 50*time.Minute); err != nil {
						return err
					}
					return l.Settle(ctx, sqlbroker.KindExtend, time.Hour, held)
				}}, {Name: "sweeper", Do: l.Sweep}}
			}).breaks(t, breaks, sqlbroker.VisibilityKept, sqlbroker.NoLoss)
		})
	}
}

// TestPublicationMeetsItsIdentity: of two publications with one identity, one is stored, in
// any order. The other one is told so if it is the same, and refused if it is another.
func TestPublicationMeetsItsIdentity(t *testing.T) {
	for _, name := range []string{
		"batched", "partitioned", "row_at_a_time", "listen_notify", "river",
	} {
		for others, want := range map[int]string{1: "0 refused", 2: "1 refused"} {
			t.Run(fmt.Sprintf("%s with %d messages", name, others), func(t *testing.T) {
				t.Parallel()
				l := openLab(t, name, 0)
				var refused atomic.Int64
				session := func(name string, n int, publish func(context.Context) error) interleave.Session {
					return interleave.Session{Name: name, Do: func(ctx context.Context) error {
						err := publish(ctx)
						if errors.Is(err, sqlbroker.ErrTaken) {
							refused.Add(1)
							return nil
						}
						return errors.Join(err, l.does(512, sqlbroker.KindPublish, publicationOf(n, 0),
							func() (any, error) { return nil, nil }))
					}}
				}
				l.explore(t, func(ctx context.Context) error {
					refused.Store(0)
					return l.Begin(ctx, 1, 0)
				}, func(context.Context) error {
					if got := fmt.Sprint(refused.Load(), " refused"); got != want {
						return fmt.Errorf("%s, want %s", got, want)
					}
					return nil
				}, func() []interleave.Session {
					return []interleave.Session{
						session("slow", 1, func(ctx context.Context) error {
							return l.PublishSlowly(ctx, labQueue, 512, 0)
						}),
						session("quick", others, func(ctx context.Context) error {
							r := sqlbroker.Recipe{Messages: others}
							_, err := l.Publish(ctx, labQueue, sqlbroker.Publication{OpID: 512,
								Messages: sqlbroker.MessagesOf(512, r)})
							return err
						}),
					}
				}).breaks(t, nil, sqlbroker.NoLoss)
			})
		}
	}
}

// TestRepeatedAckMeetsFirst: an acknowledgement that is repeated while the first one is
// under way is as good as that one, in any order. M5B goes by one statement, whose
// snapshot may be older than the first one's commit.
func TestRepeatedAckMeetsFirst(t *testing.T) {
	for name, stale := range map[string]bool{
		"batched": false, "row_at_a_time": false, "partitioned": false, "listen_notify": false,
		"river": false, "M5B asks once": true,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			variant := name
			if stale {
				variant = "batched"
			}
			l := openLab(t, variant, 0)
			again := func(
				ctx context.Context, queue string, s sqlbroker.Settlement,
			) (sqlbroker.Settled, error) {
				return l.Lab.Settle(ctx, queue, sqlbroker.KindAck, s)
			}
			if stale {
				again = l.AckOnce
			}
			var asked sqlbroker.Settlement
			refused := 0
			session := func(
				name string,
				ack func(context.Context, string, sqlbroker.Settlement) (sqlbroker.Settled, error),
			) interleave.Session {
				return interleave.Session{Name: name, Do: func(ctx context.Context) error {
					err := l.does(0, sqlbroker.KindAck, asked, func() (any, error) {
						return ack(ctx, labQueue, asked)
					})
					if errors.Is(err, sqlbroker.ErrStaleReceipt) {
						refused++
					}
					return err
				}}
			}
			l.explore(t, func(ctx context.Context) error {
				err := l.Begin(ctx, 1, 0)
				got, received := l.Receive(ctx)
				if len(got) == 1 {
					asked.Receipts = []string{got[0].Receipt}
				}
				return errors.Join(err, received)
			}, func(context.Context) error { return nil }, func() []interleave.Session {
				return []interleave.Session{session("first", l.AckSlowly), session("again", again)}
			}).breaks(t, nil, sqlbroker.NoLoss, sqlbroker.AckFinal)
			if (refused > 0) != stale {
				t.Errorf("a good receipt was called stale in %d orders", refused)
			}
		})
	}
}

// TestGroupInEveryOrder: two messages of a group are never with two consumers at a
// time. M58 forgets those that somebody has in hand.
func TestGroupInEveryOrder(t *testing.T) {
	for name, breaks := range map[string][]string{
		"batched": nil, "row_at_a_time": nil, "partitioned": nil, "listen_notify": nil,
		"M58 ignores what is in flight": {sqlbroker.GroupOrder},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := openLab(t, name, 1)
			l.explore(t, l.with(2, 7), l.drain(2), func() []interleave.Session {
				return []interleave.Session{l.consumer("a"), l.consumer("b")}
			}).breaks(t, breaks, sqlbroker.GroupOrder, sqlbroker.EffectsOnce, sqlbroker.WorkedOff,
				sqlbroker.NoLoss)
		})
	}
}

// TestGroupOfTwoPublishers: a publication that takes long to commit does not come to
// light when a later message of its group is with a consumer. M5A draws the identity of
// a message without waiting for the publishers of the same group.
func TestGroupOfTwoPublishers(t *testing.T) {
	for name, breaks := range map[string][]string{
		"batched": nil, "row_at_a_time": nil, "partitioned": nil, "listen_notify": nil,
		"M5A publishers of a group do not wait": {sqlbroker.GroupOrder},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := openLab(t, name, 0)
			holds := func(ctx context.Context) error {
				_, err := l.Receive(ctx)
				return err
			}
			l.explore(t, l.with(0, 0), holds, func() []interleave.Session {
				return []interleave.Session{
					{Name: "slow", Do: func(ctx context.Context) error { return l.publish(ctx, 512, 7) }},
					{Name: "quick", Do: func(ctx context.Context) error { return l.publish(ctx, 768, 7) }},
					{Name: "a", Do: holds}, {Name: "b", Do: holds},
				}
			}).breaks(t, breaks, sqlbroker.NoLoss)
		})
	}
}

// publish publishes a message of a group, in a transaction of several statements.
func (l *lab) publish(ctx context.Context, id, group uint64) error {
	return l.does(id, sqlbroker.KindPublish, publicationOf(1, group), func() (any, error) {
		return nil, l.PublishSlowly(ctx, labQueue, id, group)
	})
}

// TestBurialMeetsConsumer: a message that dies while its last consumer is at work is
// worked off or dead, and not both, in any order; so is one that an operation acknowledges.
func TestBurialMeetsConsumer(t *testing.T) {
	for _, name := range []string{
		"batched", "partitioned", "row_at_a_time", "listen_notify", "river",
	} {
		for worked, by := range map[int]func(*lab, string) interleave.Session{
			1: (*lab).consumer, 0: (*lab).acknowledger,
		} {
			t.Run(fmt.Sprintf("%s with %d queues of consumers", name, worked), func(t *testing.T) {
				t.Parallel()
				l := openLab(t, name, worked)
				l.explore(t, func(ctx context.Context) error {
					err := l.Begin(ctx, 1, 0)
					for range l.Params.MaxReceives - 1 {
						_, received := l.Receive(ctx)
						err = errors.Join(err, received, l.Expire(ctx))
					}
					return err
				}, func(ctx context.Context) error {
					return errors.Join(l.Expire(ctx), by(l, "last").Do(ctx))
				}, func() []interleave.Session {
					return []interleave.Session{by(l, "a"), {Name: "sweeper", Do: l.Expire}}
				}).breaks(t, nil, sqlbroker.NoLoss)
			})
		}
	}
}

// TestBurialByHalves is M57: a sweeper that inserts a dead letter in one transaction
// and deletes the message in another one is ended in between. The message is in two
// places then; in the other order, it is in none.
func TestBurialByHalves(t *testing.T) {
	for half, want := range map[string]string{
		"insert": sqlbroker.OncePlaced, "delete": sqlbroker.NoLoss,
	} {
		l := openLab(t, "batched", 1)
		if err := errors.Join(l.Begin(t.Context(), 1, 0), l.BuryHalf(t.Context(), half)); err != nil {
			t.Fatal(err)
		}
		verdicts, err := l.judge(t.Context())
		if v := verdicts[want]; err != nil || v.Status != fail {
			t.Errorf("%s alone: %s is %s: %s, %v", half, want, v.Status, v.Reason, err)
		}
	}
}

// TestRingInEveryOrder: whatever the order of a ring that turns and of a publisher, or a
// consumer, the message is delivered and acknowledged once. M59 closes a slot, which is
// truncated then, without waiting for publications that still go there.
func TestRingInEveryOrder(t *testing.T) {
	for name, breaks := range map[string][]string{
		"partitioned": nil, "M59 closes too early": {sqlbroker.NoLoss},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := openLab(t, "partitioned", 0)
			l.exploreRing(t, []string{"current"}, 0, []interleave.Session{
				{Name: "publisher", Do: func(ctx context.Context) error { return l.publish(ctx, 512, 0) }},
				{Name: "ring", Do: func(ctx context.Context) error {
					return errors.Join(l.RingAdvances(ctx), l.RingCloses(ctx, breaks == nil),
						l.RingEmpties(ctx))
				}},
			}).breaks(t, breaks, sqlbroker.NoLoss, sqlbroker.AckFinal)
		})
	}
	t.Run("a consumer", func(t *testing.T) {
		t.Parallel()
		l := openLab(t, "partitioned", 0)
		l.exploreRing(t, []string{"open", "current"}, 1, []interleave.Session{
			{Name: "consumer", Do: l.ackOne},
			{Name: "ring", Do: func(ctx context.Context) error {
				return errors.Join(l.RingCloses(ctx, true), l.RingEmpties(ctx))
			}},
		}).breaks(t, nil, sqlbroker.NoLoss, sqlbroker.AckFinal)
	})
}

// exploreRing begins with slots in these states and so many messages, which are in slot
// 0. In the end whatever is left is acknowledged.
func (l *lab) exploreRing(
	t *testing.T, states []string, messages int, sessions []interleave.Session,
) found {
	t.Helper()
	return l.explore(t, func(ctx context.Context) error {
		return errors.Join(l.RingBegins(ctx, "current"), l.Begin(ctx, messages, 0),
			l.RingBegins(ctx, states...))
	}, func(ctx context.Context) error {
		return errors.Join(l.RingEmpties(ctx), l.RingSeen(ctx), l.ackOne(ctx), l.ackOne(ctx))
	}, func() []interleave.Session { return sessions })
}

// ackOne receives and acknowledges a message if there is one.
func (l *lab) ackOne(ctx context.Context) error {
	got, err := l.Receive(ctx)
	if err != nil || len(got) == 0 {
		return err
	}
	return l.Settle(ctx, sqlbroker.KindAck, 0, got)
}

// TestWaitsEndBeforeDeadlines: whoever waits for longer than a call may take is told in
// time that there is nothing.
func TestWaitsEndBeforeDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, limit := range []time.Duration{50 * ms, 5 * time.Second} {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			began := time.Now()
			demand := sqlbroker.Demand{Most: 1, WaitMS: 20_000}
			got, err := sqlbroker.Await(ctx, demand)
			took := time.Since(began)
			cancel()
			if err != nil || len(got) > 0 || took >= limit || took < limit*3/4 {
				t.Errorf("with %v: %d messages after %v, %v", limit, len(got), took, err)
			}
		}
	})
}
