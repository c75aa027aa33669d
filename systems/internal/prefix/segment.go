package prefix

import (
	"bytes"
	"cmp"
	"container/heap"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/blevesearch/vellum"
)

// Head is what a segment does not say itself.
type Head struct {
	// Highest is the score of which the segment has how much less each phrase has.
	Highest int64
	// Alphabet are all bytes of phrases, Trending those phrases that are.
	Alphabet []byte
	Trending []string
}

// Build makes a segment of phrases, which are in the order of their bytes: a finite state
// transducer, in which phrases share how they begin and how they end. Its values are how much
// less than the highest score a phrase has. A transducer adds values up on the way, as early as
// it can, so that each transition has the value of the best phrase behind it.
func Build(list []Phrase) (raw []byte, h Head, err error) {
	var used [256]bool
	for _, p := range list {
		if h.Highest = max(h.Highest, p.Score); p.Trending {
			h.Trending = append(h.Trending, p.Text)
		}
		for i := range len(p.Text) {
			used[p.Text[i]] = true
		}
	}
	for b, is := range used {
		if is {
			h.Alphabet = append(h.Alphabet, byte(b))
		}
	}
	var out bytes.Buffer
	b, err := vellum.New(&out, nil)
	for _, p := range list {
		if err == nil {
			err = b.Insert([]byte(p.Text), uint64(h.Highest-p.Score))
		}
	}
	if err == nil {
		err = b.Close()
	}
	if err != nil {
		return nil, h, fmt.Errorf("building a segment: %w", err)
	}
	return out.Bytes(), h, nil
}

// Segment is a segment as it is searched, by any number of goroutines.
type Segment struct {
	Head
	fst      *vellum.FST
	trending map[string]bool
	// decoded are the transitions of nodes that searches have come by, left at most.
	decoded sync.Map
	left    atomic.Int64
	size    int64
}

// decodedMost bounds the nodes whose transitions a segment remembers.
const decodedMost = 1 << 15

// errMalformed is of bytes that are no segment.
var errMalformed = errors.New("malformed segment")

// Open opens a segment, which keeps the bytes.
func Open(raw []byte, h Head) (*Segment, error) {
	fst, err := vellum.Load(raw)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errMalformed, err)
	}
	s := &Segment{Head: h, fst: fst, trending: map[string]bool{},
		size: int64(len(raw))}
	s.left.Store(decodedMost)
	for _, p := range h.Trending {
		s.trending[p] = true
	}
	return s, nil
}

func (s *Segment) phrase(text string, below uint64) Phrase {
	return Phrase{text, s.Highest - int64(below), s.trending[text]}
}

// Get finds a phrase.
func (s *Segment) Get(text string) (Phrase, bool) {
	below, is, err := s.fst.Get([]byte(text))
	if err != nil || !is {
		return Phrase{}, false
	}
	return s.phrase(text, below), true
}

// step is a transition of a node, or that a phrase ends there.
type step struct {
	below uint64 // what it adds
	to    int
	b     byte
	end   bool
}

// steps are those of a node: the best first, and of equal ones the end, and then the lower byte.
func (s *Segment) steps(addr int) []step {
	if found, is := s.decoded.Load(addr); is {
		return found.([]step)
	}
	var list []step
	if ends, below := s.fst.IsMatchWithVal(addr); ends {
		list = append(list, step{below: below, end: true})
	}
	for _, b := range s.Alphabet {
		if to, below := s.fst.AcceptWithVal(addr, b); s.fst.CanMatch(to) {
			list = append(list, step{below: below, to: to, b: b})
		}
	}
	slices.SortStableFunc(list, func(a, b step) int { return cmp.Compare(a.below, b.below) })
	if s.left.Add(-1) >= 0 {
		s.decoded.Store(addr, list)
	}
	return list
}

// place is where a search may go on: by a step from a node, of which the better steps were taken.
type place struct {
	below uint64 // at least so much less than the highest has each phrase from here on
	path  string // after the step
	steps []step // this one and worse ones
	state int    // of the automaton of what was typed, before the step
}

// places is a heap: the best first, and of equal ones that with the lower bytes. What a phrase
// begins with has come before it, and so have all phrases that are as good and lower.
type places []place

// Len is that of a heap.
func (h places) Len() int { return len(h) }

// Less is that of a heap.
func (h places) Less(i, j int) bool {
	if h[i].below != h[j].below {
		return h[i].below < h[j].below
	}
	return h[i].path < h[j].path || h[i].path == h[j].path && !h[i].steps[0].end && h[j].steps[0].end
}

// Swap is that of a heap.
func (h places) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push is that of a heap.
func (h *places) Push(x any) { *h = append(*h, x.(place)) }

// Pop is that of a heap.
func (h *places) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// begin adds the best step that the automaton allows of some from a node, which is at a path.
func (h *places) begin(q Typed, below uint64, path string, steps []step, state int) {
	for ; len(steps) > 0; steps = steps[1:] {
		switch first := steps[0]; {
		case first.end && state == matched:
			heap.Push(h, place{below + first.below, path, steps, state})
			return
		case !first.end && q.next(state, first.b) != dead:
			heap.Push(h, place{below + first.below, path + string([]byte{first.b}), steps, state})
			return
		}
	}
}

// Best follows the steps from the best place that is known, until enough phrases have ended that
// are not to be left out.
func (s *Segment) Best(q Typed, without map[string]bool) (list []Phrase) {
	addr, below, path, state := s.fst.Start(), uint64(0), "", matched
	if q.dfa != nil {
		state = q.dfa.Start()
	} else {
		for i := range len(q.Prefix) {
			next, more := s.fst.AcceptWithVal(addr, q.Prefix[i])
			if addr = next; !s.fst.CanMatch(next) {
				return nil
			}
			below += more
		}
		path = q.Prefix
	}
	var open places
	open.begin(q, below, path, s.steps(addr), state)
	for len(open) > 0 && len(list) < Most {
		at := heap.Pop(&open).(place)
		taken, before := at.steps[0], at.below-at.steps[0].below
		if taken.end {
			if !without[at.path] {
				list = append(list, s.phrase(at.path, at.below))
			}
			open.begin(q, before, at.path, at.steps[1:], at.state)
			continue
		}
		open.begin(q, before, at.path[:len(at.path)-1], at.steps[1:], at.state)
		open.begin(q, at.below, at.path, s.steps(taken.to), q.next(at.state, taken.b))
	}
	return list
}

// Bytes is how much memory the segment takes, without what searches have decoded.
func (s *Segment) Bytes() int64 { return s.size }
