package answer

import (
	"cmp"
	"slices"
	"time"

	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/rundir"
)

// The limits of what clients are shown to have done.
const (
	maxClients   = 8
	MaxClientOps = 40 // of all clients of one violation
)

// firstKnown is the violation whose count is kept, with the operations that decide it; or the
// first that several known operations prove, with those; or the first that one proves.
func firstKnown(
	v check.Verdict, records map[uint64]history.Record,
) (first check.Violation, alone []history.Record) {
	for _, violation := range inTime(v.Violations) {
		known := knownOf(violation, records)
		if violation.Counted != nil && len(known) > 0 {
			return violation, decisiveOf(violation.Counted, known)
		}
		if len(known) > len(alone) && len(alone) < 2 {
			first, alone = violation, known
		}
	}
	return first, alone
}

// ClientsOf are the clients of some operations, the first few, in the order in which
// they were sent.
func ClientsOf(records []history.Record) (clients []string) {
	records = slices.Clone(records)
	slices.SortStableFunc(records, func(a, b history.Record) int {
		return cmp.Compare(a.Start, b.Start)
	})
	for _, r := range records {
		if r.Op.Client != "" && !slices.Contains(clients, r.Op.Client) && len(clients) < maxClients {
			clients = append(clients, r.Op.Client)
		}
	}
	return clients
}

// suspects are the clients behind the violations of a repeat that the page draws.
func suspects(verdicts []check.Verdict, records map[uint64]history.Record) map[string]bool {
	found := map[string]bool{}
	for _, v := range verdicts {
		_, known := firstKnown(v, records)
		for _, client := range ClientsOf(known) {
			found[client] = true
		}
	}
	return found
}

// deedsOf streams a stored history for all that some clients did, up to a limit.
func deedsOf(run *rundir.Run, name string, clients map[string]bool) ([]history.Record, error) {
	var deeds []history.Record
	if len(clients) == 0 {
		return nil, nil
	}
	err := eachRecord(run, name, func(r history.Record) (more bool) {
		if clients[r.Op.Client] {
			deeds = append(deeds, r)
		}
		return len(deeds) < maxDeeds
	})
	return deeds, err
}

// maxDeeds is how many records deedsOf keeps of a repeat.
const maxDeeds = 2000

// MaxBars is how many operations an interleaving shows.
const MaxBars = 12

// Proof is what proves a violation.
type Proof struct {
	Records []history.Record
	// at is when the violation was complete, not positive if that is not known.
	At     time.Duration
	Faults []history.Window
	// deeds is what the clients of the repeat's violations did.
	Deeds []history.Record
	// counted is how the count rose, where the violation is of a count.
	Counted *check.Counted
	// violation is the one that they prove.
	violation check.Violation
	// neighbours are of the same subject as the one operation that proves it alone.
	Neighbours []history.Record
}

// proofOf is the first violation that known operations prove, several of them if there is
// one with several.
func proofOf(d Data, st Standing, repeat rundir.Repeat, shown check.Verdict) Proof {
	ref := RepeatRef{st.Name, repeat.Index}
	v, known := firstKnown(shown, d.Records[ref])
	if len(known) == 0 {
		return Proof{}
	}
	p := Proof{Records: known, At: time.Duration(v.AtNS), Faults: FaultWindows(repeat),
		Deeds: d.Deeds[ref], Counted: v.Counted, violation: v}
	if len(known) == 1 {
		p.Neighbours = d.Neighbours[ref][known[0].Seq]
	}
	return p
}

// maxNeighbours is how many operations are kept beside one that proves something alone.
const maxNeighbours = MaxBars - 1

// loners are the operations that prove a violation alone, of those that the page draws.
func loners(verdicts []check.Verdict, records map[uint64]history.Record) (all []history.Record) {
	for _, v := range verdicts {
		if _, known := firstKnown(v, records); len(known) == 1 {
			all = append(all, known[0])
		}
	}
	return all
}

// neighboursOf streams a stored history for what was sent nearest to each of some
// operations, of those that have its key or its client or what was assigned to it.
func neighboursOf(
	run *rundir.Run, name string, loners []history.Record,
) (map[uint64][]history.Record, error) {
	found := map[uint64][]history.Record{}
	if len(loners) == 0 {
		return found, nil
	}
	err := eachRecord(run, name, func(r history.Record) (more bool) {
		for _, lone := range loners {
			if r.Seq != lone.Seq && r.Outcome != history.Dropped && related(r, lone) {
				found[lone.Seq] = nearest(found[lone.Seq], r, lone.Start)
			}
		}
		return true
	})
	return found, err
}

// related says that two operations have a subject in common.
func related(a, b history.Record) bool {
	same := func(x, y string) bool { return x != "" && x == y }
	return same(a.Op.Key, b.Op.Key) || same(a.Op.Client, b.Op.Client) ||
		same(a.Op.Key, b.Reply.Key) || same(a.Reply.Key, b.Op.Key)
}

// nearest adds an operation to those that were sent nearest to a time, if it is one.
func nearest(near []history.Record, r history.Record, to time.Duration) []history.Record {
	far := func(r history.Record) time.Duration { return (r.Start - to).Abs() }
	at, _ := slices.BinarySearchFunc(near, far(r), func(n history.Record, d time.Duration) int {
		return cmp.Compare(far(n), d)
	})
	if at >= maxNeighbours {
		return near
	}
	near = slices.Insert(near, at, r)
	return near[:min(len(near), maxNeighbours)]
}
