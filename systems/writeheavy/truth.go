package writeheavy

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"stampede/harness/api"
	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/sut"
)

// opFact is the table of facts: every add that is in a counter.
const opFact = "add"

// adds are the adds of a history: those of batches, too.
func adds() check.Kind {
	table := API()
	parts := func(rec *history.Record) []history.Record {
		if rec.Op.Kind != KindBatch {
			return nil
		}
		return partsOf(table, rec)
	}
	return check.Kind{Names: []string{KindAdd, KindBatch}, Parts: parts}
}

// partsOf are the adds of a batch: each has the outcome that the reply says. What the reply does
// not say is unknown.
func partsOf(table *api.Table[Counters], rec *history.Record) []history.Record {
	req, err := api.RequestOf[BatchRequest](table, rec.Op)
	if err != nil {
		return []history.Record{} // batches-by-record says so
	}
	var reply BatchReply
	if rec.Outcome == history.OK && json.Unmarshal(rec.Reply.Body, &reply) != nil {
		reply.Results = nil
	}
	parts := make([]history.Record, len(req.Records))
	for i, one := range req.Records {
		parts[i] = *rec
		parts[i].Op = history.Op{ID: one.ID, Kind: KindAdd, Arg: one.Delta,
			Key: counterKey(one.Key), Client: userName(one.User)}
		parts[i].Reply = history.Reply{}
		if rec.Outcome != history.OK {
			continue
		}
		parts[i].Outcome = history.Unknown
		if i >= len(reply.Results) {
			continue
		}
		switch result := reply.Results[i].Result; result {
		case ResultOK:
			parts[i].Outcome = history.OK
		case sut.Code(ErrRejected), sut.Code(ErrShed), sut.Code(sut.ErrRefused):
			parts[i].Outcome, parts[i].Code = history.Refused, result
		}
	}
	return parts
}

// ask is what was asked for under a number.
type ask struct {
	key, user string
	delta     int64
	rejected  bool
	// attempts were sent. Done were acknowledged; told were answered that they are shed. Over is when
	// the last that may have had an effect was answered.
	attempts, done, told int
	over                 time.Duration
}

// saw adds an attempt.
func (a ask) saw(rec *history.Record) ask {
	a.key, a.user, a.delta = rec.Op.Key, rec.Op.Client, rec.Op.Arg
	a.rejected = a.rejected || sut.RefusedFor(rec, ErrRejected)
	a.attempts++
	switch {
	case rec.Outcome == history.OK:
		a.done, a.over = a.done+1, max(a.over, rec.End)
	case sut.RefusedFor(rec, ErrShed):
		a.told++
	case rec.Outcome == history.Unknown:
		a.over = history.Never
	}
	return a
}

// truth is what clients saw.
type truth struct {
	seen  bool
	asked map[uint64]ask
	ops   check.Operations
	// alone are the adds outside faults that were in no batch, by whether their outcome is unknown.
	alone map[bool]int
	// classes are those of adds; nil where nobody wants them.
	classes map[uint64]string
	reads   []history.Record
	// replies are the batches that were answered.
	replies []history.Record
}

// see reads the history, for all clauses of an audit.
func (t *truth) see(r *check.Run) {
	r.Batches(adds())
	if t.seen {
		return
	}
	t.seen, t.asked, t.ops, t.alone = true, map[uint64]ask{}, check.Operations{}, map[bool]int{}
	r.SeeParts(adds(), func(rec *history.Record) {
		t.asked[rec.Op.ID] = t.asked[rec.Op.ID].saw(rec)
		t.ops.Add(rec)
	})
	r.See(func(rec *history.Record) {
		if !check.Disturbed(r.Faults(), 0, rec.Start, rec.End) {
			t.alone[rec.Outcome == history.Unknown]++
		}
	}, KindAdd)
	if t.classes != nil {
		r.See(t.classify, KindAdd, KindBatch)
	}
	keep := func(list *[]history.Record) func(*history.Record) {
		return func(rec *history.Record) {
			if rec.Outcome == history.OK {
				*list = append(*list, *rec)
			}
		}
	}
	r.See(keep(&t.reads), KindRead)
	r.See(keep(&t.replies), KindBatch)
}

// classify notes the classes of what was sent.
func (t *truth) classify(rec *history.Record) {
	if rec.Op.Kind == KindBatch {
		req, _ := api.RequestOf[BatchRequest](API(), rec.Op) // batches-by-record says what is wrong
		for _, one := range req.Records {
			t.classes[one.ID] = one.Class
		}
		return
	}
	req, _ := api.RequestOf[AddRequest](API(), rec.Op)
	t.classes[rec.Op.ID] = req.Class
}

// counterKey is how a history names a counter.
func counterKey(key uint64) string { return "counter-" + strconv.FormatUint(key, 10) }

// userName is how it names a user.
func userName(user uint64) string { return "user-" + strconv.FormatUint(user, 10) }

// facts are the adds in counters, as a table.
func facts(a *Audit) check.Facts {
	a.truth = &truth{}
	if a.Decisions != nil {
		a.truth.classes = map[uint64]string{}
	}
	if a.Ops == nil {
		return check.Facts{}
	}
	rows := make([]check.Fact, len(a.Ops))
	for i, o := range a.Ops {
		rows[i] = check.Fact{Op: o.ID, Key: counterKey(o.Key)}
		if o.User > 0 {
			rows[i].Owner = userName(o.User)
		}
	}
	return check.Facts{Tables: []*check.Table{check.TableOf(opFact, rows)}}
}

// asOf is a read of a history.
type asOf struct {
	op         uint64
	client     string
	value, pos int64
	start, end time.Duration
}

// byCounter are the reads of each counter that can be read, in the order in which they were sent.
func (j judged) byCounter() map[string][]asOf {
	list := map[string][]asOf{}
	for _, rec := range j.truth.reads {
		var v Value
		if err := json.Unmarshal(rec.Reply.Body, &v); err != nil {
			j.Violate([]uint64{rec.Op.ID}, "a reply to a read cannot be read: %v", err)
			continue
		}
		list[rec.Op.Key] = append(list[rec.Op.Key], asOf{rec.Op.ID, rec.Op.Client, v.Value, v.AsOf,
			rec.Start, rec.End})
	}
	for _, reads := range list {
		slices.SortFunc(reads, func(a, b asOf) int { return cmp.Compare(a.start, b.start) })
	}
	return list
}

// prefixes are the sums of a counter's adds in the order of their positions.
type prefixes struct {
	pos []int64
	// sum is the value with every add up to here, and unread when the first of those from here on
	// was acknowledged.
	sum    []int64
	unread []time.Duration
	acked  []time.Duration // sorted
}

// prefixSums are those of all counters.
func (j judged) prefixSums() map[string]*prefixes {
	rows := slices.Clone(j.Ops)
	slices.SortFunc(rows, func(a, b OpRow) int { return cmp.Compare(a.Pos, b.Pos) })
	all := map[string]*prefixes{}
	for _, o := range rows {
		key := counterKey(o.Key)
		p := all[key]
		if p == nil {
			p = &prefixes{}
			all[key] = p
		}
		before := int64(0)
		if n := len(p.sum); n > 0 {
			before = p.sum[n-1]
		}
		end := history.Never
		if op, known := j.truth.ops[o.ID]; known {
			end = op.End
			p.acked = append(p.acked, end) // Never of one that was not
		}
		p.pos, p.sum = append(p.pos, o.Pos), append(p.sum, before+o.Delta)
		p.unread = append(p.unread, end)
	}
	for _, p := range all {
		slices.Sort(p.acked)
		for i := len(p.unread) - 2; i >= 0; i-- {
			p.unread[i] = min(p.unread[i], p.unread[i+1])
		}
	}
	return all
}

// at is the value as of a position, how many adds are in it, and how old the first acknowledged one
// was, at a time, that is not.
func (p *prefixes) at(pos int64, sent time.Duration) (value int64, adds int, age time.Duration) {
	adds, _ = slices.BinarySearchFunc(p.pos, pos, func(a, b int64) int {
		if a <= b {
			return -1
		}
		return 1
	})
	if adds > 0 {
		value = p.sum[adds-1]
	}
	if adds < len(p.unread) {
		age = max(0, sent-p.unread[adds])
	}
	return value, adds, age
}
