package scenario

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"stampede/harness/check"
	"stampede/harness/sut"
)

// Options are what Decode needs besides the file.
type Options struct {
	// Profile is smoke, quick, default or full; empty means default, or the profile
	// of a file that is resolved already.
	Profile string
	// Set are the command line's settings, path=value, applied in order
	// after the profile.
	Set []string
	// FaultsFile names a file with the text Faults, a list of faults in place
	// of the scenario's; it is applied before Set. With an empty list what provokes and
	// the objectives say of faults goes, too. An empty name means the scenario's own.
	FaultsFile string
	Faults     []byte
	// Systems finds a system by name; SystemNames lists the names there are.
	Systems     func(name string) (sut.System, bool)
	SystemNames []string
}

// Resolved is what Decode finds out beside the scenario.
type Resolved struct {
	// System is the scenario's system.
	System sut.System
	// Params is the value of System.Params after decoding, as
	// System.Workload and sut.Config take it.
	Params any
	// Origins says of every value of the resolved scenario where it came
	// from, in the order of Scenario.YAML.
	Origins []Origin
}

// Origin is one value of a resolved scenario and where it came from.
type Origin struct {
	// Path is the value's path as --set takes it, for example
	// "load.arrival.rate".
	Path  string
	Value string
	// From is "built in", "file", "profile <name>" or the --set flag.
	From string
}

// The origins that are not flags or profiles.
const (
	fromDefaults = "built in"
	fromFile     = "file"
)

// noProfile stands for the file without any profile.
const noProfile = "none"

// Decode decodes a scenario file: the file's own values, then the profile
// merged over them (a JSON merge patch, RFC 7396), then the settings of the
// command line. The file must be a complete scenario without any profile, and
// every profile is checked, also those that are not asked for. The error, if
// any, is of type Errors and has all the problems.
func Decode(src []byte, filename string, opts Options) (Scenario, Resolved, error) {
	p := &parsing{origin: fromFile, at: inFile(filename),
		form: "a mapping with name, question, system and load"}
	root := p.document(src)
	if root == nil {
		return Scenario{}, Resolved{}, p.err()
	}
	if root.kind != mapping {
		p.fault(root.where.Line, root.where.Column, "unexpected "+root.show(),
			expected(reflect.TypeFor[Scenario]()))
		return Scenario{}, Resolved{}, p.err()
	}
	overlays := p.profiles(root)
	wanted := p.wantedProfile(root, overlays, filename, opts.Profile)
	r := resolution{opts: opts, filename: filename}
	patch := overlays[wanted]
	if patch == nil && wanted == QuickProfile {
		patch = overlays[DefaultProfile]
	}
	asked := overlay(root, patch)
	p.faults(asked, opts)
	sc, res := r.resolve(&p.problems, asked, wanted, opts.Set)
	for _, name := range append(Profiles(), noProfile) {
		if name != wanted && (overlays[name] != nil || name == noProfile) {
			p.otherProfile(name, func(ps *problems) {
				r.resolve(ps, overlay(root, overlays[name]), name, nil)
			})
		}
	}
	if err := p.err(); err != nil {
		return Scenario{}, Resolved{}, err
	}
	return sc, res, nil
}

// Recorded decodes what Scenario.YAML wrote, for a report on the run: without the system's
// part, and without what this version cannot read.
func Recorded(src []byte) Scenario {
	var sc Scenario
	_ = DecodeInto("", src, &sc) // the error is about what is left out
	return sc
}

// DecodeInto decodes a YAML file of another kind, such as a machine, over what v points to, as
// strictly as a scenario: names and bounds are those of its tags. The error is Errors.
func DecodeInto(file string, src []byte, v any) error {
	p := &parsing{at: inFile(file), origin: fromFile}
	if root := p.document(src); root != nil {
		d := decoder{problems: &p.problems}
		d.into(root, reflect.ValueOf(v).Elem())
	}
	return p.err()
}

// inFile makes the places of a file.
func inFile(name string) func(line, column int) Where {
	return func(line, column int) Where { return Where{File: name, Line: line, Column: column} }
}

// faults puts the list of a file of faults in the place of the scenario's.
func (p *parsing) faults(tree *node, opts Options) {
	if opts.FaultsFile == "" {
		return
	}
	file := &parsing{origin: "--fault " + opts.FaultsFile, at: inFile(opts.FaultsFile),
		form: "a list of faults"}
	root := file.document(opts.Faults)
	if root != nil && root.kind != list {
		file.fault(root.where.Line, root.where.Column, "unexpected "+root.show(), file.form)
	}
	for _, problem := range file.list {
		p.add(problem)
	}
	if len(file.list) == 0 {
		root.key = root.where
		tree.set("faults", root)
		if len(root.items) == 0 {
			forget(tree)
		}
	}
}

// forget takes out of a scenario's tree what it says of its faults, where it is to have none:
// triggers that faults pull, and objectives about one.
func forget(tree *node) {
	if list := tree.get("provokes"); list != nil {
		list.items = slices.DeleteFunc(list.items, func(n *node) bool {
			return slices.ContainsFunc(pulls(), func(p pull) bool { return string(p.trigger) == n.text })
		})
	}
	if list := tree.get("slos"); list != nil {
		list.items = slices.DeleteFunc(list.items, func(n *node) bool {
			text := n.get("objective")
			if text == nil {
				return false
			}
			o, err := check.ParseObjective(text.text)
			return err == nil && o.Part.Relation != "in"
		})
	}
}

// profiles takes the profiles out of the tree.
func (p *parsing) profiles(root *node) map[string]*node {
	all := root.get("profiles")
	if all == nil {
		return nil
	}
	root.remove("profiles")
	if all.kind != mapping {
		p.add(Problem{Where: all.where, What: "unexpected " + all.show(),
			Expected: "a mapping with " + strings.Join(Profiles(), ", ")})
		return nil
	}
	overlays := make(map[string]*node)
	for _, f := range all.fields {
		switch {
		case !slices.Contains(Profiles(), f.name):
			p.add(Problem{
				Where: f.value.key, What: fmt.Sprintf("unknown profile %q", f.name),
				Expected: oneOf(Profiles()), Suggestion: check.Nearest(f.name, Profiles()),
			})
		case f.value.kind == null:
			overlays[f.name] = &node{kind: mapping, where: f.value.where, key: f.value.key}
		case f.value.kind != mapping:
			p.add(Problem{Where: f.value.where, What: "unexpected " + f.value.show(),
				Expected: "a mapping of the values that the profile changes"})
		default:
			overlays[f.name] = p.labelled(f.value, f.name)
		}
	}
	return overlays
}

// fixedInProfiles lists what a profile must not change.
func fixedInProfiles() []string { return []string{"name", "system", "profile", "profiles"} }

// labelled marks an overlay's values as the profile's and refuses what a
// profile must not change.
func (p *parsing) labelled(overlay *node, profile string) *node {
	for _, fixed := range fixedInProfiles() {
		if n := overlay.get(fixed); n != nil {
			p.add(Problem{Where: n.key, What: fmt.Sprintf("a profile cannot change %q", fixed),
				Expected: "it at the top level only"})
			overlay.remove(fixed)
		}
	}
	overlay.label("profile " + profile)
	return overlay
}

func (n *node) label(origin string) {
	n.origin = origin
	for _, item := range n.items {
		item.label(origin)
	}
	for _, f := range n.fields {
		f.value.label(origin)
	}
}

// wantedProfile decides which profile applies. A file that Scenario.YAML
// wrote names the one that was applied to it already.
func (p *parsing) wantedProfile(
	root *node, overlays map[string]*node, filename, asked string,
) string {
	applied := root.get("profile")
	switch {
	case applied != nil && overlays != nil:
		p.add(Problem{Where: applied.key, What: "profile and profiles exclude each other",
			Expected: "profiles; profile is written into resolved scenarios only"})
	case applied != nil && applied.kind == text && asked != "" && asked != applied.text:
		p.add(Problem{Where: applied.where, Expected: "no other profile",
			What: fmt.Sprintf("already resolved for profile %q", applied.text)})
	case applied != nil:
		return applied.text
	}
	if asked == "" {
		asked = DefaultProfile
	}
	if !alwaysThere(asked) && overlays[asked] == nil && applied == nil {
		p.add(Problem{
			Where: Where{Flag: "--profile " + asked}, Expected: oneOf(profilesOf(overlays)),
			What:       fmt.Sprintf("%s has no profile %q", filename, asked),
			Suggestion: check.Nearest(asked, profilesOf(overlays)),
		})
	}
	return asked
}

func profilesOf(overlays map[string]*node) []string {
	return slices.DeleteFunc(Profiles(), func(name string) bool {
		return !alwaysThere(name) && overlays[name] == nil
	})
}

// alwaysThere says that a file need not mention a profile to have it.
func alwaysThere(profile string) bool {
	return profile == DefaultProfile || profile == QuickProfile
}

// otherProfile adds the problems that only show in a profile which was not
// asked for.
func (p *parsing) otherProfile(name string, resolve func(*problems)) {
	var found problems
	resolve(&found)
	for _, problem := range found.list {
		if !slices.Contains(p.list, problem) {
			problem.Profile = name
			p.add(problem)
		}
	}
}

// resolution resolves one file for any of its profiles.
type resolution struct {
	opts     Options
	filename string
}

// resolve decodes a tree with its profile merged in, which it changes.
func (r *resolution) resolve(
	ps *problems, tree *node, profile string, sets []string,
) (Scenario, Resolved) {
	setter := &parsing{}
	for _, flag := range sets {
		setter.assign(tree, flag)
	}
	for _, problem := range setter.list {
		ps.add(problem)
	}
	if tree.get("name") == nil {
		name := strings.TrimSuffix(filepath.Base(r.filename), filepath.Ext(r.filename))
		tree.set("name", &node{kind: text, text: name, where: tree.where, origin: fromDefaults})
	}
	sc := defaults()
	d := &decoder{problems: ps}
	d.into(tree, reflect.ValueOf(&sc).Elem())
	sc.Profile = profile
	v := &validation{decoder: d, tree: tree, sc: &sc, opts: r.opts}
	v.system()
	v.scenario()
	res := Resolved{System: v.sys, Params: v.params}
	if len(ps.list) == 0 {
		res.Origins = origins(sc, tree)
	}
	return sc, res
}

// encodeParams writes the decoded parameters, defaults included, back into
// the scenario, so that a stored scenario does not depend on the defaults of
// the version that reads it.
func encodeParams(params any) (json.RawMessage, error) {
	data, err := json.Marshal(params)
	if err != nil {
		return nil, fmt.Errorf("encode params: %w", err)
	}
	return data, nil
}

// DecodeParams makes a system's parameters from its defaults and settings of
// the form name=value, for uses without a scenario. The error is of type
// Errors.
func DecodeParams(system sut.System, set []string) (any, error) {
	params := &node{kind: mapping}
	p := &parsing{}
	for _, flag := range set {
		p.assign(params, flag)
	}
	tree := &node{kind: mapping}
	tree.set("params", params)
	v := &validation{
		decoder: &decoder{problems: &p.problems}, tree: tree, sc: &Scenario{}, sys: system,
	}
	v.systemParams()
	return v.params, p.err()
}
