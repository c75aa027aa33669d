package sqlbroker

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"stampede/harness/history"
	"stampede/harness/keys"
	"stampede/harness/sut"
)

// Operation identities. Scheduled operation i owns the 256 identities from (i+1)<<8:
// its journey derives all others from them, so that they are unique without
// coordination and Follow needs no memory.
const (
	idBits = 8
	idMask = 1<<idBits - 1

	slotPublish = 0x00
	slotReceive = 0x10 // … 0x1f: the demands that follow a publication
	slotSettle  = 0x20 // … 0x2f: what each of them does first with what it got
	slotAck     = 0x30 // … 0x3f: and then, if it was extended
	slotStep    = 0x10 // from one to the next
)

// retryPause is the pause before the first retry; it doubles each time.
const retryPause = 50 * time.Millisecond

const (
	// lateBy is how many times the visibility timeout goes by before a late
	// acknowledgement.
	lateBy = 1.5
	// publishers is how many names those who publish have.
	publishers = 16
)

// newWorkload makes the messages and what operations do with them as a pure function
// of the seed. Scheduled operations are publications, and all else follows from replies, as the
// README says. Op.Arg counts the attempts of what is sent again because its outcome is unknown.
func newWorkload(s *keys.Streams, p Params) sut.Workload {
	w := &workload{p: p}
	w.queue, w.group, w.priority = s.Uniform(p.Queues), s.Uniform(p.Groups), s.Uniform(p.Priorities)
	w.poisoned = s.Uniform(p.Batch)
	w.grouped, w.delayed, w.delay, w.poison = s.Coin(), s.Coin(), s.Coin(), s.Coin()
	w.demands, w.when, w.fate = s.Coin(), s.Coin(), s.Coin()
	w.Resends = sut.Resends{Share: p.Resend, Coin: s.Coin().At, Kinds: []string{KindPublish, KindAck}}
	return w
}

// workload decides every question by its own stream of random numbers.
type workload struct {
	sut.Resends
	p                                Params
	queue, group, priority, poisoned keys.Source

	grouped, delayed, delay, poison, demands, when, fate keys.Coin
}

// Kinds lists the operation kinds, the main one first.
func (w *workload) Kinds() []string {
	return []string{KindPublish, KindReceive, KindAck, KindExtend, KindRelease}
}

// Op returns scheduled operation i, a publication.
func (w *workload) Op(i uint64) history.Op {
	r := Recipe{Messages: w.p.Batch, Bytes: w.p.BodyBytes, Priority: int(w.priority.At(i))}
	if w.grouped.At(i) < w.p.Grouped {
		r.Group = w.group.At(i) + 1
	}
	if w.delayed.At(i) < w.p.Delayed {
		r.DelayMS = int64(w.delay.At(i) * float64(w.p.DelayMost.D().Milliseconds()))
	}
	if w.poison.At(i) < w.p.Poison {
		r.Poison = int(w.poisoned.At(i)) + 1
	}
	return history.Op{ID: (i + 1) << idBits, Kind: KindPublish,
		Key:    QueueName(int(w.queue.At(i)) + 1),
		Client: "publisher-" + strconv.FormatUint(i%publishers+1, 10),
		Body:   bodyText(Publication{Make: &r})}
}

// bodyText is a body of an operation.
func bodyText(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("numbers and strings: %v", err))
	}
	return text
}

// Follow returns what an operation brings about.
func (w *workload) Follow(
	op history.Op, outcome history.Outcome, reply history.Reply,
) []sut.FollowUp {
	switch {
	case outcome == history.Unknown && op.Kind != KindReceive && op.Arg < int64(w.p.RetryOnLost):
		retry := op
		retry.Arg++
		return []sut.FollowUp{{After: retryPause << op.Arg, Op: retry}}
	case outcome != history.OK:
		return nil
	case op.Kind == KindPublish && !w.p.worked(op.Key):
		return w.demand(op)
	case op.Kind == KindReceive && reply.Value > 0:
		return w.settle(op, reply)
	case op.Kind == KindExtend:
		s, err := bodyOf[Settlement](op)
		if err != nil {
			return nil
		}
		return w.then(op, KindAck, slotAck, 0, Settlement{Receipts: s.Receipts})
	}
	return nil
}

// demand adds the demands that follow a publication.
func (w *workload) demand(op history.Op) (next []sut.FollowUp) {
	n := int(w.p.Receives)
	if w.demands.At(op.ID) < w.p.Receives-float64(n) {
		n++
	}
	for k := range n {
		d := history.Op{ID: op.ID&^idMask | uint64(slotReceive+k), Kind: KindReceive, Key: op.Key,
			Body: bodyText(Demand{Most: w.p.ReceiveBatch, WaitMS: w.p.Wait.D().Milliseconds()})}
		d.Client = "consumer-" + strconv.FormatUint(d.ID, 16)
		next = append(next, sut.FollowUp{After: w.thinks(d.ID), Op: d})
	}
	return next
}

// settle says what becomes of what was received.
func (w *workload) settle(op history.Op, reply history.Reply) []sut.FollowUp {
	var got []Delivery
	if json.Unmarshal(reply.Body, &got) != nil {
		return nil
	}
	s := Settlement{Receipts: receiptsOf(got)}
	fate := w.fate.At(op.ID)
	for _, f := range []struct {
		share float64
		kind  string
		after time.Duration
		by    int64
	}{
		{w.p.Late, KindAck, time.Duration(lateBy * float64(w.p.Visibility.D())), 0},
		{w.p.Extend, KindExtend, 0, w.p.Visibility.D().Milliseconds()},
		{w.p.Release, KindRelease, 0, 0},
		{w.p.Abandon, "", 0, 0},
		{1, KindAck, 0, 0},
	} {
		if fate -= f.share; fate >= 0 {
			continue
		}
		if f.kind == "" {
			return nil
		}
		s.ByMS = f.by
		return w.then(op, f.kind, slotSettle, f.after, s)
	}
	return nil
}

// then is another operation of the same consumer, within Think of a time.
func (w *workload) then(
	op history.Op, kind string, slot uint64, after time.Duration, s Settlement,
) []sut.FollowUp {
	s.Receipts = slices.Clone(s.Receipts)
	next := history.Op{ID: op.ID&^idMask | slot | op.ID&(slotStep-1), Kind: kind, Key: op.Key,
		Client: op.Client, Body: bodyText(s)}
	return []sut.FollowUp{{After: after + w.thinks(next.ID), Op: next}}
}

func (w *workload) thinks(id uint64) time.Duration {
	return time.Duration(w.when.At(id) * float64(w.p.Think.D()))
}
