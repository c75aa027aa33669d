package likes

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/sut"
)

// Names of the invariants, as variants list them in Breaks and NotApplicable.
const (
	CountInBounds    = "count-in-bounds"
	OneLike          = "one-like"
	StoresAgree      = "stores-agree"
	LedgerIsLog      = "ledger-is-log"
	AppliedFirst     = "applied-before-commit"
	AckedDurable     = "acked-durable"
	NoPhantom        = "no-phantom"
	ViewersEstimated = "viewers-estimated"
)

// Invariants returns the statements about likes with the given parameters. Each judges from the
// history and the Audit alone, so that it says the same of a variant here and of a server that
// somebody else wrote.
func Invariants(p Params) []check.Invariant {
	s := subject(p)
	changes := check.Named(KindLike, KindUnlike)
	return []check.Invariant{
		s.State(CountInBounds, "every count that is read was correct at some moment of the read, "+
			"within unknown outcomes and the declared staleness", check.OnAudit(judgeCounts)),
		s.State(OneLike, "a user's repeated like adds nothing, the ledger has no request twice, no "+
			"video that exists is called unknown, and whether a user likes a video at the end "+
			"follows from some order of the user's interactions",
			withActs(judgeOneLike), notAllRefused, check.AtMostOnce(interactions, check.ByOp),
			check.SameReply(check.Replies{Kind: changes, What: "interaction", Sent: p.Resend > 0}),
			check.Known(check.Named(KindLike, KindUnlike, KindCount, KindView), videoPrefix, p.Videos,
				unknownVideo)),
		s.State(StoresAgree, "at rest, the counters, the members and the ledger agree on each video, "+
			"and with the users' interactions", withActs(judgeStores)),
		s.State(LedgerIsLog, "the ledger has exactly the interactions of the log, with the same likes",
			check.Agree(check.Pair{A: interactions, B: events, By: check.ByOp, Subset: true}),
			check.Agree(check.Pair{A: events, B: interactions, By: check.ByOp, Subset: true, AtRest: true}),
			check.OnAudit(func(r *check.Run, f *final) func() {
				if f.Contract.Ack != AckLog {
					return nil
				}
				return check.AckedDurable(check.Effects{Table: events, Kind: changes})(r)
			}),
			check.OnAudit(judgeOracle)),
		s.State(AppliedFirst, "no offset is committed before the records below it are in the ledger",
			check.OnAudit(judgeCommits)),
		s.State(AckedDurable, "every acknowledged like and unlike is in the ledger at the end, except "+
			"for a loss that the design declares", check.OnAudit(func(r *check.Run, f *final) func() {
			return check.AckedDurable(check.Effects{Table: interactions, Kind: changes, AtRest: true,
				Losses: f.losses, Excused: f.followed})(r)
		})),
		s.State(NoPhantom, "every interaction at the end comes from a request, and from none that was "+
			"refused", check.NoPhantom(check.Effects{Table: interactions, Kind: changes})),
		s.State(ViewersEstimated, "the estimate of a video's viewers is within the error of a "+
			"HyperLogLog", check.OnAudit(judgeViewers)),
	}
}

func unknownVideo(rec *history.Record) bool { return sut.RefusedFor(rec, ErrUnknownVideo) }

// notAllRefused needs an unlike that was not refused, if any was sent.
func notAllRefused(r *check.Run) func() {
	sent, granted := false, false
	r.See(func(rec *history.Record) {
		sent, granted = true, granted || rec.Outcome != history.Refused
	}, KindUnlike)
	return func() { r.Need(granted || !sent, "every unlike was refused") }
}

// judgeCounts lets a Counter for each video judge what readers were told. What changed the
// count is what the replies say; that they say it once for each user, one-like judges.
func judgeCounts(r *check.Run, f *final) func() {
	counters, reads := map[uint64]*check.Counter{}, 0
	of := func(video uint64) *check.Counter {
		if counters[video] == nil {
			counters[video] = &check.Counter{Stale: time.Duration(f.Contract.StalenessNS)}
		}
		return counters[video]
	}
	f.see(r, func(rec *history.Record, who pairID) {
		if rec.Outcome == history.OK {
			reads++
			of(who.video).Read(home(who.user, f.Contract.Regions), rec.Reply.Value, rec)
		}
	}, KindCount)
	return withActs(func(r *check.Run, f *final) {
		for who, list := range f.acts {
			for _, a := range list {
				if a.sure() && !a.changed {
					continue
				}
				of(who.video).Add(home(who.user, f.Contract.Regions), a.change(), a.operation())
			}
		}
		bound := 0 // the reads that could not say that nobody likes a video
		for _, video := range slices.Sorted(maps.Keys(counters)) {
			bound += counters[video].Check(r.Collector, VideoKey(video))
		}
		r.Need(reads > 0 || f.p.Reads == 0, "no count was read")
		r.Need(bound > 0 || f.Contract.StalenessNS == 0 || f.p.Reads == 0,
			"the declared staleness excuses every count")
	})(r)
}

// maxActs is how many acts of a pair are put in order. Trying all orders takes
// steps and memory of the order of 2^n.
const maxActs = 12

// ends says whether a user may and may not like a video after some order of the
// acts that explains every reply. An act that is known to have ended before
// another began comes before it; one of unknown outcome took effect at any time
// after it began, or never. Neither is possible if no order explains the replies.
func ends(acts []act) (likes, not bool) {
	type state struct {
		done  uint32
		liked bool
	}
	seen, todo := map[state]bool{}, []state{{}}
	for len(todo) > 0 {
		s := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if seen[s] {
			continue
		}
		seen[s] = true
		finished := true
		for i, a := range acts {
			if s.done&(1<<i) != 0 {
				continue
			}
			finished = finished && !a.acked
			if mayBeNext(acts, s.done, i) && (!a.acked || a.changed == (a.like != s.liked)) {
				todo = append(todo, state{s.done | 1<<i, a.like})
			}
		}
		if finished {
			likes, not = likes || s.liked, not || !s.liked
		}
	}
	return likes, not
}

// mayBeNext says whether nothing that is left had ended before act i began.
func mayBeNext(acts []act, done uint32, i int) bool {
	for k, b := range acts {
		if k != i && b.acked && done&(1<<k) == 0 && b.end < acts[i].start {
			return false
		}
	}
	return true
}

// judgeOneLike tries, for each user and video, all orders of what was done.
func judgeOneLike(r *check.Run, f *final) {
	for _, v := range f.Videos {
		for _, count := range v.Counts {
			if count > int64(len(v.Members)) {
				r.Unfinished(f.proof(v.Video), "%s: %d likes are counted at the end, but %d users like "+
					"it: some count more than once", VideoKey(v.Video), count, len(v.Members))
			}
		}
	}
	repeated, skipped := 0, 0
	for _, who := range f.inOrder() {
		list := f.acts[who]
		if len(list) > maxActs {
			skipped++
			continue
		}
		if len(list) > 1 {
			repeated++
		}
		r.Checked(len(list))
		likes, not := ends(list)
		switch liked := f.member(who); {
		case !likes && !not:
			r.Violate(opsOf(list), "%v: no order of the user's interactions explains the replies: "+
				"%s", who, tell(list))
		case liked && !likes:
			r.Unfinished(opsOf(list), "%v: at the end the user likes it, which no order of the "+
				"interactions explains: %s", who, tell(list))
		case !liked && !not:
			r.Unfinished(opsOf(list), "%v: at the end the user does not like it, which no order of the "+
				"interactions explains: %s", who, tell(list))
		}
	}
	r.Need(repeated > 0, "no user had more than one interaction with a video")
	if skipped > 0 {
		r.Note("%d users with more than %d interactions with a video were not judged", skipped, maxActs)
	}
}

// member says whether a user likes a video at the end.
func (f *final) member(who pairID) bool {
	if who.video > uint64(len(f.Videos)) {
		return false
	}
	_, likes := slices.BinarySearch(f.Videos[who.video-1].Members, who.user)
	return likes
}

func opsOf(acts []act) []uint64 {
	var ops []uint64
	for _, a := range acts[:min(len(acts), check.MaxProof)] {
		ops = append(ops, a.op)
	}
	return ops
}

// tell lists acts for a violation's text.
func tell(acts []act) string {
	byStart := func(a, b act) int { return cmp.Compare(a.start, b.start) }
	var texts []string
	for _, a := range slices.SortedStableFunc(slices.Values(acts), byStart) {
		kind, reply := KindUnlike, "unknown"
		if a.like {
			kind = KindLike
		}
		if a.acked {
			reply = map[bool]string{true: "changed", false: "no change"}[a.changed]
		}
		texts = append(texts, fmt.Sprintf("%s at %s (%s)", kind, check.TimeText(a.start), reply))
	}
	return strings.Join(texts, ", ")
}

// judgeStores compares what the stores say of each video at rest.
func judgeStores(r *check.Run, f *final) {
	r.AtRest()
	must, may := map[uint64]int{}, map[uint64]int{}
	for who, list := range f.acts {
		likes, not := true, true
		if len(list) <= maxActs {
			likes, not = ends(list)
		}
		if likes {
			may[who.video]++
		}
		if likes && !not {
			must[who.video]++
		}
	}
	r.Need(len(f.acts) > 0, "no like was sent")
	if len(f.Videos) != f.p.Videos {
		r.Violate(nil, "there are %d videos at the end, not %d", len(f.Videos), f.p.Videos)
	}
	for _, v := range f.Videos {
		r.Checked(1 + len(v.Ledger))
		key := VideoKey(v.Video)
		for region, count := range v.Counts {
			if count != int64(len(v.Ledger)) {
				r.Violate(f.proof(v.Video), "%s: region %d reads %d at the end, but %d users like it "+
					"in the ledger", key, region, count, len(v.Ledger))
			}
		}
		if here, there := firstDifference(v.Members, v.Ledger); here+there > 0 {
			user := max(here, there)
			r.Violate(opsOf(f.acts[pairID{v.Video, user}]), "%s: %d members and %d users in the ledger; "+
				"%s is in only one of them", key, len(v.Members), len(v.Ledger), UserName(user))
		}
		if n := len(v.Members); n < must[v.Video] || n > may[v.Video] {
			r.Violate(nil, "%s: %d members at the end; by the replies, %d to %d are possible",
				key, n, must[v.Video], may[v.Video])
		}
	}
}

// proof names operations on a video: those of users who did more than one thing
// if there are any.
func (f *final) proof(video uint64) []uint64 {
	var ops, others []uint64
	for _, who := range f.inOrder() {
		switch {
		case who.video != video:
		case len(f.acts[who]) > 1:
			ops = append(ops, opsOf(f.acts[who])...)
		case len(others) < check.MaxProof:
			others = append(others, opsOf(f.acts[who])...)
		}
		if len(ops) >= check.MaxProof {
			return ops[:check.MaxProof]
		}
	}
	return append(ops, others...)[:min(check.MaxProof, len(ops)+len(others))]
}

// firstDifference finds the smallest number that only one of two ascending lists
// has; the other is zero.
func firstDifference(a, b Packed) (onlyA, onlyB uint64) {
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0] < b[0]:
			return a[0], 0
		case a[0] > b[0]:
			return 0, b[0]
		}
		a, b = a[1:], b[1:]
	}
	switch {
	case len(a) > 0:
		return a[0], 0
	case len(b) > 0:
		return 0, b[0]
	}
	return 0, 0
}

// judgeOracle compares the ledger with an oracle: the log, read from its beginning, of each
// user and video the event with the highest version that the ledger has. What it does not have
// yet is told by itself.
func judgeOracle(r *check.Run, f *final) func() {
	logged, newest, want := r.Table(interactions), map[pairID]Event{}, map[uint64]Packed{}
	r.Need(len(r.Table(events).Rows) > 0, "the log is empty")
	for _, part := range f.Log {
		for _, e := range part.Records {
			who := pairID{e.Video, e.User}
			if logged.Op(e.OpID) != nil && e.Version > newest[who].Version {
				newest[who] = e
			}
		}
	}
	for who, e := range newest {
		if e.Liked {
			want[who.video] = append(want[who.video], who.user)
		}
	}
	for _, v := range f.Videos {
		slices.Sort(want[v.Video])
		onlyLog, onlyLedger := firstDifference(want[v.Video], v.Ledger)
		if user := max(onlyLog, onlyLedger); user > 0 {
			r.Violate([]uint64{newest[pairID{v.Video, user}].OpID}, "%s: %d users like it by the log, %d "+
				"by the ledger; %s is in only one of them", VideoKey(v.Video), len(want[v.Video]),
				len(v.Ledger), UserName(user))
		}
		delete(want, v.Video)
	}
	for _, video := range slices.Sorted(maps.Keys(want)) {
		r.Violate(nil, "%s: it has likes in the log but does not exist", VideoKey(video))
	}
	return nil
}

// judgeCommits requires that everything before a committed offset is in the ledger, at the end
// and whenever the gauge looked.
func judgeCommits(r *check.Run, f *final) func() {
	logged, commits := r.Table(interactions), false
	for _, part := range f.Log {
		n := part.Committed - part.First
		commits = commits || n > 0
		if n > int64(len(part.Records)) {
			r.Violate(nil, "partition %d: offset %d is committed, but the log ends at %d", part.Partition,
				part.Committed, part.First+int64(len(part.Records)))
		}
		for i, e := range part.Records[:max(0, min(n, int64(len(part.Records))))] {
			r.Checked(1)
			if logged.Op(e.OpID) == nil {
				r.Violate([]uint64{e.OpID}, "partition %d: offset %d is committed, but operation %d at "+
					"offset %d is not in the ledger", part.Partition, part.Committed, e.OpID, part.First+int64(i))
			}
		}
	}
	r.Need(commits, "no offset was committed")
	f.watchCommits(r)
	return nil
}

// watchCommits follows how far the ledger is behind the log, and looks for offsets
// that are committed while what lies before them is not in the ledger. The commits
// were read before the ledger was, and the ledger never falls back: what is seen
// ahead once was ahead, and a crash at that moment would have lost it. Of each
// partition it tells the first sighting.
func (f *final) watchCommits(r *check.Run) {
	w := &check.Watched{Quantity: "lag", Unit: "records"}
	told := map[int]bool{}
	for _, s := range r.Samples() {
		var look Look
		if !s.Seen() || json.Unmarshal(s.Body, &look) != nil || len(look.Committed) != len(look.Applied) {
			w.Gaps++
			continue
		}
		low, high := look.Lag()
		w.Look(s.To, low, high, false)
		r.Checked(1)
		for p, committed := range look.Committed {
			if applied := look.Applied[p]; committed > applied && !told[p] {
				told[p] = true
				r.ViolateAt(s.From, f.at(p, applied), "partition %d: offset %d was committed at %v, but the "+
					"ledger was at %d", p, committed, s.From, applied)
			}
		}
	}
	if len(w.Points)+w.Gaps > 0 {
		r.Watched(w)
	}
}

// at is the operation of the record at an offset, if the log has it.
func (f *final) at(partition int, offset int64) []uint64 {
	if partition >= len(f.Log) {
		return nil
	}
	part := f.Log[partition]
	if i := offset - part.First; i >= 0 && i < int64(len(part.Records)) {
		return []uint64{part.Records[i].OpID}
	}
	return nil
}

const (
	// sketchError is the standard error of Redis' HyperLogLog: 1.04/√16384
	// (Flajolet, Fusy, Gandouet, Meunier, 2007).
	sketchError = 0.0081
	// sketchErrors are allowed: an estimate further away comes about once in a
	// million sketches. sketchFloor is allowed where few have come.
	sketchErrors = 5
	sketchFloor  = 5
)

// judgeViewers compares the estimates with the truth: who was acknowledged to
// have seen a video, and who may have. What Redis has lost is gone; then only an
// estimate that is too high is wrong.
func judgeViewers(r *check.Run, f *final) func() {
	seen, views := map[pairID]bool{}, map[uint64][]uint64{} // whether it was acknowledged
	f.see(r, func(rec *history.Record, who pairID) {
		if ops := views[who.video]; len(ops) < check.MaxProof {
			views[who.video] = append(ops, rec.Op.ID)
		}
		if rec.Outcome == history.Unknown {
			r.AllowedUnknown(1)
		}
		if rec.Outcome != history.Refused {
			seen[who] = seen[who] || rec.Outcome == history.OK
		}
	}, KindView)
	return func() {
		least, most, acked := map[uint64]float64{}, map[uint64]float64{}, false
		// Of viewers there is no log, which would survive the end of Redis.
		lost := slices.ContainsFunc(r.Faults(), func(w history.Window) bool {
			return check.Strikes(w, "redis", "kill", "power-loss")
		})
		for who, certain := range seen {
			most[who.video]++
			acked = acked || certain
			if certain && !lost {
				least[who.video]++
			}
		}
		worst := 0.0
		for _, v := range f.Videos {
			r.Checked(1)
			n := float64(v.Viewers)
			low, high := least[v.Video], most[v.Video]
			if high > 0 {
				worst = max(worst, (low-n)/high, (n-high)/high)
			}
			margin := func(of float64) float64 {
				return math.Ceil(sketchErrors*sketchError*of) + sketchFloor
			}
			if n < low-margin(low) || n > high+margin(high) {
				r.Violate(views[v.Video], "%s: %d viewers are estimated; the true number is %.0f to %.0f",
					VideoKey(v.Video), v.Viewers, low, high)
			}
		}
		r.Need(acked || f.p.Views == 0, "no video was viewed")
		r.Note("the worst estimate is off by %.2f %% of the viewers", 100*worst)
	}
}
