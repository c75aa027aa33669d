package sqlbroker

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"stampede/harness/api"
	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/sut"
)

// The tables of facts.
const (
	factMessage = "message" // a row for each message in a queue that consumers work off
	factEffect  = "effect"
)

// final is a final audit as the judges see it, with what the history says, which most of them
// share.
type final struct {
	Audit
	p Params

	queues       map[string]QueueAudit
	publications map[uint64]*publication
	receipts     map[string]*delivery
	settles      []*settle
	// known are the messages by identity, nil until a judge asks for them; all are the same in
	// the order of their identities, once the history is read.
	known map[messageID]*message
	all   []*message
	// unknown counts the publications of unknown outcome; lost are, by queue, the demands of
	// unknown outcome.
	unknown int
	lost    map[string]int
	// purged are the queues that somebody may have purged, redrove those of which somebody may
	// have put dead letters back.
	purged, redrove map[string]bool
	// changed are the settings that somebody may have given to a queue.
	changed map[string][]QueueSettings
	// received are the receives that were answered.
	received []answer
	// unread is which reply cannot be read, "" if all can.
	unread  string
	settled bool // the history is read
}

// messageID is a message's identity: its publication and its place in it.
type messageID struct {
	op    uint64
	index int
}

func (m messageID) name() string { return fmt.Sprintf("%d.%d", m.op, m.index) }

func (m messageID) String() string { return "message " + m.name() }

// message is all that is known of a message.
type message struct {
	messageID
	// of is its publication and sent what was published, nil if nobody published it.
	of   *publication
	sent *Message
	// deliveries are those of operations, in the order of the store's clock.
	deliveries []*delivery
	// The rest is of the audit.
	rows    []MessageAudit
	dead    []DeadAudit
	effects []EffectAudit
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
	message    *message
}

// answer is a receive that was answered, with messages or without any.
type answer struct {
	queue      string
	start, end time.Duration
	empty      bool
}

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

// mayBe says that somebody may have settled a delivery in some way.
func (d *delivery) mayBe(kind string) bool {
	return slices.ContainsFunc(d.settles, func(s *settle) bool {
		return s.kind == kind && s.may(d.Receipt)
	})
}

// subject reads audits of runs with some parameters.
func subject(p Params) *check.Subject {
	return &check.Subject{Read: check.Audited(func(raw json.RawMessage) (final, error) {
		a, err := api.DecodeAudit[Audit](raw)
		return final{Audit: a, p: p}, err
	}, (*final).facts)}
}

func (f *final) facts() check.Facts {
	worked, effects := []check.Fact{}, []check.Fact{}
	for _, m := range f.Messages {
		if f.p.worked(m.Queue) {
			worked = append(worked, check.Fact{Op: m.OpID, Name: messageID{m.OpID, m.Index}.name(),
				Owner: m.Queue, State: m.State})
		}
	}
	for _, e := range f.Effects {
		effects = append(effects, check.Fact{Op: e.OpID, Name: messageID{e.OpID, e.Index}.name(),
			Key: e.Queue, Owner: e.Consumer, State: "delivery " + strconv.Itoa(e.Receives)})
	}
	return check.Facts{Tables: []*check.Table{check.TableOf(factMessage, worked),
		check.TableOf(factEffect, effects)}}
}

// withMessages is a clause about all that is known of messages.
func withMessages(judge func(*check.Run, *final)) check.Clause {
	return check.OnAudit(func(r *check.Run, f *final) func() {
		if f.known == nil {
			f.gather(r)
		}
		return func() {
			f.settle()
			if f.unread != "" {
				r.Fail("%s", f.unread)
			}
			judge(r, f)
		}
	})
}

// of is what is known of a message.
func (f *final) of(op uint64, index int) *message {
	id := messageID{op, index}
	if f.known[id] == nil {
		f.known[id] = &message{messageID: id}
	}
	return f.known[id]
}

// gather puts the audit in order, and has the history read once.
func (f *final) gather(r *check.Run) {
	f.queues, f.publications = map[string]QueueAudit{}, map[uint64]*publication{}
	f.known, f.receipts = map[messageID]*message{}, map[string]*delivery{}
	f.lost, f.purged, f.redrove = map[string]int{}, map[string]bool{}, map[string]bool{}
	f.changed = map[string][]QueueSettings{}
	for _, q := range slices.Backward(f.Queues) { // the first of a name counts
		f.queues[q.Queue] = q
	}
	for _, row := range f.Messages {
		m := f.of(row.OpID, row.Index)
		m.rows = append(m.rows, row)
	}
	for _, d := range f.Dead {
		m := f.of(d.OpID, d.Index)
		m.dead = append(m.dead, d)
	}
	for _, e := range f.Effects {
		m := f.of(e.OpID, e.Index)
		m.effects = append(m.effects, e)
	}
	r.See(f.seePublish, KindPublish)
	r.See(f.seeReceive, KindReceive)
	r.See(f.seeSettle, KindAck, KindExtend, KindRelease)
	r.See(func(rec *history.Record) {
		key := rec.Op.Key
		switch settings, err := bodyOf[QueueSettings](rec.Op); {
		case rec.Outcome == history.Refused:
		case rec.Op.Kind == KindPurge:
			f.purged[key] = true
		case rec.Op.Kind == KindRedrive:
			f.redrove[key] = true
		case err == nil:
			f.changed[key] = append(f.changed[key], settings)
		}
	}, KindPurge, KindRedrive, KindCreate)
}

func (f *final) seePublish(rec *history.Record) {
	if p := f.publications[rec.Op.ID]; p != nil {
		all := check.Operations{p.ID: p.Operation}
		all.Add(rec)
		p.Operation = all[p.ID]
		return
	}
	if made, err := publicationOf(rec.Op); err == nil { // or it was refused
		f.publications[rec.Op.ID] = &publication{check.Attempt(rec), rec.Op.Key, made.Messages}
	}
}

// read reads what a reply says.
func read[T any](f *final, rec *history.Record) (said T, is bool) {
	err := json.Unmarshal(rec.Reply.Body, &said)
	if err != nil && f.unread == "" {
		f.unread = fmt.Sprintf("the reply to operation %d cannot be read: %v", rec.Op.ID, err)
	}
	return said, err == nil
}

func (f *final) seeReceive(rec *history.Record) {
	if rec.Outcome == history.Unknown {
		f.lost[rec.Op.Key]++
	}
	if rec.Outcome != history.OK {
		return
	}
	got, _ := read[[]Delivery](f, rec)
	f.received = append(f.received, answer{rec.Op.Key, rec.Start, rec.End, len(got) == 0})
	for _, one := range got {
		m := f.of(one.OpID, one.Index)
		d := &delivery{Delivery: one, op: rec.Op.ID, queue: rec.Op.Key, start: rec.Start, end: rec.End,
			message: m}
		m.deliveries = append(m.deliveries, d)
		if f.receipts[one.Receipt] == nil {
			f.receipts[one.Receipt] = d
		}
	}
}

func (f *final) seeSettle(rec *history.Record) {
	asked, err := bodyOf[Settlement](rec.Op)
	if err != nil {
		return // it was refused
	}
	s := &settle{op: rec.Op.ID, kind: rec.Op.Kind, start: rec.Start, end: rec.End,
		outcome: rec.Outcome, by: time.Duration(asked.ByMS) * time.Millisecond,
		receipts: asked.Receipts, stale: sut.RefusedFor(rec, ErrStaleReceipt)}
	if rec.Outcome == history.OK {
		said, is := read[Settled](f, rec)
		if !is {
			return
		}
		s.visibleNS, s.done = said.VisibleNS, map[string]bool{}
		for _, receipt := range said.Done {
			s.done[receipt] = true
		}
	}
	f.settles = append(f.settles, s)
}

// settle brings together what the history says, once it is read.
func (f *final) settle() {
	if f.settled {
		return
	}
	f.settled = true
	for op, p := range f.publications {
		if p.Outcome == history.Unknown {
			f.unknown++
		}
		for i := range p.messages {
			m := f.of(op, i)
			m.of, m.sent = p, &p.messages[i]
		}
	}
	for _, s := range f.settles {
		for _, receipt := range s.receipts {
			if d := f.receipts[receipt]; d != nil {
				d.settles = append(d.settles, s)
			}
		}
	}
	f.all = slices.SortedFunc(maps.Values(f.known), func(a, b *message) int {
		return compareIDs(a.messageID, b.messageID)
	})
	for _, m := range f.all {
		slices.SortFunc(m.deliveries, func(a, b *delivery) int {
			return cmp.Or(cmp.Compare(a.ReceivedNS, b.ReceivedNS), cmp.Compare(a.end, b.end))
		})
	}
}

func compareIDs(a, b messageID) int {
	return cmp.Or(cmp.Compare(a.op, b.op), cmp.Compare(a.index, b.index))
}

// acknowledged says that a publisher was told that a message is there.
func (m *message) acknowledged() bool { return m.of != nil && m.of.Outcome == history.OK }

// proof are the operations that published and delivered a message.
func (m *message) proof(list ...*delivery) []uint64 {
	ops := []uint64{m.op}
	for _, d := range list {
		ops = append(ops, d.op)
	}
	return ops
}

// open says where a message is that somebody may still get, "" if nobody may.
func (m *message) open() string {
	if len(m.dead) > 0 {
		return "a dead letter"
	}
	for _, row := range m.rows {
		if row.State != StateAcked {
			return row.State
		}
	}
	return ""
}

// redriven says that a message has come back from the dead letters, and counts anew.
func (m *message) redriven() bool {
	return slices.ContainsFunc(m.rows, func(row MessageAudit) bool { return row.Redrives > 0 }) ||
		slices.ContainsFunc(m.dead, func(d DeadAudit) bool { return d.Redrives > 0 })
}

// terms are within what bounds a queue's settings were at any time.
type terms struct {
	fewest, most int           // receives
	shortest     time.Duration // retention
	briefest     time.Duration // visibility timeout
	longest      time.Duration // the same
}

// settings are all that a queue may have had: those of the reset, and those that it was given.
func (f *final) settings(queue string) []QueueSettings {
	return append([]QueueSettings{f.p.settings()}, f.changed[queue]...)
}

// terms of a queue are those of all its settings: a message that died or was delivered does
// not say under which. What the queue says of itself counts for nothing.
func (f *final) terms(queue string) terms {
	t := terms{fewest: math.MaxInt, shortest: math.MaxInt64, briefest: math.MaxInt64}
	for _, s := range f.settings(queue) {
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
