package views

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/sut"
)

// Names of the invariants, as variants list them in Breaks and NotApplicable.
const (
	// ExactCounts is VC1, AckedInLog VC2, OnceInEffect VC3, MonotoneCounts VC4
	// and Fresh VC5 of the literature on this system's design.
	ExactCounts    = "exact-counts"
	AckedInLog     = "acked-in-log"
	OnceInEffect   = "once-in-effect"
	MonotoneCounts = "monotone-counts"
	Fresh          = "fresh-counts"
)

// Invariants returns the five statements about a pipeline with the given
// parameters (a Params or *Params; anything else leaves all Undecided). Each
// judges from the history and the Audit alone.
func Invariants(p Params) []check.Invariant {
	r := &pipelineRun{params: p}
	state := func(name, statement string, judge func(*judging)) check.Invariant {
		return invariant{name: name, statement: statement, judge: judge, run: r}
	}
	return []check.Invariant{
		state(ExactCounts, "the counts of every video and window, and the rejected events by reason, "+
			"equal an independent recount of the log", judgeExact),
		state(AckedInLog, "every acknowledged heartbeat is in the log as sent, at the position in the "+
			"reply; the log has no event that was refused or never sent", judgeAcked),
		state(OnceInEffect, "every event of every partition of the log was either counted or rejected, "+
			"exactly once", judgeOnce),
		state(MonotoneCounts, "the count of a video never decreases within a generation of counts, and "+
			"readers never return to an older one", judgeMonotone),
		state(Fresh, "outside faults, a view is counted within the promised time after it was "+
			"acknowledged", judgeFresh),
	}
}

// invariant is one statement with the function that judges it.
type invariant struct {
	name, statement string
	judge           func(*judging)
	run             *pipelineRun
}

func (v invariant) Name() string      { return v.name }
func (v invariant) Statement() string { return v.statement }

// Check judges. See check.Invariant.
func (v invariant) Check(
	ctx context.Context, h history.History, audit json.RawMessage,
) check.Verdict {
	j := &judging{Collector: check.Collect(ctx, v.name, h), p: v.run.params,
		t: v.run.decode(audit)}
	switch {
	case v.run.err != nil:
		j.Fail("%v", v.run.err)
	case j.t.err != nil:
		j.Fail("%v", j.t.err)
	default:
		v.judge(j)
	}
	return j.Verdict()
}

// pipelineRun is what the invariants of one run share: the parameters and the
// audit that was decoded last, because all of them are asked about the same.
type pipelineRun struct {
	params Params
	err    error

	mu   sync.Mutex
	raw  string
	last *truth
}

// decode returns the audit with its indexes; it must not be modified.
func (r *pipelineRun) decode(raw json.RawMessage) *truth {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last == nil || r.raw != string(raw) {
		r.raw, r.last = string(raw), newTruth(raw)
	}
	return r.last
}

// judging is one invariant at work: its inputs, and the verdict in the making.
type judging struct {
	*check.Collector
	p Params
	t *truth
}

// losses are the faults by which Redis lost memory, and when the last of them
// was over: a wipe, a loss of power, or its end where it keeps no log.
func (j *judging) losses() (n int, end time.Duration) {
	for _, w := range j.Faults() {
		words := strings.Fields(w.Fault)
		if len(words) < 2 || words[1] != string(sut.Redis) {
			continue
		}
		ended := words[0] == "kill" || words[0] == "restart"
		if words[0] == "power-loss" || ended &&
			(slices.Contains(words, "wipe") || j.t.RedisLog != "yes") {
			n, end = n+1, max(end, w.End, w.Recovered)
		}
	}
	return n, end
}

// firstSent is when each heartbeat was sent first.
func (j *judging) firstSent() map[uint64]time.Duration {
	sent := make(map[uint64]time.Duration)
	for rec := range j.Records(KindHeartbeat) {
		if rec.Outcome == history.Dropped {
			continue
		}
		if before, known := sent[rec.Op.ID]; !known || rec.Start < before {
			sent[rec.Op.ID] = rec.Start
		}
	}
	return sent
}

// judgeExact decides all events again and adds all views up again.
func judgeExact(j *judging) {
	losses, end := j.losses()
	o, err := consult(j.t, losses)
	if err != nil {
		j.Fail("%v", err)
		return
	}
	if o.lossEnd = end; losses > 0 {
		o.sent = j.firstSent()
	}
	o.judge(j)
	windows := 0
	for _, g := range j.t.Generations {
		list, n := j.t.differences(g.Generation)
		windows += n
		j.Checked(n)
		for _, d := range list {
			j.Violate(d.ops, "%s, window from %s, generation %d: %d views are counted, the log has %d",
				d.video, time.UnixMilli(d.start).UTC().Format(time.TimeOnly), g.Generation, d.stored,
				d.logged)
		}
	}
	judgeTotals(j)
	j.Need(len(j.t.accepted) > 0, "no event was a view")
	j.Need(len(o.candidates) > len(j.t.accepted), "no window of a rule was full")
	note := ""
	if o.losses > 0 {
		note = fmt.Sprintf("; Redis lost its data %d times, which the design declares: %d views count "+
			"beyond the rules, and %d were rejected because of views that do not count", o.losses, o.over,
			o.under)
	}
	generations := ""
	if n := len(j.t.Generations); n > 1 {
		generations = fmt.Sprintf(" of %d generations", n)
	}
	j.Note("%d events: %d of %d candidates are views, in %d windows%s%s", j.t.Watch.Events,
		len(j.t.accepted), len(o.candidates), windows, generations, note)
	accuracy(j)
}

// judgeTotals: what readers see is the sum of the windows.
func judgeTotals(j *judging) {
	type key struct {
		generation int64
		video      string
	}
	sums := make(map[key]int64)
	for _, c := range j.t.Counts {
		sums[key{c.Generation, c.Video}] += c.Views
	}
	for _, total := range j.t.Totals {
		k := key{total.Generation, total.Video}
		if total.Views != sums[k] || total.Shown != sums[k] {
			// Shards are merged some time later.
			merged := total.Views != sums[k] || total.Shown > sums[k]
			wrong(j, merged)(j.t.someOf(total.Video), "%s, generation %d: its windows add up to %d, "+
				"its shards to %d, and readers see %d", total.Video, total.Generation, sums[k], total.Views,
				total.Shown)
		}
		delete(sums, k)
	}
	for k, views := range sums {
		j.Violate(j.t.someOf(k.video), "%s, generation %d: its windows add up to %d, but there is no "+
			"total", k.video, k.generation, views)
	}
}

// judgeAcked compares the history with the log.
func judgeAcked(j *judging) {
	asked := make(check.Operations)
	var repeats check.Repeats
	acked, unknown := 0, 0
	for rec := range j.Records(KindHeartbeat) {
		if rec.Outcome == history.Dropped {
			continue
		}
		repeats.See(rec, sut.RefusedFor(rec, ErrUnknownVideo))
		asked.Add(rec)
		switch rec.Outcome {
		case history.OK:
			acked++
			judgeReply(j, rec)
		case history.Unknown:
			unknown++
		}
	}
	resolved := 0
	for _, list := range j.t.watch {
		for i := range list {
			j.Checked(1)
			o, known := asked[list[i].ID]
			switch {
			case !known:
				j.Violate([]uint64{list[i].ID}, "event %d of %s is in the log, but was never sent",
					list[i].ID, list[i].Video)
			case !o.May():
				j.Violate([]uint64{o.ID}, "event %d of %s is in the log, but was refused", o.ID,
					list[i].Video)
			case o.Outcome == history.Unknown:
				resolved++
			}
		}
	}
	j.AllowedUnknown(unknown)
	j.Need(acked > 0, "no heartbeat was acknowledged")
	repeats.Judge(j.Collector, nil)
	j.Need(repeats.Again() > 0 || j.p.Resend == 0, "no acknowledged heartbeat was acknowledged again "+
		"when it was sent again")
	j.Note("%d acknowledged heartbeats are in the log; of %d attempts of unknown outcome %d are",
		acked, unknown, resolved)
}

// judgeReply looks an acknowledged heartbeat up.
func judgeReply(j *judging, rec *history.Record) {
	j.Checked(1)
	at, err := ParsePosition(rec.Reply.Key)
	if err != nil {
		j.Violate([]uint64{rec.Op.ID}, "heartbeat %d was acknowledged with %q: %v", rec.Op.ID,
			rec.Reply.Key, err)
		return
	}
	sent, _, err := heartbeatOf(rec.Op)
	if err != nil {
		j.Fail("%v", err)
		return
	}
	e := j.t.logged(place{at.Partition, at.in()})
	switch {
	case e == nil:
		j.Violate([]uint64{rec.Op.ID}, "heartbeat %d was acknowledged at %v, but the log has nothing "+
			"at %v", rec.Op.ID, rec.End, at)
	case e.Heartbeat != sent:
		j.Violate([]uint64{rec.Op.ID, e.ID}, "heartbeat %d was acknowledged at %v, but the log has "+
			"another one there: %+v, sent was %+v", rec.Op.ID, at, e.Heartbeat, sent)
	case e.Offset >= j.t.next(stageFilter, 0, int(at.Partition)):
		j.Unfinished([]uint64{rec.Op.ID}, "heartbeat %d is in the log at %v, but the filter only "+
			"reached offset %d: it skipped or never read the heartbeat", rec.Op.ID, at,
			j.t.next(stageFilter, 0, int(at.Partition)))
	}
}

// judgeOnce balances the books of every partition.
func judgeOnce(j *judging) {
	dropped := make(map[int32]int64)
	byReason := make(map[string]int64)
	for _, d := range j.t.Drops {
		dropped[d.Partition] += d.Events
		byReason[d.Reason] += d.Events
	}
	views := make(map[int32]int64)
	for at := range j.t.accepted {
		views[at.partition]++
	}
	for p, list := range j.t.watch {
		part := int32(p)
		j.Checked(len(list))
		gapless(j, topicWatch, p, list)
		gapless(j, topicValid, p, j.t.valid[p])
		cameToEnd(j, stageFilter, 0, p, list)
		next := j.t.next(stageFilter, 0, p)
		read := int64(sort.Search(len(list), func(i int) bool { return list[i].Offset >= next }))
		n, decided := int64(len(list)), views[part]+dropped[part]
		if n != decided {
			// What was read is decided, and what was not read may be.
			wrong(j, decided < read || decided > n)(firstOps(list), "partition %d: of %d events %d were "+
				"views and %d were rejected: %+d are unaccounted for", p, n, views[part], dropped[part],
				n-views[part]-dropped[part])
		}
	}
	for i, g := range j.t.Generations {
		if g.Retired {
			judgeRetired(j, g, j.t.Generations[i+1:])
		} else {
			judgeGeneration(j, g.Generation)
		}
	}
	j.Need(j.t.Watch.Events > 0, "the log is empty")
	j.Need(len(j.t.Drops) > 0, "no event was rejected")
	j.Note("%d events = %d views + %s; %d views were forwarded more than once and counted once",
		j.t.Watch.Events, len(j.t.accepted), reasonsText(byReason), j.t.again)
	dropsOverTime(j)
}

func reasonsText(byReason map[string]int64) string {
	var parts []string
	for _, reason := range Reasons() {
		if n := byReason[reason]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, reason))
		}
	}
	return strings.Join(parts, " + ")
}

// judgeGeneration: every view counts once in a generation.
func judgeGeneration(j *judging, generation int64) {
	finished := true
	for p := range j.t.valid {
		finished = cameToEnd(j, stageCounter, generation, p, j.t.valid[p]) && finished
	}
	counted := int64(0)
	for _, c := range j.t.Counts {
		if c.Generation == generation {
			counted += c.Views
		}
	}
	forwarded := int64(len(j.t.accepted))
	if counted == forwarded {
		return
	}
	var ops []uint64
	list, _ := j.t.differences(generation)
	for _, d := range list {
		ops = append(ops, d.ops...)
	}
	what := "more than once"
	if counted < forwarded {
		what = "not at all"
	}
	wrong(j, finished || counted > forwarded)(ops[:min(len(ops), check.MaxProof)], "generation "+
		"%d: %d views were forwarded and %d are counted: %d %s", generation, forwarded, counted,
		max(counted-forwarded, forwarded-counted), what)
}

// judgeRetired: a generation ends before the log does only if a later one has
// taken its place, also with the readers if they saw it. What it had counted by
// then is exact-counts' matter.
func judgeRetired(j *judging, g GenerationAudit, later []GenerationAudit) {
	j.Checked(1)
	if !slices.ContainsFunc(later, func(l GenerationAudit) bool {
		return !l.Retired && (l.Live || !g.Live)
	}) {
		j.Violate(nil, "generation %d was retired, but no later one took its place", g.Generation)
	}
}

// gapless: offsets go up from 0 by one.
func gapless(j *judging, topic string, p int, list []Logged) {
	next := int64(0)
	for i := range list {
		e := &list[i]
		if e.Offset != next && e.Offset != next-1 {
			j.Violate([]uint64{e.ID}, "%s/%d: after offset %d comes %d", topic, p, next-1, e.Offset)
		}
		next = e.Offset + 1
	}
}

// filtered says whether the filter has come to the end of the log. Before, it may have
// decided more than it has noted: what it has turned away is stored first, what it has
// forwarded is in the log next, and how far it has come last.
func (j *judging) filtered() bool {
	for p, list := range j.t.watch {
		if n := len(list); n > 0 && j.t.next(stageFilter, 0, p) <= list[n-1].Offset {
			return false
		}
	}
	return true
}

// wrong notes a violation, of what should have been done where it was not finished.
func wrong(j *judging, finished bool) func(ops []uint64, format string, args ...any) {
	if finished {
		return j.Violate
	}
	return j.Unfinished
}

// cameToEnd: a stage has read a partition to its end, and no further. It reports false if
// there is more to read.
func cameToEnd(j *judging, stage string, generation int64, p int, list []Logged) bool {
	end := int64(0)
	if len(list) > 0 {
		end = list[len(list)-1].Offset + 1
	}
	next := j.t.next(stage, generation, p)
	if next != end {
		from := len(list)
		for from > 0 && list[from-1].Offset >= next {
			from--
		}
		wrong(j, next > end)(firstOps(list[from:]), "the %s (generation %d) is at offset %d of "+
			"partition %d, which ends at %d", stage, generation, next, p, end)
	}
	return next >= end
}

func firstOps(list []Logged) (ops []uint64) {
	for i := range list[:min(len(list), check.MaxProof)] {
		ops = append(ops, list[i].ID)
	}
	return ops
}
