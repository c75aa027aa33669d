package check

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"stampede/harness/history"
)

// Effect is one effect found in the final state, such as an order's row.
type Effect struct {
	// Op is the identity of the operation that brought it about.
	Op uint64
	// Name is what the system assigned and the reply's Key must say, Key the
	// object and Client the owner, which the operation must have asked for.
	// Empty ones are not compared.
	Name, Key, Client string
}

// String formats the effect for a violation.
func (e Effect) String() string {
	return fmt.Sprintf("%s of operation %d (key %q, client %q)", cmp.Or(e.Name, "effect"),
		e.Op, e.Key, e.Client)
}

// Comparison compares the operations of a history with the effects found in the
// final state. It is sound under unknown outcomes: an acknowledged operation
// must have its effect, one of unknown outcome may, a refused one must not.
//
// First Found is called for every effect, then See for every record that may
// bring one about, then the clauses. It keeps the effects and what is wrong,
// not the history.
type Comparison struct {
	found   map[uint64]*traced
	missing map[uint64]missingAck
	saw     bool
	acked   int64
	unknown int
	strayed []stray
	// excused says which operations need no effect at the end.
	excused func(op uint64) bool
}

// traced is the effects of one operation and what the history says of it.
type traced struct {
	effects []Effect
	op      Operation
	seen    bool
}

// missingAck is an acknowledged operation without its effect, and when it was
// first acknowledged.
type missingAck struct {
	op                uint64
	at                time.Duration
	name, key, client string
}

// String says what was acknowledged, and to whom.
func (m missingAck) String() string {
	text := fmt.Sprintf("operation %d (key %q, client %q) was acknowledged at %v",
		m.op, m.key, m.client, TimeText(m.at))
	if m.name != "" {
		text += fmt.Sprintf(" (%q)", m.name)
	}
	return text
}

// stray is an effect that is not what its operation asked for, which breaks
// both clauses if that was acknowledged, or not what it was told.
type stray struct {
	op             uint64
	text           string
	acked, unasked bool
}

// NewComparison starts a comparison.
func NewComparison() *Comparison {
	return &Comparison{found: make(map[uint64]*traced), missing: make(map[uint64]missingAck)}
}

// Found adds an effect. It panics after See, which needs all of them.
func (e *Comparison) Found(effect Effect) {
	if e.saw {
		panic("check: Found after See")
	}
	t := e.found[effect.Op]
	if t == nil {
		t = &traced{}
		e.found[effect.Op] = t
	}
	t.effects = append(t.effects, effect)
}

// See adds a record of an operation that may bring an effect about.
func (e *Comparison) See(r *history.Record) { e.see(r, Said(r)) }

// see adds a record and what it says.
func (e *Comparison) see(r *history.Record, said Fact) {
	e.saw = true
	switch r.Outcome {
	case history.OK:
		e.acked++
	case history.Unknown:
		e.unknown++
	}
	t := e.found[r.Op.ID]
	if t == nil {
		if r.Outcome == history.OK {
			e.miss(r, said)
		}
		return
	}
	t.see(r)
	e.compare(t, r, said)
}

// miss notes an acknowledgement without effect, the first one to arrive.
func (e *Comparison) miss(r *history.Record, said Fact) {
	if m, known := e.missing[r.Op.ID]; known && m.at <= r.End {
		return
	}
	e.missing[r.Op.ID] = missingAck{r.Op.ID, r.End, said.Name, said.Key, said.Owner}
}

func (t *traced) see(r *history.Record) {
	o := Attempt(r)
	if t.seen {
		o = t.op.merge(o)
	}
	t.op, t.seen = o, true
}

// compare notes an effect that is another's than the one who asked, and an
// acknowledgement that names none of the effects.
func (e *Comparison) compare(t *traced, r *history.Record, said Fact) {
	named := r.Outcome != history.OK
	for _, f := range t.effects {
		if differ(f.Key, said.Key) || differ(f.Client, said.Owner) {
			e.strayed = append(e.strayed, stray{op: r.Op.ID, unasked: true,
				acked: r.Outcome == history.OK, text: fmt.Sprintf(
					"%v was requested with key %q by client %q", f, said.Key, said.Owner)})
			return
		}
		named = named || !differ(f.Name, said.Name)
	}
	if !named {
		e.strayed = append(e.strayed, stray{op: r.Op.ID, acked: true, text: fmt.Sprintf(
			"operation %d was answered %q, but at the end there is %v", r.Op.ID, said.Name, t.effects[0])})
	}
}

func differ(found, asked string) bool { return found != "" && found != asked }

// Durable requires that every acknowledged operation has its effect, with its
// key, for its client and under the name that the reply gave, but for the
// declared losses. At least one operation must have been acknowledged.
func (e *Comparison) Durable(c *Collector, losses ...Loss) {
	c.Checked(int(e.acked))
	c.AllowedUnknown(e.unknown)
	c.Need(e.acked > 0, "no operation was acknowledged")
	for _, s := range e.strayed {
		if s.acked {
			c.Violate([]uint64{s.op}, "%s", s.text)
		}
	}
	missing := slices.DeleteFunc(e.moved(c), func(m missingAck) bool {
		return e.excused != nil && e.excused(m.op)
	})
	for _, l := range losses {
		missing = c.accept(l, missing, e.acked)
	}
	for _, m := range missing {
		c.Violate([]uint64{m.op}, "%v but has no effect at the end", m)
	}
}

// moved reports what was acknowledged to one operation and is there at the end
// as another's effect, which is no loss, and returns what else is missing by
// the time of its acknowledgement.
func (e *Comparison) moved(c *Collector) (missing []missingAck) {
	if len(e.missing) == 0 {
		return nil
	}
	named := make(map[string]Effect)
	for _, t := range e.found {
		for _, f := range t.effects {
			named[f.Name] = f
		}
	}
	delete(named, "")
	all := slices.SortedFunc(maps.Values(e.missing), func(a, b missingAck) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.op, b.op))
	})
	for _, m := range all {
		if f, there := named[m.name]; there {
			c.Violate([]uint64{m.op, f.Op}, "%v; at the end there is %v", m, f)
			continue
		}
		missing = append(missing, m)
	}
	return missing
}

// NoPhantom requires that every effect was asked for, with its key and by its
// client, in an operation that was not refused. At least one effect must be
// there.
func (e *Comparison) NoPhantom(c *Collector) {
	c.Need(len(e.found) > 0, "there is no effect at the end")
	for _, op := range sortedOps(e.found) {
		t := e.found[op]
		c.Checked(len(t.effects))
		switch {
		case !t.seen:
			c.Violate([]uint64{op}, "%v was never requested", t.effects[0])
		case !t.op.May():
			c.Violate([]uint64{op}, "%v exists, but the operation was refused", t.effects[0])
		case t.op.Outcome == history.Unknown:
			c.AllowedUnknown(1)
		}
	}
	for _, s := range e.strayed {
		if s.unasked {
			c.Violate([]uint64{s.op}, "%s", s.text)
		}
	}
}

// AtMostOnce requires that no operation has two effects, however often it was
// attempted.
func (e *Comparison) AtMostOnce(c *Collector) {
	c.Need(len(e.found) > 0, "there is no effect at the end")
	for _, op := range sortedOps(e.found) {
		effects := e.found[op].effects
		c.Checked(len(effects))
		if len(effects) > 1 {
			c.Violate([]uint64{op}, "operation %d has %d effects: %v and %v",
				op, len(effects), effects[0], effects[1])
		}
	}
}

// AtMostOne requires that each key goes with one thing: a unit with one order,
// a buyer with one unit, an idempotency key with one reply. The same thing
// again is no violation. It keeps one claim for each key.
type AtMostOne[K comparable] struct {
	// What names the keys in violations, for example "buyer".
	What  string
	first map[K]claim
}

type claim struct {
	thing string
	op    uint64
}

// Add says that key goes with thing by the operation op, 0 if it is not known.
// Only what is certain may be added.
func (u *AtMostOne[K]) Add(c *Collector, key K, thing string, op uint64) {
	c.Checked(1)
	if u.first == nil {
		u.first = make(map[K]claim)
	}
	first, taken := u.first[key]
	switch {
	case !taken:
		u.first[key] = claim{thing, op}
	case first.thing != thing:
		c.Violate([]uint64{first.op, op}, "%s %v has both %s and %s", u.What, key, first.thing, thing)
	}
}
