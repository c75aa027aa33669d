package likes

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"stampede/harness/check"
	"stampede/harness/history"
)

// judgeLog compares the ledger with an oracle: the log, read from its beginning,
// of each user and video the event with the highest version that the ledger has.
func judgeLog(j *judging) {
	logged := map[uint64]bool{}
	for _, op := range j.a.Logged {
		logged[op] = true
	}
	inLog, newest := map[uint64]bool{}, map[pairID]Event{}
	for _, part := range j.a.Log {
		for _, e := range part.Records {
			j.Checked(1)
			inLog[e.OpID] = true
			// What the ledger does not have yet is told by itself.
			if who := (pairID{e.Video, e.User}); logged[e.OpID] && e.Version > newest[who].Version {
				newest[who] = e
			}
		}
	}
	j.Need(len(inLog) > 0, "the log is empty")
	for _, op := range missing(logged, inLog) {
		j.Violate([]uint64{op}, "operation %d is in the ledger but not in the log", op)
	}
	if j.a.Contract.Ack == AckLog {
		ackedInLog(j, inLog)
	}
	for _, op := range missing(inLog, logged) {
		j.Unfinished([]uint64{op}, "operation %d is in the log but not in the ledger", op)
	}
	oracle(j, newest)
}

// missing lists, in order, what is in one set and not in the other.
func missing(from, other map[uint64]bool) []uint64 {
	var list []uint64
	for op := range from {
		if !other[op] {
			list = append(list, op)
		}
	}
	slices.Sort(list)
	return list
}

// ackedInLog requires that what was acknowledged is in the log.
func ackedInLog(j *judging, inLog map[uint64]bool) {
	j.changes(func(rec *history.Record, who pairID) {
		if rec.Outcome == history.OK && !inLog[rec.Op.ID] {
			j.Violate([]uint64{rec.Op.ID}, "operation %d of %v was acknowledged at %v but is not in the log",
				rec.Op.ID, who, rec.End)
		}
	})
}

// oracle requires that the ledger says of each user and video what the newest
// event does.
func oracle(j *judging, newest map[pairID]Event) {
	want := map[uint64]Packed{}
	for who, e := range newest {
		if e.Liked {
			want[who.video] = append(want[who.video], who.user)
		}
	}
	for _, users := range want {
		slices.Sort(users)
	}
	for _, v := range j.a.Videos {
		onlyLog, onlyLedger := firstDifference(want[v.Video], v.Ledger)
		if user := max(onlyLog, onlyLedger); user > 0 {
			j.Violate([]uint64{newest[pairID{v.Video, user}].OpID}, "%s: %d users like it by the log, %d "+
				"by the ledger; %s is in only one of them", VideoKey(v.Video), len(want[v.Video]),
				len(v.Ledger), UserName(user))
		}
		delete(want, v.Video)
	}
	for _, video := range slices.Sorted(maps.Keys(want)) {
		j.Violate(nil, "%s: it has likes in the log but does not exist", VideoKey(video))
	}
}

// judgeCommits requires that everything before a committed offset is in the
// ledger.
func judgeCommits(j *judging) {
	logged := map[uint64]bool{}
	for _, op := range j.a.Logged {
		logged[op] = true
	}
	commits := false
	for _, part := range j.a.Log {
		n := part.Committed - part.First
		commits = commits || n > 0
		if n > int64(len(part.Records)) {
			j.Violate(nil, "partition %d: offset %d is committed, but the log ends at %d", part.Partition,
				part.Committed, part.First+int64(len(part.Records)))
		}
		for i, e := range part.Records[:max(0, min(n, int64(len(part.Records))))] {
			j.Checked(1)
			if !logged[e.OpID] {
				j.Violate([]uint64{e.OpID}, "partition %d: offset %d is committed, but operation %d at "+
					"offset %d is not in the ledger", part.Partition, part.Committed, e.OpID, part.First+int64(i))
			}
		}
	}
	j.Need(commits, "no offset was committed")
	watchCommits(j)
}

// watchCommits follows how far the ledger is behind the log, and looks for offsets
// that are committed while what lies before them is not in the ledger. The commits
// were read before the ledger was, and the ledger never falls back: what is seen
// ahead once was ahead, and a crash at that moment would have lost it. Of each
// partition it tells the first sighting.
func watchCommits(j *judging) {
	w := &check.Watched{Quantity: "lag", Unit: "records"}
	told := map[int]bool{}
	for _, s := range j.Samples() {
		var look Look
		if !s.Seen() || json.Unmarshal(s.Body, &look) != nil || len(look.Committed) != len(look.Applied) {
			w.Gaps++
			continue
		}
		low, high := look.Lag()
		w.Look(s.To, low, high, false)
		j.Checked(1)
		for p, committed := range look.Committed {
			if applied := look.Applied[p]; committed > applied && !told[p] {
				told[p] = true
				j.ViolateAt(s.From, j.at(p, applied), "partition %d: offset %d was committed at %v, but the "+
					"ledger was at %d", p, committed, s.From, applied)
			}
		}
	}
	if len(w.Points)+w.Gaps > 0 {
		j.Watched(w)
	}
}

// at is the operation of the record at an offset, if the log has it.
func (j *judging) at(partition int, offset int64) []uint64 {
	if partition >= len(j.a.Log) {
		return nil
	}
	part := j.a.Log[partition]
	if i := offset - part.First; i >= 0 && i < int64(len(part.Records)) {
		return []uint64{part.Records[i].OpID}
	}
	return nil
}

// effects compares the interactions in the ledger, and some others, with those of
// the history.
func effects(j *judging, others ...uint64) *check.Comparison {
	e := check.NewComparison()
	for _, op := range slices.Concat(j.a.Logged, others) {
		e.Found(check.Effect{Op: op})
	}
	for rec := range j.Records(KindLike, KindUnlike) {
		e.See(rec)
	}
	return e
}

const (
	// lossBefore is how long before a server's death an interaction may have been
	// acknowledged that was still in its buffer. What is older was logged, or the
	// log did not answer and the buffer was full.
	lossBefore = 5 * time.Second
	// lossTogether is how far apart a server's death and the loss of Redis may be to
	// take the same interactions: later, the repairer has logged from Redis what the
	// buffer had.
	lossTogether = 5 * time.Second
)

// judgeDurable subtracts what a design declares: what was in the buffer of a
// server that died while Redis lost its data too.
//
// Of a server that died alone Redis remembers the last interaction of each user and
// video, from where it is logged. What had gone before in the same buffer had its
// effect; it is missing from the list of interactions.
func judgeDurable(j *judging) {
	j.AtRest()
	followed := j.followed()
	e := effects(j, followed...)
	if len(followed) > 0 {
		j.Note("%d acknowledged interactions are not in the ledger: each was in the buffer of a server "+
			"that died, and a later one of the same user is there", len(followed))
	}
	deaths := bufferLosses(j.Faults())
	if j.a.Contract.LossBound == 0 || len(deaths) == 0 {
		e.Durable(j.Collector)
		return
	}
	loss, err := check.NewLoss("likes in the buffer of a server that died together with Redis",
		"they are acknowledged before they are logged", j.a.Contract.LossBound*int64(len(deaths)),
		check.Around(deaths, lossBefore))
	if err != nil {
		j.Fail("%v", err)
		return
	}
	e.Durable(j.Collector, loss)
}

// bufferLosses are the deaths of servers that a loss of Redis came together with.
// A server that is paused, cut off or stopped keeps its buffer or empties it.
func bufferLosses(faults []history.Window) (deaths []history.Window) {
	for _, death := range faults {
		if serverDied(death) && len(lossesWith(death, faults)) > 0 {
			deaths = append(deaths, death)
		}
	}
	return deaths
}

// serverDied says whether a fault ends servers without giving them time for anything.
func serverDied(w history.Window) bool {
	return strikes(w, "api", "kill", "crash") ||
		strikes(w, "api", "churn") && !strings.Contains(w.Fault, "orderly")
}

// followed are interactions that were acknowledged from the buffer of a server that
// died, are not in the ledger, and did not end after every other one of the same user
// with the same video that is. A design declares of how many that may be true.
func (j *judging) followed() (list []uint64) {
	var ends doubts
	for _, death := range j.Faults() {
		if serverDied(death) {
			ends = append(ends, history.Window{Start: death.Start - lossBefore, End: death.End})
		}
	}
	if j.a.Contract.Ack != AckBuffer || len(ends) == 0 {
		return nil
	}
	logged, last := map[uint64]bool{}, map[pairID]time.Duration{}
	for _, op := range j.a.Logged {
		logged[op] = true
	}
	j.interactions(func(rec *history.Record, who pairID) {
		if logged[rec.Op.ID] {
			last[who] = max(last[who], rec.End)
		}
	}, KindLike, KindUnlike)
	j.interactions(func(rec *history.Record, who pairID) {
		if rec.Outcome == history.OK && !logged[rec.Op.ID] && ends.have(rec.End) &&
			last[who] > rec.Start {
			list = append(list, rec.Op.ID)
		}
	}, KindLike, KindUnlike)
	slices.Sort(list)
	list = slices.Compact(list)
	return list[:min(int64(len(list)), j.a.Contract.LossBound*int64(len(ends)))]
}

// lossesWith are the losses of Redis that came together with another fault.
func lossesWith(other history.Window, faults []history.Window) (losses []history.Window) {
	for _, loss := range faults {
		if redisLost(loss) && loss.Start <= other.End+lossTogether &&
			other.Start <= loss.End+lossTogether {
			losses = append(losses, loss)
		}
	}
	return losses
}

// doubts are spans in which a design acknowledged what the counters may not have
// had afterwards.
type doubts []history.Window

// doubts begin a while before a server and Redis were broken together, whatever way
// the server was: one that sleeps or cannot reach a store keeps its buffer and logs it
// later than the counters are rebuilt.
func (j *judging) doubts() (list doubts) {
	if j.a.Contract.Ack != AckBuffer {
		return nil
	}
	faults := j.Faults()
	for _, broken := range faults {
		if !strikes(broken, "api", "kill", "crash", "churn", "pause", "partition") {
			continue
		}
		for _, loss := range lossesWith(broken, faults) {
			list = append(list, history.Window{Start: min(broken.Start, loss.Start) - lossBefore,
				End: max(broken.End, loss.End)})
		}
	}
	return list
}

// have says whether a moment is in doubt.
func (d doubts) have(at time.Duration) bool {
	return slices.ContainsFunc(d, func(w history.Window) bool {
		return w.Start <= at && at <= w.End
	})
}

// strikes says whether a fault is one of some kinds on a target: "kill api-2".
func strikes(w history.Window, target string, kinds ...string) bool {
	words := strings.Fields(w.Fault)
	return len(words) > 1 && slices.Contains(kinds, words[0]) &&
		(words[1] == target || strings.HasPrefix(words[1], target+"-"))
}

// redisLost says whether a fault takes data of Redis. A kill alone takes none: what
// Redis wrote to its log is the kernel's by then.
func redisLost(w history.Window) bool {
	return strikes(w, "redis", "power-loss") ||
		strikes(w, "redis", "kill", "crash") && slices.Contains(strings.Fields(w.Fault), "wipe")
}

func judgePhantoms(j *judging) { effects(j).NoPhantom(j.Collector) }

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
func judgeViewers(j *judging) {
	acked, maybe := map[pairID]bool{}, map[pairID]bool{}
	j.interactions(func(rec *history.Record, who pairID) {
		switch rec.Outcome {
		case history.OK:
			acked[who] = true
			maybe[who] = true
		case history.Unknown:
			j.AllowedUnknown(1)
			maybe[who] = true
		}
	}, KindView)
	least, most := map[uint64]float64{}, map[uint64]float64{}
	for who := range maybe {
		most[who.video]++
		if acked[who] && !lostRedis(j.Faults()) {
			least[who.video]++
		}
	}
	worst := 0.0
	for _, v := range j.a.Videos {
		j.Checked(1)
		n := float64(v.Viewers)
		low, high := least[v.Video], most[v.Video]
		if high > 0 {
			worst = max(worst, (low-n)/high, (n-high)/high)
		}
		margin := func(of float64) float64 { return math.Ceil(sketchErrors*sketchError*of) + sketchFloor }
		if n < low-margin(low) || n > high+margin(high) {
			j.Violate(j.viewsOf(v.Video), "%s: %d viewers are estimated; the true number is %.0f to %.0f",
				VideoKey(v.Video), v.Viewers, low, high)
		}
	}
	j.Need(len(acked) > 0 || j.p.Views == 0, "no video was viewed")
	j.Note("the worst estimate is off by %.2f %% of the viewers", 100*worst)
}

// viewsOf names a few views of a video.
func (j *judging) viewsOf(video uint64) (ops []uint64) {
	j.interactions(func(rec *history.Record, who pairID) {
		if who.video == video && len(ops) < check.MaxProof {
			ops = append(ops, rec.Op.ID)
		}
	}, KindView)
	return ops
}

// lostRedis says whether a fault may have taken Redis' data.
func lostRedis(faults []history.Window) bool {
	return slices.ContainsFunc(faults, func(w history.Window) bool {
		return strings.Contains(w.Fault, "redis") &&
			(strings.Contains(w.Fault, "kill") || strings.Contains(w.Fault, "power"))
	})
}
