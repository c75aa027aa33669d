package scenario_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"stampede/harness/scenario"
	"stampede/harness/schema"
	"stampede/harness/schema/schematest"
	"stampede/harness/sut"
)

func compileSchema(t *testing.T) schematest.Schema {
	t.Helper()
	of := func(docs schema.Docs) ([]byte, error) {
		return scenario.Schema([]sut.System{shop()}, docs)
	}
	return schematest.Compile(t, schematest.Made(t, "../..", of, "harness/scenario"))
}

func TestSchemaAcceptsWhatDecodes(t *testing.T) {
	s := compileSchema(t)
	for _, src := range []string{
		base, minimal,
		strings.Replace(base, "default:", "default: {baseline: null, repeats: null}", 1),
		strings.Replace(base, "full: {repeats: 6}",
			"full: {load: {arrival: {process: burst, rate: null, ops: 5}}}", 1),
		fitted,
		strings.Replace(minimal, "arrival: {process: constant, rate: 100, over: 10s}",
			"users: 5\n  think: 5ms\n  duration: 1m30s", 1),
	} {
		if _, _, err := scenario.Decode([]byte(src), "x.yaml", options()); err != nil {
			t.Errorf("the decoder refuses it: %v\n%s", err, src)
		}
		if err := s.Validate(tree(t, src)); err != nil {
			t.Errorf("the schema refuses it: %v\n%s", err, src)
		}
	}
}

// TestSchemaAcceptsEveryResolvedScenario draws scenarios, as they are written
// into run directories.
func TestSchemaAcceptsEveryResolvedScenario(t *testing.T) {
	s := compileSchema(t)
	sc, _ := decode(t, base, "")
	rapid.Check(t, func(rt *rapid.T) {
		sc := sc
		sc.Load.Arrival = anyArrival().Draw(rt, "arrival")
		sc.Load.Timeout = duration().Draw(rt, "timeout")
		text, err := sc.YAML()
		if err != nil {
			rt.Fatal(err)
		}
		if err := s.Validate(tree(t, string(text))); err != nil {
			rt.Fatalf("%v\n%s", err, text)
		}
	})
}

// TestSchemaRefusesWhatDoesNotDecode runs the corpus of bad scenarios. Those
// that take more than the shape of the file to see are marked; a mark that is
// not needed fails too.
func TestSchemaRefusesWhatDoesNotDecode(t *testing.T) {
	s := compileSchema(t)
	for name, c := range badScenarios() {
		src := mustReplace(t, base, c.old, c.new)
		value, err := scenario.Tree([]byte(src))
		if err != nil || name == "only in a profile" {
			continue // no tree to validate
		}
		switch err := s.Validate(value); {
		case err == nil && !c.alone:
			t.Errorf("%s: the schema accepts it, the decoder says %q", name, c.want)
		case err != nil && c.alone:
			t.Errorf("%s: marked as beyond the schema, which says %v", name, err)
		}
	}
}
