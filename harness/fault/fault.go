// Package fault breaks the stores of a run on purpose and proves that it did.
//
// A fault is a value that prints itself. Injected into a target it returns an
// Injection, whose Heal undoes it and whose Evidence says what was seen to
// happen: no evidence means that the fault did not fire, and a run whose fault
// did not fire is invalid, whatever else it says.
package fault

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"stampede/harness/env"
	"stampede/harness/history"
	"stampede/harness/scenario"
	"stampede/harness/sut"
)

// Kind is a way of breaking a store or a role.
type Kind string

// The kinds; Does says what each of them does.
const (
	Kill        Kind = "kill"
	Pause       Kind = "pause"
	Restart     Kind = "restart"
	Latency     Kind = "latency"
	Partition   Kind = "partition"
	LostAck     Kind = "lost-ack"
	LostRequest Kind = "lost-request"
	PowerLoss   Kind = "power-loss"
	Lag         Kind = "lag"
	Crash       Kind = "crash"
	Churn       Kind = "churn"
)

// about says what there is to know of a kind.
type about struct {
	kind Kind
	// process says that it touches the store's processes; others touch the network before it.
	// roles says that it can be aimed at a role, only that it can be aimed at nothing else.
	process, roles, only bool
	does, proof          string
}

func kinds() []about {
	const (
		another = "it has another identity afterwards"
		lost    = "bytes of the clients' own traffic were lost, or connections not answered"
	)
	return []about{
		{Kill, true, true, false, "kills all its processes with SIGKILL; it restarts with all that " +
			"it had written, flushed or not, or with wipe without its data", another},
		{Pause, true, true, false, "freezes all its processes; the kernel still accepts " +
			"connections, and requests wait and run when it resumes", "it neither answers nor refuses"},
		{Restart, true, true, false, "shuts it down cleanly and starts it again", another},
		{Latency, false, false, false, "adds latency to each round trip",
			"answers take that much longer or do not come"},
		{Partition, false, true, false,
			"drops all traffic both ways; connections are neither refused nor answered", lost},
		{LostAck, false, false, false, "executes requests and loses their replies", lost},
		{LostRequest, false, false, false, "loses requests before the store sees them", lost},
		{PowerLoss, true, false, false, "kills all its processes with SIGKILL and truncates its " +
			"append-only file to its state a while before (loses, 1s): what was written but perhaps not " +
			"flushed is lost; it waits up to 3 s for something to have been written",
			"bytes were removed from the file, and the store has another identity " +
				"afterwards"},
		{Lag, true, false, false, "holds the replay of its primary's log; it goes on answering, with " +
			"data that grows older, and catches up when the fault ends",
			"log had arrived that it had not replayed"},
		{Crash, true, true, true, "kills a process of a role the n-th time it reaches a place; each " +
			"replica counts its own passages; it restarts when the fault ends",
			"the process reported the place, died by SIGKILL, and was replaced"},
		{Churn, true, true, true, "stops or kills replicas and brings them back, repeatedly",
			"the processes that came back are new ones"},
	}
}

// Kinds lists every kind.
func Kinds() (list []Kind) {
	for _, a := range kinds() {
		list = append(list, a.kind)
	}
	return list
}

func (k Kind) about() about {
	for _, a := range kinds() {
		if a.kind == k {
			return a
		}
	}
	return about{}
}

// canTouch says whether a fault of the kind can be done to a component. What is
// no process, such as a role in our own, can be stopped and started at most.
func (k Kind) canTouch(c env.Component) bool {
	_, breakable := c.(env.Breakable)
	_, stoppable := c.(env.Stoppable)
	_, crashable := c.(env.Crashable)
	switch k {
	case Crash:
		return crashable
	case Churn:
		return stoppable
	case Restart:
		return breakable || stoppable
	}
	return breakable || !k.about().process
}

// OnRoles says whether a fault of the kind can be aimed at a role; of a
// partition, the role is cut off from one store.
func (k Kind) OnRoles() bool { return k.about().roles }

// Does says in a few words what a fault of the kind does to its target.
func (k Kind) Does() string { return k.about().does }

// Proof says what must have been seen for a fault of the kind to have fired.
func (k Kind) Proof() string { return k.about().proof }

// Backends are those on which a fault of the kind can be injected: the
// processes of the user's own servers are not ours to break.
func (k Kind) Backends() []string {
	local := []string{env.Containers, env.Processes}
	if k.about().process {
		return local
	}
	return append(local, env.External)
}

// Fault is one thing to break.
type Fault struct {
	Kind   Kind
	Target sut.Service
	// Latency is what a round trip becomes longer by; each way Jitter/2 more
	// or less is added at random. Kind latency only; Jitter is at most Latency.
	Latency, Jitter time.Duration
	// Wipe makes a killed store come back without its data.
	Wipe bool
	// Loses is how far back a loss of power reaches, at most MostLoses. Kind
	// power-loss only.
	Loses time.Duration
	// From is the store that a role is cut off from. Kind partition only.
	From sut.Service
	// Place and Passage say where a process ends itself, from 1. Kind crash only.
	Place   string
	Passage int
	// Every is the mean time between two steps of a churn, and How is Mixed,
	// Orderly or Abrupt.
	Every time.Duration
	How   string
}

// spot is what a fault acts on: its target, or the way of it to a store.
func (f Fault) spot() sut.Service { return Spot(f.Target, f.From) }

// Spot names the way of a role, or of one of its replicas, to a store among the
// targets of a schedule; with no store it is the target itself.
func Spot(target, from sut.Service) sut.Service {
	if from == "" {
		return target
	}
	return target + " from " + from
}

// Targets are those of the named stores that a fault of the kind can have.
func (k Kind) Targets(stores []string) []string {
	if k.about().only {
		return nil
	}
	if only := scenario.OnlyTarget(string(k)); only != "" {
		return slices.DeleteFunc(slices.Clone(stores), func(name string) bool {
			return name != string(only)
		})
	}
	return stores
}

// Of makes the fault that a scenario describes, which package scenario has checked.
func Of(f scenario.Fault) (Fault, error) {
	made := Fault{Kind: Kind(f.Kind), Target: sut.Service(f.Target), Latency: f.Latency.D(),
		Jitter: f.Jitter.D(), Wipe: f.Wipe, Loses: f.Loses.D(), From: sut.Service(f.From),
		Place: f.Place, Passage: f.Passage, Every: f.Every.D(), How: f.How}
	if made.Kind == Churn {
		made.Every, made.How = cmp.Or(made.Every, DefaultEvery), cmp.Or(made.How, Mixed)
	}
	if made.Kind == Crash {
		made.Passage = cmp.Or(made.Passage, 1)
	}
	if made.Kind == PowerLoss && made.Loses == 0 {
		made.Loses = DefaultLoses
	}
	if !slices.Contains(Kinds(), made.Kind) {
		return Fault{}, fmt.Errorf("fault %q: unknown kind %q: expected one of %v", f.Name, f.Kind,
			Kinds())
	}
	return made, nil
}

// String prints the fault, its kind and its target first: "kill redis wipe", "latency
// postgres 50ms jitter 5ms", "power-loss redis 1s", "partition counter from
// kafka", "crash counter-2 at applied passage 3", "churn counter 1s mixed".
func (f Fault) String() string {
	words := []string{string(f.Kind), string(f.Target)}
	if f.Kind == Latency {
		words = append(words, f.Latency.String())
	}
	if f.Kind == PowerLoss {
		words = append(words, f.Loses.String())
	}
	if f.From != "" {
		words = append(words, "from", string(f.From))
	}
	if f.Kind == Crash {
		words = append(words, "at", f.Place, "passage", strconv.Itoa(f.Passage))
	}
	if f.Kind == Churn {
		words = append(words, f.Every.String(), f.How)
	}
	if f.Jitter > 0 {
		words = append(words, "jitter", f.Jitter.String())
	}
	if f.Wipe {
		words = append(words, "wipe")
	}
	return strings.Join(words, " ")
}

// TargetOf is the target of the fault of a window.
func TargetOf(w history.Window) sut.Service {
	if words := strings.Fields(w.Fault); len(words) > 1 {
		return sut.Service(words[1])
	}
	return ""
}

// Target is what faults are injected into.
type Target struct {
	// Component is the store.
	Component env.Component
	// Proxies stand before the store, one before each of its addresses; none
	// if nothing does.
	Proxies Proxies

	// journal is what was seen of the store's journal, nil if nobody looks.
	journal *journalWatch
}

// Available returns nil if the fault can be injected into the target, else
// why it cannot.
func (f Fault) Available(t Target) error {
	if t.Component == nil {
		return fmt.Errorf("%s: the run has no %s", f, f.Target)
	}
	if got := t.Component.Service(); got != cmp.Or(f.From, f.Target) {
		return fmt.Errorf("%s: the target is %s", f, got)
	}
	if !f.Kind.canTouch(t.Component) {
		return fmt.Errorf("%s: this backend does not allow faults on its servers", f)
	}
	if _, ok := t.Component.(env.Journaled); !ok && f.Kind == PowerLoss {
		return fmt.Errorf("%s: the store has no journal to truncate", f)
	}
	if _, ok := t.Component.(env.Replicating); !ok && f.Kind == Lag {
		return fmt.Errorf("%s: the store is no replica", f)
	}
	if len(t.Proxies) == 0 && !f.Kind.about().process {
		return fmt.Errorf("%s: the store has no proxy", f)
	}
	return nil
}
