package check_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"stampede/harness/check"
	"stampede/harness/history"
)

// invariant is a check made of a function.
type invariant func(ctx context.Context, h history.History) check.Verdict

func (invariant) Name() string      { return "test" }
func (invariant) Statement() string { return "a test" }
func (f invariant) Check(ctx context.Context, h history.History, _ json.RawMessage) check.Verdict {
	return f(ctx, h)
}

// returns is a check that returns a verdict.
func returns(v check.Verdict) invariant {
	return func(context.Context, history.History) check.Verdict { return v }
}

func TestJudge(t *testing.T) {
	proof := []check.Violation{{Text: "two owners"}}
	tests := []struct {
		name   string
		inv    invariant
		status check.Status
		reason string
	}{
		{"held", returns(check.Verdict{Status: check.Held, Checked: 1}), check.Held, ""},
		{"broken", returns(check.Verdict{Status: check.Broken, Count: 1, Violations: proof}),
			check.Broken, ""},
		{"undecided", returns(check.Verdict{Reason: "why"}), check.Undecided, "why"},
		{"held of nothing", returns(check.Verdict{Status: check.Held}), check.Undecided,
			"the check examined nothing"},
		{"held with violations", returns(check.Verdict{Status: check.Held, Checked: 1, Count: 2}),
			check.Undecided, "held with 2 violations"},
		{"broken without proof", returns(check.Verdict{Status: check.Broken, Count: 1}),
			check.Undecided, "broken without a violation"},
		{"no reason", returns(check.Verdict{}), check.Undecided, "gave no reason"},
		{"no status", returns(check.Verdict{Status: 7}), check.Undecided, "invalid status"},
		{"panic", func(context.Context, history.History) check.Verdict {
			var m map[string]int
			m["x"]++ //nolint:govet,staticcheck // to panic is what it is for
			return check.Verdict{}
		}, check.Undecided, "the check panicked: assignment to entry in nil map " +
			"(check_test.TestJudge.func"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			vs := check.All(t.Context(), []check.Invariant{tt.inv, tt.inv}, history.Slice(nil), nil)
			if len(vs) != 2 {
				t.Fatalf("%d verdicts of 2 invariants", len(vs))
			}
			v := vs[1]
			if v.Invariant != "test" || v.Status != tt.status || !strings.Contains(v.Reason, tt.reason) {
				t.Errorf("%+v, want %v because %q", v, tt.status, tt.reason)
			}
		})
	}
}

func TestJudgeLimitsViolations(t *testing.T) {
	v := check.Verdict{Status: check.Broken, Count: 50, Violations: make([]check.Violation, 50)}
	got := check.Judge(t.Context(), returns(v), history.Slice(nil), nil, time.Second)
	if len(got.Violations) != check.MaxViolations || got.Count != 50 {
		t.Errorf("%d of %d violations spelled out", len(got.Violations), got.Count)
	}
}

// TestJudgeTimesOut in virtual time: one check waits for its context, one
// never ends.
func TestJudgeTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		for _, inv := range []invariant{
			func(ctx context.Context, _ history.History) check.Verdict {
				<-ctx.Done()
				time.Sleep(time.Second)
				return check.Verdict{Status: check.Held, Checked: 1}
			},
			func(context.Context, history.History) check.Verdict {
				<-release
				return check.Verdict{Status: check.Held, Checked: 1}
			},
		} {
			v := check.Judge(t.Context(), inv, history.Slice(nil), nil, time.Minute)
			if v.Status != check.Undecided || !strings.Contains(v.Reason, "did not finish within 1m0s") {
				t.Errorf("%+v, want undecided by timeout", v)
			}
		}
		close(release)
	})
}

// TestJudgeBelievesNoPartialReading: a check that ignores its context and the
// errors of the history is not believed.
func TestJudgeBelievesNoPartialReading(t *testing.T) {
	n := 0
	held := invariant(func(_ context.Context, h history.History) check.Verdict {
		for range h.All() {
			n++
		}
		return check.Verdict{Status: check.Held, Checked: 1}
	})
	v := check.Judge(t.Context(), held, torn{parse(t, twoBuys)}, nil, time.Minute)
	if v.Status != check.Undecided || !strings.Contains(v.Reason, "checksum mismatch") || n != 4 {
		t.Errorf("unreadable: %+v after %d records", v, n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	read := make(chan int, 1)
	v = check.Judge(ctx, invariant(func(_ context.Context, h history.History) check.Verdict {
		n := 0
		for range h.All() {
			if n++; n == 1000 {
				cancel()
			}
		}
		read <- n
		return check.Verdict{Status: check.Held, Checked: n}
	}), history.Slice(make([]history.Record, 5000)), nil, time.Minute)
	n = <-read
	if v.Status != check.Undecided || !strings.Contains(v.Reason, "canceled") || n > 2500 {
		t.Errorf("cancelled: %+v after %d records", v, n)
	}
}

// TestJudgedHistoryStopsEarly: a check may leave the loop over the records.
func TestJudgedHistoryStopsEarly(t *testing.T) {
	inv := invariant(func(_ context.Context, h history.History) check.Verdict {
		for range h.All() {
			break
		}
		return check.Verdict{Status: check.Held, Checked: 1}
	})
	h := history.Slice(make([]history.Record, 3))
	if v := check.Judge(t.Context(), inv, h, nil, time.Minute); v.Status != check.Held {
		t.Errorf("%+v", v)
	}
}

// partial is a history that was cut short.
type partial struct{ history.History }

func (partial) Complete() bool { return false }

func TestPartialHistoryIsUndecided(t *testing.T) {
	inv := returns(check.Verdict{Status: check.Broken, Count: 1, Violations: []check.Violation{{}}})
	v := check.Judge(t.Context(), inv, partial{history.Slice(nil)}, nil, time.Second)
	if v.Status != check.Undecided || !strings.Contains(v.Reason, "truncated") {
		t.Errorf("%+v", v)
	}
}
