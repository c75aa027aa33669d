package views

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strings"
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

// Invariants returns the five statements about a pipeline with the given parameters. Each
// judges from the history and the Audit alone.
func Invariants(p Params) []check.Invariant {
	s := &check.Subject{Read: check.Audited(readTruth, func(*truth) check.Facts {
		return check.Facts{}
	})}
	on := func(judge func(*judging) (end func())) check.Clause {
		return check.OnAudit(func(r *check.Run, t *truth) func() { return judge(&judging{r, p, t}) })
	}
	return []check.Invariant{
		s.State(ExactCounts, "the counts of every video and window, and the rejected events by "+
			"reason, equal an independent recount of the log, by the rules that were asked for",
			on(exactCounts)),
		s.State(AckedInLog, "every acknowledged heartbeat is in the log as sent, at the position in "+
			"the reply; the log has no event that was refused or never sent, and no video that exists "+
			"is called unknown", on(ackedInLog),
			check.SameReply(check.Replies{Kind: check.Named(KindHeartbeat), What: "heartbeat",
				Sent: p.Resend > 0}),
			check.Known(check.Named(KindHeartbeat, KindViews), "video-", p.Videos, unknownVideo)),
		s.State(OnceInEffect, "every event of every partition of the log was either counted or "+
			"rejected, exactly once", on(onceInEffect)),
		s.State(MonotoneCounts, "the count of a video never decreases within a generation of counts, "+
			"and readers never return to an older one", on(monotoneCounts)),
		s.State(Fresh, "outside faults, a view is counted within the promised time (visible_within) "+
			"after it was acknowledged", on(freshCounts)),
	}
}

func unknownVideo(rec *history.Record) bool { return sut.RefusedFor(rec, ErrUnknownVideo) }

// judging is one invariant being judged.
type judging struct {
	*check.Run
	p Params
	t *truth
}

// wrong is how to note what should be otherwise: as unfinished where it may still come.
func (j *judging) wrong(finished bool) func(ops []uint64, format string, args ...any) {
	if finished {
		return j.Violate
	}
	return j.Unfinished
}

// losses are the faults by which Redis lost memory, and when the last of them was over: a wipe, a
// loss of power, or its end where it keeps no log. A design without Redis loses nothing by them.
func (j *judging) losses() (n int, end time.Duration) {
	if j.t.RedisLog == Unused {
		return 0, 0
	}
	for _, w := range j.Faults() {
		if check.Strikes(w, "redis", "power-loss") || check.Strikes(w, "redis", "kill", "restart") &&
			(slices.Contains(strings.Fields(w.Fault), "wipe") || j.t.RedisLog != "yes") {
			n, end = n+1, max(end, w.Over())
		}
	}
	return n, end
}

// exactCounts decides all events again and adds all views up again.
func exactCounts(j *judging) func() {
	losses, lossEnd := j.losses()
	o, unruled := consult(j.t, losses, lossEnd)
	j.See(func(rec *history.Record) {
		if before, known := o.sent[rec.Op.ID]; !known || rec.Start < before {
			o.sent[rec.Op.ID] = rec.Start
		}
	}, KindHeartbeat)
	seen, given, inForce := j.sightings(), asGiven(j), rulesInForce(j, o.sent)
	return func() {
		given()
		if unruled != nil {
			j.Violate([]uint64{unruled.ID}, "event %d names version %d of the rules, which is not in the "+
				"audit", unruled.ID, unruled.Rules)
			return
		}
		inForce()
		o.judge(j)
		windows := 0
		for _, g := range j.t.Generations {
			list, n := j.t.differences(g.Generation)
			windows += n
			j.Checked(n)
			for _, d := range list {
				j.Violate(d.ops, "%s, window from %s, generation %d: %d views are counted, the log has %d",
					d.video, time.UnixMilli(d.start).UTC().Format(time.TimeOnly), g.Generation, d.stored,
					d.views)
			}
		}
		judgeTotals(j)
		j.Need(len(j.t.accepted) > 0, "no event was a view")
		j.Need(len(o.candidates) > len(j.t.accepted), "no window of a rule was full")
		note := ""
		if n := len(j.t.Generations); n > 1 {
			note = fmt.Sprintf(" of %d generations", n)
		}
		if losses > 0 {
			note += fmt.Sprintf("; Redis lost its data %d times, which the design declares: %d views "+
				"count beyond the rules, and %d were rejected because of views that do not count", losses,
				o.over, o.under)
		}
		j.Note("%d events: %d of %d candidates are views, in %d windows%s", j.t.Watch.Events,
			len(j.t.accepted), len(o.candidates), windows, note)
		seen.accuracy(j)
	}
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
			j.wrong(total.Views != sums[k] || total.Shown > sums[k])(j.t.some[total.Video],
				"%s, generation %d: its windows add up to %d, its shards to %d, and readers see %d",
				total.Video, total.Generation, sums[k], total.Views, total.Shown)
		}
		delete(sums, k)
	}
	for k, views := range sums {
		j.Violate(j.t.some[k.video], "%s, generation %d: its windows add up to %d, but there is no "+
			"total", k.video, k.generation, views)
	}
}

// ackedInLog compares the history with the log.
func ackedInLog(j *judging) func() {
	asked, sent := make(check.Operations), make(map[uint64]Heartbeat)
	acked, unknown := 0, 0
	j.See(func(rec *history.Record) {
		h, _, err := heartbeatOf(rec.Op)
		if err != nil {
			j.Fail("%v", err)
		}
		asked.Add(rec)
		sent[rec.Op.ID] = h
		switch rec.Outcome {
		case history.OK:
			acked++
			judgeReply(j, rec, h)
		case history.Unknown:
			unknown++
		}
	}, KindHeartbeat)
	return func() {
		resolved, sessions := 0, make(map[string]int) // in which partition each is
		for p, list := range j.t.watch {
			j.Checked(len(list))
			for i := range list {
				o, known := asked[list[i].ID]
				if other, is := sessions[list[i].Session]; is && other != p {
					j.Violate([]uint64{list[i].ID}, "session %s is in the partitions %d and %d",
						list[i].Session, other, p)
				}
				sessions[list[i].Session] = p
				switch {
				case !known:
					j.Violate([]uint64{list[i].ID}, "event %d of %s is in the log, but was never sent",
						list[i].ID, list[i].Video)
				case !o.May():
					j.Violate([]uint64{o.ID}, "event %d of %s is in the log, but was refused", o.ID,
						list[i].Video)
				case list[i].Heartbeat != sent[o.ID]:
					j.Violate([]uint64{o.ID}, "event %d is in the log as %+v, and was sent as %+v", o.ID,
						list[i].Heartbeat, sent[o.ID])
				case o.Outcome == history.Unknown:
					resolved++
				}
			}
		}
		j.AllowedUnknown(unknown)
		j.Need(acked > 0, "no heartbeat was acknowledged")
		j.Note("%d acknowledged heartbeats are in the log; of %d attempts of unknown outcome %d are",
			acked, unknown, resolved)
	}
}

// judgeReply looks an acknowledged heartbeat up.
func judgeReply(j *judging, rec *history.Record, sent Heartbeat) {
	j.Checked(1)
	at, err := ParsePosition(rec.Reply.Key)
	if err != nil {
		j.Violate([]uint64{rec.Op.ID}, "heartbeat %d was acknowledged with %q: %v", rec.Op.ID,
			rec.Reply.Key, err)
		return
	}
	next := j.t.next(stageFilter, 0, int(at.Partition))
	switch e := j.t.logged(place{at.Partition, at.in()}); {
	case e == nil:
		j.Violate([]uint64{rec.Op.ID}, "heartbeat %d was acknowledged at %v, but the log has nothing "+
			"at %v", rec.Op.ID, rec.End, at)
	case e.Heartbeat != sent:
		j.Violate([]uint64{rec.Op.ID, e.ID}, "heartbeat %d was acknowledged at %v, but the log has "+
			"another one there: %+v, sent was %+v", rec.Op.ID, at, e.Heartbeat, sent)
	case e.Offset >= next:
		j.Unfinished([]uint64{rec.Op.ID}, "heartbeat %d is in the log at %v, but the filter only "+
			"reached offset %d: it skipped or never read the heartbeat", rec.Op.ID, at, next)
	}
}

// onceInEffect balances each partition: its events are views or were turned away.
func onceInEffect(j *judging) func() {
	dropped, views := make(map[int]int64), make(map[int]int64)
	byReason := make(map[string]int64)
	for _, d := range j.t.Drops {
		dropped[int(d.Partition)] += d.Events
		byReason[d.Reason] += d.Events
	}
	for at := range j.t.accepted {
		views[int(at.partition)]++
	}
	for p, list := range j.t.watch {
		j.Checked(len(list))
		cameToEnd(j, stageFilter, 0, p, list)
		next := j.t.next(stageFilter, 0, p)
		read := int64(sort.Search(len(list), func(i int) bool { return list[i].Offset >= next }))
		if n, decided := int64(len(list)), views[p]+dropped[p]; n != decided {
			// What was read is decided, and what was not read may be.
			j.wrong(decided < read || decided > n)(firstOps(list), "partition %d: of %d events %d were "+
				"views and %d were rejected: %+d are unaccounted for", p, n, views[p], dropped[p], n-decided)
		}
	}
	for i, g := range j.t.Generations {
		if g.Retired {
			judgeRetired(j, g, j.t.Generations[i+1:])
		} else {
			judgeGeneration(j, g.Generation)
		}
	}
	if newest := j.t.Generations[len(j.t.Generations)-1]; !newest.Live {
		j.Unfinished(nil, "readers do not see generation %d, the newest", newest.Generation)
	}
	j.Need(j.t.Watch.Events > 0, "the log is empty")
	j.Need(len(j.t.Drops) > 0, "no event was rejected")
	var rejected []string
	for _, reason := range Reasons() {
		if n := byReason[reason]; n > 0 {
			rejected = append(rejected, fmt.Sprintf("%d %s", n, reason))
		}
	}
	j.Note("%d events = %d views + %s; %d views were forwarded more than once and counted once",
		j.t.Watch.Events, len(j.t.accepted), strings.Join(rejected, " + "), j.t.again)
	seen := check.Watched{Quantity: "rejected by the rules", Unit: "events"}
	j.looks(&seen, func(s history.Sample, l *Look) {
		n := int64(0)
		for _, events := range l.Dropped {
			n += events
		}
		seen.Look(s.To, n, n, false)
	})
	return nil
}

// judgeGeneration: every view counts once in a generation.
func judgeGeneration(j *judging, generation int64) {
	finished := true
	for p := range j.t.valid {
		finished = cameToEnd(j, stageCounter, generation, p, j.t.valid[p]) && finished
	}
	counted, forwarded := int64(0), int64(len(j.t.accepted))
	for _, c := range j.t.Counts {
		if c.Generation == generation {
			counted += c.Views
		}
	}
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
	j.wrong(finished || counted > forwarded)(ops[:min(len(ops), check.MaxProof)], "generation "+
		"%d: %d views were forwarded and %d are counted: %d %s", generation, forwarded, counted,
		max(counted-forwarded, forwarded-counted), what)
}

// asGiven: rules, creators and windows are those of the reset, and what was asked for since is
// there under the number that it was given.
func asGiven(j *judging) func() {
	text := func(r Rules) string {
		r.Version, r.Blocked = 0, slices.Sorted(slices.Values(r.Blocked))
		return fmt.Sprint(r)
	}
	first := text(j.p.rules())
	may, acked := map[string]bool{first: true}, map[int64]string{1: first}
	recounts, granted := map[int64]uint64{}, map[string]bool{}
	j.See(func(rec *history.Record) {
		granted[rec.Op.Kind] = granted[rec.Op.Kind] || rec.Outcome != history.Refused
	}, KindRules, KindReprocess)
	j.See(func(rec *history.Record) {
		var r Rules
		if rec.Outcome == history.Refused || json.Unmarshal(rec.Op.Body, &r) != nil {
			return
		}
		if may[text(r)] = true; rec.Outcome == history.OK {
			acked[rec.Reply.Value] = text(r)
		}
	}, KindRules)
	j.See(func(rec *history.Record) {
		if rec.Outcome == history.OK {
			recounts[rec.Reply.Value] = rec.Op.ID
		}
	}, KindReprocess)
	return func() {
		j.Checked(len(acked) + len(recounts))
		for kind, once := range granted {
			j.Need(once, "every %s was refused", kind)
		}
		for _, r := range j.t.Rules {
			want, given := acked[r.Version]
			switch {
			case !may[text(r)]:
				j.Violate(nil, "version %d of the rules is %v, which nobody asked for", r.Version, r)
			case given && want != text(r):
				j.Violate(nil, "version %d of the rules is %v, and was given to %s", r.Version, r, want)
			}
			delete(acked, r.Version)
		}
		for version, want := range acked {
			j.Violate(nil, "version %d of the rules, %s, is not there", version, want)
		}
		first := slices.MinFunc(j.t.Generations, byNumber).Generation
		for _, g := range j.t.Generations {
			if g.Generation > first { // which is there from the beginning
				delete(recounts, g.Generation)
			}
		}
		for generation, op := range recounts {
			j.Violate([]uint64{op}, "generation %d was begun, and is not there, or was before", generation)
		}
		for n := range j.p.Videos {
			if video := VideoKey(n + 1); j.t.Creators[video] != creatorOf(n+1) {
				j.Violate(nil, "%s is said to be by %q, and was made by %s", video, j.t.Creators[video],
					creatorOf(n+1))
			}
		}
		if asked := j.p.CountWindow.D().Milliseconds(); j.t.CountWindowMS != asked {
			j.Violate(nil, "windows of counts are of %d ms, and %d were asked for", j.t.CountWindowMS, asked)
		}
	}
}

func byNumber(a, b GenerationAudit) int { return cmp.Compare(a.Generation, b.Generation) }

// rulesInForce needs an event that new rules decide if one was sent, for the first time, long
// enough after they were acknowledged: a server loads them at some time within RulesReload.
func rulesInForce(j *judging, sent map[uint64]time.Duration) func() {
	version, since, slowest := int64(1), time.Duration(0), j.Slowest()
	j.See(func(rec *history.Record) {
		if rec.Outcome == history.OK && rec.Reply.Value > version {
			version, since = rec.Reply.Value, rec.End
		}
	}, KindRules)
	return func() {
		newest, last := int64(0), time.Duration(0)
		for _, list := range j.t.watch {
			for i := range list {
				newest, last = max(newest, list[i].Rules), max(last, sent[list[i].ID])
			}
		}
		j.Need(newest >= version || last <= since+2*(j.p.clock(j.p.RulesReload)+*slowest),
			"no event is decided by version %d of the rules, which was acknowledged at %v", version, since)
	}
}

// judgeRetired: a generation ends before the log does only if a later one has taken its place, also
// with the readers if they saw it. What it had counted by then is exact-counts' matter.
func judgeRetired(j *judging, g GenerationAudit, later []GenerationAudit) {
	j.Checked(1)
	if !slices.ContainsFunc(later, func(l GenerationAudit) bool {
		return !l.Retired && (l.Live || !g.Live)
	}) {
		j.Violate(nil, "generation %d was retired, but no later one took its place", g.Generation)
	}
}

// cameToEnd: a stage has read a partition to its end. It reports false if there is more to read.
// What is beyond the last record may be the end of a transaction, which has an offset too.
func cameToEnd(j *judging, stage string, generation int64, p int, list []Logged) bool {
	end := int64(0)
	if len(list) > 0 {
		end = list[len(list)-1].Offset + 1
	}
	next := j.t.next(stage, generation, p)
	if next < end {
		from := len(list)
		for from > 0 && list[from-1].Offset >= next {
			from--
		}
		j.Unfinished(firstOps(list[from:]), "the %s (generation %d) is at offset %d of "+
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
