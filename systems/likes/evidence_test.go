package likes_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/suttest"
	"stampede/systems/likes"
)

const ms = time.Millisecond

const (
	pass  = check.Held
	fail  = check.Broken
	maybe = check.Undecided
)

// evidence is a history and an audit that a case may change.
type evidence struct {
	params  likes.Params
	records []history.Record
	windows []history.Window
	samples []history.Sample
	audit   likes.Audit
}

// goodLikes is a small run that every invariant accepts: users 1 and 2 like
// video 1, user 2 clicks twice, user 3 takes the like back, user 1 likes video 2.
// Users 1 and 2 have seen video 1, user 1 reads both counts.
func goodLikes() *evidence {
	e := &evidence{params: likes.DefaultParams()}
	e.params.Videos = 2
	e.do(256, likes.KindLike, 1, 1, 100*ms, 1)
	e.do(512, likes.KindLike, 1, 2, 100*ms, 1)
	e.do(768, likes.KindLike, 1, 2, 105*ms, 0)
	e.do(768, likes.KindLike, 1, 2, 120*ms, 0) // sent again
	e.do(1024, likes.KindLike, 1, 3, 200*ms, 1)
	e.do(1025, likes.KindUnlike, 1, 3, 300*ms, 1)
	e.do(1280, likes.KindLike, 2, 1, 400*ms, 1)
	e.do(259, likes.KindView, 1, 1, 150*ms, 0)
	e.do(515, likes.KindView, 1, 2, 150*ms, 0)
	e.do(272, likes.KindCount, 1, 1, 250*ms, 3)
	e.do(273, likes.KindCount, 2, 1, 500*ms, 1)
	e.audit = likes.Audit{
		Contract: likes.Contract{Ack: likes.AckLog, Regions: 1},
		Videos: []likes.VideoAudit{
			{Video: 1, Shards: 1, Counts: []int64{2}, Members: likes.Packed{1, 2},
				Ledger: likes.Packed{1, 2}, Viewers: 2},
			{Video: 2, Shards: 1, Counts: []int64{1}, Members: likes.Packed{1},
				Ledger: likes.Packed{1}},
		},
		Logged: likes.Packed{256, 512, 768, 1024, 1025, 1280},
		Log: []likes.PartitionAudit{
			{Partition: 0, Committed: 4, Records: likes.PackedEvents{
				{OpID: 256, Video: 1, User: 1, Liked: true, Version: 1},
				{OpID: 512, Video: 1, User: 2, Liked: true, Version: 1},
				{OpID: 768, Video: 1, User: 2, Liked: true, Version: 2},
				{OpID: 1280, Video: 2, User: 1, Liked: true, Version: 1},
			}},
			{Partition: 1, First: 10, Committed: 12, Records: likes.PackedEvents{
				{OpID: 1024, Video: 1, User: 3, Liked: true, Version: 1},
				{OpID: 1025, Video: 1, User: 3, Liked: false, Version: 2},
			}},
		},
	}
	return e
}

// do adds an acknowledged operation that takes 10 ms.
func (e *evidence) do(
	id uint64, kind string, video, user uint64, at time.Duration, value int64,
) *history.Record {
	e.records = append(e.records, history.Record{
		Seq: uint64(len(e.records)),
		Op: history.Op{ID: id, Kind: kind, Key: likes.VideoKey(video),
			Client: likes.UserName(user)},
		Outcome: history.OK, Reply: history.Reply{Value: value},
		Intended: at, Start: at, End: at + 10*ms,
	})
	return &e.records[len(e.records)-1]
}

// op returns the first attempt of an operation.
func (e *evidence) op(id uint64) *history.Record {
	i := slices.IndexFunc(e.records, func(r history.Record) bool { return r.Op.ID == id })
	return &e.records[i]
}

// again returns the second attempt of the click that was sent again.
func (e *evidence) again() *history.Record {
	i := slices.IndexFunc(e.records, func(r history.Record) bool {
		return r.Op.ID == 768 && r.Start == 120*ms
	})
	return &e.records[i]
}

// unknown makes the outcome of an operation unknown.
func (e *evidence) unknown(id uint64) {
	r := e.op(id)
	r.Outcome, r.Reply = history.Unknown, history.Reply{}
}

func (e *evidence) video(n uint64) *likes.VideoAudit { return &e.audit.Videos[n-1] }

// fault adds a fault of that text.
func (e *evidence) fault(text string, start, end time.Duration) {
	e.windows = append(e.windows, history.Window{Kind: history.FaultWindow, Name: text,
		Fault: text, Start: start, End: end, Recovered: end, Evidence: []string{"it happened"}})
}

// look adds what the gauge saw of partition 1 at a moment.
func (e *evidence) look(at time.Duration, committed, applied int64) {
	body, err := json.Marshal(likes.Look{Before: 14, Committed: []int64{0, committed},
		Applied: []int64{0, applied}, After: 16})
	if err != nil {
		panic(err) // numbers only
	}
	e.samples = append(e.samples, history.Sample{From: at, To: at + ms, Body: body})
}

// judge returns the verdicts by name.
func (e *evidence) judge(t suttest.TB) map[string]check.Verdict {
	t.Helper()
	return e.judgeRaw(suttest.Encoded(t, e.audit))
}

func (e *evidence) judgeRaw(audit json.RawMessage) map[string]check.Verdict {
	h := history.Slice(e.records, e.windows...).WithSamples(e.samples)
	return suttest.Verdicts(likes.Invariants(e.params), h, audit)
}

// verdictCase changes one thing and says what becomes of one invariant.
type verdictCase suttest.Case[*evidence]

// TestClauses: each clause accepts what is right and refuses what is wrong.
func TestClauses(t *testing.T) {
	suttest.Clauses(t, proof(), goodLikes, slices.Concat(countCases(), pairCases(), storeCases(),
		logCases(), effectCases(), viewerCases()))
}

// TestNothingIsUndecided: no history and no audit prove nothing.
func TestNothingIsUndecided(t *testing.T) {
	for name, v := range (&evidence{params: likes.DefaultParams()}).judgeRaw(nil) {
		if v.Status != maybe {
			t.Errorf("without an audit %s is %s", name, v.Status)
		}
	}
	empty := &evidence{params: likes.DefaultParams(), audit: likes.Audit{
		Contract: likes.Contract{Ack: likes.AckLog, Regions: 1}, Logged: likes.Packed{},
		Videos: []likes.VideoAudit{{Video: 1, Counts: []int64{0}, Members: likes.Packed{},
			Ledger: likes.Packed{}}}}}
	for name, v := range empty.judge(t) {
		if v.Status != maybe {
			t.Errorf("of nothing %s is %s", name, v.Status)
		}
	}
}

// ids for a table of many users.
func userIDs(n int) likes.Packed {
	list := likes.Packed{}
	for i := range n {
		list = append(list, uint64(i+1))
	}
	return list
}

// TestLagIsWatched: the verdict has what the gauge saw.
func TestLagIsWatched(t *testing.T) {
	e := goodLikes()
	e.look(0, 10, 10)
	e.look(10*ms, 12, 12)
	w := e.judge(t)[likes.AppliedFirst].Watched
	if w == nil || w.Quantity != "lag" || w.Judged != 2 || w.Lowest != 4 || w.Highest != 4 {
		t.Errorf("watched %+v, want lags of 4 to 6 and of 2 to 4", w)
	}
}

// TestUnfinished: what is not there yet is told from what can never be right.
func TestUnfinished(t *testing.T) {
	late := func(e *evidence) {
		e.audit.Logged = likes.Packed{256, 512, 768, 1024, 1025}
		e.video(2).Ledger = likes.Packed{}
	}
	count := func(n int64) func(*evidence) {
		return func(e *evidence) { e.video(1).Counts[0] = n }
	}
	members := func(e *evidence) { e.video(1).Members = userIDs(3) }
	for name, c := range map[string]struct {
		invariant  string
		change     func(*evidence)
		unfinished bool
	}{
		"not in the ledger yet":       {likes.LedgerIsLog, late, true},
		"acknowledged, not yet there": {likes.AckedDurable, late, true},
		"a region is behind":          {likes.StoresAgree, count(1), true},
		"counted, not yet corrected":  {likes.OneLike, count(3), true},
		"taken back, not yet here":    {likes.OneLike, members, true},
		"no order explains it": {likes.OneLike, func(e *evidence) {
			e.op(512).Reply.Value = 0
		}, false},
		"in the ledger without a log": {likes.LedgerIsLog, func(e *evidence) {
			e.audit.Log[1].Records = e.audit.Log[1].Records[:1]
		}, false},
		"committed and not applied": {likes.AppliedFirst, func(e *evidence) {
			e.audit.Logged = likes.Packed{256, 512, 768, 1024, 1280}
		}, false},
	} {
		e := goodLikes()
		c.change(e)
		v := e.judge(t)[c.invariant]
		if v.Status != fail || c.unfinished != (v.Unfinished == v.Count) {
			t.Errorf("%s: %s, %d of %d not finished: %s", name, v.Status, v.Unfinished, v.Count, v.Reason)
		}
	}
}
