package likes

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/sut"
)

// act is one attempt of a user to like a video or not to.
type act struct {
	op         uint64
	like       bool
	acked      bool // else it may have had no effect
	changed    bool // the reply said so
	start, end time.Duration
}

// pairs gathers, for each user and video, what was done and may have had an
// effect. Of an interaction that was acknowledged more than once, the first answer
// counts: a server that knows the identity again answers the others alike and does
// nothing, one that goes by who likes what does it again.
func (j *judging) pairs() map[pairID][]act {
	acts, first := map[pairID][]act{}, j.firstAnswers()
	j.changes(func(rec *history.Record, who pairID) {
		if rec.Outcome == history.Refused {
			return
		}
		acked := rec.Outcome == history.OK && first[rec.Op.ID] == rec.Seq
		acts[who] = append(acts[who], act{
			op: rec.Op.ID, like: rec.Op.Kind == KindLike, acked: acked,
			changed: acked && rec.Reply.Value != 0,
			start:   rec.Start, end: rec.End,
		})
	})
	return acts
}

// firstAnswers are, by operation, the attempts at likes and unlikes that were
// acknowledged first.
func (j *judging) firstAnswers() map[uint64]uint64 {
	type answer struct {
		seq uint64
		end time.Duration
	}
	known := map[uint64]answer{}
	j.interactions(func(rec *history.Record, _ pairID) {
		if before, answered := known[rec.Op.ID]; rec.Outcome == history.OK &&
			(!answered || rec.End < before.end) {
			known[rec.Op.ID] = answer{rec.Seq, rec.End}
		}
	}, KindLike, KindUnlike)
	first := make(map[uint64]uint64, len(known))
	for op, a := range known {
		first[op] = a.seq
	}
	return first
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
		if finished(acts, s.done) {
			likes, not = likes || s.liked, not || !s.liked
		}
		for i, a := range acts {
			if s.done&(1<<i) != 0 || !mayBeNext(acts, s.done, i) ||
				a.acked && a.changed != (a.like != s.liked) {
				continue
			}
			todo = append(todo, state{s.done | 1<<i, a.like})
		}
	}
	return likes, not
}

// finished says whether all that was acknowledged is done.
func finished(acts []act, done uint32) bool {
	for i, a := range acts {
		if a.acked && done&(1<<i) == 0 {
			return false
		}
	}
	return true
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
func judgeOneLike(j *judging) {
	acts := j.pairs()
	members := map[pairID]bool{}
	for _, v := range j.a.Videos {
		for _, user := range v.Members {
			members[pairID{v.Video, user}] = true
		}
	}
	for _, v := range j.a.Videos {
		for _, count := range v.Counts {
			if count > int64(len(v.Members)) {
				j.Unfinished(j.proof(acts, v.Video), "%s: %d likes are counted at the end, but %d users like "+
					"it: some count more than once", VideoKey(v.Video), count, len(v.Members))
			}
		}
	}
	for i, op := range j.a.Logged {
		if i > 0 && op == j.a.Logged[i-1] {
			j.Violate([]uint64{op}, "operation %d is in the ledger twice", op)
		}
	}
	repeated, skipped := 0, 0
	for _, who := range inOrder(acts) {
		list := acts[who]
		if len(list) > maxActs {
			skipped++
			continue
		}
		if len(list) > 1 {
			repeated++
		}
		j.Checked(len(list))
		likes, not := ends(list)
		switch liked := members[who]; {
		case !likes && !not:
			j.Violate(opsOf(list), "%v: no order of the user's interactions explains the replies: "+
				"%s", who, tell(list))
		case liked && !likes, !liked && !not:
			j.Unfinished(opsOf(list), "%v: at the end the user %s, which no order of the interactions "+
				"explains: %s",
				who, map[bool]string{true: "likes it", false: "does not like it"}[liked], tell(list))
		}
	}
	j.Need(repeated > 0, "no user had more than one interaction with a video")
	j.repeats()
	if skipped > 0 {
		j.Note("%d users with more than %d interactions with a video were not judged", skipped, maxActs)
	}
}

// repeats needs an interaction that was sent again with the same identity and acknowledged
// again: otherwise nothing shows that the identity means anything. None that was
// acknowledged may be denied later.
func (j *judging) repeats() {
	var repeats check.Repeats
	for rec := range j.Records(KindLike, KindUnlike) {
		repeats.See(rec, sut.RefusedFor(rec, ErrUnknownVideo))
	}
	repeats.Judge(j.Collector, nil)
	j.Need(repeats.Again() > 0 || j.p.Resend == 0, "no acknowledged interaction was acknowledged "+
		"again when it was sent again")
}

// inOrder lists the pairs by video and user.
func inOrder(acts map[pairID][]act) []pairID {
	list := make([]pairID, 0, len(acts))
	for who := range acts {
		list = append(list, who)
	}
	slices.SortFunc(list, func(a, b pairID) int {
		return cmp.Or(cmp.Compare(a.video, b.video), cmp.Compare(a.user, b.user))
	})
	return list
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
	slices.SortFunc(acts, func(a, b act) int { return cmp.Compare(a.start, b.start) })
	var texts []string
	for _, a := range acts {
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
func judgeStores(j *judging) {
	j.AtRest()
	must, may := map[uint64]int{}, map[uint64]int{}
	acts := j.pairs()
	for who, list := range acts {
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
	j.Need(len(acts) > 0, "no like was sent")
	if len(j.a.Videos) != j.p.Videos {
		j.Violate(nil, "there are %d videos at the end, not %d", len(j.a.Videos), j.p.Videos)
	}
	for _, v := range j.a.Videos {
		j.Checked(1 + len(v.Ledger))
		key := VideoKey(v.Video)
		for region, count := range v.Counts {
			if count != int64(len(v.Ledger)) {
				j.Violate(j.proof(acts, v.Video), "%s: region %d reads %d at the end, but %d users like it "+
					"in the ledger", key, region, count, len(v.Ledger))
			}
		}
		if here, there := firstDifference(v.Members, v.Ledger); here+there > 0 {
			user := max(here, there)
			j.Violate(opsOf(acts[pairID{v.Video, user}]), "%s: %d members and %d users in the ledger; %s "+
				"is in only one of them", key, len(v.Members), len(v.Ledger), UserName(user))
		}
		if n := len(v.Members); n < must[v.Video] || n > may[v.Video] {
			j.Violate(nil, "%s: %d members at the end; by the replies, %d to %d are possible",
				key, n, must[v.Video], may[v.Video])
		}
	}
}

// proof names operations on a video: those of users who did more than one thing
// if there are any.
func (j *judging) proof(acts map[pairID][]act, video uint64) []uint64 {
	var ops, others []uint64
	for _, who := range inOrder(acts) {
		switch {
		case who.video != video:
		case len(acts[who]) > 1:
			ops = append(ops, opsOf(acts[who])...)
		case len(others) < check.MaxProof:
			others = append(others, opsOf(acts[who])...)
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
