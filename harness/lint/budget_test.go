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
		"flashsale": {6580, 3572}, // of these 915 are models, and how they are calibrated
		"likes":     {5200, 2945}, // 900
		"scheduler": {7145, 4015}, // 1,120
		// 875 are models; judges of settings, refusals and deliveries came later
		"sqlbroker": {6418, 3725},
		// one of its designs has state, a changelog and a table of its own; 1,075 are models
		"views":     {7300, 3575},
		"taskqueue": {2995, 1700}, // nine designs on three stores, one of them River
		// eight designs on three stores, an archive and an oracle, and one more behind a build tag
		"adclicks":    {3685, 1255},
		"reservation": {2840, 1000}, // 750 are models
		// two paths, erasure, and a migration, which were to be writeheavy's
		"positions":      {2670, 1000},
		"commentary":     {2520, 1000}, // eleven designs, an archive, and what HTTP says of caches
		"recentsearches": {2360, 1000}, // eight designs, three stores, an archive, a log
		// eight designs: windows that roll in Go, in Lua and in SQL, and an oracle that has none
		"autocomplete": {2720, 1000},
		// six designs, a journal, a matcher of robots.txt, and the web itself: a thousand lines
		"crawler": {4860, 1470},
		// a search engine of its own, from the log to the merges, beside what the others have
		"textsearch": {5860, 2405},
		// three stores, four roles and a provider of payments: 1,330 lines are models
		"checkout": {4880, 1500},
		// thirteen designs; the log of what is shed, losses of asynchronous commits, and their judges;
		// 990 lines are models
		"writeheavy": {4932, 1865},
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
