package answer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"stampede/harness/history"
	"stampede/harness/measure"
	"stampede/harness/rundir"
	"stampede/reports/words"
)

// errorRow is what errors of one variant have in common, whatever operation they were of.
type errorRow struct {
	Letter, Variant string
	// Class is their code or their text, Sample the first of them where that says more.
	Class, Sample string
	// Operations are the kinds, each with its number where there are several.
	Operations, Count, Share, First string
}

// ErrorTable has the errors of one kind of outcome.
type ErrorTable struct {
	Title, Note, Summary string
	Rows                 []errorRow
}

// ErrorTables has unknown outcomes, which may have had an effect, apart from refusals, which
// had none.
func ErrorTables(standings []Standing) (tables []ErrorTable) {
	for _, t := range []struct{ outcome, title, note string }{
		{history.Unknown.String(), "Unknown outcomes",
			"An operation of unknown outcome may have had its effect."},
		{history.Refused.String(), "Refusals", "A refusal certainly had no effect."},
	} {
		table, designs, operations := ErrorTable{Title: t.title, Note: t.note}, 0, int64(0)
		for _, st := range standings {
			groups := errorGroups(st, t.outcome)
			for _, g := range groups {
				table.Rows = append(table.Rows, g.row(st))
				operations += g.count
			}
			if len(groups) > 0 {
				designs++
			}
		}
		if len(table.Rows) == 0 {
			continue
		}
		table.Summary = fmt.Sprintf("%s: %s of %s", t.title, words.Plural(operations, "operation"),
			words.Plural(designs, "design"))
		tables = append(tables, table)
	}
	return tables
}

// errorGroup are the errors of a design that have their cause in common, the most frequent
// kind of operation first.
type errorGroup struct {
	class, sample string
	kinds         []string
	counts        []int64
	count, sent   int64
	firstNS       int64
	first         string
}

// errorGroups puts together what reads alike once it is left out what was being done, which
// the kind of the operation says, the most frequent first.
func errorGroups(st Standing, outcome string) (groups []errorGroup) {
	for _, op := range st.Operations {
		for _, e := range op.Errors {
			if e.Outcome != outcome {
				continue
			}
			class := causeOf(e)
			at := slices.IndexFunc(groups, func(g errorGroup) bool { return g.class == class })
			if at < 0 {
				at = len(groups)
				groups = append(groups, errorGroup{class: class, sample: sampleOfClass(e), first: words.None})
			}
			groups[at].add(op, e, st.Repeats)
		}
	}
	slices.SortStableFunc(groups, func(a, b errorGroup) int { return cmp.Compare(b.count, a.count) })
	return groups
}

func (g *errorGroup) add(op rundir.Operation, e rundir.ErrorClass, repeats []rundir.Repeat) {
	g.count += e.Count
	if last := len(g.kinds) - 1; last >= 0 && g.kinds[last] == op.Kind {
		g.counts[last] += e.Count
	} else {
		g.kinds, g.counts = append(g.kinds, op.Kind), append(g.counts, e.Count)
		g.sent += op.Load.Started
	}
	if at, text := firstError(repeats, op.Kind, e); at > 0 && (g.firstNS == 0 || at < g.firstNS) {
		g.firstNS, g.first = at, text
	}
}

func (g errorGroup) row(st Standing) errorRow {
	operations := g.kinds[0]
	if len(g.kinds) > 1 {
		var parts []string
		for i, kind := range g.kinds {
			parts = append(parts, kind+" "+words.Grouped(g.counts[i]))
		}
		operations = strings.Join(parts, ", ")
	}
	return errorRow{Letter: st.Letter, Variant: st.Name, Class: g.class, Sample: g.sample,
		Operations: operations, Count: words.Grouped(g.count), Share: words.Share(g.count, g.sent),
		First: g.first}
}

// causeOf is the class of an error without its outcome, and without what was being done:
// "publishing: refused: no connection to Postgres" is "no connection to Postgres".
func causeOf(e rundir.ErrorClass) string {
	class := strings.TrimSuffix(e.Class, ": "+e.Outcome)
	if _, cause, found := strings.Cut(class, ": "+e.Outcome+": "); found {
		return cause
	}
	return class
}

// sampleOfClass is an error in full, "" if that says no more than its class: the code
// sold_out of "sold out: refused", or a text that differs by a port.
func sampleOfClass(e rundir.ErrorClass) string {
	end := ": " + e.Outcome
	sample, class := strings.TrimSuffix(e.Sample, end), strings.TrimSuffix(e.Class, end)
	if sample == class || sample == strings.ReplaceAll(class, "_", " ") ||
		measure.ErrorClass(sample) == class {
		return ""
	}
	return words.Short(e.Sample, 240)
}

// firstError says when, and in which phase and fault, a class of errors first came up; 0 if
// that was not kept.
func firstError(repeats []rundir.Repeat, kind string, class rundir.ErrorClass) (int64, string) {
	for _, r := range repeats {
		op := Operation(r.Operations, kind)
		if op == nil {
			continue
		}
		for _, e := range op.Errors {
			if e.Class == class.Class && e.Outcome == class.Outcome && e.FirstNS > 0 {
				return e.FirstNS, words.JoinNonEmpty(", ", words.Seconds(float64(e.FirstNS)/1e9),
					phaseAt(op.Phases, e.FirstNS), faultAt(r, e.FirstNS))
			}
		}
	}
	return 0, words.None
}
