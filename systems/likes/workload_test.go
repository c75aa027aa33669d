package likes_test

import (
	"slices"
	"testing"

	"stampede/harness/history"
	"stampede/harness/keys"
	"stampede/harness/sut"
	"stampede/systems/likes"
)

func workload(t *testing.T, seed uint64, change func(*likes.Params)) sut.Workload {
	t.Helper()
	p := likes.DefaultParams()
	if change != nil {
		change(&p)
	}
	w, err := likes.NewWorkload(seed, p)
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
	w := workload(t, 1, nil)
	first := journeys(w, 500)
	w.Op(7)
	if same := func(a, b history.Op) bool {
		return a.ID == b.ID && a.Kind == b.Kind && a.Key == b.Key && a.Client == b.Client
	}; !slices.EqualFunc(first, journeys(w, 500), same) ||
		!slices.EqualFunc(first, journeys(workload(t, 1, nil), 500), same) ||
		slices.EqualFunc(first, journeys(workload(t, 2, nil), 500), same) {
		t.Error("the operations do not depend on the seed alone")
	}
}

// TestIdentitiesAreUnique: no two operations share an identity, and none is zero.
func TestIdentitiesAreUnique(t *testing.T) {
	seen := map[uint64]bool{}
	for _, op := range journeys(workload(t, 3, func(p *likes.Params) {
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
	ops := journeys(workload(t, 4, nil), n)
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
		"unlikes":       {kinds[likes.KindUnlike] / n, 0.1},
		"likes":         {kinds[likes.KindLike] / n, 1 + 0.1*0.3},
		"reads":         {kinds[likes.KindCount] / n, 0.1},
		"views":         {kinds[likes.KindView] / n, 0.2},
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
	w := workload(t, 5, func(p *likes.Params) { p.Reads, p.Views = 0, 0 })
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
	read := history.Op{ID: 0x110, Kind: likes.KindCount, Key: "video-1", Client: "user-1"}
	if next := w.Follow(read, history.Unknown, history.Reply{}); len(next) != 0 {
		t.Errorf("a read is repeated: %+v", next)
	}
}

// TestMovingHot: one of many videos takes most likes, and not always the same.
func TestMovingHot(t *testing.T) {
	w := workload(t, 6, func(p *likes.Params) { p.Videos, p.VideoSkew = 50, keys.SkewMoving })
	hottest := map[string]bool{}
	for turn := range uint64(5) {
		counts := map[string]int{}
		for i := range uint64(2000) {
			counts[w.Op(turn*2000+i).Key]++
		}
		for key, n := range counts {
			if n > 1400 {
				hottest[key] = true
			}
		}
	}
	if len(hottest) < 2 {
		t.Errorf("the hot videos are %v", hottest)
	}
}
