package suttest

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"stampede/harness/sut"
)

// name is how systems, variants, roles and invariants may be called.
var name = regexp.MustCompile(`^[a-z][a-z0-9]*([_-][a-z0-9]+)*$`)

// statements checks what the system says of itself.
func (s Suite) statements(t testing.TB) {
	sys := s.System
	if !name.MatchString(sys.Name) || sys.Summary == "" {
		t.Errorf("system %q needs a lower-case name and a summary (%q)", sys.Name, sys.Summary)
	}
	invariants := map[string]bool{}
	for _, inv := range sys.Invariants(s.Params) {
		if !name.MatchString(inv.Name()) || invariants[inv.Name()] || inv.Statement() == "" {
			t.Errorf("invariant %q needs a lower-case name of its own and a statement", inv.Name())
		}
		invariants[inv.Name()] = true
	}
	s.races(t, invariants)
	seen := map[string]bool{}
	for _, v := range sys.Variants {
		variantStates(t, v, invariants)
		if seen[v.Name] {
			t.Errorf("variant %q appears twice", v.Name)
		}
		seen[v.Name] = true
	}
}

// races checks that a run without overlap cannot pass, unless the system says why it may.
func (s Suite) races(t testing.TB, invariants map[string]bool) {
	races := s.System.Races
	if (races == nil) == (s.System.NoRaces == "") {
		t.Errorf("system %s needs either Races or a reason for NoRaces", s.System.Name)
	}
	if races == nil {
		return
	}
	if len(races.Kinds) == 0 || races.Least < 1 || len(races.Invariants) == 0 {
		t.Errorf("Races %+v: expected kinds, invariants and at least one operation", *races)
	}
	for _, inv := range races.Invariants {
		if !invariants[inv] {
			t.Errorf("Races exercise %q, which is no invariant", inv)
		}
	}
	workload, err := s.System.Workload(s.Seed, s.Params)
	if err != nil {
		t.Fatalf("workload: %v", err)
	}
	for _, kind := range races.Kinds {
		if !slices.Contains(workload.Kinds(), kind) {
			t.Errorf("%q race, but are no kind of operation of the workload's", kind)
		}
	}
}

func variantStates(t testing.TB, v sut.Variant, invariants map[string]bool) {
	if !name.MatchString(v.Name) {
		t.Errorf("variant %q: expected lower case, digits and single underscores", v.Name)
	}
	for what, text := range map[string]string{
		"Idea": v.Idea, "Guarantees": v.Guarantees, "GivesUp": v.GivesUp,
	} {
		if strings.TrimSpace(text) == "" {
			t.Errorf("variant %s: %s is empty", v.Name, what)
		}
	}
	if len(v.Needs) == 0 {
		t.Errorf("variant %s needs no service", v.Name)
	}
	for _, b := range v.Breaks {
		if !invariants[b.Invariant] {
			t.Errorf("variant %s breaks %q, which is no invariant", v.Name, b.Invariant)
		}
		if v.NotApplicable[b.Invariant] != "" {
			t.Errorf("variant %s breaks %q, which is not applicable to it", v.Name, b.Invariant)
		}
		if !slices.Contains(sut.Triggers(), b.Under) {
			t.Errorf("variant %s breaks %q under %q, which is no trigger",
				v.Name, b.Invariant, b.Under)
		}
		if b.Shows != "" && b.Shows != sut.Alone && b.Shows != sut.AtTimes {
			t.Errorf("variant %s breaks %q %q, which is no way to show", v.Name, b.Invariant, b.Shows)
		}
	}
	for inv, reason := range v.NotApplicable {
		if !invariants[inv] || reason == "" {
			t.Errorf("variant %s: not applicable %q: expected an invariant and a reason", v.Name, inv)
		}
	}
	roles := map[string]bool{}
	for _, r := range v.Roles {
		if !name.MatchString(r.Name) || roles[r.Name] || r.Summary == "" || r.Run == nil {
			t.Errorf("variant %s: role %q needs a name of its own, a summary and a function",
				v.Name, r.Name)
		}
		if sut.Service(r.Name).Whole() != sut.Service(r.Name) || r.Name == sut.APIRole {
			t.Errorf("variant %s: role %q has the name of a replica or of the API", v.Name, r.Name)
		}
		roles[r.Name] = true
		places(t, v.Name+" "+r.Name, r.Places)
	}
	places(t, v.Name+" "+sut.APIRole, v.Places)
}

// places checks that fail points can be told apart.
func places(t testing.TB, of string, names []string) {
	t.Helper()
	for i, place := range names {
		if !name.MatchString(place) || slices.Contains(names[:i], place) {
			t.Errorf("%s: place %q needs a name of its own: lower case, digits and hyphens", of, place)
		}
	}
}
