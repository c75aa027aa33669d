package answer

import (
	"slices"

	"stampede/harness/rundir"
	"stampede/reports/words"
)

// spent is the processor time of some repeats.
type spent struct {
	operations int64
	// parts are in the order in which they came up.
	parts []rundir.ProcessorPart
}

// processor adds up the repeats of a variant that measured it.
func (st Standing) processor() (s spent) {
	for _, r := range st.Repeats {
		if r.Processor == nil {
			continue
		}
		s.operations += r.Processor.Operations
		for _, part := range r.Processor.Parts {
			i := slices.IndexFunc(s.parts, func(p rundir.ProcessorPart) bool { return p.Name == part.Name })
			if i < 0 {
				i, s.parts = len(s.parts), append(s.parts, rundir.ProcessorPart{Name: part.Name})
			}
			s.parts[i].NS += part.NS
		}
	}
	return s
}

// storesAndRoles says that a part is of the system under test for certain.
func storesAndRoles(part string) bool { return part != rundir.GeneratorPart }

// perOperation is what the chosen parts spent for each operation that was started.
func (s spent) perOperation(chosen func(part string) bool) string {
	sum, found := int64(0), false
	for _, part := range s.parts {
		if chosen(part.Name) {
			sum, found = sum+part.NS, true
		}
	}
	if !found || s.operations == 0 {
		return words.None
	}
	return words.Seconds(float64(sum) / float64(s.operations) / 1e9)
}

// ProcessorTableOf has what each part spent for an operation. It has no rows if nobody measured it.
func ProcessorTableOf(standings []Standing) Table {
	return tableOf(standings, func(st Standing) (names []string) {
		for _, part := range st.processor().parts {
			names = append(names, part.Name)
		}
		return names
	}, func(st Standing, name string) string {
		return st.processor().perOperation(func(part string) bool { return part == name })
	})
}
