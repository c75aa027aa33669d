package sqlbroker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/harness/interleave"
	"stampede/systems/sqlbroker"
)

// lab is a design whose statements can be put in order, on tables of its own.
type lab struct {
	*sqlbroker.Lab
	watch *pgx.Conn
}

// openLab opens a design with one queue that its consumers work off.
func openLab(t *testing.T, name string) *lab {
	t.Helper()
	p := sqlbroker.DefaultParams()
	p.Queues, p.Worked, p.MaxReceives = 1, 1, 2
	p.Visibility *= 3600 // what has to pass is made to pass
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
	return &lab{l, watch}
}

const labQueue = "queue-1"

// consumer is a session that receives and works off what it got, once.
func (l *lab) consumer(name string, got *[]sqlbroker.Delivery) interleave.Session {
	return interleave.Session{Name: name, Do: func(ctx context.Context) error {
		batch, err := l.Receive(ctx, labQueue, sqlbroker.Demand{Most: 1})
		if err != nil {
			return err
		}
		if got != nil {
			*got = append(*got, batch...)
		}
		if len(batch) == 0 {
			return nil
		}
		return l.Work(ctx, labQueue, batch)
	}}
}

// tooLate is a consumer that comes when the time of all deliveries is over and a
// sweeper has been there.
func (l *lab) tooLate(name string) interleave.Session {
	return interleave.Session{Name: name, Do: func(ctx context.Context) error {
		if err := l.Expire(ctx); err != nil {
			return err
		}
		return l.consumer(name, nil).Do(ctx)
	}}
}

// explore begins with some messages of a group, 0 for none, runs the sessions in every
// order, then has a consumer work off what is left, and judges how often each message
// was worked off.
func (l *lab) explore(
	t *testing.T, messages int, group uint64, sessions func() []interleave.Session,
	more func(context.Context) error,
) interleave.Result {
	t.Helper()
	result, err := interleave.Explore(t.Context(), l.watch,
		func(ctx context.Context) (interleave.World, error) {
			err := l.Begin(ctx, labQueue, messages, group)
			return interleave.World{Sessions: sessions(),
				Judge: func(ctx context.Context, errs []error) error {
					for _, err := range errs {
						if err != nil && !errors.Is(err, sqlbroker.ErrStaleReceipt) {
							return err
						}
					}
					if more != nil {
						if err := more(ctx); err != nil {
							return err
						}
					}
					return l.judgeEffects(ctx, messages)
				}}, err
		})
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// judgeEffects works off what is left and wants one effect of each message, as the
// invariants judge it.
func (l *lab) judgeEffects(ctx context.Context, messages int) error {
	for range 2 * messages {
		if err := errors.Join(l.Expire(ctx), l.consumer("last", nil).Do(ctx)); err != nil {
			return err
		}
	}
	audit, err := l.Audit(ctx)
	if err != nil {
		return err
	}
	e := &evidence{params: l.Params}
	e.publish(256, 1, messages, 0, 0)
	for _, name := range []string{sqlbroker.EffectsOnce, sqlbroker.WorkedOff, sqlbroker.NoLoss} {
		if v := e.judgeAs(name, audit); v.Status != pass {
			return fmt.Errorf("%s is %s: %s", name, v.Status, v.Reason)
		}
	}
	return nil
}

// TestEveryOrder runs the statements of two consumers, and of one that is too late
// while another one gets its message, in every order. The right designs leave one
// effect of each message whatever the order; the wrong ones are found out here,
// without load and without faults.
func TestEveryOrder(t *testing.T) {
	for name, wrong := range map[string]struct{ together, late bool }{
		"row_at_a_time": {}, "batched": {}, "partitioned": {}, "listen_notify": {}, "river": {},
		"ack_before_effect":     {}, // it takes a crash
		"unfenced_delete":       {late: true},
		"claim_without_marking": {together: true, late: true},

		"M51 claim by a read and an update":      {together: true, late: true},
		"M53 effect, then unfenced ack":          {late: true},
		"M54 a look for the effect, then insert": {late: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := openLab(t, name)
			var got []sqlbroker.Delivery
			together := l.explore(t, 1, 0, func() []interleave.Session {
				got = nil
				return []interleave.Session{l.consumer("a", &got), l.consumer("b", &got)}
			}, func(context.Context) error {
				if len(got) > 1 {
					return errors.New("both got the message")
				}
				return nil
			})
			l.want(t, "together", together, wrong.together)
			late := l.explore(t, 1, 0, func() []interleave.Session {
				return []interleave.Session{l.consumer("a", nil), l.tooLate("b")}
			}, nil)
			l.want(t, "one too late", late, wrong.late)
		})
	}
}

// want fails the test unless a search found something wrong, or did not.
func (l *lab) want(t *testing.T, what string, result interleave.Result, wrong bool) {
	t.Helper()
	t.Logf("%s: %d orders, %d of them wrong", what, result.Orders, len(result.Violations))
	if found := len(result.Violations) > 0; found != wrong || result.Orders < 2 {
		t.Errorf("%s: of %d orders these are wrong: %v", what, result.Orders, result.Violations)
	}
}

// TestExtensionMeetsSweeper: whatever the order of an extension and the end of the
// time, either the extension is refused and the message comes back, or it holds. M56
// extends from when the message was received, which is over by then.
func TestExtensionMeetsSweeper(t *testing.T) {
	for name, wrong := range map[string]bool{
		"batched": false, "partitioned": false, "listen_notify": false,
		"M56 extended from the claim": true,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := openLab(t, name)
			var held []sqlbroker.Delivery
			var extended error
			result := l.explore(t, 1, 0, func() []interleave.Session {
				held, extended = nil, nil
				return []interleave.Session{{Name: "a", Do: func(ctx context.Context) (err error) {
					if held, err = l.Receive(ctx, labQueue, sqlbroker.Demand{Most: 1}); err != nil {
						return err
					}
					if len(held) == 0 {
						return nil
					}
					// Half of its time is over.
					if err := l.Age(ctx, 50*time.Minute); err != nil {
						return err
					}
					_, extended = l.Settle(ctx, labQueue, sqlbroker.KindExtend, sqlbroker.Settlement{
						Receipts: []string{held[0].Receipt}, ByMS: time.Hour.Milliseconds()})
					return nil
				}}, {Name: "sweeper", Do: l.Sweep}}
			}, func(ctx context.Context) error {
				if len(held) == 0 || extended != nil {
					return nil //nolint:nilerr // who is refused has nothing to hold on to
				}
				// It was extended by an hour; half an hour later it is still the consumer's.
				if err := errors.Join(l.Age(ctx, 30*time.Minute), l.Sweep(ctx)); err != nil {
					return err
				}
				again, err := l.Receive(ctx, labQueue, sqlbroker.Demand{Most: 1})
				if len(again) > 0 {
					return fmt.Errorf("it was delivered again half an hour after being extended by an hour")
				}
				return err
			})
			l.want(t, "all", result, wrong)
		})
	}
}

// TestGroupInEveryOrder: two messages of a group are never with two consumers at a
// time. M58 forgets those that somebody has in hand.
func TestGroupInEveryOrder(t *testing.T) {
	for name, wrong := range map[string]bool{
		"batched": false, "row_at_a_time": false, "partitioned": false, "listen_notify": false,
		"M58 ignores what is in flight": true,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := openLab(t, name)
			var order []sqlbroker.Delivery
			var worked [2]bool
			consumer := func(name string) interleave.Session {
				return interleave.Session{Name: name, Do: func(ctx context.Context) error {
					batch, err := l.Receive(ctx, labQueue, sqlbroker.Demand{Most: 1})
					if err != nil || len(batch) == 0 {
						return err
					}
					if batch[0].Index == 1 && !worked[0] {
						order = append(order, batch...)
					}
					err = l.Work(ctx, labQueue, batch)
					worked[batch[0].Index] = true
					return err
				}}
			}
			result := l.explore(t, 2, 7, func() []interleave.Session {
				order, worked = nil, [2]bool{}
				return []interleave.Session{consumer("a"), consumer("b")}
			}, func(context.Context) error {
				if len(order) > 0 {
					return fmt.Errorf("the second of a group was delivered before the first was worked off")
				}
				return nil
			})
			l.want(t, "all", result, wrong)
		})
	}
}

// TestBurialMeetsConsumer: a message that dies while its last consumer is at work is
// worked off or dead, and not both, in any order.
func TestBurialMeetsConsumer(t *testing.T) {
	for _, name := range []string{
		"batched", "partitioned", "row_at_a_time", "listen_notify", "river",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := openLab(t, name)
			result := l.exploreDeath(t, []interleave.Session{l.consumer("a", nil),
				{Name: "sweeper", Do: l.Expire}})
			l.want(t, "all", result, false)
		})
	}
}

// exploreDeath begins with a message that may be delivered once more, and judges that
// it is in one place in the end.
func (l *lab) exploreDeath(t *testing.T, sessions []interleave.Session) interleave.Result {
	t.Helper()
	result, err := interleave.Explore(t.Context(), l.watch,
		func(ctx context.Context) (interleave.World, error) {
			err := l.Begin(ctx, labQueue, 1, 0)
			for range l.Params.MaxReceives - 1 {
				_, received := l.Receive(ctx, labQueue, sqlbroker.Demand{Most: 1})
				err = errors.Join(err, received, l.Expire(ctx))
			}
			return interleave.World{Sessions: sessions,
				Judge: func(ctx context.Context, errs []error) error {
					return errors.Join(errors.Join(errs...), l.onePlace(ctx))
				}}, err
		})
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// onePlace says what is wrong with where the message is.
func (l *lab) onePlace(ctx context.Context) error {
	audit, err := l.Audit(ctx)
	if err != nil {
		return err
	}
	e := &evidence{params: l.Params}
	e.publish(256, 1, 1, 0, 0)
	for _, name := range []string{sqlbroker.OncePlaced, sqlbroker.NoLoss} {
		if v := e.judgeAs(name, audit); v.Status == fail {
			return fmt.Errorf("%s is %s: %s", name, v.Status, v.Reason)
		}
	}
	return nil
}

// TestBurialByHalves is M57: a sweeper that inserts a dead letter in one transaction
// and deletes the message in another one is ended in between. The message is in two
// places then; in the other order, it is in none.
func TestBurialByHalves(t *testing.T) {
	for half, want := range map[string]string{
		"insert": sqlbroker.OncePlaced, "delete": sqlbroker.NoLoss,
	} {
		l := openLab(t, "batched")
		if err := errors.Join(l.Begin(t.Context(), labQueue, 1, 0), l.onePlace(t.Context()),
			l.BuryHalf(t.Context(), half)); err != nil {
			t.Fatal(err)
		}
		err := l.onePlace(t.Context())
		if err == nil || !strings.Contains(err.Error(), want+" is broken") {
			t.Errorf("%s alone: %v, want %s", half, err, want)
		}
	}
}

// TestRingInEveryOrder: whatever the order of a ring that turns and of a publisher, or a
// consumer, the message is delivered and acknowledged once. M59 truncates a slot without
// a look at what came to it after it was closed.
func TestRingInEveryOrder(t *testing.T) {
	for name, wrong := range map[string]bool{"partitioned": false, "M59 truncates unseen": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := openLab(t, "partitioned")
			result := l.exploreRing(t, []string{"current"}, 0, func(*int) []interleave.Session {
				return []interleave.Session{
					{Name: "publisher", Do: func(ctx context.Context) error {
						return l.PublishSlowly(ctx, labQueue, 512)
					}},
					{Name: "ring", Do: func(ctx context.Context) error {
						return errors.Join(l.RingAdvances(ctx), l.RingCloses(ctx), l.RingEmpties(ctx, !wrong))
					}},
				}
			})
			l.want(t, "a publisher", result, wrong)
		})
	}
	t.Run("a consumer", func(t *testing.T) {
		t.Parallel()
		l := openLab(t, "partitioned")
		result := l.exploreRing(t, []string{"open", "current"}, 1, func(acked *int) []interleave.Session {
			return []interleave.Session{
				{Name: "consumer", Do: func(ctx context.Context) error { return l.ackOne(ctx, acked) }},
				{Name: "ring", Do: func(ctx context.Context) error {
					return errors.Join(l.RingCloses(ctx), l.RingEmpties(ctx, true))
				}},
			}
		})
		l.want(t, "all", result, false)
	})
}

// exploreRing begins with slots in these states and so many messages, which are in slot
// 0, and judges that one message was acknowledged once in the end.
func (l *lab) exploreRing(
	t *testing.T, states []string, messages int, sessions func(acked *int) []interleave.Session,
) interleave.Result {
	t.Helper()
	result, err := interleave.Explore(t.Context(), l.watch,
		func(ctx context.Context) (interleave.World, error) {
			acked := new(int)
			err := errors.Join(l.RingBegins(ctx, "current"), l.Begin(ctx, labQueue, messages, 0),
				l.RingBegins(ctx, states...))
			return interleave.World{Sessions: sessions(acked),
				Judge: func(ctx context.Context, errs []error) error {
					err := errors.Join(errors.Join(errs...), l.RingEmpties(ctx, true), l.RingSeen(ctx),
						l.ackOne(ctx, acked), l.ackOne(ctx, acked))
					if err == nil && *acked != 1 {
						err = fmt.Errorf("the message was acknowledged %d times", *acked)
					}
					return err
				}}, err
		})
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// ackOne receives and acknowledges a message if there is one.
func (l *lab) ackOne(ctx context.Context, acked *int) error {
	got, err := l.Receive(ctx, labQueue, sqlbroker.Demand{Most: 1})
	if err != nil || len(got) == 0 {
		return err
	}
	_, err = l.Settle(ctx, labQueue, sqlbroker.KindAck,
		sqlbroker.Settlement{Receipts: []string{got[0].Receipt}})
	if err == nil {
		*acked++
	}
	return err
}

// TestNobodyMissesTheBell: who waits is woken by a bell that rings after it has looked
// and before it waits; nothing else would wake it here.
func TestNobodyMissesTheBell(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for _, rings := range []string{labQueue, ""} {
		looks := 0
		got, err := sqlbroker.Await(ctx, sqlbroker.Demand{Most: 1, WaitMS: time.Hour.Milliseconds()},
			time.Hour, func(ring func(string)) []sqlbroker.Delivery {
				if looks++; looks == 1 {
					ring(rings)
					return nil
				}
				return make([]sqlbroker.Delivery, 1)
			})
		if err != nil || len(got) != 1 || looks != 2 {
			t.Errorf("a bell for %q: %d messages after %d looks, %v", rings, len(got), looks, err)
		}
	}
}
