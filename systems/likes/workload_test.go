package likes

import (
	"slices"
	"strings"
	"testing"

	"stampede/harness/history"
	"stampede/harness/sut"
)

func loadOf(t *testing.T, seed uint64, change func(*Params)) sut.Workload {
	t.Helper()
	p := DefaultParams()
	if change != nil {
		change(&p)
	}
	w, err := System().Workload(seed, p)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// journeys are all operations of n scheduled ones that all succeed.
func journeys(w sut.Workload, n uint64) (ops []history.Op) {
	for i := range n {
		due := []history.Op{w.Op(i)}
		for len(due) > 0 {
			op := due[0]
			due, ops = due[1:], append(ops, op)
			for _, next := range w.Follow(op, history.OK, history.Reply{Value: 1}) {
				due = append(due, next.Op)
			}
		}
	}
	return ops
}

// TestWorkloadIsAFunctionOfTheSeed: the same seed gives the same operations, in
// any order of asking, and another seed others.
func TestWorkloadIsAFunctionOfTheSeed(t *testing.T) {
	w := loadOf(t, 1, nil)
	first := journeys(w, 500)
	w.Op(7)
	if same := func(a, b history.Op) bool {
		return a.ID == b.ID && a.Kind == b.Kind && a.Key == b.Key && a.Client == b.Client
	}; !slices.EqualFunc(first, journeys(w, 500), same) ||
		!slices.EqualFunc(first, journeys(loadOf(t, 1, nil), 500), same) ||
		slices.EqualFunc(first, journeys(loadOf(t, 2, nil), 500), same) {
		t.Error("the operations do not depend on the seed alone")
	}
}

// TestIdentitiesAreUnique: no two operations share an identity, and none is zero.
func TestIdentitiesAreUnique(t *testing.T) {
	seen := map[uint64]bool{}
	for _, op := range journeys(loadOf(t, 3, func(p *Params) {
		p.Reads, p.Views, p.Unlike, p.Relike = 16, 1, 1, 1
	}), 300) {
		if op.ID == 0 || seen[op.ID] {
			t.Fatalf("%s has identity %d", op.Kind, op.ID)
		}
		seen[op.ID] = true
	}
}

// TestShares: the parameters are met within what chance allows.
func TestShares(t *testing.T) {
	const n = 20_000
	ops := journeys(loadOf(t, 4, nil), n)
	kinds, users := map[string]float64{}, map[string]int{}
	for _, op := range ops {
		kinds[op.Kind]++
		if op.ID&0xff == 0 {
			users[op.Client]++
		}
	}
	twice := 0.0
	for _, clicks := range users {
		if clicks == 2 {
			twice++
		}
	}
	for what, c := range map[string]struct{ got, want float64 }{
		"unlikes":       {kinds[KindUnlike] / n, 0.1},
		"likes":         {kinds[KindLike] / n, 1 + 0.1*0.3},
		"reads":         {kinds[KindCount] / n, 0.1},
		"views":         {kinds[KindView] / n, 0.2},
		"double clicks": {twice / float64(len(users)), 0.1},
	} {
		if c.got < c.want-0.01 || c.got > c.want+0.01 {
			t.Errorf("%s are %.3f of the likes, want %.3f", what, c.got, c.want)
		}
	}
}

// TestRetries: what is lost is sent again with the same identity, so often, and
// what was refused or dropped is not; nor is a read.
func TestRetries(t *testing.T) {
	w := loadOf(t, 5, func(p *Params) { p.Reads, p.Views = 0, 0 })
	op := w.Op(0)
	for attempt := range int64(3) {
		next := w.Follow(op, history.Unknown, history.Reply{})
		if len(next) != 1 || next[0].Op.ID != op.ID || next[0].Op.Arg != attempt+1 {
			t.Fatalf("after attempt %d: %+v", attempt, next)
		}
		op = next[0].Op
	}
	for _, outcome := range []history.Outcome{history.Unknown, history.Refused, history.Dropped} {
		if next := w.Follow(op, outcome, history.Reply{}); len(next) != 0 {
			t.Errorf("after the last attempt, %s: %+v", outcome, next)
		}
	}
	read := history.Op{ID: 0x110, Kind: KindCount, Key: "video-1", Client: "user-1"}
	if next := w.Follow(read, history.Unknown, history.Reply{}); len(next) != 0 {
		t.Errorf("a read is repeated: %+v", next)
	}
}

// TestFirstShards: a video does not begin with more counters than it may have.
func TestFirstShards(t *testing.T) {
	p := DefaultParams()
	p.FirstShards, p.MaxShards = 2, 1
	_, err := System().Workload(1, p)
	if err == nil || !strings.Contains(err.Error(), "first_shards: ") {
		t.Errorf("a workload of bad parameters: %v", err)
	}
}
