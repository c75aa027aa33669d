package main

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"stampede/harness/scenario"
	"stampede/scenarios"
)

// TestDescribeFits: whatever can be described fits a terminal of 80 columns.
func TestDescribeFits(t *testing.T) {
	fits := func(what string, out *bytes.Buffer) {
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
		fits(name, &out)
		if described[plan.System.Name] {
			continue
		}
		described[plan.System.Name] = true
		for _, v := range plan.System.Variants {
			if err := describeVariant(&out, plan, v.Name); err != nil {
				t.Fatal(err)
			}
			fits(name+" "+v.Name, &out)
		}
	}
	if len(described) != len(systemNames()) {
		t.Errorf("described designs of %v, want those of %v", described, systemNames())
	}
}
