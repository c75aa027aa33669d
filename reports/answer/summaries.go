package answer

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"stampede/harness/check"
	"stampede/harness/rundir"
	"stampede/reports/words"
)

// summaryOf is what an invariant that held says of itself, over all repeats of some designs:
// numbers that differ are ranges. A clause that does not say the same of all is left out; ""
// if the first one does not.
func summaryOf(standings []Standing, invariant string) string {
	var texts []string
	for _, st := range standings {
		if _, skip := st.NotApplicable[invariant]; !skip {
			texts = append(texts, heldReasons(st, invariant)...)
		}
	}
	var clauses []string
	for i := 0; ; i++ {
		var same []string
		for _, text := range texts {
			if parts := strings.Split(text, "; "); i < len(parts) {
				same = append(same, parts[i])
			}
		}
		if len(same) == 0 {
			return strings.Join(clauses, "; ")
		}
		clause, ok := ranged(same)
		switch {
		case ok:
			clauses = append(clauses, clause)
		case i == 0:
			return ""
		}
	}
}

// heldReasons are what an invariant says of the repeats of a design in which it held.
func heldReasons(st Standing, invariant string) (texts []string) {
	add := func(verdicts []check.Verdict) {
		for _, v := range verdicts {
			if v.Invariant == invariant && v.Status == check.Held && v.Reason != "" {
				texts = append(texts, words.Short(v.Reason, 300))
			}
		}
	}
	for _, r := range st.Repeats {
		add(r.Invariants)
	}
	if len(texts) == 0 {
		add(st.Invariants) // the repeats were not kept
	}
	return texts
}

// numeral is a number that begins a word, which a unit may end.
var numeral = regexp.MustCompile(`(^|[\s(])(\d+(?:\.\d+)?)`)

// ranged is one text for several that differ in their numbers alone.
func ranged(texts []string) (string, bool) {
	var columns [][]string
	for i, text := range texts {
		if numeral.ReplaceAllString(text, "$1#") != numeral.ReplaceAllString(texts[0], "$1#") {
			return "", false
		}
		for k, found := range numeral.FindAllStringSubmatch(text, -1) {
			if i == 0 {
				columns = append(columns, nil)
			}
			columns[k] = append(columns[k], found[2])
		}
	}
	next := -1
	return numeral.ReplaceAllStringFunc(texts[0], func(found string) string {
		next++
		before := numeral.FindStringSubmatch(found)[1]
		slices.SortFunc(columns[next], func(a, b string) int {
			return cmp.Compare(number(a), number(b))
		})
		least, most := columns[next][0], columns[next][len(texts)-1]
		if least == most {
			return before + groupedText(least)
		}
		return before + groupedText(least) + " to " + groupedText(most)
	}), true
}

func number(text string) float64 {
	x, _ := strconv.ParseFloat(text, 64) // digits alone: it cannot fail
	return x
}

// groupedText has commas in a whole number.
func groupedText(text string) string {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return words.Grouped(n)
	}
	return text
}

// summaryLine says what the designs that hold have done about what the scenario tries: the
// first clause of the summary of an invariant that a control breaks here, or what that
// invariant demands. Without a control it is of the first invariant that has a summary; "" if
// none has.
func summaryLine(s rundir.Summary, standings []Standing) string {
	holding := holdingOf(standings)
	first := func(name string) string {
		clause, _, _ := strings.Cut(summaryOf(holding, name), "; ")
		return clause
	}
	names := invariantNames(s)
	for _, name := range names {
		if !tried(standings, holding, name) {
			continue
		}
		if text := cmp.Or(first(name), strings.TrimSuffix(s.Statements[name], ".")); text != "" {
			return fmt.Sprintf("%s: %s", name, text)
		}
	}
	for _, name := range names {
		if clause := first(name); clause != "" {
			return fmt.Sprintf("%s: %s", name, clause)
		}
	}
	return ""
}

// holdingOf are the designs that hold: what an invariant says of itself is of these alone.
func holdingOf(standings []Standing) []Standing {
	return slices.DeleteFunc(slices.Clone(standings), func(st Standing) bool {
		return st.Correctness != rundir.Holds
	})
}

// tried says that a control was caught breaking an invariant which others hold.
func tried(standings, holding []Standing, invariant string) bool {
	return slices.ContainsFunc(standings, func(st Standing) bool {
		return slices.Contains(st.Caught, invariant)
	}) && slices.ContainsFunc(holding, func(st Standing) bool {
		_, skip := st.NotApplicable[invariant]
		return !skip
	})
}
