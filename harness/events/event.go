// Package events tells what happens in a run while it happens: one JSON object a
// line, for whoever follows a run, be it a program, a terminal or a page. Results
// come from the history; nothing here is one.
package events

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"stampede/harness/rundir"
)

// SchemaVersion is the version of the events. A reader accepts the same major
// version; a newer minor one may have types and fields that it does not know.
const SchemaVersion = "2.1.0"

// Type says what an event tells. The event's field of that name has the rest.
type Type string

// The types, in the order in which they first occur.
const (
	// Log is a line of text for people. It may come at any time.
	Log Type = "log"
	// RunStarted comes before the stores are started.
	RunStarted Type = "run_started"
	// Environment: the stores have been started.
	Environment Type = "environment"
	// RepeatStarted: one repeat of one variant begins.
	RepeatStarted Type = "repeat_started"
	// PhaseBegun: the repeat has entered another phase.
	PhaseBegun Type = "phase"
	// Load: the counts so far, once a second during the load.
	Load Type = "load"
	// Fault: a fault is in force, or no longer.
	Fault Type = "fault"
	// RepeatDone: the repeat is over and has been judged.
	RepeatDone Type = "repeat_done"
	// RunDone: the run is over and its summary is written.
	RunDone Type = "run_done"
	// ReportWritten: the page is there.
	ReportWritten Type = "report_written"
	// RunFailed: the run ended without a summary.
	RunFailed Type = "run_failed"
	// Result is the last event of a run on standard output.
	Result Type = "result"
)

// Event is one thing that happened. Besides the first fields it has the one that
// its type names, and no other.
type Event struct {
	SchemaVersion string `json:"schema_version"`
	Type          Type   `json:"type"`
	// At is when it happened, by the wall clock, UTC.
	At time.Time `json:"at"`
	// RunID is the run's identity; absent before it has one.
	RunID string `json:"run_id,omitempty"`

	Log           *Line               `json:"log,omitempty"`
	RunStarted    *Plan               `json:"run_started,omitempty"`
	Environment   *rundir.Environment `json:"environment,omitempty"`
	RepeatStarted *Repeat             `json:"repeat_started,omitempty"`
	Phase         *Phase              `json:"phase,omitempty"`
	Load          *Tick               `json:"load,omitempty"`
	Fault         *FaultChange        `json:"fault,omitempty"`
	RepeatDone    *Outcome            `json:"repeat_done,omitempty"`
	RunDone       *Judged             `json:"run_done,omitempty"`
	ReportWritten *Report             `json:"report_written,omitempty"`
	RunFailed     *Failure            `json:"run_failed,omitempty"`
	Result        *Document           `json:"result,omitempty"`
}

// Line is a line of text for people.
type Line struct {
	Text string `json:"text"`
}

// Plan is what a run sets out to do.
type Plan struct {
	// Directory is the run directory's path, as the run was given its folder.
	Directory string `json:"directory"`
	// PID is the id of the process that runs.
	PID      int         `json:"pid"`
	Tool     rundir.Tool `json:"tool"`
	Scenario string      `json:"scenario"`
	Question string      `json:"question"`
	System   string      `json:"system"`
	Profile  string      `json:"profile"`
	Seed     uint64      `json:"seed"`
	Baseline string      `json:"baseline"`
	Repeats  int         `json:"repeats"`
	// Slots are the repeats in the order in which they run.
	Slots []Slot `json:"slots"`
	// SideBySide says that those of a repeat run at the same time.
	SideBySide bool `json:"side_by_side,omitempty"`
	// LoadNS is how long operations are offered in each repeat, WarmUpNS how
	// much of it is warm-up.
	LoadNS   int64 `json:"load_ns"`
	WarmUpNS int64 `json:"warm_up_ns"`
	// Faults are the names of the faults that each repeat suffers.
	Faults []string `json:"faults"`
	// Reproduce is a command line that runs the same again.
	Reproduce string `json:"reproduce"`
}

// Slot is one repeat of one variant.
type Slot struct {
	Variant string `json:"variant"`
	// Repeat counts from 0.
	Repeat int `json:"repeat"`
	// Control marks the second run of the baseline, for the noise floor.
	Control bool `json:"control,omitempty"`
}

// Repeat says which repeat an event is about.
type Repeat struct {
	Variant string `json:"variant"`
	// Repeat counts from 0; so does Order, over the whole run.
	Repeat int `json:"repeat"`
	Order  int `json:"order"`
}

// PhaseName is what a repeat is doing.
type PhaseName string

// The phases of a repeat, in their order.
const (
	// Prepare: the variant makes its initial state.
	Prepare PhaseName = "prepare"
	// WarmUp: operations are offered whose times do not count as steady.
	WarmUp PhaseName = "warm-up"
	// Steady: operations are offered.
	Steady PhaseName = "steady"
	// Drain: nothing more is offered; what was started is waited for.
	Drain PhaseName = "drain"
	// Settle: the variant's background work is waited for.
	Settle PhaseName = "settle"
	// Audit: the final state of the stores is read.
	Audit PhaseName = "audit"
	// Judge: the history is checked.
	Judge PhaseName = "judge"
)

// Loaded says that operations may be in flight in a phase.
func (p PhaseName) Loaded() bool { return p == WarmUp || p == Steady || p == Drain }

// Phase is the beginning of a phase.
type Phase struct {
	Repeat
	Phase PhaseName `json:"phase"`
}

// Tick is a load at one moment. The counts are those since the load began.
type Tick struct {
	Repeat
	// ElapsedNS is the time since the first operation was due.
	ElapsedNS int64 `json:"elapsed_ns"`
	rundir.Load
	// InFlight is being executed; Waiting is due and not yet started.
	InFlight int64 `json:"in_flight"`
	Waiting  int64 `json:"waiting"`
	// OfferedPerS and AchievedPerS are operations due and finished per second
	// over the last one to two seconds.
	OfferedPerS  float64 `json:"offered_per_s"`
	AchievedPerS float64 `json:"achieved_per_s"`
	// P99NS is the 99th percentile of the response times of what has finished,
	// P99RecentNS of what finished in the last one to two seconds; both to within
	// 7 %, and 0 if nothing did. What was dropped is in neither.
	P99NS       int64 `json:"p99_ns"`
	P99RecentNS int64 `json:"p99_recent_ns"`
}

// FaultChange is the beginning or the end of a fault.
type FaultChange struct {
	Repeat
	Fault string `json:"fault"`
	// On is true while the fault is in force.
	On bool `json:"on"`
}

// Outcome is what a repeat came to.
type Outcome struct {
	Repeat
	// Verdict, Correctness and Timing are those of rundir.Variant, of this repeat alone.
	Verdict     string      `json:"verdict"`
	Correctness string      `json:"correctness"`
	Timing      string      `json:"timing"`
	Reasons     []string    `json:"reasons"`
	Load        rundir.Load `json:"load"`
	// Kind is the main operation, and Main what became of those; empty if there were none.
	Kind string      `json:"kind,omitempty"`
	Main rundir.Load `json:"main"`
	// P99NS is the 99th percentile of the main operation's response times, of the successful
	// ones alone if some were refused. It is absent where it falls among dropped or
	// unfinished operations, or there were none.
	P99NS int64 `json:"p99_ns,omitempty"`
}

// Judged is what the whole run came to.
type Judged struct {
	Verdict     rundir.Verdict `json:"verdict"`
	Interrupted bool           `json:"interrupted"`
}

// Report is where the page is.
type Report struct {
	Path string `json:"path"`
}

// Failure is why a run ended without a summary.
type Failure struct {
	Error string `json:"error"`
}

// Document is a run's result.
type Document struct {
	// Directory is the run directory's path.
	Directory string `json:"directory"`
	// Exit is the exit code that this run alone gives.
	Exit    int            `json:"exit"`
	Summary rundir.Summary `json:"summary"`
}

// payload is the field that a type names, and whether it is set.
type payload struct {
	kind Type
	set  bool
}

// payloads are all such fields.
func (e *Event) payloads() []payload {
	return []payload{
		{Log, e.Log != nil}, {RunStarted, e.RunStarted != nil},
		{Environment, e.Environment != nil}, {RepeatStarted, e.RepeatStarted != nil},
		{PhaseBegun, e.Phase != nil}, {Load, e.Load != nil}, {Fault, e.Fault != nil},
		{RepeatDone, e.RepeatDone != nil}, {RunDone, e.RunDone != nil},
		{ReportWritten, e.ReportWritten != nil}, {RunFailed, e.RunFailed != nil},
		{Result, e.Result != nil},
	}
}

// Stamped returns an event of something that happens now, with its version, its
// type and the time filled in. It panics unless exactly one field is set that a
// type names: whoever makes events knows which.
func Stamped(e Event, now time.Time) Event {
	e.SchemaVersion, e.At, e.Type = SchemaVersion, now.UTC(), ""
	for _, p := range e.payloads() {
		switch {
		case p.set && e.Type != "":
			panic(fmt.Sprintf("events: both %s and %s", e.Type, p.kind))
		case p.set:
			e.Type = p.kind
		}
	}
	if e.Type == "" {
		panic("events: nothing happened")
	}
	return e
}

// Decode reads one event from its line. It is strict, but for what a newer minor
// version has added: an event of a type that is unknown then comes with nothing.
func Decode(line []byte) (Event, error) {
	var head struct {
		SchemaVersion string `json:"schema_version"`
	}
	if err := json.Unmarshal(line, &head); err != nil {
		return Event{}, fmt.Errorf("read event: %w", err)
	}
	strict, err := rundir.AcceptVersion(head.SchemaVersion, SchemaVersion)
	if err != nil {
		return Event{}, fmt.Errorf("read event: %w", err)
	}
	dec := json.NewDecoder(bytes.NewReader(line))
	if strict {
		dec.DisallowUnknownFields()
	}
	var e Event
	if err := dec.Decode(&e); err != nil {
		return Event{}, fmt.Errorf("read event: %w", err)
	}
	for _, p := range e.payloads() {
		if p.set != (p.kind == e.Type) {
			return Event{}, fmt.Errorf("read event: the type is %q, and %s is there: %v", e.Type,
				p.kind, p.set)
		}
	}
	if !strict || e.known() {
		return e, nil
	}
	return Event{}, fmt.Errorf("read event: there is no type %q", e.Type)
}

// known says whether the type is one of ours.
func (e *Event) known() bool {
	for _, p := range e.payloads() {
		if p.kind == e.Type {
			return true
		}
	}
	return false
}
