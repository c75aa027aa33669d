package reports

import (
	"strings"

	"stampede/harness/history"
	"stampede/harness/rundir"
)

// errorRow is one class of errors of one variant.
type errorRow struct {
	Letter, Variant, Op, Outcome, Class, Count, Share, Sample, First string
}

// errorTable has the errors of one kind of outcome. Samples says that some say more than
// their class.
type errorTable struct {
	Title, Note string
	Rows        []errorRow
	Samples     bool
}

// errorTables has unknown outcomes, which may have had an effect, apart from refusals, which
// had none.
func errorTables(standings []standing) (tables []errorTable) {
	refusals := errorTable{Title: "Refusals", Note: "A refusal certainly had no effect."}
	unknown := errorTable{Title: "Unknown outcomes",
		Note: "An operation of unknown outcome may have had its effect."}
	for _, row := range errorRows(standings) {
		t := &unknown
		if row.Outcome == history.Refused.String() {
			t = &refusals
		}
		t.Rows = append(t.Rows, row)
		t.Samples = t.Samples || row.Sample != ""
	}
	for _, t := range []errorTable{unknown, refusals} {
		if len(t.Rows) > 0 {
			tables = append(tables, t)
		}
	}
	return tables
}

func errorRows(standings []standing) (rows []errorRow) {
	for _, st := range standings {
		for _, op := range st.Operations {
			for _, e := range op.Errors {
				rows = append(rows, errorRow{Letter: st.Letter, Variant: st.Name, Op: op.Kind,
					Outcome: e.Outcome, Class: strings.TrimSuffix(e.Class, ": "+e.Outcome),
					Count: grouped(e.Count), Share: share(e.Count, op.Load.Started), Sample: sampleOfClass(e),
					First: firstError(st.Repeats, op.Kind, e)})
			}
		}
	}
	return rows
}

// sampleOfClass is an error in full, "" if that says no more than its class: the code
// sold_out of "sold out: refused".
func sampleOfClass(e rundir.ErrorClass) string {
	end := ": " + e.Outcome
	sample, class := strings.TrimSuffix(e.Sample, end), strings.TrimSuffix(e.Class, end)
	if sample == class || sample == strings.ReplaceAll(class, "_", " ") {
		return ""
	}
	return short(e.Sample, 240)
}

// firstError says when, and in which phase and fault, a class of errors first came up.
func firstError(repeats []rundir.Repeat, kind string, class rundir.ErrorClass) string {
	for _, r := range repeats {
		op := operation(r.Operations, kind)
		if op == nil {
			continue
		}
		for _, e := range op.Errors {
			if e.Class == class.Class && e.Outcome == class.Outcome && e.FirstNS > 0 {
				return joinNonEmpty(", ", seconds(float64(e.FirstNS)/1e9), phaseAt(op.Phases, e.FirstNS),
					faultAt(r, e.FirstNS))
			}
		}
	}
	return none
}
