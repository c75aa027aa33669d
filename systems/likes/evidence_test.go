package likes

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/suttest"
)

const ms = time.Millisecond

const (
	pass  = check.Held
	fail  = check.Broken
	maybe = check.Undecided
)

// evidence is a history and an audit that a case may change.
type evidence struct {
	params  Params
	records []history.Record
	windows []history.Window
	samples []history.Sample
	audit   Audit
}

// goodLikes is a small run that every invariant accepts: users 1 and 2 like
// video 1, user 2 clicks twice, user 3 takes the like back, user 1 likes video 2.
// Users 1 and 2 have seen video 1, user 1 reads both counts.
func goodLikes() *evidence {
	e := &evidence{params: DefaultParams()}
	e.params.Videos = 2
	e.do(256, KindLike, 1, 1, 100*ms, 1)
	e.do(512, KindLike, 1, 2, 100*ms, 1)
	e.do(768, KindLike, 1, 2, 105*ms, 0)
	e.do(768, KindLike, 1, 2, 120*ms, 0) // sent again
	e.do(1024, KindLike, 1, 3, 200*ms, 1)
	e.do(1025, KindUnlike, 1, 3, 300*ms, 1)
	e.do(1280, KindLike, 2, 1, 400*ms, 1)
	e.do(259, KindView, 1, 1, 150*ms, 0)
	e.do(515, KindView, 1, 2, 150*ms, 0)
	e.do(272, KindCount, 1, 1, 250*ms, 3)
	e.do(273, KindCount, 2, 1, 500*ms, 1)
	e.audit = Audit{
		Contract: Contract{Ack: AckLog, Regions: 1},
		Videos: []VideoAudit{
			{Video: 1, Shards: 1, Counts: []int64{2}, Members: Packed{1, 2},
				Ledger: Packed{1, 2}, Viewers: 2},
			{Video: 2, Shards: 1, Counts: []int64{1}, Members: Packed{1},
				Ledger: Packed{1}},
		},
		Logged: Packed{256, 512, 768, 1024, 1025, 1280},
		Log: []PartitionAudit{
			{Partition: 0, Committed: 4, Records: PackedEvents{
				{OpID: 256, Video: 1, User: 1, Liked: true, Version: 1},
				{OpID: 512, Video: 1, User: 2, Liked: true, Version: 1},
				{OpID: 768, Video: 1, User: 2, Liked: true, Version: 2},
				{OpID: 1280, Video: 2, User: 1, Liked: true, Version: 1},
			}},
			{Partition: 1, First: 10, Committed: 12, Records: PackedEvents{
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
		Op: history.Op{ID: id, Kind: kind, Key: VideoKey(video),
			Client: UserName(user)},
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

func (e *evidence) video(n uint64) *VideoAudit { return &e.audit.Videos[n-1] }

// fault adds a fault of that text.
func (e *evidence) fault(text string, start, end time.Duration) {
	e.windows = append(e.windows, history.Window{Kind: history.FaultWindow, Name: text,
		Fault: text, Start: start, End: end, Recovered: end, Evidence: []string{"it happened"}})
}

// look adds what the gauge saw of partition 1 at a moment.
func (e *evidence) look(at time.Duration, committed, applied int64) {
	body, err := json.Marshal(Look{Before: 14, Committed: []int64{0, committed},
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
	return suttest.Verdicts(Invariants(e.params), h, audit)
}

// verdictCase changes one thing and says what becomes of one invariant.
type verdictCase suttest.Case[*evidence]

// unfinished checks that what is not finished yet, and nothing else, is told as such.
func unfinished(t *testing.T, c suttest.Case[*evidence], v check.Verdict) {
	if c.Want == fail && strings.HasSuffix(c.Name, "- not finished") != (v.Unfinished == v.Count) {
		t.Errorf("%d of %d violations are of what was not finished", v.Unfinished, v.Count)
	}
}

// TestClauses: each clause accepts what is right and refuses what is wrong.
func TestClauses(t *testing.T) {
	p := proof()
	p.Judged = unfinished
	suttest.Clauses(t, p, goodLikes, slices.Concat(countCases(), pairCases(), storeCases(),
		logCases(), effectCases(), viewerCases()))
}

// TestNothingIsUndecided: no history and no audit prove nothing.
func TestNothingIsUndecided(t *testing.T) {
	for name, v := range (&evidence{params: DefaultParams()}).judgeRaw(nil) {
		if v.Status != maybe {
			t.Errorf("without an audit %s is %s", name, v.Status)
		}
	}
	empty := &evidence{params: DefaultParams(), audit: Audit{
		Contract: Contract{Ack: AckLog, Regions: 1}, Logged: Packed{},
		Videos: []VideoAudit{{Video: 1, Counts: []int64{0}, Members: Packed{},
			Ledger: Packed{}}}}}
	for name, v := range empty.judge(t) {
		if v.Status != maybe {
			t.Errorf("of nothing %s is %s", name, v.Status)
		}
	}
}

// TestLagIsWatched: the verdict has what the gauge saw.
func TestLagIsWatched(t *testing.T) {
	e := goodLikes()
	e.look(0, 10, 10)
	e.look(10*ms, 12, 12)
	w := e.judge(t)[AppliedFirst].Watched
	if w == nil || w.Quantity != "lag" || w.Judged != 2 || w.Lowest != 4 || w.Highest != 4 {
		t.Errorf("watched %+v, want lags of 4 to 6 and of 2 to 4", w)
	}
}
