package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/pflag"

	"stampede/harness/scenario"
	"stampede/scenarios"
)

// fits fails the test unless a text fits a terminal of 80 columns.
func fits(t *testing.T, what string, out *bytes.Buffer) {
	t.Helper()
	if out.Len() == 0 {
		t.Errorf("%s: nothing is said", what)
	}
	for line := range strings.Lines(out.String()) {
		line = strings.TrimSuffix(line, "\n")
		if utf8.RuneCountInString(line) > 80 {
			t.Errorf("%s: more than 80 columns: %s", what, line)
		}
		if strings.TrimRight(line, " ") != line {
			t.Errorf("%s: ends with a space: %q", what, line)
		}
	}
	out.Reset()
}

// TestHelpFits: the help of every command fits, with each of its flags in it, and so do the
// lists, apart from that of runs, whose paths stay whole.
func TestHelpFits(t *testing.T) {
	var out bytes.Buffer
	for _, cmd := range newRoot(&app{}).Commands() {
		cmd.SetOut(&out)
		if err := cmd.Help(); err != nil {
			t.Fatal(err)
		}
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden && !strings.Contains(out.String(), "--"+f.Name) {
				t.Errorf("%s: nothing is said of --%s", cmd.Name(), f.Name)
			}
		})
		if len(cmd.Aliases) > 0 && !strings.Contains(out.String(), cmd.NameAndAliases()) {
			t.Errorf("%s: nothing is said of %q", cmd.Name(), cmd.Aliases)
		}
		fits(t, cmd.Name(), &out)
	}
	root := newRoot(&app{})
	root.SetOut(&out)
	if err := root.Help(); err != nil {
		t.Fatal(err)
	}
	fits(t, "stampede", &out)
	for _, kind := range append(slices.Concat(listKinds(), systemNames()), "") {
		if kind == runKind {
			continue
		}
		if err := list(&out, listOptions{what: kind}); err != nil {
			t.Fatal(err)
		}
		fits(t, "list "+kind, &out)
	}
}

// TestDescribeFits: whatever can be described fits a terminal of 80 columns.
func TestDescribeFits(t *testing.T) {
	var out bytes.Buffer
	described := map[string]bool{} // systems
	for _, name := range scenarios.All() {
		plan, err := resolve(name, scenario.Options{})
		if err == nil {
			err = describe(&out, plan, true)
		}
		if err != nil {
			t.Fatal(err)
		}
		fits(t, name, &out)
		if described[plan.System.Name] {
			continue
		}
		described[plan.System.Name] = true
		for _, v := range plan.System.Variants {
			if err := describeVariant(&out, plan, v.Name); err != nil {
				t.Fatal(err)
			}
			fits(t, name+" "+v.Name, &out)
		}
	}
	if len(described) != len(systemNames()) {
		t.Errorf("described designs of %v, want those of %v", described, systemNames())
	}
}
