// Package check judges a recorded history and a final audit.
//
// A check is three-valued: an invariant is Held, Broken with the operations
// that prove it, or Undecided with the reason. Checkers are sound under
// unknown outcomes: they allow an interval of possible effects and never
// ignore the operation.
//
// # Facts and families
//
// A system says what its audit has as tables of facts, and of each invariant which
// clauses it has. Most clauses are of a family: a statement that holds of many
// systems and is written, and tested, once. What is truly a system's own is a
// clause of its own (On, OnAudit). See the example of Subject.
//
// The families are AckedDurable, NoPhantom and AtMostOnce of Effects; Capacity, which
// with Most 1 says that something is exclusive; Conserved and ConservedRows; Path;
// InTime and Quiescent; Agree; SameReply. Their clauses are sound under
// unknown outcomes, and faults and slowness excuse only what they can explain. What
// the run must have tried is a clause too: NeedRecord, NeedFact.
package check

import (
	"context"
	"encoding/json"
	"fmt"

	"stampede/harness/history"
)

// Status is the result of a check. The zero value is not a success.
type Status uint8

// The statuses.
const (
	// Undecided: the run does not say, for example because it never
	// exercised what the invariant is about.
	Undecided Status = iota
	// Held: every clause was exercised and none was violated.
	Held
	// Broken: the witnesses prove a violation.
	Broken
)

var statuses = [...]string{"undecided", "held", "broken"}

// String returns the status's lower-case name.
func (s Status) String() string {
	if int(s) < len(statuses) {
		return statuses[s]
	}
	return "invalid"
}

// MarshalText encodes a status by its name.
func (s Status) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText decodes a status's name; an unknown name is an error.
func (s *Status) UnmarshalText(text []byte) error {
	for i, name := range statuses {
		if name == string(text) {
			*s = Status(i)
			return nil
		}
	}
	return fmt.Errorf("check: unknown status %q", text)
}

// MaxViolations is how many violations a Verdict spells out; Count has them
// all.
const MaxViolations = 20

// Violation is one proof that an invariant is broken.
type Violation struct {
	// Text says what is wrong in one line, with the values.
	Text string `json:"text"`
	// Ops are the Seq numbers of the records that prove it, if any do: of many the
	// first MaxProof.
	Ops []uint64 `json:"ops,omitempty"`
	// AtNS is when it became true, as an offset from the run's base in
	// nanoseconds; zero if unknown.
	AtNS int64 `json:"at_ns,omitempty"`
	// Counted is how the count rose, of the first violation of an invariant that counts.
	Counted *Counted `json:"counted,omitempty"`
}

// AcceptedLoss is a loss that the design declares and a checker subtracted.
type AcceptedLoss struct {
	// What is lost and Why it is accepted.
	What string `json:"what"`
	Why  string `json:"why"`
	// Count was lost; Bound is the most that the declaration allows.
	Count int64 `json:"count"`
	Bound int64 `json:"bound"`
}

// Verdict is the result of judging one invariant.
type Verdict struct {
	Invariant string `json:"name"`
	Status    Status `json:"status"`
	// Reason is why the verdict is Undecided, or a one-line summary.
	Reason string `json:"reason,omitempty"`
	// NotExercised says that the run did not try what an Undecided invariant is about.
	NotExercised bool `json:"not_exercised,omitempty"`
	// Unjudged says that the run gave no occasion to judge a promise, most often one of time, and
	// that what else the invariant says holds.
	Unjudged bool `json:"unjudged,omitempty"`
	// Open is why the rest of an invariant is not decided where all that was found is
	// lateness: the run did not try it (NotExercised), or an input could not be read.
	Open string `json:"open,omitempty"`
	// Checked is how many operations or rows the check looked at.
	Checked int `json:"checked"`
	// Unknown is how many operations of unknown outcome were allowed for.
	Unknown int `json:"unknown,omitempty"`
	// Count is the number of violations, of which Violations spells out the
	// first MaxViolations.
	Count int `json:"violations,omitempty"`
	// Late is how many of them are of what came later than promised, or had not come yet
	// when its time was over; Unfinished how many are of what was not done at the end. An
	// Undecided verdict that has some would be Broken but for what excuses them.
	Late       int         `json:"late,omitempty"`
	Unfinished int         `json:"unfinished,omitempty"`
	Violations []Violation `json:"examples,omitempty"`
	// Witness holds the Seq numbers of the records behind Violations; it is
	// empty where there are none.
	Witness []uint64 `json:"witness"`
	// Accepted lists the losses that were subtracted.
	Accepted []AcceptedLoss `json:"accepted_losses,omitempty"`
	// Watched is the quantity that the check followed through the run, if any.
	Watched *Watched `json:"watched,omitempty"`
	// Figures are what the check measured of the design beside its verdict.
	Figures []Figure `json:"figures,omitempty"`
}

// Figure is a number that a check measured of a design, such as the error of its estimates, to be
// shown beside those of the other designs. It decides nothing.
type Figure struct {
	Name  string  `json:"name"`
	Unit  string  `json:"unit"`
	Value float64 `json:"value"`
}

// First is the first violation, or the reason, and how many more there are.
func (v Verdict) First() string {
	text := v.Reason
	if len(v.Violations) > 0 {
		text = v.Violations[0].Text
	}
	if v.Count > 1 {
		text += fmt.Sprintf(" (and %d more)", v.Count-1)
	}
	return text
}

// OnlyLate says that all that is wrong came too late: a promise of time was missed, which
// is judged as an objective is.
func (v Verdict) OnlyLate() bool {
	return v.Status == Broken && v.Count > 0 && v.Late == v.Count
}

// NotJudged says that a promise of time was missed and noise excuses it, or that the run
// gave no occasion to judge a promise: apart from that nothing is wrong or open.
func (v Verdict) NotJudged() bool {
	return v.Status == Undecided && v.Open == "" && (v.Unjudged || v.Late > 0 && v.Unfinished == 0)
}

// Invariant is a statement about a history and the stores' final state.
type Invariant interface {
	// Name is the invariant's identifier, lower-case with hyphens, for
	// example "no-oversell".
	Name() string
	// Statement says in one sentence what must be true.
	Statement() string
	// Check judges. It streams the history, keeps O(distinct objects) state
	// and returns Undecided when ctx is cancelled, an input cannot be read
	// or the run did not exercise the invariant.
	Check(ctx context.Context, h history.History, audit json.RawMessage) Verdict
}
