package likes

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"stampede/harness/api"
	"stampede/harness/check"
	"stampede/harness/history"
)

// The tables of facts.
const (
	interactions = "interaction" // a row for each like and unlike in the ledger
	events       = "event"       // a row for each record of the log
)

// final is a final audit as the judges see it, with what the history says of users and videos,
// which several of them share.
type final struct {
	Audit
	p    Params
	api  *api.Table[Likes]
	acts map[pairID][]act // nil until a judge asks for them; see withActs
	// settled says that the history is read. Then unknown counts the acts whose effect is
	// uncertain, and doubtful those of them that were acknowledged.
	settled           bool
	unknown, doubtful int
}

// subject reads audits of runs with some parameters.
func subject(p Params) *check.Subject {
	table := API()
	return &check.Subject{Read: check.Audited(func(raw json.RawMessage) (final, error) {
		a, err := api.DecodeAudit[Audit](raw)
		return final{Audit: a, p: p, api: table}, err
	}, (*final).facts)}
}

func (f *final) facts() check.Facts {
	logged, inLog := []check.Fact{}, []check.Fact{}
	for _, op := range f.Logged {
		logged = append(logged, check.Fact{Op: op})
	}
	for _, part := range f.Log {
		for _, e := range part.Records {
			inLog = append(inLog, check.Fact{Op: e.OpID})
		}
	}
	return check.Facts{Tables: []*check.Table{check.TableOf(interactions, logged),
		check.TableOf(events, inLog)}}
}

// pairID is a user and a video.
type pairID struct{ video, user uint64 }

func (p pairID) String() string { return UserName(p.user) + " and " + VideoKey(p.video) }

// see shows the records of some kinds with the pair that each is about. One that cannot be
// understood is left out: it was refused.
func (f *final) see(r *check.Run, visit func(*history.Record, pairID), kinds ...string) {
	r.See(func(rec *history.Record) {
		switch asked, err := f.api.Asked(rec.Op); req := asked.(type) {
		case *Request:
			if err == nil {
				visit(rec, pairID{req.Video, req.User})
			}
		case *CountRequest:
			if err == nil {
				visit(rec, pairID{req.Video, req.User})
			}
		}
	}, kinds...)
}

// act is one attempt of a user to like a video or not to, which was not refused.
type act struct {
	op         uint64
	like       bool
	answered   bool // it was acknowledged
	doubtful   bool // although it was, the design may have lost it
	acked      bool // its effect is certain
	changed    bool // its reply said that it changed something
	start, end time.Duration
}

// sure says whether it is certain what became of an act. It is not of every act that is acked:
// whether an answer is the first one does not matter here.
func (a act) sure() bool { return a.answered && !a.doubtful }

// change is what an act adds to the count if it changes it.
func (a act) change() int64 {
	if a.like {
		return 1
	}
	return -1
}

// operation is an act as a Counter has it.
func (a act) operation() check.Operation {
	if a.acked {
		return check.Operation{ID: a.op, Outcome: history.OK, Start: a.start, End: a.end}
	}
	return check.Operation{ID: a.op, Outcome: history.Unknown, Start: a.start, End: history.Never}
}

// withActs is a clause about an audit and the acts of users.
//
// Of an interaction that was acknowledged more than once, only the first answer is certain: a
// server that knows the identity again answers the others alike and does nothing, one that
// goes by who likes what does it again. What a design may have lost by its own declaration
// counts as unknown too: of that nothing follows but that it was asked for.
func withActs(judge func(*check.Run, *final)) check.Clause {
	return check.OnAudit(func(r *check.Run, f *final) func() {
		if f.acts == nil {
			f.gather(r)
		}
		return func() {
			f.settle()
			r.AllowedUnknown(f.unknown)
			if f.doubtful > 0 {
				r.Note("%d acknowledged interactions count as unknown: they may have been in the buffer "+
					"of a server that failed together with Redis", f.doubtful)
			}
			judge(r, f)
		}
	})
}

func (f *final) gather(r *check.Run) {
	f.acts = map[pairID][]act{}
	doubts := f.doubts(r.Faults())
	f.see(r, func(rec *history.Record, who pairID) {
		if rec.Outcome == history.Refused {
			return
		}
		answered := rec.Outcome == history.OK
		f.acts[who] = append(f.acts[who], act{op: rec.Op.ID, like: rec.Op.Kind == KindLike,
			answered: answered, doubtful: answered && within(doubts, rec.End),
			changed: rec.Reply.Value != 0, start: rec.Start, end: rec.End})
	}, KindLike, KindUnlike)
}

// settle decides, once the history is read, which acts are certain.
func (f *final) settle() {
	if f.settled {
		return
	}
	f.settled = true
	first := map[uint64]int{}
	for _, list := range f.acts {
		clear(first)
		for i, a := range list {
			if before, known := first[a.op]; a.answered && (!known || a.end < list[before].end) {
				first[a.op] = i
			}
		}
		for i := range list {
			a := &list[i]
			a.acked = a.answered && !a.doubtful && first[a.op] == i
			if a.doubtful {
				f.doubtful++
			}
			if a.doubtful || !a.answered {
				f.unknown++
			}
		}
	}
}

// inOrder lists the pairs by video and user.
func (f *final) inOrder() []pairID {
	return slices.SortedFunc(maps.Keys(f.acts), func(a, b pairID) int {
		return cmp.Or(cmp.Compare(a.video, b.video), cmp.Compare(a.user, b.user))
	})
}

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
