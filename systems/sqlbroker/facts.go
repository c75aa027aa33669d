package sqlbroker

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/sut"
)

// messageID is a message's identity: its publication and its place in it.
type messageID struct {
	op    uint64
	index int
}

func (m messageID) String() string { return fmt.Sprintf("message %d.%d", m.op, m.index) }

// facts is what the history says, put in order.
type facts struct {
	// published are the publications by identity.
	published map[uint64]*publication
	// repeats are the answers to publications that were sent more than once.
	repeats check.Repeats
	// deliveries are those of operations, by message in the order of the store's clock;
	// receipts are the same by receipt.
	deliveries map[messageID][]*delivery
	receipts   map[string]*delivery
	// settles are the attempts to settle something.
	settles []*settle
	// lost counts, by queue, the demands of unknown outcome.
	lost map[string]int
	// purged are the queues that somebody may have purged, redrove those of which somebody may
	// have put dead letters back.
	purged, redrove map[string]bool
	// changed are the settings that a queue may have had before the end, if somebody may
	// have changed them: those that it began with, and those that it was given.
	changed map[string][]QueueSettings
}

// publication is one publication over all its attempts.
type publication struct {
	check.Operation
	queue    string
	messages []Message
}

// delivery is a message that an operation received.
type delivery struct {
	Delivery
	op         uint64
	queue      string
	start, end time.Duration // of the operation
	settles    []*settle     // that may have had an effect on it, or had none
}

func (d *delivery) id() messageID { return messageID{d.OpID, d.Index} }

// settle is one attempt to acknowledge, extend or release.
type settle struct {
	op         uint64
	kind       string
	start, end time.Duration
	outcome    history.Outcome
	by         time.Duration
	done       map[string]bool // if the outcome is OK
	visibleNS  int64
	receipts   []string
	// stale says that the broker gave that as its reason to refuse all of them.
	stale bool
}

// may says that the attempt may have had an effect on a receipt.
func (s *settle) may(receipt string) bool {
	return s.outcome == history.Unknown || s.did(receipt)
}

// did says that the attempt had an effect on a receipt, or repeated one.
func (s *settle) did(receipt string) bool { return s.outcome == history.OK && s.done[receipt] }

// called says that the broker has called a receipt stale.
func (s *settle) called(receipt string) bool {
	return s.stale || s.outcome == history.OK && !s.done[receipt]
}

// gather reads the history once.
func gather(j *judging) *facts {
	f := &facts{published: map[uint64]*publication{}, deliveries: map[messageID][]*delivery{},
		receipts: map[string]*delivery{}, lost: map[string]int{}, purged: map[string]bool{},
		redrove: map[string]bool{}, changed: map[string][]QueueSettings{}}
	for rec := range j.Records() {
		if rec.Outcome == history.Dropped {
			continue
		}
		switch rec.Op.Kind {
		case KindPublish:
			f.repeats.See(rec, sut.RefusedFor(rec, ErrTaken) || sut.RefusedFor(rec, ErrUnknownQueue))
			f.seePublish(rec)
		case KindReceive:
			f.seeReceive(j, rec)
		case KindAck, KindExtend, KindRelease:
			f.seeSettle(j, rec)
		case KindPurge:
			if rec.Outcome != history.Refused {
				f.purged[rec.Op.Key] = true
			}
		case KindRedrive:
			if rec.Outcome != history.Refused {
				f.redrove[rec.Op.Key] = true
			}
		case KindCreate:
			if s, err := bodyOf[QueueSettings](rec.Op); err == nil && rec.Outcome != history.Refused {
				f.changed[rec.Op.Key] = append(f.changed[rec.Op.Key], j.p.settings(), s)
			}
		}
	}
	for _, s := range f.settles {
		for _, receipt := range s.receipts {
			if d := f.receipts[receipt]; d != nil {
				d.settles = append(d.settles, s)
			}
		}
	}
	for _, list := range f.deliveries {
		slices.SortFunc(list, func(a, b *delivery) int {
			return cmp.Or(cmp.Compare(a.ReceivedNS, b.ReceivedNS), cmp.Compare(a.end, b.end))
		})
	}
	return f
}

func (f *facts) seePublish(rec *history.Record) {
	p := f.published[rec.Op.ID]
	if p == nil {
		made, err := publicationOf(rec.Op)
		if err != nil {
			return // it was refused
		}
		p = &publication{Operation: check.Attempt(rec), queue: rec.Op.Key, messages: made.Messages}
		f.published[rec.Op.ID] = p
		return
	}
	all := check.Operations{p.ID: p.Operation}
	all.Add(rec)
	p.Operation = all[p.ID]
}

func (f *facts) seeReceive(j *judging, rec *history.Record) {
	if rec.Outcome == history.Unknown {
		f.lost[rec.Op.Key]++
		return
	}
	if rec.Outcome != history.OK {
		return
	}
	var got []Delivery
	if err := json.Unmarshal(rec.Reply.Body, &got); err != nil {
		j.Fail("the reply to operation %d cannot be read: %v", rec.Op.ID, err)
		return
	}
	for _, one := range got {
		d := &delivery{Delivery: one, op: rec.Op.ID, queue: rec.Op.Key, start: rec.Start, end: rec.End}
		f.deliveries[d.id()] = append(f.deliveries[d.id()], d)
		if f.receipts[one.Receipt] == nil {
			f.receipts[one.Receipt] = d
		}
	}
}

func (f *facts) seeSettle(j *judging, rec *history.Record) {
	asked, err := bodyOf[Settlement](rec.Op)
	if err != nil {
		return // it was refused
	}
	s := &settle{op: rec.Op.ID, kind: rec.Op.Kind, start: rec.Start, end: rec.End,
		outcome: rec.Outcome, by: time.Duration(asked.ByMS) * time.Millisecond,
		receipts: asked.Receipts}
	s.stale = sut.RefusedFor(rec, ErrStaleReceipt)
	if rec.Outcome == history.OK {
		var done Settled
		if err := json.Unmarshal(rec.Reply.Body, &done); err != nil {
			j.Fail("the reply to operation %d cannot be read: %v", rec.Op.ID, err)
			return
		}
		s.visibleNS, s.done = done.VisibleNS, map[string]bool{}
		for _, receipt := range done.Done {
			s.done[receipt] = true
		}
	}
	f.settles = append(f.settles, s)
}

// queue is what the audit says of a queue.
func (j *judging) queue(name string) (QueueAudit, bool) {
	i := slices.IndexFunc(j.a.Queues, func(q QueueAudit) bool { return q.Queue == name })
	if i < 0 {
		return QueueAudit{}, false
	}
	return j.a.Queues[i], true
}

// terms are within what bounds a queue's settings were at any time.
type terms struct {
	fewest, most int           // receives
	shortest     time.Duration // retention
	briefest     time.Duration // visibility timeout
	longest      time.Duration // the same
}

// terms of a queue are what it has at the end, and what it had before: a message that died
// or was delivered does not say under which.
func (j *judging) terms(q QueueAudit) terms {
	visible := time.Duration(q.VisibilityNS)
	t := terms{q.MaxReceives, q.MaxReceives, time.Duration(q.RetentionNS), visible, visible}
	for _, s := range j.changed[q.Queue] {
		t.fewest, t.most = min(t.fewest, s.MaxReceives), max(t.most, s.MaxReceives)
		t.shortest = min(t.shortest, time.Duration(s.RetentionMS)*time.Millisecond)
		visible := time.Duration(s.VisibilityMS) * time.Millisecond
		t.briefest, t.longest = min(t.briefest, visible), max(t.longest, visible)
	}
	return t
}

// String is how often a message is delivered.
func (t terms) String() string {
	if t.fewest == t.most {
		return strconv.Itoa(t.most)
	}
	return fmt.Sprintf("%d to %d", t.fewest, t.most)
}

// asked says that operations alone consume a queue.
func (j *judging) asked(queue string) bool { return !j.p.worked(queue) }

// acknowledged are the messages of which a publisher was told that they are there, in
// order.
func (j *judging) acknowledged() (list []messageID) {
	for op, p := range j.published {
		if p.Outcome == history.Unknown {
			j.AllowedUnknown(1)
		}
		if p.Outcome != history.OK {
			continue
		}
		for i := range p.messages {
			list = append(list, messageID{op, i})
		}
	}
	slices.SortFunc(list, compareIDs)
	return list
}

func compareIDs(a, b messageID) int {
	return cmp.Or(cmp.Compare(a.op, b.op), cmp.Compare(a.index, b.index))
}

// ends is where the messages are at the end.
type ends struct {
	rows    map[messageID][]MessageAudit
	dead    map[messageID][]DeadAudit
	effects map[messageID][]EffectAudit
}

func (j *judging) ends() ends {
	e := ends{rows: map[messageID][]MessageAudit{}, dead: map[messageID][]DeadAudit{},
		effects: map[messageID][]EffectAudit{}}
	for _, m := range j.a.Messages {
		id := messageID{m.OpID, m.Index}
		e.rows[id] = append(e.rows[id], m)
	}
	for _, d := range j.a.Dead {
		id := messageID{d.OpID, d.Index}
		e.dead[id] = append(e.dead[id], d)
	}
	for _, x := range j.a.Effects {
		id := messageID{x.OpID, x.Index}
		e.effects[id] = append(e.effects[id], x)
	}
	return e
}

// proof are the operations that published and delivered a message.
func proof(id messageID, list ...*delivery) []uint64 {
	ops := []uint64{id.op}
	for _, d := range list {
		ops = append(ops, d.op)
	}
	return ops
}
