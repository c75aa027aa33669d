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

// faultKinds lists the kinds of faults.
func faultKinds() []string {
	return []string{
		"kill", "pause", "restart", "latency", "partition", "lost-ack", "lost-request",
		"power-loss", "crash", "churn",
	}
}

// faults checks what is broken on purpose.
func (v *validation) faults() {
	for i, f := range v.sc.Faults {
		item := []string{"faults", strconv.Itoa(i)}
		if n, _ := v.at(item...); n.kind != mapping {
			continue
		}
		in := func(name string) []string { return append(slices.Clone(item), name) }
		for _, name := range []string{"name", "kind", "target", "at"} {
			v.missing(name+" is missing", "it for every fault", in(name)...)
		}
		v.faultName(f, i, in("name"))
		v.faultTarget(f, in("target"))
		if _, found := v.at(in("kind")...); found && !slices.Contains(faultKinds(), f.Kind) {
			v.unknownName("fault kind", f.Kind, faultKinds(), in("kind")...)
		} else {
			v.faultFields(f, in)
			v.roleFault(f, in)
		}
		v.faultTime(f, i, in)
	}
}

func (v *validation) faultName(f Fault, i int, path []string) {
	if _, found := v.at(path...); !found {
		return
	}
	if !nameForm.MatchString(f.Name) {
		v.reject(fmt.Sprintf("fault name %q is not a name", f.Name),
			"lower-case letters, digits and hyphens", path...)
	}
	if slices.ContainsFunc(v.sc.Faults[:i], func(g Fault) bool { return g.Name == f.Name }) {
		v.reject(fmt.Sprintf("fault name %q appears twice", f.Name),
			"a name of its own for each fault", path...)
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
	if needed := v.needed(); v.known && !slices.Contains(needed, whole) {
		v.rejectTogether(fmt.Sprintf("no design needs %s", f.Target), oneOf(needed), path,
			"variants")
	}
}

// services lists the services there are, and the brokers that one may have.
func services() []string {
	list := []string{string(sut.Postgres), string(sut.Redis), string(sut.Kafka)}
	for number := range maxBrokers {
		list = append(list, string(sut.KafkaBroker(number+1)))
	}
	return list
}

// needed lists what the chosen variants need, in a fixed order.
func (v *validation) needed() []string {
	var needed []string
	for _, variant := range v.sys.Variants {
		if !slices.Contains(v.sc.Variants, variant.Name) {
			continue
		}
		for _, service := range variant.Needs {
			if !slices.Contains(needed, string(service)) {
				needed = append(needed, string(service))
			}
		}
	}
	slices.Sort(needed)
	return needed
}

// faultFields checks the fields that belong to some kinds only.
func (v *validation) faultFields(f Fault, in func(string) []string) {
	if _, found := v.at(in("wipe")...); found && f.Kind != "kill" {
		v.reject("only a kill can wipe", "no wipe for kind "+f.Kind, in("wipe")...)
	}
	v.powerLoss(f, in)
	_, hasLatency := v.at(in("latency")...)
	_, hasJitter := v.at(in("jitter")...)
	switch {
	case f.Kind == "latency" && !hasLatency:
		v.missing("latency is missing", durationForm, in("latency")...)
	case f.Kind == "latency":
		v.positive(f.Latency, in("latency")...)
	case hasLatency:
		v.reject("latency does not belong to kind "+f.Kind, "it for kind latency only",
			in("latency")...)
	}
	switch {
	case hasJitter && f.Kind != "latency":
		v.reject("jitter does not belong to kind "+f.Kind, "it for kind latency only",
			in("jitter")...)
	case f.Kind == "latency" && f.Jitter > f.Latency:
		v.reject(fmt.Sprintf("a jitter of %s is more than the latency", f.Jitter),
			fmt.Sprintf("at most %s", f.Latency), in("jitter")...)
	}
	_, hasFor := v.at(in("for")...)
	switch {
	case f.Kind == "restart" && hasFor:
		v.reject("a restart has no duration", "no for for kind restart", in("for")...)
	case f.Kind != "restart" && !hasFor:
		v.missing("for is missing", durationForm, in("for")...)
	case f.Kind != "restart" && f.Kind != "kill" && f.Kind != "power-loss":
		v.positive(f.For, in("for")...)
	}
}

// maxLoses bounds what a loss of power can take: Redis flushes every second, or
// leaves it to a kernel that takes some.
const maxLoses = 10 * time.Second

// powerLoss checks what belongs to kind power-loss only, and that Redis has
// something to lose.
func (v *validation) powerLoss(f Fault, in func(string) []string) {
	_, given := v.at(in("loses")...)
	if f.Kind != "power-loss" {
		if given {
			v.reject("loses does not belong to kind "+f.Kind, "it for kind power-loss only",
				in("loses")...)
		}
		return
	}
	if given && (f.Loses <= 0 || f.Loses.D() > maxLoses) {
		v.reject(fmt.Sprintf("loses is %s", f.Loses), fmt.Sprintf("more than zero and at most %s",
			maxLoses), in("loses")...)
	}
	if f.Target != string(sut.Redis) && slices.Contains(services(), f.Target) {
		v.reject("only redis can lose power, not "+f.Target, string(sut.Redis), in("target")...)
	}
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
	if f.For.D() > maxLength {
		v.positive(f.For, in("for")...)
	}
	for _, g := range v.sc.Faults[:i] {
		if f.touches(g) {
			v.reject(fmt.Sprintf("faults %q and %q are in force on %s at the same time",
				g.Name, f.Name, f.Target), "one after the other", in("at")...)
		}
	}
}

// touches says whether two faults act on one process at once. Those of the
// proxy may overlap.
func (f Fault) touches(g Fault) bool {
	onProcess := func(f Fault) bool {
		return slices.Contains([]string{"kill", "pause", "restart", "power-loss", "crash", "churn"},
			f.Kind)
	}
	from, to := f.At.D(), f.At.D()+max(f.For.D(), time.Millisecond)
	gFrom, gTo := g.At.D(), g.At.D()+max(g.For.D(), time.Millisecond)
	sameWay := f.From != "" && f.From == g.From // a role's way to one store
	return sut.Service(f.Target).Shares(sut.Service(g.Target)) &&
		(onProcess(f) && onProcess(g) || sameWay) && from < gTo && gFrom < to
}
