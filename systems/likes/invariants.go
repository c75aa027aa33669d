package likes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"stampede/harness/api"
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

// Invariants returns the statements about likes with the given parameters (a
// Params or *Params; anything else leaves all of them Undecided). Each judges
// from the history and the Audit alone, so that it says the same of a variant
// here and of a server that somebody else wrote.
func Invariants(params any) []check.Invariant {
	p, err := sut.ParamsOf[Params](params)
	s := &subject{api: API(), params: p, err: err}
	state := func(name, statement string, judge func(*judging)) check.Invariant {
		return invariant{name: name, statement: statement, judge: judge, subject: s}
	}
	return []check.Invariant{
		state(CountInBounds, "every count that is read was correct at some moment of the read, within "+
			"unknown outcomes and the declared staleness", judgeCounts),
		state(OneLike, "a user's repeated like adds nothing, the ledger has no request twice, and "+
			"whether a user likes a video at the end follows from some order of the user's interactions",
			judgeOneLike),
		state(StoresAgree, "at rest, the counters, the members and the ledger agree on each video, and "+
			"with the users' interactions", judgeStores),
		state(LedgerIsLog, "the ledger has exactly the interactions of the log, with the same likes",
			judgeLog),
		state(AppliedFirst, "no offset is committed before the records below it are in the ledger",
			judgeCommits),
		state(AckedDurable, "every acknowledged like and unlike is in the ledger at the end, except "+
			"for a loss that the design declares", judgeDurable),
		state(NoPhantom, "every interaction at the end comes from a request, and from none that was "+
			"refused", judgePhantoms),
		state(ViewersEstimated, "the estimate of a video's viewers is within the error of a HyperLogLog",
			judgeViewers),
	}
}

// invariant is one statement with the function that judges it.
type invariant struct {
	name, statement string
	judge           func(*judging)
	subject         *subject
}

func (v invariant) Name() string      { return v.name }
func (v invariant) Statement() string { return v.statement }

// Check judges. See check.Invariant.
func (v invariant) Check(
	ctx context.Context, h history.History, audit json.RawMessage,
) check.Verdict {
	j := &judging{Collector: check.Collect(ctx, v.name, h), api: v.subject.api,
		p: v.subject.params}
	if v.subject.err != nil {
		j.Fail("%v", v.subject.err)
		return j.Verdict()
	}
	var err error
	if j.a, err = v.subject.decode(audit); err != nil {
		j.Fail("the final audit cannot be read: %v", err)
		return j.Verdict()
	}
	v.judge(j)
	return j.Verdict()
}

// subject is what the invariants of one run share: the parameters and the audit
// that was decoded last, because all of them are asked about the same one.
type subject struct {
	api    *api.Table[Likes]
	params Params
	err    error

	mu   sync.Mutex
	raw  string
	last Audit
	bad  error
}

// decode returns the audit; it must not be modified.
func (s *subject) decode(raw json.RawMessage) (Audit, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.raw != string(raw) || s.raw == "" {
		s.raw = string(raw)
		s.last, s.bad = api.DecodeAudit[Audit](raw)
	}
	return s.last, s.bad
}

// judging is one invariant being judged.
type judging struct {
	*check.Collector
	api *api.Table[Likes]
	p   Params
	a   Audit
}

// interactions reads the records of some kinds that were not dropped, with who
// did what to which video. One that cannot be understood is left out: it was
// refused.
func (j *judging) interactions(see func(*history.Record, pairID), kinds ...string) {
	for rec := range j.Records(kinds...) {
		if rec.Outcome == history.Dropped {
			continue
		}
		if asked, err := j.api.Asked(rec.Op); err == nil {
			see(rec, pairOf(asked))
		}
	}
}

// changes reads likes and unlikes, and counts those of unknown outcome as
// allowed for. What a design may have lost by its own declaration comes as unknown
// too: of that nothing follows but that it was asked for.
func (j *judging) changes(see func(*history.Record, pairID)) {
	doubts, doubtful := j.doubts(), 0
	j.interactions(func(rec *history.Record, who pairID) {
		if rec.Outcome == history.OK && doubts.have(rec.End) {
			doubtful++
			unsure := *rec
			unsure.Outcome, unsure.Reply = history.Unknown, history.Reply{}
			rec = &unsure
		}
		if rec.Outcome == history.Unknown {
			j.AllowedUnknown(1)
		}
		see(rec, who)
	}, KindLike, KindUnlike)
	if doubtful > 0 {
		j.Note("%d acknowledged interactions count as unknown: they may have been in the buffer of a "+
			"server that failed together with Redis", doubtful)
	}
}

// pairID is a user and a video.
type pairID struct{ video, user uint64 }

// pairOf is whom and what a request is about.
func pairOf(request any) pairID {
	switch req := request.(type) {
	case *Request:
		return pairID{req.Video, req.User}
	case *CountRequest:
		return pairID{req.Video, req.User}
	}
	panic(fmt.Sprintf("likes: a request of type %T", request))
}

func (p pairID) String() string { return UserName(p.user) + " and " + VideoKey(p.video) }

// maxRegions bounds the regions of a Contract, maxStaleness what a design may declare of its
// reads: what allows more is not judged.
const (
	maxRegions   = 16
	maxStaleness = 10 * time.Second
)

// Check makes sure that an audit can be judged: everything that is packed is there, and lists
// are in order.
func (a *Audit) Check() error {
	switch c := a.Contract; {
	case c.Regions > maxRegions:
		return fmt.Errorf("contract.regions: expected 1 to %d, got %d", maxRegions, c.Regions)
	case c.StalenessNS > int64(maxStaleness):
		return fmt.Errorf("contract.staleness_ns: expected 0 to %d, got %d", int64(maxStaleness),
			c.StalenessNS)
	case a.Logged == nil:
		return errors.New("logged: it is missing")
	}
	for i, v := range a.Videos {
		switch {
		case v.Video != uint64(i+1):
			return fmt.Errorf("videos[%d].video_id: expected %d, got %d", i, i+1, v.Video)
		case len(v.Counts) != a.Contract.Regions:
			return fmt.Errorf("videos[%d].counts: expected one for each of %d regions, got %d",
				i, a.Contract.Regions, len(v.Counts))
		case v.Members == nil || v.Ledger == nil:
			return fmt.Errorf("videos[%d]: members or ledger is missing", i)
		}
	}
	for i, p := range a.Log {
		if p.Partition != int32(i) || p.Records == nil {
			return fmt.Errorf("log[%d]: expected partition %d with its records, got partition %d", i, i,
				p.Partition)
		}
	}
	return nil
}
