package scenario

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"stampede/harness/check"
	"stampede/harness/sut"
)

// What one scenario can ask for at most. It is far above what a machine can do; beyond it is
// a slip of the pen. The limits of single values are tags of their fields.
const (
	maxOps    = 100_000_000
	maxLength = 24 * time.Hour
)

// validation judges a decoded scenario as a whole.
type validation struct {
	*decoder
	tree *node
	sc   *Scenario
	opts Options
	// sys is the system; known is false if there is none by that name.
	sys    sut.System
	known  bool
	params any
	// kinds are the kinds of operations; nil if they are not known.
	kinds []string
}

// at finds the value at a path. If it is missing, the place is that of the
// innermost mapping's key, and found is false.
func (v *validation) at(path ...string) (n *node, found bool) {
	n = v.tree
	for _, step := range path {
		next := n.child(step)
		if next == nil {
			return n, false
		}
		n = next
	}
	return n, true
}

// place is where a problem with the value at a path is shown.
func (v *validation) place(path ...string) Where {
	n, found := v.at(path...)
	if found {
		return n.where
	}
	return n.place()
}

// reject reports a problem with the value at a path, unless there is one
// already: a value that could not be decoded is zero, not wrong twice.
func (v *validation) reject(what, want string, path ...string) {
	if where := v.place(path...); !v.seen[where] {
		v.add(Problem{Where: where, What: what, Expected: want})
	}
}

// rejectTogether reports that the value at a path does not go with others,
// given by their dotted paths. The place is that of the value which was set
// last: whoever typed a flag wants to read about that flag.
func (v *validation) rejectTogether(what, want string, path []string, others ...string) {
	place, rank := v.place(path...), -1
	for _, p := range append([][]string{path}, splitAll(others)...) {
		if n, found := v.at(p...); found {
			if newest := n.newest(); newest.precedence() > rank {
				place, rank = newest.where, newest.precedence()
			}
		}
	}
	if !v.seen[v.place(path...)] {
		v.add(Problem{Where: place, What: what, Expected: want})
	}
}

func splitAll(dotted []string) [][]string {
	paths := make([][]string, len(dotted))
	for i, path := range dotted {
		paths[i] = strings.Split(path, ".")
	}
	return paths
}

// newest is the value that was set last in a tree: the root unless one below
// it has precedence.
func (n *node) newest() *node {
	best := n
	for _, item := range n.items {
		if c := item.newest(); c.precedence() > best.precedence() {
			best = c
		}
	}
	for _, f := range n.fields {
		if c := f.value.newest(); c.precedence() > best.precedence() {
			best = c
		}
	}
	return best
}

// unknown reports a name at a path that is none of the known ones.
func (v *validation) unknown(what, name string, known []string, path ...string) {
	if where := v.place(path...); !v.seen[where] {
		v.unknownName(where, what, name, known)
	}
}

// once reports a name at a path that was there before.
func (v *validation) once(what, name string, before []string, path ...string) {
	if slices.Contains(before, name) {
		v.reject(fmt.Sprintf("%s %q appears twice", what, name), "each once", path...)
	}
}

// between checks a number's bounds that depend on other values.
func (v *validation) between(value, low, high int, path ...string) {
	if value < low || value > high {
		v.reject(fmt.Sprintf("%s is %d", path[len(path)-1], value),
			fmt.Sprintf("%d to %d", low, high), path...)
	}
}

// system resolves the system, its variants and its parameters.
func (v *validation) system() {
	v.missing(v.tree, "system", oneOf(v.opts.SystemNames))
	if n, found := v.at("system"); !found || n.kind != text {
		return
	}
	v.sys, v.known = v.opts.Systems(v.sc.System)
	if !v.known {
		v.unknown("system", v.sc.System, v.opts.SystemNames, "system")
		return
	}
	v.variants()
	v.systemParams()
}

func variantNames(system sut.System) []string {
	names := make([]string, len(system.Variants))
	for i, variant := range system.Variants {
		names[i] = variant.Name
	}
	return names
}

func (v *validation) variants() {
	names := variantNames(v.sys)
	for i, name := range v.sc.Variants {
		path := []string{"variants", strconv.Itoa(i)}
		if !slices.Contains(names, name) {
			v.unknown("design", name, names, path...)
		}
		v.once("design", name, v.sc.Variants[:i], path...)
	}
	if len(v.sc.Variants) == 0 {
		v.sc.Variants = names
	}
	_, given := v.at("baseline")
	switch {
	case !given && len(v.sc.Variants) > 0:
		v.sc.Baseline = v.sc.Variants[0]
	case !slices.Contains(v.sc.Variants, v.sc.Baseline):
		v.baseline()
	}
}

func (v *validation) baseline() {
	what := fmt.Sprintf("baseline %q is not among the designs", v.sc.Baseline)
	before := len(v.list)
	v.rejectTogether(what, oneOf(v.sc.Variants), []string{"baseline"}, "variants")
	if len(v.list) > before {
		v.list[before].Suggestion = check.Nearest(v.sc.Baseline, v.sc.Variants)
	}
}

// systemParams decodes params into the system's own type and lets the system
// judge them. What could not be decoded has its default meanwhile.
func (v *validation) systemParams() {
	v.params = v.sys.Params()
	before := len(v.list)
	if n, found := v.at("params"); found {
		v.into(n, reflect.ValueOf(v.params).Elem())
	}
	workload, err := v.sys.Workload(1, v.params)
	if err != nil {
		for _, single := range split(err) {
			v.refusal(single)
		}
		// The kinds of the defaults are better than none.
		workload, err = v.sys.Workload(1, v.sys.Params())
	}
	if err == nil {
		v.kinds = workload.Kinds()
	}
	if len(v.list) > before {
		return
	}
	data, err := encodeParams(v.params)
	if err != nil {
		v.add(Problem{Where: v.place("params"), What: err.Error()})
		return
	}
	v.sc.Params = data
}

// refusal reports what a system says of its parameters, unless it speaks of
// one that could not be decoded: it saw the default in its place.
func (v *validation) refusal(err error) {
	n, _ := v.at("params")
	for _, word := range mentioned(err) {
		value := n.get(word)
		if value != nil && v.troubled(value) ||
			value == nil && slices.Contains(v.typos[n], word) {
			return
		}
	}
	v.add(Problem{Where: v.blame(err), What: err.Error()})
}

// troubled says whether a value, or one in it, has a problem already.
func (v *validation) troubled(n *node) bool {
	return v.seen[n.where] || slices.ContainsFunc(n.items, v.troubled) ||
		slices.ContainsFunc(n.fields, func(f field) bool { return v.troubled(f.value) })
}

// mentioned are the words of an error that could be a parameter's name.
func mentioned(err error) []string {
	return strings.FieldsFunc(err.Error(), func(r rune) bool {
		return r != '_' && (r < 'a' || r > 'z') && (r < '0' || r > '9')
	})
}

// split takes joined errors apart, so that each gets its own place. What was
// wrapped around them is dropped.
func split(err error) []error {
	for inner := err; inner != nil; inner = errors.Unwrap(inner) {
		if joined, ok := inner.(interface{ Unwrap() []error }); ok {
			return joined.Unwrap()
		}
	}
	return []error{err}
}

// blame finds the parameter that a system's error is about: of those that it
// mentions the one that was set last (by a flag, by the profile, by the
// file), else params as a whole.
func (v *validation) blame(err error) Where {
	n, found := v.at("params")
	if !found {
		return v.place("params")
	}
	var culprit *node
	for _, word := range mentioned(err) {
		if value := n.get(word); value != nil &&
			(culprit == nil || value.precedence() > culprit.precedence()) {
			culprit = value
		}
	}
	if culprit != nil {
		return culprit.where
	}
	return v.place("params")
}

// precedence is higher for values that override others.
func (n *node) precedence() int {
	switch {
	case n.where.Flag != "":
		return 2
	case n.origin != fromFile:
		return 1
	}
	return 0
}

// scenario checks everything that does not need the system, and faults and
// objectives, which can be checked better with it.
func (v *validation) scenario() {
	v.kafka()
	v.deployment()
	v.load()
	v.faults()
	v.provokes()
	v.objectives()
}

// triggers lists what a scenario can provoke.
func triggers() []string {
	var names []string
	for _, trigger := range sut.Triggers() {
		names = append(names, string(trigger))
	}
	return names
}

// provokes checks the triggers, and that each has something that pulls it.
func (v *validation) provokes() {
	known := triggers()
	for i, trigger := range v.sc.Provokes {
		path := []string{"provokes", strconv.Itoa(i)}
		if !slices.Contains(known, trigger) {
			v.unknown("trigger", trigger, known, path...)
		}
		v.once("trigger", trigger, v.sc.Provokes[:i], path...)
		for _, p := range pulls() {
			if string(p.trigger) == trigger && !slices.ContainsFunc(v.sc.Faults, p.pulled) {
				v.rejectTogether(p.lacks+", so "+trigger+" is not provoked", "a fault of kind "+p.needs,
					path, "faults")
			}
		}
	}
}

// pull says which faults pull a trigger.
type pull struct {
	trigger sut.Trigger
	pulled  func(Fault) bool
	// lacks is what is wrong if no fault does, needs the fault that would.
	lacks, needs string
}

func pulls() []pull {
	return []pull{
		{sut.LostAck, of("lost-ack", "partition"), "no fault loses replies", "lost-ack"},
		{sut.RedisLoss, func(f Fault) bool {
			return f.Kind == "kill" && f.Target == string(sut.Redis) && f.Wipe
		}, "no fault wipes redis", "kill on redis with wipe"},
		{sut.PowerLoss, of("power-loss"), "redis loses no power", "power-loss"},
		{sut.ReplicaLag, of("lag"), "no replica lags", "lag on replica"},
		{sut.PostgresCrash, func(f Fault) bool {
			return f.Kind == "kill" && f.Target == string(sut.Postgres) && !f.Wipe
		}, "no fault kills postgres", "kill on postgres, without wipe"},
		{sut.RoleCrash, ofRole("crash", "kill"), "no fault kills a role", "crash or kill on a role"},
		{sut.RolePause, ofRole("pause"), "no fault pauses a role", "pause on a role"},
		{sut.Rebalance, ofRole("churn", "restart", "kill"), "no role leaves and returns",
			"churn, restart or kill on a role"},
		{sut.BrokerPause, func(f Fault) bool {
			return of("pause", "partition")(f) && sut.Service(f.Target).Whole() == sut.Kafka
		}, "kafka never stops answering", "pause or partition on kafka"},
	}
}

// of chooses faults of some kinds, ofRole those of them whose target is a role.
func of(kinds ...string) func(Fault) bool {
	return func(f Fault) bool { return slices.Contains(kinds, f.Kind) }
}

func ofRole(kinds ...string) func(Fault) bool {
	return func(f Fault) bool { return of(kinds...)(f) && !sut.Service(f.Target).Store() }
}
