package scenario

import (
	"fmt"
	"maps"
	"slices"
	"strings"

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
		v.reject(fmt.Sprintf("%s has no HTTP API, and so runs in process only", v.sys.Name),
			deploy.InProcess, "deploy")
	}
	known := allRoles(v.sys)
	for _, name := range slices.Sorted(maps.Keys(v.sc.Replicas)) {
		path := []string{"replicas", name}
		if v.known && !slices.Contains(known, name) {
			n, _ := v.at(path...)
			v.add(Problem{Where: n.key, What: fmt.Sprintf("no variant has a role %q", name),
				Expected: oneOf(known), Suggestion: check.Nearest(name, known)})
			continue
		}
		v.between(v.sc.Replicas[name], 1, maxReplicas, path...)
	}
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
		v.unknownName("target", f.Target, append(services(), v.roleNames()...), path...)
	case number > 0 && replicas == 1:
		v.rejectTogether(fmt.Sprintf("one replica has no number: there is no %s", f.Target),
			fmt.Sprintf("%s, or replicas of it", whole), path, "replicas")
	case number > replicas:
		v.rejectTogether(fmt.Sprintf("there is no %s: %s has %d replicas", f.Target, whole, replicas),
			fmt.Sprintf("at most %s", deploy.Replica(string(whole), replicas)), path, "replicas")
	}
}

// roleKind checks that a fault of a role is one that a role can have.
func (v *validation) roleKind(f Fault, in func(string) []string) {
	whole := sut.Service(f.Target).Whole()
	switch {
	case !slices.Contains(roleKinds(), f.Kind):
		v.reject(fmt.Sprintf("kind %s is not for roles", f.Kind), oneOf(roleKinds()), in("kind")...)
	case f.Wipe:
		v.reject("a role has no data to wipe", "no wipe", in("wipe")...)
	case !v.deployed() && (whole == deploy.API || !slices.Contains(gentleKinds(), f.Kind)):
		v.rejectTogether(fmt.Sprintf("%s of %s needs a process of its own", f.Kind, f.Target),
			"deploy processes or containers", in("target"), "deploy")
	}
}

// roleKinds lists the kinds of faults that can be aimed at a role, gentleKinds
// those that need no process of its own.
func roleKinds() []string   { return []string{"kill", "pause", "restart"} }
func gentleKinds() []string { return []string{"restart"} }

// refineDeploy says in the schema what deployment checks.
func refineDeploy(root schema.Schema) {
	root.Property("deploy").With(enum(deploy.Ways()))["default"] = deploy.InProcess
	root.Property("replicas")["additionalProperties"] =
		schema.Schema{"type": "integer"}.With(bounds(1, maxReplicas))
}
