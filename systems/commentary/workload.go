package commentary

import (
	"encoding/json"
	"fmt"
	"time"

	"stampede/harness/api"
	"stampede/harness/history"
	"stampede/harness/keys"
	"stampede/harness/sut"
)

// Scheduled operation i owns the 64 identities from (i+1)<<6. The first is its comment, or its
// viewer's first look; a viewer's other looks follow.
const idBits = 6

// The identities beside the first of a scheduled operation.
const (
	idCorrect = 1  // the correction of its comment
	idCheck   = 2  // its commentator's look whether the comment is there
	idPast    = 63 // its viewer's look at what is older
)

const (
	// correctAfter is when a commentator corrects a comment, checkAfter when they look whether it is
	// there.
	correctAfter = 50 * time.Millisecond
	checkAfter   = time.Second
	// saveAfter is when a commentator saves again who was not told that the change is kept.
	saveAfter = 300 * time.Millisecond
	// savedTwice is the share of comments and corrections that are sent twice in any case.
	savedTwice = 0.1
)

// newWorkload makes the operations as a pure function of the seed. Scheduled operations are
// comments, and viewers who open a match and look again and again.
func newWorkload(s *keys.Streams, p Params) sut.Workload {
	w := &workload{p: p, table: API(), hot: s.Coin(), publish: s.Coin(), correct: s.Coin(),
		app: s.Coin(), past: s.Coin(), matches: s.Uniform(p.Matches)}
	w.Resends = sut.Resends{Share: savedTwice, Coin: s.Coin().At,
		Kinds: []string{KindPublish, KindCorrect}}
	return w
}

type workload struct {
	sut.Resends
	p     Params
	table *api.Table[Commentary]

	hot, publish, correct, app, past keys.Coin
	matches                          keys.Source
}

// Kinds lists the operation kinds, the main one first.
func (w *workload) Kinds() []string {
	return []string{KindLatest, KindPublish, KindCorrect, KindPast}
}

// Op returns scheduled operation i: a comment, or a viewer's first look.
func (w *workload) Op(i uint64) history.Op {
	id := (i + 1) << idBits
	if w.publish.At(i) < w.p.Publishes {
		return w.table.Op(KindPublish, PublishRequest{ID: id, Match: w.match(i),
			Ball: fmt.Sprintf("%d.%d", i/6%50, i%6+1), Text: fmt.Sprintf("comment %d", i)})
	}
	return w.table.Op(KindLatest, LatestRequest{ID: id, Match: w.match(i)})
}

func (w *workload) match(i uint64) uint64 {
	if w.hot.At(i) < w.p.HotShare {
		return 1
	}
	return w.matches.At(i) + 1
}

// Follow returns what an operation brings about.
func (w *workload) Follow(
	op history.Op, outcome history.Outcome, reply history.Reply,
) []sut.FollowUp {
	i, step := op.ID>>idBits-1, op.ID&(1<<idBits-1)
	switch {
	case op.Kind == KindPublish:
		return w.published(i, op, outcome, reply)
	case op.Kind == KindCorrect && outcome == history.Unknown:
		return again(op, saveAfter, op.Arg)
	case op.Kind == KindLatest && w.publish.At(i) < w.p.Publishes:
		return w.checked(i, op, outcome, reply)
	case op.Kind == KindLatest && int(step) < w.p.Polls:
		return w.looked(i, step, op, outcome, reply)
	}
	return nil
}

// published saves a comment again that nobody said was kept. Of one that is, the commentator looks
// whether it is there.
func (w *workload) published(
	i uint64, op history.Op, outcome history.Outcome, reply history.Reply,
) (list []sut.FollowUp) {
	if outcome != history.OK {
		return again(op, saveAfter, op.Arg)
	}
	if w.correct.At(i) < w.p.Corrects {
		list = append(list, sut.FollowUp{After: correctAfter, Op: w.table.Op(KindCorrect,
			CorrectRequest{ID: (i+1)<<idBits + idCorrect, Match: w.match(i), Comment: reply.Value,
				Text: correction(i)})})
	}
	check := w.table.Op(KindLatest, LatestRequest{ID: (i+1)<<idBits + idCheck, Match: w.match(i)})
	check.Arg = op.Arg
	return append(list, sut.FollowUp{After: checkAfter, Op: check})
}

func correction(i uint64) string { return fmt.Sprintf("correction %d", i) }

// saves is how often a change is saved at most. Op.Arg counts.
const saves = 5

// again saves a change again after some time, that was saved some times before.
func again(op history.Op, after time.Duration, before int64) []sut.FollowUp {
	if op.Arg = before + 1; op.Arg >= saves {
		return nil
	}
	return []sut.FollowUp{{After: after, Op: op}}
}

// checked saves a comment again that is not among the newest, unless these are all newer.
func (w *workload) checked(
	i uint64, op history.Op, outcome history.Outcome, reply history.Reply,
) []sut.FollowUp {
	var l Latest
	if outcome != history.OK || json.Unmarshal(reply.Body, &l) != nil || len(l.Comments) >= newest {
		return nil
	}
	first := w.Op(i)
	asked, err := api.RequestOf[PublishRequest](w.table, first)
	for _, c := range l.Comments {
		if err != nil || c.Text == asked.Text || c.Text == correction(i) {
			return nil
		}
	}
	return again(first, 0, op.Arg)
}

// looked lets a viewer look again, who has what the answer says, or else still what was known
// before.
func (w *workload) looked(
	i, step uint64, op history.Op, outcome history.Outcome, reply history.Reply,
) (list []sut.FollowUp) {
	asked, err := api.RequestOf[LatestRequest](w.table, op)
	var l Latest
	if err != nil {
		return nil
	}
	next := LatestRequest{ID: op.ID + 1, Match: asked.Match, Since: asked.Since, Have: asked.Have}
	if outcome == history.OK && json.Unmarshal(reply.Body, &l) == nil && !l.Unchanged {
		next.Have = l.ETag
		if w.app.At(i) < w.p.Apps {
			next.Since = l.Version
		}
	}
	if w.app.At(i) < w.p.Apps {
		next.Wait = w.p.Wait.D().Milliseconds()
	}
	if next.Since != asked.Since || next.Wait != asked.Wait { // another request, with no answer yet
		next.Have = ""
	}
	list = []sut.FollowUp{{After: w.p.PollEvery.D(), Op: w.table.Op(KindLatest, next)}}
	if step == 0 && w.past.At(i) < w.p.Pasts {
		before := int64(maxID)
		if n := len(l.Comments); n > 0 {
			before = l.Comments[n/2].ID
		}
		most := [2]int{7, 100}[i%2] // of which the second reaches into the archive
		list = append(list, sut.FollowUp{Op: w.table.Op(KindPast, PastRequest{
			ID: (i+1)<<idBits + idPast, Match: asked.Match, Before: before, Most: most})})
	}
	return list
}
