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

// All judges every invariant, one after the other, each with Timeout. The
// verdicts are in the order of the invariants; see Judge.
func All(
	ctx context.Context, invariants []Invariant, h history.History, audit json.RawMessage,
) []Verdict {
	verdicts := make([]Verdict, 0, len(invariants))
	for _, inv := range invariants {
		verdicts = append(verdicts, Judge(ctx, inv, h, audit, Timeout))
	}
	return verdicts
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
	if whole, ok := h.(interface{ Complete() bool }); ok && !whole.Complete() {
		return Verdict{Invariant: inv.Name(),
			Reason: "the history is truncated: operations missing from it may have happened"}
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	done := make(chan Verdict, 1)
	reading := &bound{History: h, ctx: ctx}
	go func() { done <- guarded(ctx, inv, reading, audit) }()
	select {
	case v := <-done:
		if err := reading.failure.Load(); err != nil {
			return Verdict{Invariant: inv.Name(),
				Reason: fmt.Sprintf("the history was not read to its end: %v", *err)}
		}
		return consistent(inv.Name(), v)
	case <-ctx.Done():
		return Verdict{Invariant: inv.Name(),
			Reason: fmt.Sprintf("the check did not finish within %v: %v", timeout, ctx.Err())}
	}
}

// guarded runs a check and turns a panic into a verdict.
func guarded(
	ctx context.Context, inv Invariant, h history.History, audit json.RawMessage,
) (v Verdict) {
	defer func() {
		if p := recover(); p != nil {
			v = Verdict{Reason: fmt.Sprintf("the check panicked: %v (%s)", p, panicOrigin())}
		}
	}()
	return inv.Check(ctx, h, audit)
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
