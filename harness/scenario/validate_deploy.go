package scenario

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"stampede/harness/check"
	"stampede/harness/deploy"
	"stampede/harness/schema"
	"stampede/harness/sut"
)

// maxReplicas bounds how many replicas a role has.
const maxReplicas = 100

// deployment checks how the variants are put to work.
func (v *validation) deployment() {
	v.word(v.sc.Deploy, deploy.Ways(), []string{"deploy"})
	if v.known && v.deployed() && (v.sys.Handler == nil || v.sys.Target == nil) {
		v.reject(fmt.Sprintf("%s has no HTTP API, so it runs in process only", v.sys.Name),
			deploy.InProcess, "deploy")
	}
	known := allRoles(v.sys)
	for _, name := range slices.Sorted(maps.Keys(v.sc.Replicas)) {
		path := []string{"replicas", name}
		if v.known && !slices.Contains(known, name) {
			n, _ := v.at(path...)
			v.add(Problem{Where: n.key, What: fmt.Sprintf("no design has a role %q", name),
				Expected: oneOf(known), Suggestion: check.Nearest(name, known)})
			continue
		}
		if single(v.sys, name) && v.sc.Replicas[name] > 1 {
			v.reject(fmt.Sprintf("two of %s at once would interfere with each other", name), "1", path...)
			continue
		}
		v.between(v.sc.Replicas[name], 1, maxReplicas, path...)
	}
}

// single says that a role of the system can have no replicas.
func single(system sut.System, name string) bool {
	return slices.ContainsFunc(system.Variants, func(variant sut.Variant) bool {
		return slices.ContainsFunc(variant.Roles, func(role sut.Role) bool {
			return role.Name == name && role.Single
		})
	})
}

// deployed says that roles and API are processes of their own.
func (v *validation) deployed() bool {
	return v.sc.Deploy == deploy.Processes || v.sc.Deploy == deploy.Containers
}

// roleNames lists api and the roles of the chosen variants, which replicas and
// faults can name.
func (v *validation) roleNames() []string { return rolesOf(v.sys, v.sc.Variants) }

// rolesOf lists api and the roles of some variants.
func rolesOf(system sut.System, variants []string) []string {
	names := []string{deploy.API}
	for _, variant := range system.Variants {
		if !slices.Contains(variants, variant.Name) {
			continue
		}
		for _, role := range variant.Roles {
			if !slices.Contains(names, role.Name) {
				names = append(names, role.Name)
			}
		}
	}
	return names
}

// allRoles lists api and the roles of all variants.
func allRoles(system sut.System) []string { return rolesOf(system, variantNames(system)) }

// targetSchema is what faults of a system's scenarios can be aimed at.
func targetSchema(system sut.System) schema.Schema {
	targets := strings.Join(append(services(), allRoles(system)...), "|")
	return schema.Schema{"properties": schema.Schema{"target": schema.Schema{
		"pattern": "^(" + targets + ")(-[1-9][0-9]*)?$",
	}}}
}

// roleTarget checks the target of a fault that is no store: a role that is a
// process, or one of its replicas.
func (v *validation) roleTarget(f Fault, path []string) {
	whole, number := sut.Service(f.Target).Split()
	replicas := max(1, v.sc.Replicas[string(whole)])
	switch {
	case !slices.Contains(v.roleNames(), string(whole)):
		v.unmet("target", f.Target, append(services(), v.roleNames()...), func(of sut.Variant) bool {
			_, has := of.PlacesOf(string(whole))
			return has
		}, path...)
	case number > 0 && replicas == 1:
		v.rejectTogether(fmt.Sprintf("one replica has no number: there is no %s", f.Target),
			fmt.Sprintf("%s, or replicas of it", whole), path, "replicas")
	case number > replicas:
		v.rejectTogether(fmt.Sprintf("there is no %s: %s has %d replicas", f.Target, whole, replicas),
			fmt.Sprintf("at most %s", deploy.Replica(string(whole), replicas)), path, "replicas")
	}
}

// roleFault checks what belongs to faults of roles only.
func (v *validation) roleFault(f Fault, in func(string) []string) {
	if _, given := v.at(in("target")...); !given {
		return
	}
	store := slices.Contains(services(), f.Target)
	v.roleFields(f, store, in)
	switch {
	case store && slices.Contains(onlyRoleKinds(), f.Kind):
		v.reject(fmt.Sprintf("only a role can %s, not %s", f.Kind, f.Target), oneOf(v.roleNames()),
			in("target")...)
	case !store && slices.Contains(v.roleNames(), string(sut.Service(f.Target).Whole())):
		v.roleKind(f, in)
	}
}

// roleFields checks that the fields are there which a kind needs, and no others.
func (v *validation) roleFields(f Fault, store bool, in func(string) []string) {
	for _, field := range []struct {
		name, kind string
		needed     bool
	}{
		{"from", "partition", f.Kind == "partition" && !store},
		{"place", "crash", f.Kind == "crash"},
		{"passage", "crash", false}, {"every", "churn", false}, {"how", "churn", false},
	} {
		_, given := v.at(in(field.name)...)
		switch {
		case given && (f.Kind != field.kind || store):
			v.reject(fmt.Sprintf("%s does not belong to %s of %s", field.name, f.Kind, f.Target),
				fmt.Sprintf("it for kind %s of a role only", field.kind), in(field.name)...)
		case !given && field.needed:
			v.missing(field.name+" is missing", fmt.Sprintf("it for a %s of a role", f.Kind),
				in(field.name)...)
		}
	}
	if _, given := v.at(in("passage")...); given {
		v.between(f.Passage, 1, maxOps, in("passage")...)
	}
	if _, given := v.at(in("every")...); given {
		v.lasting(f.Every, minEvery, maxLength, in("every"))
	}
	if _, given := v.at(in("how")...); given {
		v.word(f.How, churns(), in("how"))
	}
}

// minEvery is the shortest mean time between two steps of a churn: a process
// takes some time to start.
const minEvery = 10 * time.Millisecond

// churns are the ways in which a churn takes replicas away.
func churns() []string { return []string{"mixed", "stop", "kill"} }

// roleKind checks that a fault is one that the role can have.
func (v *validation) roleKind(f Fault, in func(string) []string) {
	whole := sut.Service(f.Target).Whole()
	abrupt := f.Kind == "churn" && f.How != "" && f.How != "stop"
	switch {
	case !slices.Contains(roleKinds(), f.Kind):
		v.reject(fmt.Sprintf("kind %s is not for roles", f.Kind), oneOf(roleKinds()), in("kind")...)
	case f.Wipe:
		v.reject("a role has no data to wipe", "no wipe", in("wipe")...)
	case !v.deployed() && (whole == deploy.API || abrupt || !slices.Contains(gentleKinds(), f.Kind)):
		v.rejectTogether(fmt.Sprintf("%s of %s needs a process of its own", f.Kind, f.Target),
			"deploy processes or containers", in("target"), "deploy")
	}
	if _, given := v.at(in("place")...); given && f.Kind == "crash" {
		if places := v.places(string(whole)); !slices.Contains(places, f.Place) {
			v.unmet("place", f.Place, places, func(of sut.Variant) bool {
				places, _ := of.PlacesOf(string(whole))
				return slices.Contains(places, f.Place)
			}, in("place")...)
		}
	}
	if _, given := v.at(in("from")...); given && f.Kind == "partition" {
		if stores := v.storesOf(string(whole)); !slices.Contains(stores, f.From) {
			v.unmet("store of "+string(whole), f.From, stores, func(of sut.Variant) bool {
				_, has := of.PlacesOf(string(whole))
				return has && slices.Contains(of.Needs, sut.Service(f.From))
			}, in("from")...)
		}
	}
}

// unmet reports what a fault is aimed at and no chosen variant has. If others have it, the
// variants were chosen so that the fault strikes nobody; else it is a name unknown to all.
func (v *validation) unmet(
	what, name string, known []string, has func(sut.Variant) bool, path ...string,
) {
	var holders []string
	for _, variant := range v.sys.Variants {
		if has(variant) {
			holders = append(holders, variant.Name)
		}
	}
	if len(holders) == 0 {
		v.unknownName(what, name, known, path...)
		return
	}
	v.rejectTogether(fmt.Sprintf("no chosen design has the %s %q, so the fault has no target", what,
		name), oneOf(holders)+" among variants, or no such fault", path, "variants")
}

// roleKinds lists the kinds of faults that can be aimed at a role, gentleKinds
// those that need no process of its own, and onlyRoleKinds those of nothing
// else.
func roleKinds() []string {
	return []string{"kill", "pause", "restart", "partition", "crash", "churn"}
}
func gentleKinds() []string   { return []string{"restart", "partition", "churn"} }
func onlyRoleKinds() []string { return []string{"crash", "churn"} }

// places lists the fail points of a role in the chosen variants.
func (v *validation) places(role string) []string {
	return v.ofRole(role, func(_ sut.Variant, places []string) []string { return places })
}

// storesOf lists the stores of the chosen variants that have a role.
func (v *validation) storesOf(role string) []string {
	return v.ofRole(role, func(variant sut.Variant, _ []string) []string {
		var names []string
		for _, service := range variant.Needs {
			names = append(names, string(service))
		}
		return names
	})
}

// ofRole collects something from the chosen variants that have a role, each
// once.
func (v *validation) ofRole(
	role string, of func(variant sut.Variant, places []string) []string,
) []string {
	var all []string
	for _, variant := range v.sys.Variants {
		places, has := variant.PlacesOf(role)
		if !has || !slices.Contains(v.sc.Variants, variant.Name) {
			continue
		}
		for _, name := range of(variant, places) {
			if !slices.Contains(all, name) {
				all = append(all, name)
			}
		}
	}
	return all
}

// breaksRole says whether a fault of one of these kinds has a role as its
// target.
func (v *validation) breaksRole(kinds ...string) bool {
	return slices.ContainsFunc(v.sc.Faults, func(f Fault) bool {
		return slices.Contains(kinds, f.Kind) && !sut.Service(f.Target).Store()
	})
}

// silencesKafka says whether a fault makes Kafka, or a broker, fall silent.
func (v *validation) silencesKafka() bool {
	return slices.ContainsFunc(v.sc.Faults, func(f Fault) bool {
		return slices.Contains([]string{"pause", "partition"}, f.Kind) &&
			sut.Service(f.Target).Whole() == sut.Kafka
	})
}

// refineDeploy says in the schema what deployment checks.
func refineDeploy(root schema.Schema) {
	root.Property("deploy").With(enum(deploy.Ways()))["default"] = deploy.InProcess
	root.Property("replicas")["additionalProperties"] =
		schema.Schema{"type": "integer"}.With(bounds(1, maxReplicas))
}

// refineRoleFault forbids what does not belong to a kind and returns what it
// needs.
func refineRoleFault(kind string, forbidden schema.Schema) (needs []string) {
	if kind == "crash" {
		needs = []string{"place"}
	} else {
		forbidden["place"], forbidden["passage"] = false, false
	}
	if kind != "churn" {
		forbidden["every"], forbidden["how"] = false, false
	}
	if kind != "partition" {
		forbidden["from"] = false
	}
	if slices.Contains(onlyRoleKinds(), kind) {
		forbidden["target"] = schema.Schema{"not": enum(services())}
	}
	return needs
}

// refineRoleFields says what values the fields of faults of roles have.
func refineRoleFields(fault schema.Schema) {
	stores := []string{string(sut.Postgres), string(sut.Redis), string(sut.Kafka)}
	fault.Property("from").With(enum(stores))
	fault.Property("place").With(schema.Schema{"pattern": nameForm.String()})
	fault.Property("passage").With(bounds(1, maxOps))
	fault.Property("how").With(enum(churns()))
}
