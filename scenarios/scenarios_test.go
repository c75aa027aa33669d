package scenarios_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/goccy/go-yaml"

	"stampede/harness/scenario"
	"stampede/harness/schema"
	"stampede/harness/schema/schematest"
	"stampede/harness/sut"
	"stampede/scenarios"
	"stampede/systems"
)

func find(name string) (sut.System, bool) {
	all := systems.All()
	i := slices.IndexFunc(all, func(s sut.System) bool { return s.Name == name })
	if i < 0 {
		return sut.System{}, false
	}
	return all[i], true
}

func options(profile string) scenario.Options {
	opts := scenario.Options{Profile: profile, Systems: find}
	for _, s := range systems.All() {
		opts.SystemNames = append(opts.SystemNames, s.Name)
	}
	return opts
}

// TestEveryProfileDecodes also checks that the file is named like the
// scenario, and that what is resolved decodes again.
func TestEveryProfileDecodes(t *testing.T) {
	for _, name := range scenarios.All() {
		src, filename, ok := scenarios.Source(name)
		if !ok {
			t.Fatalf("%s is listed but has no source", name)
		}
		for _, profile := range scenario.Profiles() {
			sc, _, err := scenario.Decode(src, filename, options(profile))
			if err != nil {
				t.Errorf("profile %s:\n%v", profile, err)
				continue
			}
			if sc.Name != name {
				t.Errorf("%s calls itself %s", filename, sc.Name)
			}
			text, err := sc.YAML()
			if err != nil {
				t.Fatal(err)
			}
			if _, _, err := scenario.Decode(text, "resolved", options("")); err != nil {
				t.Errorf("%s resolved for %s does not decode:\n%v", name, profile, err)
			}
		}
	}
}

// TestKnownWrongVariantsAreMeantToBeCaught: a scenario that provokes a
// trigger has a variant that breaks under it, or catching it proves nothing.
func TestKnownWrongVariantsAreMeantToBeCaught(t *testing.T) {
	for _, name := range scenarios.All() {
		src, filename, _ := scenarios.Source(name)
		sc, res, err := scenario.Decode(src, filename, options(""))
		if err != nil {
			t.Fatal(err)
		}
		for _, trigger := range sc.Provokes {
			if !slices.ContainsFunc(res.System.Variants, func(v sut.Variant) bool {
				return slices.Contains(sc.Variants, v.Name) &&
					slices.ContainsFunc(v.Breaks, func(b sut.Break) bool {
						return string(b.Under) == trigger
					})
			}) {
				t.Errorf("%s provokes %s, under which none of its variants breaks", name, trigger)
			}
		}
	}
}

// TestEveryKnownWrongVariantIsDemanded: some scenario must catch each known-wrong
// variant breaking something, or that it is wrong is only said of it.
func TestEveryKnownWrongVariantIsDemanded(t *testing.T) {
	demanded := make(map[string]bool)
	for _, name := range scenarios.All() {
		src, filename, _ := scenarios.Source(name)
		sc, _, err := scenario.Decode(src, filename, options(""))
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range sc.Variants {
			for _, trigger := range sc.Provokes {
				demanded[sc.System+" "+v+" "+trigger] = true
			}
		}
	}
	for _, sys := range systems.All() {
		for _, v := range sys.Variants {
			if len(v.Breaks) > 0 && !slices.ContainsFunc(v.Breaks, func(b sut.Break) bool {
				return demanded[sys.Name+" "+v.Name+" "+string(b.Under)]
			}) {
				t.Errorf("no scenario demands that %s's %s is caught", sys.Name, v.Name)
			}
		}
	}
}

func TestSourceOfNothing(t *testing.T) {
	for _, name := range []string{"", "nothing", "../scenarios/flash-sale-soak", "schema"} {
		if _, _, ok := scenarios.Source(name); ok {
			t.Errorf("%q has a source", name)
		}
	}
}

func TestSchemaIsCurrent(t *testing.T) {
	of := func(docs schema.Docs) ([]byte, error) { return scenario.Schema(systems.All(), docs) }
	schematest.Current(t, "scenarios/schema.json", scenarios.Schema(),
		"..", of, "harness/scenario")
}

// TestScenariosValidate is what an editor does with the schema.
func TestScenariosValidate(t *testing.T) {
	compiled := schematest.Compile(t, scenarios.Schema())
	for _, name := range scenarios.All() {
		src, filename, _ := scenarios.Source(name)
		var value any
		if err := yaml.Unmarshal(src, &value); err != nil {
			t.Fatal(err)
		}
		if err := compiled.Validate(value); err != nil {
			t.Errorf("%s: %v", filename, err)
		}
		misspelt := bytes.Replace(src, []byte("\nparams:\n"), []byte("\nparams:\n  no_such: 1\n"), 1)
		if err := yaml.Unmarshal(misspelt, &value); err != nil {
			t.Fatal(err)
		}
		if compiled.Validate(value) == nil {
			t.Errorf("%s: the schema accepts a misspelt parameter", filename)
		}
	}
}
