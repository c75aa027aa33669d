package check

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"stampede/harness/history"
)

// Timeout bounds the check of one invariant in All.
const Timeout = 2 * time.Minute

// All judges every invariant, each with Timeout. The verdicts are in the order of the
// invariants; see Judge. Those of one Subject that follow each other are judged in one
// reading; if that fails, one by one.
func All(
	ctx context.Context, invariants []Invariant, h history.History, audit json.RawMessage,
) []Verdict {
	verdicts := make([]Verdict, 0, len(invariants))
	for len(verdicts) < len(invariants) {
		group := together(invariants[len(verdicts):])
		judged, whole := judge(ctx, group, h, audit, Timeout)
		if !whole && len(group) > 1 {
			for i, inv := range group {
				judged[i] = Judge(ctx, inv, h, audit, Timeout)
			}
		}
		verdicts = append(verdicts, judged...)
	}
	return verdicts
}

// together is the first invariant, and those after it that can be judged in one reading.
func together(invariants []Invariant) []Invariant {
	first, is := invariants[0].(stated)
	n := 1
	for ; is && n < len(invariants); n++ {
		if next, same := invariants[n].(stated); !same || next.subject != first.subject {
			break
		}
	}
	return invariants[:n]
}

// Judge judges one invariant. Whatever goes wrong with the check is Undecided
// with the reason, never Held: a panic, a timeout, cancellation, a history that
// cannot be read, and one that is cut short, because what is absent from it may
// have happened. So is a verdict that contradicts itself, such as Held with
// nothing checked.
//
// A check that outlives the timeout is left behind: its next look at the
// history fails.
func Judge(
	ctx context.Context, inv Invariant, h history.History, audit json.RawMessage,
	timeout time.Duration,
) Verdict {
	verdicts, _ := judge(ctx, []Invariant{inv}, h, audit, timeout)
	return verdicts[0]
}

// judge judges invariants in one reading, or a single one. If that fails whole is false, and
// all are Undecided for the same reason.
func judge(
	ctx context.Context, group []Invariant, h history.History, audit json.RawMessage,
	timeout time.Duration,
) (verdicts []Verdict, whole bool) {
	undecided := func(format string, args ...any) ([]Verdict, bool) {
		verdicts := make([]Verdict, len(group))
		for i, inv := range group {
			verdicts[i] = Verdict{Invariant: inv.Name(), Reason: fmt.Sprintf(format, args...)}
		}
		return verdicts, false
	}
	if whole, ok := h.(interface{ Complete() bool }); ok && !whole.Complete() {
		return undecided("the history is truncated: operations missing from it may have happened")
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	type result struct {
		verdicts []Verdict
		panicked string
	}
	done := make(chan result, 1)
	reading := &bound{History: h, ctx: ctx}
	go func() {
		verdicts, panicked := guarded(ctx, group, reading, audit)
		done <- result{verdicts, panicked}
	}()
	select {
	case got := <-done:
		if got.panicked != "" {
			return undecided("the check panicked: %s", got.panicked)
		}
		if err := reading.failure.Load(); err != nil {
			return undecided("the history was not read to its end: %v", *err)
		}
		for i, inv := range group {
			got.verdicts[i] = consistent(inv.Name(), got.verdicts[i])
		}
		return got.verdicts, true
	case <-ctx.Done():
		return undecided("the check did not finish within %v: %v", timeout, ctx.Err())
	}
}

// guarded runs checks and says what panicked.
func guarded(
	ctx context.Context, group []Invariant, h history.History, audit json.RawMessage,
) (verdicts []Verdict, panicked string) {
	defer func() {
		if p := recover(); p != nil {
			panicked = fmt.Sprintf("%v (%s)", p, panicOrigin())
		}
	}()
	if len(group) == 1 {
		return []Verdict{group[0].Check(ctx, h, audit)}, ""
	}
	all := make([]stated, len(group))
	for i, inv := range group {
		all[i] = inv.(stated)
	}
	return readOnce(ctx, all, h, audit), ""
}

// panicOrigin names the function and line that panicked. It must be called by
// the deferred function that recovers.
func panicOrigin() string {
	pcs := make([]uintptr, 32)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs)])
	for {
		frame, more := frames.Next()
		if !strings.HasPrefix(frame.Function, "runtime.") {
			return fmt.Sprintf("%s at %s:%d", path.Base(frame.Function), path.Base(frame.File), frame.Line)
		}
		if !more {
			return "origin unknown"
		}
	}
}

// bound is a history that cannot be read after its context is done, so that
// also a check that does not look at its context ends. It remembers an error,
// so that also a check that does not look at errors is not believed.
type bound struct {
	history.History
	ctx     context.Context
	failure atomic.Pointer[error]
}

// stride is how many records are read between two looks at the context.
const stride = 1024

// All yields every record, or the context's error last.
func (b *bound) All() iter.Seq2[history.Record, error] {
	return func(yield func(history.Record, error) bool) {
		n := 0
		for rec, err := range b.History.All() {
			if n%stride == 0 && err == nil {
				err = b.ctx.Err()
			}
			if err != nil {
				failure := err // err itself would be allocated for each record
				b.failure.CompareAndSwap(nil, &failure)
				yield(history.Record{}, err)
				return
			}
			if n++; !yield(rec, nil) {
				return
			}
		}
	}
}

// consistent turns a verdict that contradicts itself into Undecided.
func consistent(name string, v Verdict) Verdict {
	v.Invariant = name
	v.Violations = v.Violations[:min(len(v.Violations), MaxViolations)]
	contradiction := ""
	switch {
	case v.Status > Broken:
		contradiction = "the check returned an invalid status"
	case v.Status == Held && v.Count > 0:
		contradiction = fmt.Sprintf("the check returned held with %d violations", v.Count)
	case v.Status == Held && v.Checked == 0:
		contradiction = "the check examined nothing"
	case v.Status == Broken && (v.Count == 0 || len(v.Violations) == 0):
		contradiction = "the check returned broken without a violation"
	case v.Status == Undecided && v.Reason == "":
		contradiction = "the check gave no reason"
	}
	if contradiction != "" {
		v.Status, v.Reason = Undecided, contradiction
	}
	return v
}

// Worse returns the worse of two statuses: Broken, then Undecided, then Held.
func Worse(a, b Status) Status {
	order := []Status{Held, Undecided, Broken}
	if slices.Index(order, b) > slices.Index(order, a) {
		return b
	}
	return a
}
