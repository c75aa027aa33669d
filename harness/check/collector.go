package check

import (
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"time"

	"stampede/harness/history"
)

// MaxProof bounds the records that one violation names. Checks name no more operations
// than that of many that prove it together.
const MaxProof = 8

// Collector builds the verdict of one invariant: a check makes one, reads the
// history through it, tells it what is wrong and what was not exercised, and
// returns its Verdict.
//
//	c := check.Collect(ctx, "no-oversell", h)
//	for r := range c.Records("buy") {
//		c.Checked(1)
//		...
//	}
//	c.Need(refused > 0, "no buyer was refused")
//	return c.Verdict()
//
// The verdict is Broken if there was a violation; else Undecided if an input
// could not be read, a need was not met or nothing was checked; else Held.
type Collector struct {
	ctx context.Context
	h   history.History
	out Verdict
	// failed is why an input could not be read, unmet what the run did not
	// exercise, untimely why a promise of time cannot be judged.
	failed          string
	unmet, untimely []string
	// note is what a verdict that is Held says of itself.
	note string
	// proof has, for each spelled-out violation, the operations behind it, and excusable
	// whether it is Late or Unfinished.
	proof     [][]uint64
	excusable []bool
	// resting: what a clause violates from now on is said of a system at rest.
	resting bool
	// kinds are those that have Parts.
	kinds []Kind
}

// Collect starts the verdict of the invariant of a name on a history.
func Collect(ctx context.Context, name string, h history.History) *Collector {
	return &Collector{ctx: ctx, h: h, out: Verdict{Invariant: name}}
}

// Records yields the records of some kinds, of all if none is given, dropped
// ones included. A record is valid until the next one; its strings may be
// kept. If the history cannot be read to its end the loop ends early and the
// verdict cannot be Held; see Fail.
func (c *Collector) Records(kinds ...string) iter.Seq[*history.Record] {
	return func(yield func(*history.Record) bool) {
		n := 0
		var current history.Record // one for all, should it escape
		for rec, err := range c.h.All() {
			if err == nil && n%stride == 0 {
				err = c.ctx.Err()
			}
			if err != nil {
				c.Fail("the history was not read to its end: %v", err)
				return
			}
			n++
			if len(kinds) > 0 && !slices.Contains(kinds, rec.Op.Kind) {
				continue
			}
			if current = rec; !yield(&current) {
				return
			}
		}
	}
}

// Faults returns the windows in which faults were in force.
func (c *Collector) Faults() []history.Window { return c.h.Faults() }

// Samples returns what the gauge saw during the load.
func (c *Collector) Samples() []history.Sample { return c.h.Samples() }

// Figure shows in the verdict a number that the check measured. One that JSON cannot have, such
// as the mean of nothing, is left out.
func (c *Collector) Figure(name, unit string, value float64) {
	if !math.IsNaN(value) && !math.IsInf(value, 0) {
		c.out.Figures = append(c.out.Figures, Figure{name, unit, value})
	}
}

// Watched shows in the verdict a quantity that the check followed.
func (c *Collector) Watched(w *Watched) { c.out.Watched = w }

// Checked counts n operations or rows that the check looked at.
func (c *Collector) Checked(n int) { c.out.Checked += n }

// AllowedUnknown counts n operations of unknown outcome that the check allowed
// for.
func (c *Collector) AllowedUnknown(n int) { c.out.Unknown += n }

// Violate notes a violation, which must be proven: never for what an operation
// of unknown outcome may have done. The ops are the identities (Op.ID) of the
// operations that prove it, whose records become witnesses; zeros are left
// out.
//
// After Fail nothing is noted any more: what follows from a part of the inputs
// is no proof.
func (c *Collector) Violate(ops []uint64, format string, args ...any) {
	if c.resting {
		c.Unfinished(ops, format, args...)
		return
	}
	c.ViolateAt(0, ops, format, args...)
}

// AtRest says that what a clause looks at from now on must be so when everything is at rest, and
// may be otherwise before: Violate is Unfinished then. ViolateAt is of a moment, and stays.
func (c *Collector) AtRest() { c.resting = true }

// ViolateAt is Violate for what is known to have become true by a moment, even
// if no operation is.
func (c *Collector) ViolateAt(at time.Duration, ops []uint64, format string, args ...any) {
	c.violate(nil, at, ops, format, args)
}

// violate notes a violation. Kind counts those that may be excused, nil is for others, which
// take the place of the last one of the former where there is no room.
func (c *Collector) violate(kind *int, at time.Duration, ops []uint64, format string, args []any) {
	if c.failed != "" {
		return
	}
	c.out.Count++
	if kind != nil {
		*kind++
	}
	if n := len(c.out.Violations); n == MaxViolations {
		for n--; n >= 0 && !c.excusable[n]; n-- {
		}
		if kind != nil || n < 0 {
			return
		}
		c.out.Violations = slices.Delete(c.out.Violations, n, n+1)
		c.proof, c.excusable = slices.Delete(c.proof, n, n+1), slices.Delete(c.excusable, n, n+1)
	}
	c.out.Violations = append(c.out.Violations,
		Violation{Text: said(format, args), AtNS: int64(at)})
	c.proof = append(c.proof, slices.DeleteFunc(slices.Clone(ops), func(op uint64) bool {
		return op == 0
	}))
	c.excusable = append(c.excusable, kind != nil)
}

// Late is Violate for what came later than promised, or had not come when its time was
// over. On a machine that was busy with something else that proves nothing.
func (c *Collector) Late(ops []uint64, format string, args ...any) {
	c.LateAt(0, ops, format, args...)
}

// LateAt is Late for what is known to have been late by a moment.
func (c *Collector) LateAt(at time.Duration, ops []uint64, format string, args ...any) {
	c.violate(&c.out.Late, at, ops, format, args)
}

// Unfinished is Violate for what should have been done when everything was at rest, and
// was not. If the run ended while it was still being done, that proves nothing.
func (c *Collector) Unfinished(ops []uint64, format string, args ...any) {
	c.violate(&c.out.Unfinished, 0, ops, format, args)
}

// Need requires that the run exercised what the invariant is about; otherwise
// the verdict is Undecided, and the text says what was missing.
func (c *Collector) Need(exercised bool, format string, args ...any) {
	if !exercised {
		c.unmet = append(c.unmet, said(format, args))
	}
}

// NeedTimely requires that the run gave an occasion to judge a promise, as a rule one of time;
// otherwise the promise is not judged, which leaves nothing else open. See Need.
func (c *Collector) NeedTimely(occasion bool, format string, args ...any) {
	if !occasion {
		c.untimely = append(c.untimely, said(format, args))
	}
}

// Note says in one line how closely the check looked, which becomes the Reason
// of a verdict that is Held. The last note stays.
func (c *Collector) Note(format string, args ...any) { c.note = said(format, args) }

// Fail says that an input could not be read. The first reason stays.
func (c *Collector) Fail(format string, args ...any) {
	if c.failed == "" {
		c.failed = said(format, args)
	}
}

// Verdict closes the collection. It reads the history once more if there are
// violations, to find the records of their operations.
func (c *Collector) Verdict() Verdict {
	v := c.out
	switch {
	case v.Count > 0:
		v.Status, v.Reason = Broken, v.Violations[max(0, slices.Index(c.excusable, false))].Text
		if v.Count == v.Late {
			v.Open, v.NotExercised = c.failed, c.failed == "" && len(c.unmet) > 0
			if v.NotExercised {
				v.Open = strings.Join(c.unmet, "; ")
			}
		}
	case c.failed != "":
		v.Reason = c.failed
	case len(c.unmet) > 0:
		v.Reason, v.NotExercised = strings.Join(c.unmet, "; "), true
	case len(c.untimely) > 0:
		v.Reason, v.Unjudged = strings.Join(c.untimely, "; "), true
	case v.Checked == 0:
		v.Reason, v.NotExercised = "the run had nothing to check", true
	default:
		v.Status, v.Reason = Held, c.note
	}
	c.findWitnesses(&v)
	return v
}

// Batches makes the records of a kind the witnesses of violations by their parts. SeeParts calls
// it; a clause that reuses the parts which another one has read calls it itself.
func (c *Collector) Batches(k Kind) {
	known := slices.ContainsFunc(c.kinds, func(other Kind) bool {
		return slices.Equal(other.Names, k.Names)
	})
	if k.Parts != nil && !known {
		c.kinds = append(c.kinds, k)
	}
}

// findWitnesses turns identities of operations into numbers of records. A violation
// without a moment of its own is dated by the last of its records to return, unless there
// are so many operations that they may not be all.
func (c *Collector) findWitnesses(v *Verdict) {
	wanted := make(map[uint64][]int)
	dated := make([]bool, len(c.proof))
	for i, ops := range c.proof {
		dated[i] = v.Violations[i].AtNS == 0 && len(ops) < MaxProof
		for _, op := range ops {
			wanted[op] = append(wanted[op], i)
		}
	}
	if len(wanted) == 0 {
		return
	}
	for r := range c.Records() {
		for _, i := range wanted[r.Op.ID] {
			v.Violations[i].witness(r, dated[i])
		}
		for _, k := range c.kinds {
			if !slices.Contains(k.Names, r.Op.Kind) {
				continue
			}
			for _, part := range k.partsOf(r) {
				for _, i := range wanted[part.Op.ID] {
					v.Violations[i].witness(r, dated[i])
				}
			}
		}
	}
	for _, violation := range v.Violations {
		v.Witness = append(v.Witness, violation.Ops...)
	}
	slices.Sort(v.Witness)
	v.Witness = slices.Compact(v.Witness)
}

func (v *Violation) witness(r *history.Record, dates bool) {
	if len(v.Ops) == MaxProof || slices.Contains(v.Ops, r.Seq) {
		return
	}
	v.Ops = append(v.Ops, r.Seq)
	slices.Sort(v.Ops)
	if dates && r.End != history.Never {
		v.AtNS = max(v.AtNS, int64(r.End))
	}
}

// Operation is what the driver knows of one operation over all its attempts.
type Operation struct {
	ID uint64
	// Outcome is OK if an attempt was OK, else Unknown if one was Unknown,
	// else Refused: a dropped attempt had no effect either.
	Outcome history.Outcome
	// Start is when the first attempt that may have had the effect was sent
	// (Never if there was none), End when the effect was first acknowledged
	// (Never if it was not).
	Start, End time.Duration
}

// May reports whether the operation may have had an effect, now or later.
func (o Operation) May() bool { return o.Outcome == history.OK || o.Outcome == history.Unknown }

// Attempt is the operation of a single attempt.
func Attempt(r *history.Record) Operation {
	o := Operation{ID: r.Op.ID, Outcome: history.Refused, Start: history.Never, End: history.Never}
	switch r.Outcome {
	case history.OK:
		o.Outcome, o.Start, o.End = history.OK, r.Start, r.End
	case history.Unknown:
		o.Outcome, o.Start = history.Unknown, r.Start
	}
	return o
}

// merge adds what another attempt at the same operation says.
func (o Operation) merge(p Operation) Operation {
	switch {
	case o.Outcome == history.OK || p.Outcome == history.OK:
		o.Outcome = history.OK
	case o.Outcome == history.Unknown || p.Outcome == history.Unknown:
		o.Outcome = history.Unknown
	}
	o.Start, o.End = min(o.Start, p.Start), min(o.End, p.End)
	return o
}

// Operations merges attempts by Op.ID. It takes about 100 bytes for each
// operation: add only those that matter.
type Operations map[uint64]Operation

// Add merges an attempt.
func (m Operations) Add(r *history.Record) {
	o := Attempt(r)
	if known, ok := m[r.Op.ID]; ok {
		o = known.merge(o)
	}
	m[r.Op.ID] = o
}

// TimeText is a time as the texts of a verdict have it: in three digits, and from a second on
// to the millisecond: "908ms", "2.524s". Those of a Collector write every time.Duration so.
func TimeText(d time.Duration) string {
	unit := time.Millisecond
	for d.Abs() < 100*unit && unit > 1 {
		unit /= 10
	}
	return d.Round(unit).String()
}

// said is fmt.Sprintf with times as users read them.
func said(format string, args []any) string {
	args = slices.Clone(args)
	for i, arg := range args {
		if d, ok := arg.(time.Duration); ok {
			args[i] = TimeText(d)
		}
	}
	return fmt.Sprintf(format, args...)
}
