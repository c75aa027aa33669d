package check_test

import (
	"slices"
	"testing"

	"stampede/harness/check"
	"stampede/harness/history"
)

// steps are operations 1, 2, … that were sent and answered at these times.
func steps(times ...[2]int64) (list []check.CountedStep) {
	for i, t := range times {
		list = append(list, check.CountedStep{Op: uint64(i + 1), StartNS: t[0], AtNS: t[1]})
	}
	return list
}

func TestCountedRace(t *testing.T) {
	for name, c := range map[string]struct {
		steps         []check.CountedStep
		crossing      uint64
		first, second uint64
	}{
		"with the one that was sent nearest": {steps([2]int64{0, 40}, [2]int64{20, 50}, [2]int64{25, 60}),
			3, 2, 3},
		"with a later one": {steps([2]int64{0, 10}, [2]int64{11, 20}, [2]int64{30, 60},
			[2]int64{40, 70}), 3, 3, 4},
		"two before it": {steps([2]int64{0, 10}, [2]int64{5, 20}, [2]int64{30, 40}), 3, 1, 2},
		"none":          {steps([2]int64{0, 10}, [2]int64{11, 20}, [2]int64{30, 40}), 3, 0, 0},
	} {
		shuffled := slices.Clone(c.steps)
		slices.Reverse(shuffled)
		counted := check.CountUp("units sold", 2, shuffled)
		first, second, raced := counted.Race()
		if counted.Crossing().Op != c.crossing || first.Op != c.first || second.Op != c.second ||
			raced != (c.first > 0) {
			t.Errorf("%s: crossed by %d, raced %d and %d", name, counted.Crossing().Op, first.Op,
				second.Op)
		}
	}
}

// TestCountedIsBounded: of a long count what is around its limit is kept.
func TestCountedIsBounded(t *testing.T) {
	var many []check.CountedStep
	for i := range 5000 {
		many = append(many, check.CountedStep{Op: uint64(i + 1), StartNS: int64(i), AtNS: int64(i + 1)})
	}
	c := check.CountUp("units sold", 2500, many)
	if len(c.Steps) > 2001 || c.Before != 1500 || c.Crossing().Op != 2501 {
		t.Errorf("%d steps after %d, crossed by %d", len(c.Steps), c.Before, c.Crossing().Op)
	}
}

// TestViolateCount: what crossed the limit dates the violation and proves it with what it
// raced; the first violation alone keeps the count.
func TestViolateCount(t *testing.T) {
	var records []history.Record
	for i := range 6 {
		records = append(records, history.Record{Seq: uint64(i), Op: history.Op{ID: uint64(i + 1)}})
	}
	c := check.Collect(t.Context(), "no-oversell", history.Slice(records))
	for range 2 {
		counted := check.CountUp("units sold", 2,
			steps([2]int64{0, 10}, [2]int64{20, 50}, [2]int64{25, 60}))
		c.ViolateCount(counted, []uint64{5, 3}, "%d sold", 3)
	}
	v := c.Verdict()
	first := v.Violations[0]
	if first.AtNS != 60 || !slices.Equal(first.Ops, []uint64{1, 2, 4}) || first.Counted == nil {
		t.Errorf("%+v", first)
	}
	if v.Count != 2 || v.Violations[1].Counted != nil {
		t.Errorf("%+v", v.Violations[1])
	}
}
