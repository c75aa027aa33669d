package check

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Pass is an operation that a limit let through, at some time between two of one clock.
type Pass struct {
	Op       uint64
	From, To int64
}

// Burst is the span of time in which more passes than a rate gives certainly were, by the most.
type Burst struct {
	// Above is how many more than the rate gives in the span: a limit of a rate and a burst is
	// kept if Above is no more than the burst.
	Above float64
	// Passes is how many there were, Ops are the first MaxProof of them.
	Passes int
	Ops    []uint64
	Span   time.Duration
}

// BurstOf looks at all spans of time at once. Of those that begin with a pass and end with the one
// at hand, a tree has the highest of how many passes are inside and what the rate has given until
// the span begins: a node is of some passes in the order in which they may begin.
func BurstOf(list []Pass, rate float64) (b Burst) {
	list = slices.SortedFunc(slices.Values(list), func(x, y Pass) int {
		return cmp.Or(cmp.Compare(x.From, y.From), cmp.Compare(x.To, y.To))
	})
	ends, size := make([]int, len(list)), 1
	for i := range ends {
		ends[i] = i
	}
	slices.SortStableFunc(ends, func(i, k int) int { return cmp.Compare(list[i].To, list[k].To) })
	for size < len(list) {
		size *= 2
	}
	type node struct{ passes, highest float64 }
	tree := slices.Repeat([]node{{0, math.Inf(-1)}}, 2*size)
	given := func(at int64) float64 { return rate * time.Duration(at-list[0].From).Seconds() }
	last := -1
	for _, i := range ends {
		tree[size+i] = node{1, 1 + given(list[i].From)}
		for k := (size + i) / 2; k > 0; k /= 2 {
			l, r := tree[2*k], tree[2*k+1]
			tree[k] = node{l.passes + r.passes, max(r.highest, l.highest+r.passes)}
		}
		if above := tree[1].highest - given(list[i].To); above > b.Above {
			b.Above, last = above, i
		}
	}
	if last >= 0 {
		b.inside(list, list[last].To, given)
	}
	return b
}

// inside finds the span that ends at some time, and what is in it.
func (b *Burst) inside(list []Pass, end int64, given func(int64) float64) {
	n, highest, first := 0.0, math.Inf(-1), 0
	for i, p := range slices.Backward(list) {
		if p.To > end {
			continue
		}
		if n++; n+given(p.From) > highest {
			highest, first = n+given(p.From), i
		}
	}
	b.Span = time.Duration(end - list[first].From)
	for _, p := range list[first:] {
		if p.To > end {
			continue
		}
		if b.Passes++; len(b.Ops) < MaxProof {
			b.Ops = append(b.Ops, p.Op)
		}
	}
}
