package writeheavy

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"stampede/harness/api"
	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/sut"
)

// The invariants.
const (
	AckedKept  = "acked-kept"
	OncePerOp  = "one-effect-per-add"
	NothingNew = "nothing-unasked"
	Conserved  = "counters-conserved"
	ReadsExact = "reads-exact"
	AsOfRises  = "as-of-rises"
	ByRecord   = "batches-by-record"
	OneOwner   = "one-owner"
	MovedWhole = "moved-whole"
	ShedAsTold = "shed-as-told"
	LastIsLost = "only-the-last-is-lost"
)

// lossBefore is how late an edge on a slow machine may send a window that is closed.
const lossBefore = 5 * time.Second

// invariants are what must be true of every design, unless it says otherwise.
func invariants(p Params) []check.Invariant {
	subject := check.Subject{Read: check.Audited(api.DecodeAudit[Audit], facts)}
	of := adds()
	effects := check.Effects{Table: opFact, Kind: of, AtRest: true, Losses: lossesFor(p),
		Excused: poisonous}
	return []check.Invariant{
		subject.State(AckedKept, "an acknowledged add is in its counter in the end, with its delta, but "+
			"for what a node that dies may lose as the design declares",
			knowing(p, asAsked), check.AckedDurable(effects)),
		subject.State(OncePerOp, "an add counts once, however often it is sent, alone or in a batch, "+
			"and a partial sum is applied once; one that can be made is not refused as impossible when "+
			"it is sent again", check.AtMostOnce(opFact, check.ByOp), sameReply,
			knowing(p, partialsOnce)),
		subject.State(NothingNew, "what was refused, or cannot be added, is in no counter, and neither "+
			"is what nobody asked for", check.NoPhantom(effects), knowing(p, nothingPoisonous)),
		subject.State(Conserved, "a counter is the sum of its adds in the end; what is in the log, and "+
			"not a dead letter, is counted, and nothing else is", knowing(p, conserved)),
		subject.State(ReadsExact, "a read is the sum of the adds up to its position, or, if it is as of "+
			"now, lies between what was acknowledged before and what was sent until its answer",
			knowing(p, readsExact)),
		subject.State(AsOfRises, "the position of what a client reads of a counter never falls",
			knowing(p, rises)),
		subject.State(ByRecord, fmt.Sprintf("a batch has %d adds at most and an answer for each: one "+
			"that can be made is made whatever the others are, and one that cannot is refused, or a dead "+
			"letter after enough attempts", MostRecords), knowing(p, byRecord)),
		subject.State(OneOwner, "a range of keys has one owner at a time, which alone takes adds: one "+
			"that comes to an old owner is sent on", knowing(p, oneOwner)),
		subject.State(MovedWhole, "when a range gets another owner, or its old one back, both sides "+
			"have the same adds, and each side's counters are the sums of its adds", knowing(p, movedWhole)),
		subject.State(ShedAsTold, "each attempt at an add is taken or shed once, and its client is told "+
			"which; while adds of a class are shed, less important ones are taken only from what their "+
			"class had saved", knowing(p, shedAsTold)),
		subject.State(LastIsLost, "what a dying database loses of acknowledged adds is what came last, "+
			"in the time that the design declares: an add that was sent after the acknowledgement of a "+
			"lost one is lost too", knowing(p, lastIsLost)),
	}
}

// judged is a run that is judged, whose truth is known.
type judged struct {
	*check.Run
	*Audit
	p Params
}

// knowing is a clause about an audit, once the history says what was asked for.
func knowing(p Params, judge func(j judged)) check.Clause {
	return check.OnAudit(func(r *check.Run, a *Audit) func() {
		a.truth.see(r)
		return func() {
			for list, there := range map[string]bool{"ops": a.Ops != nil, "counters": a.Counters != nil,
				"dead": a.Dead != nil} {
				r.Need(there, "the audit has no %s", list)
			}
			judge(judged{r, a, p})
		}
	})
}

// lossesFor is what a design declares to lose: the open windows of edges that died.
func lossesFor(p Params) func(*check.Run) ([]check.Loss, error) {
	return func(r *check.Run) ([]check.Loss, error) {
		var accepted int64
		var audit *Audit
		check.OnAudit(func(_ *check.Run, a *Audit) func() {
			audit, accepted = a, a.Contract.Accepted
			return nil
		})(r)
		if audit != nil && audit.Contract.Async > 0 {
			return audit.lossesOfDatabase(r)
		}
		r.Need(accepted <= int64(p.WindowMost), "the audit declares that a node may lose %d adds; the "+
			"most allowed is %d", accepted, p.WindowMost)
		if accepted > int64(p.WindowMost) {
			accepted = 0
		}
		return check.LossesOfDeaths("adds in the open window of an edge that died",
			"they are acknowledged when they are in its memory", accepted, r.Faults(), "api",
			func(w history.Window) time.Duration { return heldBefore(w.Start, r.Faults(), p) })
	}
}

// heldBefore is how long before its death an edge may have acknowledged adds that it had not sent.
// An edge keeps its adds while a fault on Redis is in force.
func heldBefore(died time.Duration, faults []history.Window, p Params) time.Duration {
	since := died
	for {
		before := since - lossBefore - p.EdgeWindow.D()
		i := slices.IndexFunc(faults, func(w history.Window) bool {
			return w.Start < since && w.Over() >= before &&
				slices.Contains(strings.Fields(w.Fault), "redis")
		})
		if i < 0 {
			return died - before
		}
		since = faults[i].Start
	}
}

// sameReply judges what is answered when an add is sent again. A server that finds out later that
// an add cannot be made may say so then.
func sameReply(r *check.Run) func() {
	return check.SameReply(check.Replies{Kind: adds(), What: "add", Sent: true,
		Denied:  func(rec *history.Record) bool { return sut.RefusedFor(rec, ErrRejected) },
		Excused: poisonous(r)})(r)
}

// poisonous excuses adds that cannot be made: batches-by-record says what becomes of them.
func poisonous(r *check.Run) func(op uint64) bool {
	var t *truth
	check.OnAudit(func(r *check.Run, a *Audit) func() {
		a.truth.see(r)
		t = a.truth
		return nil
	})(r)
	return func(op uint64) bool { return t != nil && !sound(t.asked[op].delta) }
}

// asAsked compares the adds in counters with what was asked for.
func asAsked(j judged) {
	for _, o := range j.Ops {
		j.Checked(1)
		if asked, known := j.truth.asked[o.ID]; known && asked.delta != o.Delta {
			j.Violate([]uint64{o.ID}, "operation %d added %d, and was asked to add %d", o.ID, o.Delta,
				asked.delta)
		}
	}
}

// partialsOnce looks for partial sums that were applied twice, and for sums that are not those of
// their adds.
func partialsOnce(j judged) {
	type place struct{ key, pos uint64 }
	left := map[place]int64{}
	ops := map[place][]uint64{}
	if j.Partials != nil {
		for _, o := range j.Ops {
			at := place{o.Key, uint64(o.Pos)}
			left[at] += o.Delta
			if len(ops[at]) < check.MaxProof {
				ops[at] = append(ops[at], o.ID)
			}
		}
	}
	known := map[string]bool{}
	for _, row := range j.Partials {
		j.Checked(1)
		name := fmt.Sprintf("%s %s/%d of counter %d", row.Node, row.Epoch, row.Seq, row.Key)
		at := place{row.Key, uint64(row.Pos)}
		if known[name] {
			j.Violate(ops[at], "the partial sum %s was applied twice", name)
		}
		known[name] = true
		left[at] -= row.Sum
	}
	for at, sum := range left {
		if sum != 0 {
			j.Violate(ops[at], "the partial sums of counter %d in round %d are not those of their adds: "+
				"%+d", at.key, at.pos, -sum)
		}
	}
}

// nothingPoisonous looks for adds that cannot be made, in counters, and for dead letters that
// nobody sent.
func nothingPoisonous(j judged) {
	for _, o := range j.Ops {
		if !sound(o.Delta) {
			j.Violate([]uint64{o.ID}, "operation %d added %d, which cannot be added", o.ID, o.Delta)
		}
	}
	for _, d := range j.Dead {
		j.Checked(1)
		asked := j.truth.asked[d.ID]
		if asked.delta != d.Delta || asked.key != counterKey(d.Key) ||
			asked.user != userName(d.User) {
			j.Violate([]uint64{d.ID}, "the dead letter of operation %d is not what was sent: %+v", d.ID, d)
		}
	}
}

// leastTogether is how many adds must come close to another one to the same counter.
const leastTogether = 10

// competition needs adds that come to a counter together: while another one is under way, or may
// wait for company.
func (j judged) competition() {
	spans, acked := map[string][]check.Span{}, 0
	for id, op := range j.truth.ops {
		if key := j.truth.asked[id].key; op.Outcome == history.OK {
			acked++
			spans[key] = append(spans[key], check.Span{Who: strconv.FormatUint(id, 10), From: op.Start,
				To: op.End + j.p.FlushEvery.D()})
		}
	}
	together := int64(0)
	for _, list := range spans {
		together += check.Together(list).Raced
	}
	j.Need(together >= leastTogether, "%d adds came to a counter together with another one; at least "+
		"%d are needed", together, leastTogether)
	j.Note("%d of %d acknowledged adds came to a counter together with another one", together,
		acked)
}

// conserved compares counters with their adds, and the log with both and the dead letters.
func conserved(j judged) {
	type account struct {
		value, sum int64
		ops        []uint64
	}
	accounts := map[uint64]*account{}
	of := func(key uint64) *account {
		if accounts[key] == nil {
			accounts[key] = &account{}
		}
		return accounts[key]
	}
	for _, c := range j.Counters {
		of(c.Key).value += c.Value
	}
	made := map[uint64]OpRow{}
	for _, o := range j.Ops {
		a := of(o.Key)
		a.sum += o.Delta
		if len(a.ops) < check.MaxProof {
			a.ops = append(a.ops, o.ID)
		}
		made[o.ID] = o
	}
	j.competition()
	for _, key := range slices.Sorted(maps.Keys(accounts)) {
		j.Checked(1)
		if a := accounts[key]; a.value != a.sum {
			j.Violate(a.ops, "counter %d is %d, and its adds are %d (%+d)", key, a.value, a.sum,
				a.value-a.sum)
		}
	}
	if j.Log == nil {
		return
	}
	dead, logged := map[uint64]bool{}, map[uint64]bool{}
	for _, d := range j.Dead {
		dead[d.ID] = true
	}
	for _, row := range j.Log {
		j.Checked(1)
		logged[row.ID] = true
		o, is := made[row.ID]
		switch {
		case is && (o.Key != row.Key || o.Delta != row.Delta):
			j.Violate([]uint64{row.ID}, "operation %d is in the log with %d to counter %d, and was made "+
				"with %d to counter %d", row.ID, row.Delta, row.Key, o.Delta, o.Key)
		case !is && !dead[row.ID]:
			j.Unfinished([]uint64{row.ID}, "operation %d is in the log, not counted and no dead letter",
				row.ID)
		}
	}
	for _, o := range j.Ops {
		if !logged[o.ID] {
			j.Violate([]uint64{o.ID}, "operation %d is counted, and not in the log", o.ID)
		}
	}
}

// readsExact compares what was read with the adds.
func readsExact(j judged) {
	all := j.byCounter()
	j.Need(len(all) > 0, "nothing was read")
	if j.Contract.AsOf {
		j.readsAsOf(all)
		return
	}
	counters, made := map[string]*check.Counter{}, j.made()
	for key := range all {
		counters[key] = &check.Counter{}
	}
	for id, asked := range j.truth.asked {
		if c := counters[asked.key]; c != nil && sound(asked.delta) {
			op := j.truth.ops[id]
			lossy := j.Contract.Async > 0 || j.Contract.Accepted > 0
			if lossy && !made[id] { // only-the-last-is-lost or acked-kept judges that
				op.Outcome, op.End = history.Unknown, history.Never
			}
			c.Add(0, asked.delta, op)
		}
	}
	for key, reads := range all {
		for _, read := range reads {
			counters[key].Read(0, read.value, &history.Record{Op: history.Op{ID: read.op},
				Outcome: history.OK, Start: read.start, End: read.end})
			if read.pos != 0 {
				j.Violate([]uint64{read.op}, "a read is as of %d, and the design declares no positions",
					read.pos)
			}
		}
		counters[key].Check(j.Collector, key)
	}
}

// readsAsOf compares reads with the adds up to their positions, and measures how old they are. No
// age is promised, but reads that are hardly ever of anything show nothing.
func (j judged) readsAsOf(all map[string][]asOf) {
	sums, oldest, some, had, due := j.prefixSums(), time.Duration(0), false, 0, 0
	for key, reads := range all {
		sum := cmp.Or(sums[key], &prefixes{})
		for _, read := range reads {
			j.Checked(1)
			value, adds, age := sum.at(read.pos, read.start)
			oldest, some = max(oldest, age), some || read.pos > 0
			if value != read.value {
				j.Violate([]uint64{read.op}, "%s was read as %d as of %d; its adds up to there are %d", key,
					read.value, read.pos, value)
			}
			before, _ := slices.BinarySearch(sum.acked, read.start-j.p.readWithin())
			had, due = had+min(adds, before), due+before
		}
	}
	j.Need(some, "no read had anything that was added")
	j.Need(4*had >= due, "reads had %d of the %d adds that were acknowledged %v before they were "+
		"sent; a quarter is needed", had, due, j.p.readWithin())
	j.Figure("oldest add that a read lacks", "ms", float64(oldest.Milliseconds()))
}

// rises compares the reads of a client with each other.
func rises(j judged) {
	if !j.Contract.AsOf {
		j.Checked(1)
		j.Note("reads are as of now")
		return
	}
	had, sights := map[string][]check.VersionChange{}, map[string][]check.VersionSight{}
	for key, reads := range j.byCounter() {
		for _, r := range reads {
			who := r.client + " reading " + key
			had[who] = append(had[who], check.VersionChange{Op: r.op, Start: r.start, End: r.end,
				Version: r.pos})
			sights[who] = append(sights[who], check.VersionSight{Op: r.op, Start: r.start, End: r.end,
				Version: r.pos})
		}
	}
	again := &check.Freshness{Collector: j.Collector}
	for who, list := range sights {
		again.Look(who, had[who], list)
	}
	j.Need(again.Looks > 0, "no client has read a counter again")
}

// answeredEach looks at the answers to batches: each has one for each add, in words that mean
// something, and one that can be made is not refused because of another. That most are of unknown
// outcome, outside faults, and adds alone are not, may be a slow server; but it shows nothing.
func (j judged) answeredEach() {
	table, mixed, unknown := API(), false, map[bool]int{}
	batches, refusing := map[bool]int{}, map[bool]int{} // by whether one of its adds cannot be made
	words := []string{ResultOK, ResultUnknown, sut.Code(ErrRejected), sut.Code(ErrShed),
		sut.Code(sut.ErrRefused)}
	for _, rec := range j.truth.replies {
		j.Checked(1)
		req, err := api.RequestOf[BatchRequest](table, rec.Op)
		var reply BatchReply
		if err = errors.Join(err, json.Unmarshal(rec.Reply.Body, &reply)); err != nil ||
			!slices.EqualFunc(req.Records, reply.Results, func(one Record, r Result) bool {
				return one.ID == r.ID
			}) {
			j.Violate([]uint64{rec.Op.ID}, "batch %d has %d adds, and its reply is not one for each (%v)",
				rec.Op.ID, len(req.Records), err)
			continue
		}
		good, bad, refused := false, false, 0
		calm := !check.Disturbed(j.Faults(), 0, rec.Start, rec.End)
		for i, one := range req.Records {
			result := reply.Results[i].Result
			if !slices.Contains(words, result) {
				j.Violate([]uint64{rec.Op.ID, one.ID}, "operation %d of batch %d was answered with %q, which "+
					"is none of %q", one.ID, rec.Op.ID, result, words)
			}
			if calm {
				unknown[result == ResultUnknown]++
			}
			if sound(one.Delta) && result == sut.Code(sut.ErrRefused) {
				refused = 1
			}
			good = good || sound(one.Delta) && result == ResultOK
			bad = bad || !sound(one.Delta)
		}
		mixed = mixed || good && bad
		batches[bad]++
		refusing[bad] += refused
	}
	// A store in trouble refuses adds of both alike.
	if min(batches[true], batches[false]) >= 20 && 10*refusing[true] >= 9*batches[true] &&
		10*refusing[false] <= batches[false] {
		j.Violate(nil, "adds that can be made were refused in %d of %d batches with one that cannot, "+
			"and in %d of %d others", refusing[true], batches[true], refusing[false], batches[false])
	}
	j.Need(mixed, "no batch had an add that cannot be made beside one that was made")
	alone := j.truth.alone
	j.Need(unknown[true] <= unknown[false] || 10*alone[true] > alone[false], "outside faults %d adds "+
		"of batches were answered as unknown and %d otherwise, and of those alone %d and %d",
		unknown[true], unknown[false], alone[true], alone[false])
}

// byRecord looks at the answers to batches, at dead letters, and at the batches that were written.
func byRecord(j judged) {
	j.answeredEach()
	dead := map[uint64]bool{}
	for _, d := range j.Dead {
		dead[d.ID] = true
		if sound(d.Delta) {
			j.Violate([]uint64{d.ID}, "operation %d is a dead letter, and can be made", d.ID)
		}
		if d.Tries < j.Contract.Attempts {
			j.Violate([]uint64{d.ID}, "operation %d is a dead letter after %d attempts, of %d", d.ID,
				d.Tries, j.Contract.Attempts)
		}
	}
	for id, asked := range j.truth.asked {
		j.Checked(1)
		acked := j.truth.ops[id].Outcome == history.OK
		switch {
		case sound(asked.delta) && asked.rejected:
			j.Violate([]uint64{id}, "operation %d was told that it cannot be made, and it can", id)
		case !sound(asked.delta) && acked && !dead[id]:
			j.Unfinished([]uint64{id}, "operation %d was acknowledged, cannot be made, and is no dead "+
				"letter", id)
		}
	}
	sum := int64(0)
	for i, b := range j.Batches {
		if sum += b.Records; b.Records < 1 || b.Records > MostRecords {
			j.Violate(nil, "batch %d that was written has %d adds", i+1, b.Records)
		}
	}
	if j.Batches != nil && sum < int64(len(j.Ops)) {
		j.Violate(nil, "the batches that were written have %d adds, and there are %d", sum, len(j.Ops))
	}
	j.Figure("adds of a written batch", "", float64(sum)/float64(len(j.Batches)))
}
