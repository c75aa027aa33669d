package answer

import (
	"fmt"
	"strings"

	"stampede/harness/rundir"
	"stampede/harness/scenario"
	"stampede/reports/words"
)

// LimitsText says under which limits of a scenario the times are, "" under none.
func LimitsText(sc scenario.Scenario) string {
	var parts []string
	if n := sc.Load.MaxInFlight; n > 0 {
		parts = append(parts, words.Plural(n, "operation")+" at once")
	}
	if n := sc.Stores.MaxConns; n > 0 {
		parts = append(parts, words.Plural(n, "connection")+" to each store")
	}
	if len(parts) == 0 {
		return ""
	}
	return fmt.Sprintf("At most %s; more have to wait, which response times include.",
		strings.Join(parts, ", "))
}

// Reconciled says how the counts of one load belong together, by the numbers of one design:
// arrivals, operations of each kind, and those of the warm-up, which tables leave out. It is
// "" where not all of them are known.
func Reconciled(standings []Standing, arrivals int) string {
	for _, st := range standings {
		for _, r := range st.Repeats {
			if !r.Used || r.Error != "" {
				continue
			}
			if text := reconciledIn(r, arrivals); text != "" {
				where := st.Name
				if len(st.Repeats) > 1 {
					where += fmt.Sprintf(", repeat %d", r.Index+1)
				}
				return "One load has several counts. Of " + where + ": " + text
			}
		}
	}
	return ""
}

func reconciledIn(r rundir.Repeat, arrivals int) string {
	var kinds []string
	all, warmUp := int64(0), int64(0)
	for _, op := range r.Operations {
		sum := int64(0)
		for _, phase := range properPhases(op.Phases) {
			if sum += phase.Load.Scheduled; phase.Name == "warm-up" {
				warmUp += phase.Load.Scheduled
			}
		}
		all += sum
		kinds = append(kinds, words.Grouped(sum)+" "+op.Kind)
	}
	if all-warmUp != r.Load.Scheduled || all == 0 {
		return "" // the phases are not all, or not known
	}
	text := fmt.Sprintf("%s were offered (%s)", words.Plural(all, "operation"), words.List(kinds, 8))
	if n := int64(arrivals); n > 0 && all > n {
		text = fmt.Sprintf("%s brought %s (%s), because clients retry, and one operation "+
			"leads to others", words.Plural(n, "arrival"), words.Plural(all, "operation"), words.List(kinds,
			8))
	}
	if warmUp > 0 {
		text += fmt.Sprintf("; %s of them were due in the warm-up, which the tables of times and "+
			"counts leave out, so that these have %s", words.Grouped(warmUp),
			words.Grouped(r.Load.Scheduled))
	}
	return text + "."
}
