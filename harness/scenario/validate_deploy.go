package scenario

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"stampede/harness/deploy"
	"stampede/harness/schema"
	"stampede/harness/sut"
)

// replicaBounds is how many replicas a role may have.
const (
	minReplicas = 1
	maxReplicas = 100
)

// deployment checks how the variants are put to work.
func (v *validation) deployment() {
	if v.known && v.deployed() && (v.sys.Handler == nil || v.sys.Target == nil) {
		v.reject(fmt.Sprintf("%s has no HTTP API, so it runs in process only", v.sys.Name),
			deploy.InProcess, "deploy")
	}
	known := allRoles(v.sys)
	for _, name := range slices.Sorted(maps.Keys(v.sc.Replicas)) {
		path := []string{"replicas", name}
		if v.known && !slices.Contains(known, name) {
			n, _ := v.at(path...)
			v.unknownName(n.key, "role", name, known)
			continue
		}
		if single(v.sys, name) && v.sc.Replicas[name] > 1 {
			v.reject(fmt.Sprintf("two of %s at once would interfere with each other", name), "1", path...)
			continue
		}
		v.between(v.sc.Replicas[name], minReplicas, maxReplicas, path...)
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
func (v *validation) roleNames() []string {
	return append([]string{deploy.API}, v.chosen(roles)...)
}

// allRoles lists api and the roles of all variants.
func allRoles(system sut.System) []string {
	return append([]string{deploy.API}, gather(system.Variants, roles)...)
}

func roles(variant sut.Variant) (names []string) {
	for _, role := range variant.Roles {
		names = append(names, role.Name)
	}
	return names
}

func stores(variant sut.Variant) (names []string) {
	for _, service := range variant.Needs {
		names = append(names, string(service))
	}
	return names
}

// chosen collects something of the chosen variants, each once.
func (v *validation) chosen(of func(sut.Variant) []string) []string {
	chosen := slices.DeleteFunc(slices.Clone(v.sys.Variants), func(variant sut.Variant) bool {
		return !slices.Contains(v.sc.Variants, variant.Name)
	})
	return gather(chosen, of)
}

func gather(variants []sut.Variant, of func(sut.Variant) []string) (all []string) {
	for _, variant := range variants {
		for _, name := range of(variant) {
			if !slices.Contains(all, name) {
				all = append(all, name)
			}
		}
	}
	return all
}

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
	switch {
	case store && f.Kind == "partition" && f.From != "":
		v.reject("from does not belong to partition of "+f.Target, "it for a partition of a role",
			in("from")...)
	case store && slices.Contains(onlyRoleKinds(), f.Kind):
		v.reject(fmt.Sprintf("only a role can %s, not %s", f.Kind, f.Target), oneOf(v.roleNames()),
			in("target")...)
	case !store && slices.Contains(v.roleNames(), string(sut.Service(f.Target).Whole())):
		v.roleKind(f, in)
	}
}

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
	if f.Kind == "partition" {
		n, _ := v.at(in("")[:2]...)
		v.missing(n, "from", "it for a partition of a role")
	}
	v.ofRole("place", string(whole), f.Place, in("place"), func(variant sut.Variant) []string {
		places, _ := variant.PlacesOf(string(whole))
		return places
	})
	v.ofRole("store of "+string(whole), string(whole), f.From, in("from"), stores)
}

// ofRole checks that a fault names something that its role has in a chosen variant.
func (v *validation) ofRole(
	what, role, name string, path []string, of func(sut.Variant) []string,
) {
	ofIt := func(variant sut.Variant) []string {
		if _, has := variant.PlacesOf(role); !has {
			return nil
		}
		return of(variant)
	}
	if known := v.chosen(ofIt); name != "" && !slices.Contains(known, name) {
		v.unmet(what, name, known, func(variant sut.Variant) bool {
			return slices.Contains(ofIt(variant), name)
		}, path...)
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
		v.unknown(what, name, known, path...)
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
