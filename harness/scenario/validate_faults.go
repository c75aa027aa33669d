package scenario

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"stampede/harness/sut"
)

// faults checks what is broken on purpose.
func (v *validation) faults() {
	var names []string
	for i, f := range v.sc.Faults {
		item := []string{"faults", strconv.Itoa(i)}
		if n, _ := v.at(item...); n.kind != mapping {
			continue
		}
		in := func(name string) []string { return append(slices.Clone(item), name) }
		if f.Name != "" {
			v.once("fault name", f.Name, names, in("name")...)
		}
		names = append(names, f.Name)
		v.faultTarget(f, in("target"))
		if v.shaped(faultShapes(), item...) {
			v.faultFields(f, in)
			v.roleFault(f, in)
		}
		v.faultTime(f, i, in)
	}
}

// faultTarget checks that the target is a service that at least one of the
// variants needs.
func (v *validation) faultTarget(f Fault, path []string) {
	if _, found := v.at(path...); !found {
		return
	}
	if !slices.Contains(services(), f.Target) {
		if v.known {
			v.roleTarget(f, path)
		}
		return
	}
	whole := string(sut.Service(f.Target).Whole())
	if whole != f.Target && v.sc.Stores.Kafka.Brokers == 1 {
		v.rejectTogether("one broker has no number: there is no "+f.Target,
			"kafka, or stores.kafka.brokers 3", path, "stores")
		return
	}
	needed := v.chosen(stores)
	slices.Sort(needed)
	if v.known && !slices.Contains(needed, whole) {
		v.rejectTogether(fmt.Sprintf("no design needs %s", f.Target), oneOf(needed), path,
			"variants")
	}
}

// OnlyTarget is the one store that a kind of faults can have as its target, "" if there are others.
func OnlyTarget(kind string) sut.Service {
	switch kind {
	case "power-loss":
		return sut.Redis
	case "lag":
		return sut.Replica
	}
	return ""
}

// services lists the services there are, and the brokers that one may have.
func services() []string {
	var list []string
	for _, store := range sut.Stores() {
		list = append(list, string(store))
	}
	for number := range 3 {
		list = append(list, string(sut.KafkaBroker(number+1)))
	}
	return list
}

// faultFields checks the values that depend on the kind or on each other.
func (v *validation) faultFields(f Fault, in func(string) []string) {
	if only := string(OnlyTarget(f.Kind)); only != "" && f.Target != only &&
		slices.Contains(services(), f.Target) {
		v.reject(fmt.Sprintf("a fault of kind %s is one of %s, not of %s", f.Kind, only, f.Target), only,
			in("target")...)
	}
	if f.Wipe && v.replicated() && f.Target == string(sut.Postgres) {
		v.reject("a replica cannot follow a Postgres without its data", "no wipe", in("wipe")...)
	}
	if f.Kind == "power-loss" {
		v.powerLoss(f, in)
	}
	if f.Kind == "latency" && f.Jitter > f.Latency {
		v.reject(fmt.Sprintf("a jitter of %s is more than the latency", f.Jitter),
			fmt.Sprintf("at most %s", f.Latency), in("jitter")...)
	}
	instant := slices.Contains([]string{"restart", "kill", "power-loss"}, f.Kind)
	if _, given := v.at(in("for")...); given && !instant && f.For == 0 {
		v.reject("for is 0s", "more than zero", in("for")...)
	}
}

// replicated says whether a chosen design reads from a replica of Postgres.
func (v *validation) replicated() bool {
	return slices.Contains(v.chosen(stores), string(sut.Replica))
}

// powerLoss checks that Redis has something to lose.
func (v *validation) powerLoss(f Fault, in func(string) []string) {
	reach := cmp.Or(f.Loses.D(), time.Second)
	if f.At.D() < reach {
		v.rejectTogether(fmt.Sprintf("a loss of power at %s that takes %s reaches back to before "+
			"the load", f.At, reach), fmt.Sprintf("%s or more", reach), in("at"),
			strings.Join(in("loses"), "."))
	}
	for setting, forbidden := range map[string]string{"appendonly": "no", "appendfsync": "always"} {
		if v.sc.Stores.Redis[setting] == forbidden {
			v.rejectTogether(fmt.Sprintf("with %s %s a loss of power has nothing to remove",
				setting, forbidden), "another fault or setting", in("kind"), "stores.redis."+setting)
		}
	}
}

// faultTime checks that a fault falls into the load, and that no process is
// touched by two faults at once.
func (v *validation) faultTime(f Fault, i int, in func(string) []string) {
	if length := v.sc.Load.Length(); length > 0 && f.At.D() >= length {
		v.rejectTogether(fmt.Sprintf("the fault begins at %s, after the end of load", f.At),
			fmt.Sprintf("less than %s", length), in("at"), "load")
	}
	for _, g := range v.sc.Faults[:i] {
		if f.copies(g) || g.copies(f) {
			v.reject(fmt.Sprintf("fault %q makes a new replica while %q is in force on postgres, of which "+
				"it is a copy", f.Name, g.Name), "one after the other", in("at")...)
		}
		if f.touches(g) {
			v.reject(fmt.Sprintf("faults %q and %q are in force on %s at the same time",
				g.Name, f.Name, f.Target), "one after the other", in("at")...)
		}
	}
}

// copies says whether a fault ends by a new copy of Postgres while another one is in force on that.
func (f Fault) copies(g Fault) bool {
	return f.Wipe && f.Target == string(sut.Replica) && g.Target == string(sut.Postgres) &&
		f.At.D() < g.At.D()+g.For.D() && g.At.D() < f.At.D()+f.For.D()
}

// touches says whether two faults act on one process at once. Those of the
// proxy may overlap.
func (f Fault) touches(g Fault) bool {
	onProcess := func(f Fault) bool {
		return slices.Contains([]string{"kill", "pause", "restart", "power-loss", "lag", "crash",
			"churn"}, f.Kind)
	}
	from, to := f.At.D(), f.At.D()+max(f.For.D(), time.Millisecond)
	gFrom, gTo := g.At.D(), g.At.D()+max(g.For.D(), time.Millisecond)
	sameWay := f.From != "" && f.From == g.From // a role's way to one store
	return sut.Service(f.Target).Shares(sut.Service(g.Target)) &&
		(onProcess(f) && onProcess(g) || sameWay) && from < gTo && gFrom < to
}
