// Package history is the record of what a run did: every operation that was
// offered, when it was due, sent and answered, and what came back.
//
// A history is the only source of the numbers in a report: percentiles,
// counts and verdicts are all computed from it, so a stored run can be
// measured and judged again.
package history

import (
	"encoding/json"
	"iter"
	"math"
	"time"
)

// Op is one operation as the workload asks for it.
type Op struct {
	// ID is the operation's identity across attempts, unique within a run
	// and never zero. Systems store it in a column, so that the final audit
	// says whether an operation of unknown outcome took effect.
	ID uint64
	// Kind names the operation, for example "buy"; it is a metric label and
	// therefore of low cardinality.
	Kind string
	// Key is the object the operation is about, for example an item.
	Key string
	// Client is who asks, for example a buyer.
	Client string
	// Arg is a small argument whose meaning belongs to the kind.
	Arg int64
	// Body is anything else, in the system's own encoding.
	Body []byte
}

// Reply is what an operation returned when its outcome is OK.
type Reply struct {
	// Key names what the system assigned, for example an order.
	Key string
	// Value is a small result whose meaning belongs to the kind.
	Value int64
	// Body is anything else, in the system's own encoding.
	Body []byte
}

// Outcome says what is known about an operation's effect.
type Outcome uint8

// The outcomes. The zero value is never a success.
const (
	// Unknown: the operation may or may not have taken effect, now or later.
	Unknown Outcome = iota
	// OK: the operation took effect and said so.
	OK
	// Refused: the operation certainly had no effect.
	Refused
	// Dropped: the generator never started the operation.
	Dropped
)

var outcomes = [...]string{"unknown", "ok", "refused", "dropped"}

// String returns the outcome's lower-case name.
func (o Outcome) String() string {
	if int(o) < len(outcomes) {
		return outcomes[o]
	}
	return "invalid"
}

// Never is the End of an operation that did not return.
const Never = time.Duration(math.MaxInt64)

// Record is the reading view of one attempt at one operation. Times are
// offsets from the run's base on one monotonic clock.
type Record struct {
	// Seq numbers the attempts of a history in dispatch order, from 0.
	Seq uint64
	Op  Op
	// Reply is meaningful only when Outcome is OK.
	Reply   Reply
	Outcome Outcome
	// Err is the class and text of the error of a Refused or Unknown attempt: for people.
	Err string
	// Code is the error's documented code, which judges go by; "refused" of a refusal
	// without a code of its own. Histories before version 3 have none.
	Code string
	// Intended is when the operation was due, Start when it was sent, End
	// when it returned. Never as End means that it did not; a Dropped record
	// has Start and End equal to Never.
	Intended, Start, End time.Duration
}

// WindowKind says what a Window marks.
type WindowKind string

// The kinds of windows.
const (
	// PhaseWindow is a phase of the load: warm-up, steady, drain.
	PhaseWindow WindowKind = "phase"
	// FaultWindow is the time a fault was in force.
	FaultWindow WindowKind = "fault"
)

// Window is a named span on the run's clock.
type Window struct {
	Kind WindowKind `json:"kind"`
	// Name is the phase's name or the fault's name in the scenario.
	Name string `json:"name"`
	// Fault is the fault as it prints itself, for example "kill redis".
	Fault string `json:"fault,omitempty"`
	// Start and End are nanoseconds from the run's base.
	Start time.Duration `json:"start_ns"`
	End   time.Duration `json:"end_ns"`
	// Recovered is when the target answered its own protocol again or, if it is a
	// role, when a step of its work had succeeded; zero if it never did or never
	// stopped.
	Recovered time.Duration `json:"recovered_ns,omitempty"`
	// Evidence proves that the fault happened; empty means that it did not.
	Evidence []string `json:"evidence,omitempty"`
	// Effects are the machine-readable facts of a fault, such as the new
	// process id.
	Effects json.RawMessage `json:"effects,omitempty"`
}

// Over is when a window's effect is over: at its end, or when the target of a fault answered again.
func (w Window) Over() time.Duration { return max(w.End, w.Recovered) }

// History is a readable history.
type History interface {
	// All yields every record once. Records of one worker are in order;
	// across workers the order is arbitrary. A non-nil error is yielded at
	// most once and last.
	All() iter.Seq2[Record, error]
	// Faults returns the windows in which faults were in force.
	Faults() []Window
	// Samples returns what the gauge saw during the load, in order. There are
	// none if the system has no gauge.
	Samples() []Sample
}
