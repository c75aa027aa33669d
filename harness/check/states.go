package check

import (
	"slices"
	"strconv"
	"strings"
)

// Machine is the states that an object may pass through. A state without a
// next one is final.
type Machine struct {
	// Start is the state of an object that nothing has happened to.
	Start string
	// Next lists the states that may follow each state.
	Next map[string][]string
	// FirstVersion, if not zero, is the version of an object's first step;
	// each further step is one more.
	FirstVersion int64
}

// Step is one change of an object's state, as its log has it.
type Step struct {
	From, To string
	Version  int64
	// Op is the operation behind it, 0 if it is not known.
	Op uint64
}

// Path requires that the steps of an object, in the order of the log, lead
// from the machine's start to the state now without a gap, each allowed and
// with the next version. now is empty if it is not known.
func (m Machine) Path(c *Collector, object string, steps []Step, now string) {
	c.Checked(len(steps))
	state := m.Start
	for i, s := range steps {
		ops := []uint64{s.Op}
		if i > 0 {
			ops = []uint64{steps[i-1].Op, s.Op}
		}
		switch {
		case s.From != state:
			c.Violate(ops, "%s: step %d leads from %s to %s, but it was %s", object, i+1,
				s.From, s.To, state)
		case !slices.Contains(m.Next[s.From], s.To):
			c.Violate(ops, "%s: step %d leads from %s to %s, which may be followed by %s", object, i+1,
				s.From, s.To, allowed(m.Next[s.From]))
		}
		if want := m.FirstVersion + int64(i); m.FirstVersion != 0 && s.Version != want {
			c.Violate(ops, "%s: step %d has version %d, want %d", object, i+1, s.Version, want)
		}
		state = s.To
	}
	if now != "" && now != state {
		c.Violate(nil, "%s is %s at the end, but its steps lead to %s", object, now, state)
	}
}

func allowed(states []string) string {
	if len(states) == 0 {
		return "nothing"
	}
	return strings.Join(states, " or ")
}

// Term is one part of a sum that must be conserved.
type Term struct {
	Name  string
	Count int64
}

// Conserve requires that the terms add up to total and none is negative. ops
// are the operations that read them.
func Conserve(c *Collector, where string, total int64, ops []uint64, terms ...Term) {
	c.Checked(1)
	sum := int64(0)
	texts := make([]string, 0, len(terms))
	negative := false
	for _, t := range terms {
		sum += t.Count
		negative = negative || t.Count < 0
		texts = append(texts, strconv.FormatInt(t.Count, 10)+" "+t.Name)
	}
	switch text := strings.Join(texts, " + "); {
	case negative:
		c.Violate(ops, "%s: %s: a count is negative", where, text)
	case sum != total:
		c.Violate(ops, "%s: %s = %d, want %d (%+d)", where, text, sum, total, sum-total)
	}
}
