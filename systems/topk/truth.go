package topk

import (
	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/systems/internal/sketch"
)

// truth is what the log has of each window: how often each key, exactly. The log says which batches
// it has, and the history what is in them.
type truth struct {
	items   int
	bodies  map[uint64]string // of the batches that were sent
	sent    map[uint64]int    // how often those were sent that may be in the log
	at      map[uint64]int64
	answers map[uint64]int64 // how many events the last answer said
	reads   []history.Record
	seen    bool
	windows map[int64]*tally
	events  int64 // of all windows
}

// tally is the truth of a window or of several.
type tally struct {
	n    int64
	keys []int64  // by key
	ops  []uint64 // some batches, which prove what is said of it
}

// of is how often a key occurred.
func (c *tally) of(key uint64) int64 {
	if key >= uint64(len(c.keys)) {
		return 0
	}
	return c.keys[key]
}

// prove adds batches to those that prove something.
func (c *tally) prove(ops ...uint64) {
	c.ops = append(c.ops, ops[:min(len(ops), check.MaxProof-len(c.ops))]...)
}

// sorted are the k most frequent keys, those of equal counts by the key.
func (c *tally) sorted(k int) []sketch.Item {
	var list []sketch.Item
	for key, count := range c.keys {
		if count > 0 {
			list = append(list, sketch.Item{Key: uint64(key), Count: uint64(count)})
		}
	}
	return sketch.Best(list, k)
}

// see notes what a batch has.
func (t *truth) see(rec *history.Record) {
	if rec.Outcome != history.Refused {
		t.sent[rec.Op.ID]++
	}
	if rec.Outcome == history.OK {
		t.answers[rec.Op.ID] = rec.Reply.Value
	}
	if _, known := t.bodies[rec.Op.ID]; !known {
		t.bodies[rec.Op.ID], t.at[rec.Op.ID] = string(rec.Op.Body), rec.Op.Arg
	}
}

// build counts the log.
func (t *truth) build(p Params, log []BatchRow) error {
	if t.windows != nil {
		return nil
	}
	t.windows = map[int64]*tally{}
	var list []uint64
	for _, row := range log {
		c := t.windows[p.windowOf(row.AtMS)]
		if c == nil {
			c = &tally{keys: make([]int64, t.items+1)}
			t.windows[p.windowOf(row.AtMS)] = c
		}
		body, known := t.bodies[row.ID]
		if !known {
			continue // acked-in-log says so
		}
		var err error
		if list, err = keysOf(body, list); err != nil {
			return err
		}
		c.n += int64(len(list))
		t.events += int64(len(list))
		c.prove(row.ID)
		for _, key := range list {
			if key < uint64(len(c.keys)) {
				c.keys[key]++
			}
		}
	}
	return nil
}

// span is the truth of some windows, of which the last is given, and which may have no events.
func (t *truth) span(last int64, span int) *tally {
	if c := t.windows[last]; span == 1 && c != nil {
		return c
	}
	sum := &tally{keys: make([]int64, t.items+1)}
	for window := last - int64(span) + 1; window <= last; window++ {
		c := t.windows[window]
		if c == nil {
			continue
		}
		sum.n += c.n
		sum.prove(c.ops...)
		for key, count := range c.keys {
			sum.keys[key] += count
		}
	}
	return sum
}
