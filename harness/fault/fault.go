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
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"stampede/harness/env"
	"stampede/harness/scenario"
	"stampede/harness/sut"
)

// Kind is a way of breaking a store or a role.
type Kind string

// The kinds.
const (
	// Kill ends every process of the store with SIGKILL and starts it again
	// when healed, on its old data or, with Wipe, on none.
	Kill Kind = "kill"
	// Pause freezes every process of the store. Its kernel goes on accepting
	// connections and buffering requests, which run when it thaws.
	Pause Kind = "pause"
	// Restart stops the store in an orderly way and starts it again.
	Restart Kind = "restart"
	// Latency adds latency to each round trip, half of it each way.
	Latency Kind = "latency"
	// Partition lets nothing through either way. New connections are neither
	// refused nor answered.
	Partition Kind = "partition"
	// LostAck executes requests and loses their replies.
	LostAck Kind = "lost-ack"
	// LostRequest loses requests before the store sees them.
	LostRequest Kind = "lost-request"
	// PowerLoss ends every process of Redis with SIGKILL and takes the end of
	// its append-only file, as a loss of power does. A kill alone takes nothing
	// of it: what was written is the kernel's, and survives the process.
	PowerLoss Kind = "power-loss"
	// Crash ends a process of a role, by SIGKILL, at the n-th passage of a named
	// place of its work, counted from the fault's beginning. It starts again
	// when healed. Of several replicas each counts its own passages.
	Crash Kind = "crash"
	// Churn takes replicas of a role away and brings them back, again and again,
	// at moments that follow from the seed.
	Churn Kind = "churn"
)

// Kinds lists every kind.
func Kinds() []Kind {
	return []Kind{Kill, Pause, Restart, Latency, Partition, LostAck, LostRequest, PowerLoss,
		Crash, Churn}
}

// onProcess says whether a kind touches the store's processes; the others
// touch the network before it.
func (k Kind) onProcess() bool {
	return k == Kill || k == Pause || k == Restart || k == PowerLoss || k == Crash || k == Churn
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
	return breakable || !k.onProcess()
}

// OnRoles says whether a fault of the kind can be aimed at a role; of a
// partition, the role is cut off from one store.
func (k Kind) OnRoles() bool {
	return k == Kill || k == Pause || k == Restart || k == Partition || k.onlyRoles()
}

// onlyRoles says that nothing but a role can have such a fault.
func (k Kind) onlyRoles() bool { return k == Crash || k == Churn }

// Does says in a few words what a fault of the kind does to a store.
func (k Kind) Does() string {
	switch k {
	case Kill:
		return "kills all its processes with SIGKILL; it restarts with all that it had written, " +
			"flushed or not, or with wipe without its data"
	case Pause:
		return "freezes all its processes; requests wait and run when it resumes"
	case Restart:
		return "shuts it down cleanly and starts it again"
	case Latency:
		return "adds latency to each round trip"
	case Partition:
		return "drops all traffic both ways; connections are neither refused nor answered"
	case LostAck:
		return "executes requests and loses their replies"
	case LostRequest:
		return "loses requests before the store sees them"
	case PowerLoss:
		return "kills all its processes with SIGKILL and truncates its append-only file to its state a " +
			"while before (loses, 1s): what was written but perhaps not flushed is lost"
	case Crash:
		return "kills a process of a role the n-th time it reaches a place; it restarts when the fault " +
			"ends"
	case Churn:
		return "stops or kills replicas and brings them back, repeatedly"
	default:
		return ""
	}
}

// Proof says what must have been seen for a fault of the kind to have fired.
func (k Kind) Proof() string {
	switch k {
	case Kill, Restart:
		return "it has another identity afterwards"
	case Pause:
		return "it neither answers nor refuses"
	case Latency:
		return "answers take that much longer or do not come"
	case Partition, LostAck, LostRequest:
		return "bytes of the clients' own traffic were lost, or connections not answered"
	case PowerLoss:
		return "bytes were removed from the file, and the store has another identity afterwards"
	case Crash:
		return "the process reported the place, died by SIGKILL, and was replaced"
	case Churn:
		return "the processes that came back are new ones"
	default:
		return ""
	}
}

// Backends are those on which a fault of the kind can be injected: the
// processes of the user's own servers are not ours to break.
func (k Kind) Backends() []string {
	local := []string{env.Containers, env.Processes}
	if k.onProcess() {
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
	if k.onlyRoles() {
		return nil
	}
	if k == PowerLoss {
		return slices.DeleteFunc(slices.Clone(stores), func(name string) bool {
			return name != string(sut.Redis)
		})
	}
	return stores
}

// Of makes the fault that a scenario describes.
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
	if err := made.check(); err != nil {
		return Fault{}, fmt.Errorf("fault %q: %w", f.Name, err)
	}
	return made, nil
}

// check refuses what cannot be meant.
func (f Fault) check() error {
	switch {
	case !slices.Contains(Kinds(), f.Kind):
		return fmt.Errorf("unknown kind %q: expected one of %v", f.Kind, Kinds())
	case f.Target == "":
		return fmt.Errorf("%s needs a target", f.Kind)
	case f.Kind == Latency && f.Latency <= 0:
		return fmt.Errorf("latency needs a duration above zero")
	case f.Kind != Latency && (f.Latency != 0 || f.Jitter != 0):
		return fmt.Errorf("only kind latency takes a latency or a jitter, not %s", f.Kind)
	case f.Jitter < 0 || f.Jitter > f.Latency:
		return fmt.Errorf("a jitter of %v is not within 0 and the latency of %v", f.Jitter, f.Latency)
	case f.Wipe && f.Kind != Kill:
		return fmt.Errorf("only kind kill can wipe, not %s", f.Kind)
	case f.Kind == PowerLoss && f.Target != sut.Redis:
		return fmt.Errorf("only redis can lose power, not %s", f.Target)
	case f.Kind == PowerLoss && (f.Loses <= 0 || f.Loses > MostLoses):
		return fmt.Errorf("a loss of power that takes %v is not within 0s and %v", f.Loses, MostLoses)
	case f.Kind != PowerLoss && f.Loses != 0:
		return fmt.Errorf("only kind power-loss takes what a fault loses, not %s", f.Kind)
	}
	return f.checkRole()
}

// checkRole refuses what cannot be meant of a role.
func (f Fault) checkRole() error {
	switch {
	case f.From != "" && (f.Kind != Partition || f.Target.Store() || !f.From.Store()):
		return fmt.Errorf("only a partition of a role is from a store, not %s of %s from %s", f.Kind,
			f.Target, f.From)
	case f.Kind.onlyRoles() && f.Target.Store():
		return fmt.Errorf("only a role can %s, not %s", f.Kind, f.Target)
	case f.Kind == Crash && (f.Passage < 1 || !placeForm.MatchString(f.Place)):
		return fmt.Errorf("crash needs a place and a passage of 1 or more, not %q and %d", f.Place,
			f.Passage)
	case f.Kind != Crash && (f.Place != "" || f.Passage != 0):
		return fmt.Errorf("only kind crash takes a place and a passage, not %s", f.Kind)
	case f.Kind == Churn && (f.Every <= 0 || f.How != Mixed && f.How != Orderly && f.How != Abrupt):
		return fmt.Errorf("churn needs a time above zero and %s, %s or %s, not %v and %q", Mixed, Orderly,
			Abrupt, f.Every, f.How)
	case f.Kind != Churn && (f.Every != 0 || f.How != ""):
		return fmt.Errorf("only kind churn takes a time and a way, not %s", f.Kind)
	}
	return nil
}

// placeForm is how the name of a place is written: without spaces.
var placeForm = regexp.MustCompile(`^[a-z0-9]+([-_][a-z0-9]+)*$`)

// String prints the fault as Parse reads it: "kill redis wipe", "latency
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

// Parse reads what String prints.
func Parse(text string) (Fault, error) {
	words := strings.Fields(text)
	if len(words) < 2 {
		return Fault{}, fmt.Errorf("fault %q: expected a kind and a target, such as \"kill redis\"", text)
	}
	f := Fault{Kind: Kind(words[0]), Target: sut.Service(words[1])}
	rest, err := f.options(words[2:])
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("unexpected %q", strings.Join(rest, " "))
	}
	if err == nil {
		err = f.check()
	}
	if err != nil {
		return Fault{}, fmt.Errorf("fault %q: %w", text, err)
	}
	return f, nil
}

// options reads what may follow kind and target and returns what it did not
// understand.
func (f *Fault) options(words []string) (rest []string, err error) {
	durations := map[Kind]*time.Duration{Latency: &f.Latency, PowerLoss: &f.Loses, Churn: &f.Every}
	if d := durations[f.Kind]; d != nil && len(words) > 0 {
		if *d, err = time.ParseDuration(words[0]); err != nil {
			return nil, err
		}
		words = words[1:]
	}
	if words, err = f.roleOptions(words); err != nil {
		return nil, err
	}
	if len(words) > 1 && words[0] == "jitter" {
		if f.Jitter, err = time.ParseDuration(words[1]); err != nil {
			return nil, err
		}
		words = words[2:]
	}
	if len(words) > 0 && words[0] == "wipe" {
		f.Wipe, words = true, words[1:]
	}
	return words, nil
}

// roleOptions reads what only faults of roles have.
func (f *Fault) roleOptions(words []string) (rest []string, err error) {
	if len(words) > 1 && words[0] == "from" {
		f.From, words = sut.Service(words[1]), words[2:]
	}
	if f.Kind == Churn && len(words) > 0 {
		f.How, words = words[0], words[1:]
	}
	if len(words) > 3 && words[0] == "at" && words[2] == "passage" {
		if f.Passage, err = strconv.Atoi(words[3]); err != nil {
			return nil, err
		}
		f.Place, words = words[1], words[4:]
	}
	return words, nil
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
	if err := f.check(); err != nil {
		return err
	}
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
	if len(t.Proxies) == 0 && !f.Kind.onProcess() {
		return fmt.Errorf("%s: the store has no proxy", f)
	}
	return nil
}
