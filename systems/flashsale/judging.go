package flashsale

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"stampede/harness/check"
	"stampede/harness/history"
)

// maxProof bounds the operations that one violation names as its proof.
const maxProof = 6

// judging is one invariant at work: its inputs and what it found so far.
type judging struct {
	ctx context.Context
	h   history.History
	p   Params
	a   *ledger

	out     check.Verdict
	reasons []string
	// unread is why the history was not read to its end, if it was not.
	unread error
	// proof has, for each spelled-out violation, the identities of the
	// operations that prove it; verdict looks up their records.
	proof [][]uint64
}

// broken notes a violation. The ops are identities of operations (Op.ID),
// whose records become the witnesses.
func (j *judging) broken(ops []uint64, format string, args ...any) {
	j.out.Count++
	if len(j.out.Violations) == check.MaxViolations {
		return
	}
	j.out.Violations = append(j.out.Violations,
		check.Violation{Text: fmt.Sprintf(format, args...)})
	j.proof = append(j.proof, slices.Clone(ops[:min(len(ops), maxProof)]))
}

// undecided notes why the run does not say.
func (j *judging) undecided(format string, args ...any) {
	j.reasons = append(j.reasons, fmt.Sprintf(format, args...))
}

// need notes what the run would have had to exercise and did not.
func (j *judging) need(exercised bool, format string, args ...any) {
	if !exercised {
		j.undecided(format, args...)
	}
}

// has says whether the audit has the lists that a judge needs; if not, the
// verdict names what is missing.
func (j *judging) has(lists ...string) bool {
	if j.a.err != nil {
		j.undecided("%v", j.a.err)
		return false
	}
	present := map[string]bool{
		"items": j.a.Items != nil, "units": j.a.Units != nil,
		"orders": j.a.Orders != nil, "payments": j.a.Payments != nil,
		"log": j.a.Log != nil, "redis": j.a.Redis != nil,
	}
	all := true
	for _, list := range lists {
		if !present[list] {
			j.undecided("the audit has no %s", list)
			all = false
		}
	}
	return all
}

// visitor looks at one record, which it must not keep.
type visitor func(*history.Record)

// read shows every record that was not dropped to the visitors, in one pass.
func (j *judging) read(visitors ...visitor) {
	n := 0
	rec := new(history.Record) // one for all, or each would go to the heap
	for next, err := range j.h.All() {
		if err == nil && n&0xfff == 0 {
			err = j.ctx.Err()
		}
		if err != nil {
			j.unread = err
			return
		}
		n++
		if next.Outcome == history.Dropped {
			continue
		}
		*rec = next
		for _, visit := range visitors {
			visit(rec)
		}
	}
}

// only shows a visitor the records of one kind.
func only(kind string, visit visitor) visitor {
	return func(rec *history.Record) {
		if rec.Op.Kind == kind {
			visit(rec)
		}
	}
}

// unknown counts the operations of a kind whose outcome is unknown, as those
// that were allowed for.
func (j *judging) unknown(kind string) visitor {
	return only(kind, func(rec *history.Record) {
		if rec.Outcome == history.Unknown {
			j.out.Unknown++
		}
	})
}

// verdict closes the case. A violation outweighs what was not exercised, but
// in a history that was not read to its end what is absent proves nothing.
func (j *judging) verdict() check.Verdict {
	j.findWitnesses()
	switch {
	case j.unread != nil:
		return check.Verdict{
			Invariant: j.out.Invariant, Checked: j.out.Checked,
			Reason: fmt.Sprintf("the history was not read to its end: %v", j.unread),
		}
	case j.out.Count > 0:
		j.out.Status = check.Broken
		j.out.Reason = j.out.Violations[0].Text
	case len(j.reasons) > 0:
		j.out.Status = check.Undecided
		j.out.Reason = strings.Join(j.reasons, "; ")
	default:
		j.out.Status = check.Held
	}
	return j.out
}

// findWitnesses reads the history once more, and only if there are
// violations, to turn identities of operations into numbers of records.
func (j *judging) findWitnesses() {
	wanted := make(map[uint64][]int)
	for i, ops := range j.proof {
		for _, op := range ops {
			wanted[op] = append(wanted[op], i)
		}
	}
	if len(wanted) == 0 {
		return
	}
	seen := make(map[uint64]bool)
	j.read(func(rec *history.Record) {
		for _, i := range wanted[rec.Op.ID] {
			v := &j.out.Violations[i]
			if len(v.Ops) == maxProof {
				continue
			}
			v.Ops = append(v.Ops, rec.Seq)
			if at := int64(rec.Start); v.AtNS == 0 || at < v.AtNS {
				v.AtNS = at
			}
			seen[rec.Seq] = true
		}
	})
	for i := range j.out.Violations {
		slices.Sort(j.out.Violations[i].Ops)
	}
	for seq := range seen {
		j.out.Witness = append(j.out.Witness, seq)
	}
	slices.Sort(j.out.Witness)
}
