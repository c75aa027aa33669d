package check

import "time"

// SLOVerdict is the result of judging one objective.
type SLOVerdict struct {
	Name      string `json:"name"`
	Objective string `json:"objective"`
	Status    Status `json:"status"`
	// Limit and Actual are printed with their unit; Margin is how far inside
	// (positive) or outside (negative) the limit, as a share of it.
	Limit  string  `json:"limit"`
	Actual string  `json:"actual"`
	Margin float64 `json:"margin"`
	// Samples is how many operations the number rests on.
	Samples int64  `json:"samples"`
	Reason  string `json:"reason,omitempty"`
	// NotJudged says that the machine's noise, and nothing else, leaves it Undecided.
	NotJudged bool `json:"not_judged,omitempty"`
}

// Scope is a named part of a run, selected by intended time: From inclusive,
// To exclusive, offsets from the run's base.
type Scope struct {
	Name     string
	From, To time.Duration
}

// Tally counts the operations of a scope.
type Tally struct {
	Scheduled, Started, Dropped, OK, Refused, Unknown int64
}

// Numbers is what objectives are judged on; package measure computes it from
// a history. The empty kind means all kinds together.
type Numbers interface {
	// Tally counts the operations of a kind in a scope; ok is false if the
	// scope was not measured.
	Tally(kind, scope string) (t Tally, ok bool)
	// Quantile returns the q-quantile, 0 < q <= 1, of a metric ("response",
	// "service" or "lag") in nanoseconds over the samples of a kind in a
	// scope. Dropped and unfinished operations count as history.Never.
	Quantile(metric, kind, scope string, q float64) (ns, samples int64, ok bool)
	// Span is how long the scope lasted within the run.
	Span(scope string) time.Duration
}
