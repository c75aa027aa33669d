package lint_test

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"
)

// budget is how many lines of Go a system may have, and how many of tests.
type budget struct{ code, tests int }

// budgets are those of the systems that are larger than the rest: the first five, from before
// there was one, which may only shrink, and those whose stores and documents need more.
func budgets() map[string]budget {
	return map[string]budget{
		"flashsale": {6580, 3565}, // of these 915 are models, and how they are calibrated
		"likes":     {5177, 2916}, // 900
		"scheduler": {7136, 3999}, // 1,120
		// 875 are models; judges of settings, refusals and deliveries came later
		"sqlbroker": {6414, 3672},
		// one of its designs has state, a changelog and a table of its own; 1,075 are models
		"views":     {7294, 3556},
		"taskqueue": {2995, 1660}, // nine designs on three stores, one of them River
		// eight designs on three stores, an archive and an oracle, and one more behind a build tag
		"adclicks":    {3685, 1212},
		"reservation": {2833, 879}, // 750 are models
		// two paths, erasure, and a migration, which were to be writeheavy's
		"positions":      {2740, 842},
		"commentary":     {2518, 950}, // eleven designs, an archive, and what HTTP says of caches
		"recentsearches": {2223, 916}, // eight designs, three stores, an archive, a log
		// eight designs: windows that roll in Go, in Lua and in SQL, and an oracle that has none
		"autocomplete": {2704, 839},
		// six designs, a journal, a matcher of robots.txt, and the web itself: a thousand lines
		"crawler": {4915, 1475},
		// a search engine of its own, from the log to the merges, beside what the others have
		"textsearch": {5852, 2379},
		// three stores, four roles and a provider of payments: 1,330 lines are models
		"checkout": {4867, 1452},
		// thirteen designs; the log of what is shed, losses of asynchronous commits, and their judges;
		// 990 lines are models
		"writeheavy": {4932, 1836},
	}
}

// TestSystemsStaySmall holds each system to its budget and prints what it has.
func TestSystemsStaySmall(t *testing.T) {
	sizes := map[string]budget{}
	for _, s := range repository(t) {
		name, in := strings.CutPrefix(s.folder(), "systems/")
		name, _, _ = strings.Cut(name, "/")
		if !in || name == "internal" {
			continue
		}
		size, lines := sizes[name], bytes.Count(s.text, []byte("\n"))
		if s.test() {
			size.tests += lines
		} else {
			size.code += lines
		}
		sizes[name] = size
	}
	for _, name := range slices.Sorted(maps.Keys(sizes)) {
		may, known := budgets()[name]
		if !known {
			may = budget{2000, 1000}
		}
		has := sizes[name]
		t.Logf("%-12s %5d of %5d lines, tests %5d of %5d", name, has.code, may.code, has.tests,
			may.tests)
		if has.code > may.code || has.tests > may.tests {
			t.Errorf("systems/%s has %d lines and %d of tests; it may have %d and %d", name, has.code,
				has.tests, may.code, may.tests)
		}
	}
}
