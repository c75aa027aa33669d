// Package scenario decodes scenario files strictly: every error at once, each
// with file, line, column and the nearest known name.
package scenario

import (
	"encoding/json"
	"slices"
	"time"

	"stampede/harness/sut"
)

// Duration is a time.Duration written as "1m30s".
type Duration = sut.Duration

// Over is how long an arrival process lasts: a Duration, or Fit.
type Over Duration

// Fit is written "fit" and stands for the shortest time in which the machine that runs the
// scenario sends the load on time. Package fit finds it.
const Fit Over = -1

// D returns o as a time.Duration. Fit is none.
func (o Over) D() time.Duration { return time.Duration(o) }

// String formats o as it is written.
func (o Over) String() string {
	if o == Fit {
		return fitText
	}
	return Duration(o).String()
}

// MarshalJSON writes o as it is written in a scenario.
func (o Over) MarshalJSON() ([]byte, error) { return json.Marshal(o.String()) }

const fitText = "fit"

// Scenario is one resolved question: the file with its profile and the
// command line's settings applied.
type Scenario struct {
	// Name is <system>-<stress>, the file's name without .yaml.
	Name string `json:"name" form:"name"`
	// Question is what the scenario asks, one sentence.
	Question string `json:"question" form:"filled" required:"the scenario's question, in one sentence"`
	// System is a folder's name under systems.
	System string `json:"system"`
	// Variants lists the variants to compare; empty means all.
	Variants []string `json:"variants,omitempty"`
	// Baseline is the variant that ratios refer to.
	Baseline string `json:"baseline"`
	// Repeats is how often each variant runs, interleaved.
	Repeats int `json:"repeats" min:"1" max:"100"`
	// SideBySide runs all variants of a repeat at the same time, on the same stores and under
	// the same faults. It answers which of them are correct in the time of one; their times
	// then mean nothing and are not judged.
	SideBySide bool `json:"side_by_side,omitempty"`
	// Params is the system's own part, decoded strictly by the system.
	Params json.RawMessage `json:"params"`
	Load   Load            `json:"load" required:"a mapping with arrival or users"`
	Stores Stores          `json:"stores,omitzero"`
	// Deploy is how a variant's roles and API run: in-process, the default, as
	// goroutines of stampede; as processes of their own, which faults can kill;
	// or each in a container.
	Deploy string `json:"deploy" enum:"in-process,processes,containers"`
	// Replicas says how many of a role, or of api, there are; 1 if it is not
	// named.
	Replicas map[string]int `json:"replicas,omitempty"`
	Faults   []Fault        `json:"faults,omitempty"`
	// Provokes lists the triggers under which a known-wrong variant must be
	// caught here (sut.Trigger).
	Provokes []string `json:"provokes"`
	SLOs     []SLO    `json:"slos,omitempty"`
	// Profile is the profile that was applied.
	Profile string `json:"profile"`
}

// MustCatch are the invariants that a run must catch a variant breaking, by the triggers that the
// scenario provokes, in declared order.
func (s *Scenario) MustCatch(v sut.Variant) []string {
	beside, names := s.SideBySide && len(s.Variants) > 1, []string{}
	for _, b := range v.Breaks {
		shows := b.Shows == "" || b.Shows == sut.Alone && !beside
		if shows && slices.Contains(s.Provokes, string(b.Under)) &&
			!slices.Contains(names, b.Invariant) {
			names = append(names, b.Invariant)
		}
	}
	return names
}

// Load says when operations are due and how they are sent.
type Load struct {
	// Arrival is the open-loop arrival process.
	Arrival Arrival `json:"arrival"`
	// Users, when positive, replaces the arrival process by that many
	// closed-loop users with Think time between operations.
	Users    int      `json:"users,omitempty" min:"1" max:"100000"`
	Think    Duration `json:"think,omitempty"`
	Duration Duration `json:"duration,omitempty" min:"1ns" max:"24h"` // closed loop only
	// WarmUp is how long, from the first due time, operations are sent but
	// not measured. They are judged all the same.
	WarmUp Duration `json:"warm_up,omitempty"`
	// MaxInFlight bounds the operations that are being executed at once.
	MaxInFlight int `json:"max_in_flight" min:"1" max:"100000"`
	// Queue bounds how many due operations may wait for a free slot; one
	// more is dropped. Its wait counts in the response time.
	Queue int `json:"queue" min:"0" max:"10000000"`
	// Timeout ends an operation with outcome unknown.
	Timeout Duration `json:"timeout" min:"1ns" max:"24h"`
	// Drain is the deadline for quiescence after the last operation.
	Drain Duration `json:"drain" min:"1ns" max:"24h"`
	// MinOperations is how many operations must be answered, with success or
	// refusal, for a repeat to be valid. 0 means a tenth of those planned.
	MinOperations int `json:"min_operations,omitempty" min:"0" max:"100000000"`
}

// Arrival describes an arrival process; which fields apply depends on
// Process. See package arrival.
type Arrival struct {
	// Process is constant, ramp, step, spike, sine, poisson, burst or trace.
	Process string `json:"process"`
	// Rate is operations per second; it may be fractional.
	Rate float64 `json:"rate,omitempty" min:"0" max:"10000000"`
	// To is the final rate of a ramp, the rate of a spike, or the peak of a
	// sine.
	To float64 `json:"to,omitempty" min:"0" max:"10000000"`
	// Over is how long the process lasts. For a burst it may be fit: the shortest time from
	// over_least to over_most in which this machine sends the operations on time. That is
	// measured before the run, and recorded. The profile full cannot be fitted.
	Over Over `json:"over,omitempty"`
	// OverLeast and OverMost bound what fit may choose. They have no effect on a time that is
	// given.
	OverLeast Duration `json:"over_least,omitempty" min:"1ns" max:"24h"`
	OverMost  Duration `json:"over_most,omitempty" min:"1ns" max:"24h"`
	// Ops is how many operations a burst has.
	Ops int `json:"ops,omitempty" min:"1" max:"100000000"`
	// AtOnce is how many of a burst's operations, fewer than all, are due at the start,
	// like buyers who wait for a sale to open.
	AtOnce int `json:"at_once,omitempty" min:"0" max:"100000"`
	// Peak is how many times its mean a burst's rate begins with, 1 to 2. It
	// falls to as much below the mean as it began above; 2, which is to zero,
	// if it is not given.
	Peak float64 `json:"peak,omitempty" min:"1" max:"2"`
	// At, from the first due time, and For place a spike; Period is a sine's.
	At     Duration `json:"at,omitempty"`
	For    Duration `json:"for,omitempty"`
	Period Duration `json:"period,omitempty"`
	// Steps are a step process's rates.
	Steps []Step `json:"steps,omitempty" min:"1"`
	// Trace lists due times from the base.
	Trace []Duration `json:"trace,omitempty"`
	// Poisson makes gaps exponential around the process's rate.
	Poisson bool `json:"poisson,omitempty"`
}

// Step is a rate that holds for a time.
type Step struct {
	Rate float64  `json:"rate" min:"0" max:"10000000" required:"operations per second"`
	For  Duration `json:"for" required:"how long the rate holds"`
}

// Stores configures the services; empty means the committed configuration
// under docker/.
type Stores struct {
	// MaxConns bounds an instance's connections to each service.
	MaxConns int `json:"max_conns,omitempty" min:"1" max:"1000"`
	// Postgres and Redis are settings that override the committed ones.
	Postgres map[string]string `json:"postgres,omitempty"`
	Redis    map[string]string `json:"redis,omitempty"`
	// Kafka is how Kafka is set up and used. A scenario none of whose variants
	// needs it has none of this.
	Kafka sut.KafkaSettings `json:"kafka,omitzero"`
}

// Fault is something that is broken on purpose.
type Fault struct {
	// Name labels the fault in windows, SLO scopes and reports.
	Name string `json:"name" form:"name" required:"a name of its own for every fault"`
	// Kind is kill, pause, restart, latency, partition, lost-ack, lost-request,
	// power-loss, crash or churn. A kill takes nothing that was written, flushed
	// or not. Roles are killed, paused, restarted, cut off from one store, made
	// to crash at a place of their work, or come and go (churn).
	Kind string `json:"kind"`
	// Target is a service: postgres, redis or kafka; or one of three brokers,
	// such as kafka-2; or a role or api, all its replicas or one, such as
	// counter-2.
	Target string `json:"target" form:"name" required:"a store, a role or api"`
	// At is when, from the first due time; For is how long until it heals.
	At  Duration `json:"at" required:"when the fault begins"`
	For Duration `json:"for" max:"24h"`
	// Latency and Jitter belong to kind latency.
	Latency Duration `json:"latency,omitempty" min:"1ns" max:"24h"`
	Jitter  Duration `json:"jitter,omitempty"`
	// Wipe makes a killed store come back without its data.
	Wipe bool `json:"wipe,omitempty"`
	// Loses is how much of what it wrote last a Redis that lost its power has
	// lost, 1s if it is not given.
	Loses Duration `json:"loses,omitempty" min:"1ns" max:"10s"`
	// From is the store, postgres, redis or kafka, that a partition cuts a role
	// off from.
	From string `json:"from,omitempty" enum:"postgres,redis,kafka"`
	// Place is where a process crashes, one of the places of its role, and
	// Passage at which passage from the fault's beginning, the first if it is
	// not given. Each replica counts its own passages.
	Place   string `json:"place,omitempty" form:"name"`
	Passage int    `json:"passage,omitempty" min:"1" max:"100000000"`
	// Every is the mean time between two steps of a churn, 1s if it is not
	// given. How says how replicas are taken away: stop, kill or mixed, which is
	// what happens if it is not given and they are processes.
	Every Duration `json:"every,omitempty" min:"10ms" max:"24h"`
	How   string   `json:"how,omitempty" enum:"mixed,stop,kill"`
}

// SLO is an objective on measured numbers.
type SLO struct {
	Name string `json:"name" form:"name" required:"a name of its own for every objective"`
	// Objective is an expression of package check, for example
	// "p99(response, buy) <= 500ms in steady".
	Objective string `json:"objective" form:"filled" required:"what must hold, p99(response) <= 1s"`
}
