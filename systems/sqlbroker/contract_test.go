package sqlbroker_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/harness/api"
	"stampede/harness/check"
	"stampede/harness/sut"
	"stampede/systems/sqlbroker"
)

// desk is a variant behind its HTTP API, with its sweeper at work, and a queue of the
// test's own.
type desk struct {
	sqlbroker.Broker
	client sut.Instance
	url    string
	queue  string
	next   *atomic.Uint64 // identities of publications
}

// right are the variants that are not known to be wrong.
func right() []sut.Variant {
	return slices.DeleteFunc(sqlbroker.System().Variants, func(v sut.Variant) bool {
		return len(v.Breaks) > 0
	})
}

// openDesk opens a variant with its sweeper.
func openDesk(t *testing.T, v sut.Variant) *desk {
	t.Helper()
	p := rush()
	p.Keep = sut.Duration(time.Hour)
	cfg := configOf(t, *p)
	inst, err := v.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := inst.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := inst.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var working sync.WaitGroup
	t.Cleanup(working.Wait)
	t.Cleanup(stop)
	for _, r := range v.Roles {
		if r.Name != sqlbroker.RoleSweeper {
			continue
		}
		working.Go(func() {
			if err := r.Run(ctx, cfg); err != nil {
				t.Error(err)
			}
		})
	}
	server := httptest.NewServer(newHandler(t, inst))
	t.Cleanup(server.Close)
	c := client(t, server.URL, *p)
	return &desk{Broker: remote{c}, client: c, url: server.URL, next: new(atomic.Uint64)}
}

// at is the desk with a queue of this name.
func (d *desk) at(t *testing.T, queue string, s sqlbroker.QueueSettings) *desk {
	t.Helper()
	other := *d
	other.queue = queue
	if err := d.Create(t.Context(), queue, s); err != nil {
		t.Fatal(err)
	}
	return &other
}

// lasting are settings under which nothing happens by itself.
func lasting() sqlbroker.QueueSettings {
	return sqlbroker.QueueSettings{VisibilityMS: 600_000, MaxReceives: 5, RetentionMS: 3_600_000}
}

func (d *desk) publish(t *testing.T, list ...sqlbroker.Message) {
	t.Helper()
	n, err := d.Publish(t.Context(), d.queue,
		sqlbroker.Publication{OpID: d.next.Add(1), Messages: list})
	if err != nil || n != len(list) {
		t.Fatalf("published %d of %d messages: %v", n, len(list), err)
	}
}

// receive wants the messages with these bodies, in their order, and waits for them.
func (d *desk) receive(t *testing.T, bodies ...string) (got []sqlbroker.Delivery) {
	t.Helper()
	for until := time.Now().Add(20 * time.Second); len(got) < len(bodies); {
		more, err := d.Receive(t.Context(), d.queue,
			sqlbroker.Demand{Most: len(bodies) - len(got), WaitMS: 1000})
		if err != nil || time.Now().After(until) {
			t.Fatalf("received %d of %d messages: %v", len(got), len(bodies), err)
		}
		got = append(got, more...)
	}
	for i, m := range got {
		if m.Body != bodies[i] {
			t.Fatalf("received %q in place %d, want %q", m.Body, i, bodies)
		}
	}
	return got
}

// nothing wants that there is nothing to receive.
func (d *desk) nothing(t *testing.T) {
	t.Helper()
	got, err := d.Receive(t.Context(), d.queue, sqlbroker.Demand{Most: 10})
	if err != nil || len(got) > 0 {
		t.Fatalf("received %+v, %v", got, err)
	}
}

// settle wants all receipts to be good, or none.
func (d *desk) settle(t *testing.T, how string, good bool, got ...sqlbroker.Delivery) {
	t.Helper()
	s := sqlbroker.Settlement{OpID: d.next.Add(1)}
	for _, m := range got {
		s.Receipts = append(s.Receipts, m.Receipt)
	}
	done, err := d.Settle(t.Context(), d.queue, how, s)
	if good && (err != nil || len(done.Done) != len(got)) ||
		!good && !errors.Is(err, sqlbroker.ErrStaleReceipt) {
		t.Fatalf("%s of %d messages: %+v, %v; want them to be good: %v", how, len(got), done, err, good)
	}
}

// holds waits until the queue holds what is wanted.
func (d *desk) holds(t *testing.T, want string) {
	t.Helper()
	var is string
	for until := time.Now().Add(20 * time.Second); time.Now().Before(until); {
		list, err := d.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(list, func(q sqlbroker.QueueInfo) bool { return q.Queue == d.queue })
		if i < 0 {
			t.Fatalf("%s is not listed", d.queue)
		}
		q := list[i]
		is = fmt.Sprintf("%d ready, %d delayed, %d picked, %d dead", q.Ready, q.Delayed, q.Picked, q.Dead)
		if is == want {
			return
		}
		sut.Pause(t.Context(), 5*time.Millisecond)
	}
	t.Fatalf("the queue has %s, want %s", is, want)
}

// audit is what the audit says of the queue.
func (d *desk) audit(t *testing.T) (messages []sqlbroker.MessageAudit, dead []sqlbroker.DeadAudit) {
	t.Helper()
	raw, err := d.client.Audit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	a, err := api.DecodeAudit[sqlbroker.Audit](raw)
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(a.Messages, func(m sqlbroker.MessageAudit) bool {
			return m.Queue != d.queue
		}), slices.DeleteFunc(a.Dead, func(m sqlbroker.DeadAudit) bool {
			return m.Queue != d.queue
		})
}

// say are messages with these bodies.
func say(bodies ...string) []sqlbroker.Message {
	list := make([]sqlbroker.Message, len(bodies))
	for i, body := range bodies {
		list[i].Body = body
	}
	return list
}

// TestContract has every right variant do over HTTP, on a real store, what the
// workload asks of it seldom or never.
func TestContract(t *testing.T) {
	for _, v := range right() {
		t.Run(v.Name, func(t *testing.T) {
			d := openDesk(t, v)
			for name, clause := range map[string]func(*testing.T, *desk){
				"delayed": delayed, "priorities": priorities, "release": release, "extend": extend,
				"redrive": redrive, "purge": purge, "rates": rates, "retention": retention,
				"published once": publishedOnce, "taken": taken,
			} {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					clause(t, d)
				})
			}
		})
	}
}

// delayed: a message is not received before its delay is over.
func delayed(t *testing.T, d *desk) {
	d = d.at(t, "delayed", lasting())
	begin := time.Now()
	d.publish(t, sqlbroker.Message{Body: "now"}, sqlbroker.Message{Body: "later", DelayMS: 150})
	d.receive(t, "now")
	got := d.receive(t, "later")
	if after := time.Unix(0, got[0].ReceivedNS).Sub(begin); after < 150*time.Millisecond {
		t.Errorf("received %v after it was published", after)
	}
	d.publish(t, sqlbroker.Message{Body: "tomorrow", DelayMS: time.Hour.Milliseconds()})
	d.nothing(t)
	d.holds(t, "0 ready, 1 delayed, 2 picked, 0 dead")
}

// priorities: higher ones come first, and those that are alike as they were published.
func priorities(t *testing.T, d *desk) {
	d = d.at(t, "priorities", lasting())
	list := say("low", "high", "middle", "highest", "high too", "lowest")
	for i, priority := range []int{1, 2, 1, 3, 2, 0} {
		list[i].Priority = priority
	}
	d.publish(t, list...)
	d.publish(t, sqlbroker.Message{Body: "high at last", Priority: 2})
	d.receive(t, "highest", "high")
	d.receive(t, "high too", "high at last", "low")
	d.receive(t, "middle", "lowest")
	d.nothing(t)
}

// release: what is given back is received again at once, and the receipt is used up.
func release(t *testing.T, d *desk) {
	d = d.at(t, "release", lasting())
	d.publish(t, say("a", "b")...)
	first := d.receive(t, "a", "b")
	d.nothing(t)
	d.settle(t, sqlbroker.KindRelease, true, first[0])
	d.settle(t, sqlbroker.KindAck, false, first[0])
	again := d.receive(t, "a")
	if again[0].Receives != 2 || again[0].Receipt == first[0].Receipt {
		t.Errorf("received again as %+v", again[0])
	}
	d.settle(t, sqlbroker.KindRelease, false, first[0])
	d.settle(t, sqlbroker.KindAck, true, again[0], first[1])
	d.settle(t, sqlbroker.KindAck, true, again[0]) // what is repeated is good again
	d.holds(t, "0 ready, 0 delayed, 0 picked, 0 dead")
}

// extend: who asks for more time has the message for longer; who does not loses it.
func extend(t *testing.T, d *desk) {
	var got []sqlbroker.Delivery
	var done sqlbroker.Settled
	brief, err := lasting(), sqlbroker.ErrStaleReceipt
	// On a busy machine the first time may be over before it is extended.
	for brief.VisibilityMS = 300; errors.Is(err, sqlbroker.ErrStaleReceipt); brief.VisibilityMS *= 4 {
		d = d.at(t, fmt.Sprintf("extend-%d", brief.VisibilityMS), brief)
		d.publish(t, say("kept", "lost")...)
		got = d.receive(t, "kept", "lost")
		done, err = d.Settle(t.Context(), d.queue, sqlbroker.KindExtend, sqlbroker.Settlement{
			OpID: d.next.Add(1), Receipts: []string{got[0].Receipt}, ByMS: 600_000})
	}
	if err != nil {
		t.Fatal(err)
	}
	if more := time.Duration(done.VisibleNS - got[0].VisibleNS); more < 9*time.Minute {
		t.Errorf("extended by ten minutes, it is the consumer's for %v longer", more)
	}
	again := d.receive(t, "lost")
	if again[0].ReceivedNS < got[1].VisibleNS {
		t.Errorf("received again %v before its time was over",
			time.Duration(got[1].VisibleNS-again[0].ReceivedNS))
	}
	d.nothing(t)
	d.settle(t, sqlbroker.KindAck, false, got[1])
	d.settle(t, sqlbroker.KindAck, true, got[0])
}

// redrive: what was delivered too often is a dead letter, and comes back as if it had
// never been delivered.
func redrive(t *testing.T, d *desk) {
	twice := lasting()
	twice.MaxReceives = 2
	d = d.at(t, "redrive", twice)
	d.publish(t, say("a", "b")...)
	for range twice.MaxReceives {
		d.settle(t, sqlbroker.KindRelease, true, d.receive(t, "a", "b")...)
	}
	d.holds(t, "0 ready, 0 delayed, 0 picked, 2 dead")
	d.nothing(t)
	if _, dead := d.audit(t); len(dead) != 2 || dead[0].Receives != 2 || dead[1].Receives != 2 ||
		dead[0].Reason != sqlbroker.DeadReceives {
		t.Errorf("dead letters: %+v", dead)
	}
	for _, want := range []int{2, 0} {
		if n, err := d.Redrive(t.Context(), d.queue); err != nil || n != want {
			t.Fatalf("redrove %d messages, want %d: %v", n, want, err)
		}
	}
	got := d.receive(t, "a", "b")
	if got[0].Receives != 1 || got[1].Receives != 1 {
		t.Errorf("received after the redrive as %+v", got)
	}
	d.settle(t, sqlbroker.KindAck, true, got...)
	if messages, _ := d.audit(t); len(messages) != 2 || messages[0].Redrives != 1 ||
		messages[1].State != sqlbroker.StateAcked {
		t.Errorf("after the redrive: %+v", messages)
	}
	if _, err := d.Redrive(t.Context(), "no-such-queue"); !errors.Is(err, sqlbroker.ErrUnknownQueue) {
		t.Errorf("redriving no queue: %v", err)
	}
}

// purge: all that is in the queue goes, what is in hand too; dead letters and other
// queues stay.
func purge(t *testing.T, d *desk) {
	once := lasting()
	once.MaxReceives = 1
	other := d.at(t, "not-purged", lasting())
	other.publish(t, say("here")...)
	d = d.at(t, "purge", once)
	d.publish(t, say("dead")...)
	d.settle(t, sqlbroker.KindRelease, true, d.receive(t, "dead")...)
	d.holds(t, "0 ready, 0 delayed, 0 picked, 1 dead")
	d.publish(t, append(say("acked", "in hand", "ready"),
		sqlbroker.Message{Body: "delayed", DelayMS: time.Hour.Milliseconds()})...)
	got := d.receive(t, "acked", "in hand")
	d.settle(t, sqlbroker.KindAck, true, got[0])
	for _, want := range []int{3, 0} {
		if n, err := d.Purge(t.Context(), d.queue); err != nil || n != want {
			t.Fatalf("purged %d messages, want %d: %v", n, want, err)
		}
	}
	d.nothing(t)
	d.holds(t, "0 ready, 0 delayed, 0 picked, 1 dead")
	d.settle(t, sqlbroker.KindAck, false, got[1])
	other.receive(t, "here")
	if _, err := d.Purge(t.Context(), "no-such-queue"); !errors.Is(err, sqlbroker.ErrUnknownQueue) {
		t.Errorf("purging no queue: %v", err)
	}
}

// rates: beyond its rate a queue answers 429 and when to come again, and does nothing;
// other queues do not mind.
func rates(t *testing.T, d *desk) {
	slow := lasting()
	slow.RatePerS = 2
	other := d.at(t, "not-limited", lasting())
	d = d.at(t, "rates", slow)
	d.publish(t, slices.Repeat(say("m"), 100)...) // a second's tokens, and those of 49 more
	for _, req := range []struct{ method, path, body string }{
		{http.MethodPut, "/v1/messages/rates", `{"op_id":9001,"messages":[{"body":"too much"}]}`},
		{http.MethodPut, "/v1/message/rates", `{"op_id":9002,"body":"too much"}`},
		{http.MethodGet, "/v1/messages/rates?n=1", ``},
	} {
		status, after := d.ask(t, req.method, req.path, req.body)
		if seconds, err := strconv.Atoi(after); status != http.StatusTooManyRequests || err != nil ||
			seconds < 20 || seconds > 50 {
			t.Errorf("%s %s: %d, Retry-After %q, want 429 and about 50 s", req.method, req.path, status,
				after)
		}
	}
	d.holds(t, "100 ready, 0 delayed, 0 picked, 0 dead")
	other.publish(t, say("at once")...)
	other.receive(t, "at once")
}

// ask sends a request and returns the status and when to come again.
func (d *desk) ask(t *testing.T, method, path, body string) (status int, retryAfter string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, d.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header.Get("Retry-After")
}

// retention: what nobody has received in time is a dead letter of that reason, a delayed
// message too; what is in hand is its consumer's.
func retention(t *testing.T, d *desk) {
	s := lasting()
	d = d.at(t, "retention", s)
	d.publish(t, append(say("in hand", "waits"),
		sqlbroker.Message{Body: "delayed", DelayMS: time.Hour.Milliseconds()})...)
	got := d.receive(t, "in hand")
	s.RetentionMS = 50
	d.at(t, "retention", s)
	d.holds(t, "0 ready, 0 delayed, 1 picked, 2 dead")
	_, dead := d.audit(t)
	for _, m := range dead {
		if m.Reason != sqlbroker.DeadRetention || m.AgeNS < int64(50*time.Millisecond) ||
			m.Receives != 0 || m.Index == got[0].Index {
			t.Errorf("a dead letter: %+v", m)
		}
	}
	d.settle(t, sqlbroker.KindAck, true, got...)
}

// publishedOnce: a publication with an identity that is known is not stored again.
func publishedOnce(t *testing.T, d *desk) {
	d = d.at(t, "once", lasting())
	p := sqlbroker.Publication{OpID: d.next.Add(1), Messages: say("a", "b", "c")}
	for _, want := range []int{3, 0} {
		if n, err := d.Publish(t.Context(), d.queue, p); err != nil || n != want {
			t.Fatalf("stored %d messages, want %d: %v", n, want, err)
		}
	}
	d.settle(t, sqlbroker.KindAck, true, d.receive(t, "a", "b", "c")...)
	if n, err := d.Publish(t.Context(), d.queue, p); err != nil || n != 0 {
		t.Fatalf("stored %d messages again after they were acknowledged: %v", n, err)
	}
	d.holds(t, "0 ready, 0 delayed, 0 picked, 0 dead")
}

// taken: the identity of a publication is not that of another one, which is refused rather
// than lost.
func taken(t *testing.T, d *desk) {
	d = d.at(t, "taken", lasting())
	other := d.at(t, "not-taken", lasting())
	p := sqlbroker.Publication{OpID: d.next.Add(1), Messages: say("a", "b")}
	if n, err := d.Publish(t.Context(), d.queue, p); err != nil || n != 2 {
		t.Fatalf("stored %d messages: %v", n, err)
	}
	in := func(queue string, list ...sqlbroker.Message) {
		t.Helper()
		n, err := d.Publish(t.Context(), queue,
			sqlbroker.Publication{OpID: p.OpID, Messages: list})
		if !errors.Is(err, sqlbroker.ErrTaken) || n != 0 {
			t.Errorf("%v in %s: %d messages, %v; want %v", list, queue, n, err, sqlbroker.ErrTaken)
		}
	}
	in(other.queue, p.Messages...)
	in(d.queue, say("a")...)
	in(d.queue, say("a", "b", "c")...)
	in(d.queue, say("a", "c")...)
	in(d.queue, say("ab", "")...)
	in(d.queue, sqlbroker.Message{Body: "a"}, sqlbroker.Message{Body: "b", DelayMS: 1})
	in(d.queue, sqlbroker.Message{Body: "a", Priority: 1}, sqlbroker.Message{Body: "b"})
	in(d.queue, sqlbroker.Message{Body: "a"}, sqlbroker.Message{Body: "b", Group: 1})
	if n, err := d.Publish(t.Context(), d.queue, p); err != nil || n != 0 {
		t.Errorf("the same again stored %d messages: %v", n, err)
	}
	d.receive(t, "a", "b")
	d.nothing(t)
	other.nothing(t)
}

// TestPoisonDiesAlone: of ten messages of which one cannot be worked off, the others are,
// and that one dies. M5C gives back the whole batch, which dies as a whole.
func TestPoisonDiesAlone(t *testing.T) {
	for name, want := range map[string]struct {
		effects, dead int
		status        check.Status
	}{
		"row_at_a_time": {9, 1, pass}, "batched": {9, 1, pass}, "partitioned": {9, 1, pass},
		"listen_notify": {9, 1, pass}, "river": {9, 1, pass},
		"M5C batches are given back as a whole": {0, 11, fail}, // with one that was there before
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := openLab(t, name, 1)
			ctx, r := t.Context(), sqlbroker.Recipe{Messages: 10, Poison: 4}
			err := l.Begin(ctx, 1, 0)
			err = errors.Join(err, l.does(512, sqlbroker.KindPublish,
				sqlbroker.Publication{Make: &r}, func() (any, error) {
					return l.Publish(ctx, labQueue, sqlbroker.Publication{OpID: 512,
						Messages: sqlbroker.MessagesOf(512, r)})
				}))
			for range l.Params.MaxReceives {
				got, received := l.Lab.Receive(ctx, labQueue, sqlbroker.Demand{Most: 11})
				err = errors.Join(err, received, l.Digest(ctx, labQueue, got), l.Sweep(ctx))
			}
			if err != nil {
				t.Fatal(err)
			}
			verdicts, err := l.judge(ctx)
			if err != nil {
				t.Fatal(err)
			}
			a := l.seen.audit
			a.Effects = slices.DeleteFunc(a.Effects, func(x sqlbroker.EffectAudit) bool {
				return x.OpID != 512
			})
			v := verdicts[sqlbroker.DeadLetters]
			if len(a.Effects) != want.effects || len(a.Dead) != want.dead || v.Status != want.status {
				t.Errorf("%d effects and %d dead letters, want %d and %d; %s is %s: %s", len(a.Effects),
					len(a.Dead), want.effects, want.dead, v.Invariant, v.Status, v.Reason)
			}
			for _, d := range a.Dead {
				if d.Receives != l.Params.MaxReceives || d.Index != r.Poison-1 && want.dead == 1 {
					t.Errorf("a dead letter: %+v", d)
				}
			}
		})
	}
}

// TestGroupsKeepTheirOrderWhileTheRingTurns: the first message of a group was moved to a
// slot of which the server has not heard. It does not deliver the second one.
func TestGroupsKeepTheirOrderWhileTheRingTurns(t *testing.T) {
	for turns, want := range map[int]string{1: "[first]", 2: "[]"} {
		ok := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		l, err := sqlbroker.OpenLab(t.Context(), "partitioned", configOf(t, *rush()), nil)
		ok(err)
		t.Cleanup(l.Close)
		ok(l.RingBegins(t.Context(), "current"))
		publish := func(op uint64, body string) {
			t.Helper()
			_, err := l.Publish(t.Context(), labQueue, sqlbroker.Publication{OpID: op,
				Messages: []sqlbroker.Message{{Body: body, Group: 7}}})
			ok(err)
		}
		receive := func() (bodies []string) {
			t.Helper()
			got, err := l.Receive(t.Context(), labQueue, sqlbroker.Demand{Most: 10})
			ok(err)
			for _, d := range got {
				bodies = append(bodies, d.Body)
			}
			return bodies
		}
		publish(256, "first")
		ok(l.RingAdvances(t.Context()))
		publish(512, "second")
		ok(l.RingSeen(t.Context()))
		for range turns {
			ok(l.RingAdvances(t.Context()))
		}
		ok(l.RingCloses(t.Context(), true))
		if got := fmt.Sprint(receive()); got != want {
			t.Errorf("after %d turns: received %s, want %s", turns, got, want)
		}
		ok(l.RingSeen(t.Context()))
		if got := fmt.Sprint(receive()); turns == 2 && got != "[first]" {
			t.Errorf("with what is known now: received %s, want the first", got)
		}
	}
}

// TestPlansGoByIndex: a claim and an acknowledgement read the rows that they are about,
// by the primary key, however many there are and whatever the planner has heard of it.
func TestPlansGoByIndex(t *testing.T) {
	for _, name := range []string{"row_at_a_time", "batched", "partitioned"} {
		l, err := sqlbroker.OpenLab(t.Context(), name, configOf(t, *rush()), nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(l.Close)
		if err := l.Fill(t.Context(), labQueue, 20_000); err != nil {
			t.Fatal(err)
		}
		for _, kept := range []int{0, 10_000} {
			if err := l.KeepSome(t.Context(), kept); err != nil {
				t.Fatal(err)
			}
			plans, err := l.Plans(t.Context(), labQueue)
			if err != nil {
				t.Fatal(err)
			}
			for step, plan := range plans {
				for _, whole := range []string{"Seq Scan", "Hash Join", "Merge Join"} {
					if strings.Contains(plan, whole) {
						t.Errorf("%s: %s in the plan of %s with %d kept\n%s", name, whole, step, kept, plan)
					}
				}
				if kept > 0 && !strings.Contains(plan, "pkey") || kept > 0 &&
					strings.Contains(plan, "messages_acked") {
					t.Errorf("%s: not by the primary key is the plan of %s\n%s", name, step, plan)
				}
			}
		}
	}
}

// TestNobodyWaitsForOtherPartitions: who has a partition for itself that is not in use, as
// long as it wants, keeps nobody from publishing, receiving and settling.
func TestNobodyWaitsForOtherPartitions(t *testing.T) {
	l := openLab(t, "partitioned", 0)
	if err := l.Begin(t.Context(), 3, 0); err != nil {
		t.Fatal(err)
	}
	tx, err := l.watch.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	for slot := 2; slot < 16; slot++ { // 0 is current, and 1 the next
		_, err := tx.Exec(t.Context(), fmt.Sprintf(`LOCK TABLE messages_%d IN ACCESS EXCLUSIVE MODE`, slot))
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, kind := range []string{sqlbroker.KindAck, sqlbroker.KindExtend, sqlbroker.KindRelease} {
		got, err := l.Receive(t.Context())
		if err != nil || len(got) != 1 {
			t.Fatalf("%d messages, %v", len(got), err)
		}
		if err := l.Settle(t.Context(), kind, time.Minute, got); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
	if _, err := l.Publish(t.Context(), labQueue, sqlbroker.Publication{OpID: 512,
		Messages: sqlbroker.MessagesOf(512, sqlbroker.Recipe{Messages: 1})}); err != nil {
		t.Error(err)
	}
}

// TestRingKeepsNobodyWaiting: while somebody may be storing messages, for as long as it takes,
// an open slot is not closed, and nobody else waits for the ring.
func TestRingKeepsNobodyWaiting(t *testing.T) {
	l := openLab(t, "partitioned", 0)
	if err := errors.Join(l.Begin(t.Context(), 0, 0),
		l.RingBegins(t.Context(), "open", "current")); err != nil {
		t.Fatal(err)
	}
	closes := func() (state string) {
		t.Helper()
		if err := l.RingCloses(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		if err := l.watch.QueryRow(t.Context(), `SELECT state FROM slots WHERE slot = 0`).
			Scan(&state); err != nil {
			t.Fatal(err)
		}
		return state
	}
	tx, err := l.watch.Begin(t.Context())
	if err == nil {
		_, err = tx.Exec(t.Context(), `LOCK TABLE messages IN ROW EXCLUSIVE MODE`)
	}
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if state := closes(); state != "open" {
			t.Errorf("the slot is %s although somebody may be storing there", state)
		}
		if err := l.publish(t.Context(), 512, 0); err != nil {
			t.Error(err)
		}
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if state := closes(); state != "closed" {
		t.Errorf("the slot is %s when all have ended", state)
	}
}

// deletions notes how many rows each statement has deleted.
type deletions struct {
	mu   sync.Mutex
	rows []int64
}

type deleting struct{}

// TraceQueryStart remembers whether a statement deletes.
func (*deletions) TraceQueryStart(
	ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData,
) context.Context {
	return context.WithValue(ctx, deleting{}, strings.Contains(data.SQL, "DELETE"))
}

// TraceQueryEnd notes what was deleted.
func (d *deletions) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryEndData) {
	if yes, _ := ctx.Value(deleting{}).(bool); yes && data.CommandTag.RowsAffected() > 0 {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.rows = append(d.rows, data.CommandTag.RowsAffected())
	}
}

// TestCollectedInBatches: what is acknowledged is kept for a while, then deleted in
// bounded batches; partitions are emptied as a whole.
func TestCollectedInBatches(t *testing.T) {
	for _, v := range right() {
		t.Run(v.Name, func(t *testing.T) {
			t.Parallel()
			p := rush()
			p.Keep, p.CollectBatch = sut.Duration(time.Hour), 10
			p.Visibility = sut.Duration(time.Hour)
			p.RotateEvery = sut.Duration(time.Millisecond)
			seen := &deletions{}
			l, err := sqlbroker.OpenLab(t.Context(), v.Name, configOf(t, *p), seen)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(l.Close)
			l.Live()
			if err := errors.Join(l.Begin(t.Context(), labQueue, 26, 0),
				l.AckSome(t.Context(), labQueue, 25)); err != nil {
				t.Fatal(err)
			}
			seen.rows = nil // what Begin has deleted
			rows := func() int {
				raw, err := l.Audit(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				a, err := api.DecodeAudit[sqlbroker.Audit](raw)
				if err != nil {
					t.Fatal(err)
				}
				return len(a.Messages)
			}
			if err := l.Collect(t.Context()); err != nil || rows() != 26 || len(seen.rows) > 0 {
				t.Fatalf("%d messages are left, %v were deleted an hour too early: %v", rows(), seen.rows,
					err)
			}
			l.Keep(0)
			for until := time.Now().Add(20 * time.Second); rows() > 1; {
				if err := l.Collect(t.Context()); err != nil || time.Now().After(until) {
					t.Fatalf("%d messages are left: %v", rows(), err)
				}
			}
			if v.Name == "partitioned" { // the one that waits is moved, the others are truncated
				if slices.ContainsFunc(seen.rows, func(n int64) bool { return n != 1 }) {
					t.Errorf("statements deleted %v rows, want 1 at a time", seen.rows)
				}
			} else if !slices.Equal(seen.rows, []int64{10, 10, 5}) {
				t.Errorf("statements deleted %v rows, want 10, 10 and 5", seen.rows)
			}
		})
	}
}

// oldest is a design with one queue, whose sweeper works when it is told to.
type oldest struct {
	*sqlbroker.Lab
	t *testing.T
}

// inOldest does something with each kind of design.
func inOldest(t *testing.T, do func(l oldest)) {
	for _, name := range []string{"batched", "partitioned", "river"} {
		t.Run(name, func(t *testing.T) {
			p := rush()
			p.Worked = 0
			lab, err := sqlbroker.OpenLab(t.Context(), name, configOf(t, *p), nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(lab.Close)
			l := oldest{lab, t}
			l.must(l.Create(t.Context(), labQueue, lasting()))
			do(l)
		})
	}
}

func (l oldest) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

func (l oldest) left() string {
	l.t.Helper()
	pending, err := l.Quiesced(l.t.Context())
	l.must(err)
	return pending
}

func (l oldest) audit() sqlbroker.Audit {
	l.t.Helper()
	raw, err := l.Audit(l.t.Context())
	l.must(err)
	a, err := api.DecodeAudit[sqlbroker.Audit](raw)
	l.must(err)
	return a
}

func (l oldest) publish(bodies ...string) {
	l.t.Helper()
	_, err := l.Broker().Publish(l.t.Context(), labQueue,
		sqlbroker.Publication{OpID: 1, Messages: say(bodies...)})
	l.must(err)
}

// buries sweeps, after which so many messages are dead and nothing is left to do.
func (l oldest) buries(n int) {
	l.t.Helper()
	l.must(l.Sweep(l.t.Context()))
	if pending, dead := l.left(), len(l.audit().Dead); pending != "" || dead != n {
		l.t.Errorf("after a sweep %d are dead, and left to do: %q", dead, pending)
	}
}

// TestTooOld: what waits although it is too old is left to do until the sweeper has been
// there, and the audit says for how long it has waited.
func TestTooOld(t *testing.T) {
	inOldest(t, func(l oldest) {
		ctx := l.t.Context()
		l.publish("received", "waits")
		got, err := l.Broker().Receive(ctx, labQueue, sqlbroker.Demand{Most: 1})
		l.must(err)
		l.must(l.Outlive(ctx, 2*time.Hour))
		_, err = l.Broker().Settle(ctx, labQueue, sqlbroker.KindRelease,
			sqlbroker.Settlement{OpID: 2, Receipts: []string{got[0].Receipt}})
		l.must(err)
		if pending := l.left(); !strings.Contains(pending, "older than its retention") {
			l.t.Errorf("left to do: %q", pending)
		}
		for _, m := range l.audit().Messages {
			waits := time.Duration(m.WaitsNS)
			if m.AgeNS < int64(2*time.Hour) || (waits < 2*time.Hour) != (m.Index == 0) || waits <= 0 {
				l.t.Errorf("%v old and waiting for %v: %+v", time.Duration(m.AgeNS), waits, m)
			}
		}
		l.buries(2)
	})
}

// TestRetentionThatChanges: the audit says since when a queue's retention is what it is.
func TestRetentionThatChanges(t *testing.T) {
	inOldest(t, func(l oldest) {
		ctx, s := l.t.Context(), lasting()
		since := func() (since time.Duration) {
			l.t.Helper()
			for _, q := range l.audit().Queues {
				if q.Queue == labQueue {
					since = time.Duration(q.RetentionAgeNS)
				}
			}
			return since
		}
		l.publish("waits")
		l.must(l.Outlive(ctx, 30*time.Minute))
		s.RatePerS = 7
		l.must(l.Create(ctx, labQueue, s)) // changes another setting
		if is := since(); is < 30*time.Minute {
			l.t.Errorf("its retention is %v old", is)
		}
		s.RetentionMS = 1
		l.must(l.Create(ctx, labQueue, s))
		if is := since(); is <= 0 || is >= 30*time.Minute {
			l.t.Errorf("the retention that was changed is %v old", is)
		}
		l.buries(1)
	})
}
