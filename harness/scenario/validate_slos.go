package scenario

import (
	"errors"
	"strconv"

	"stampede/harness/check"
)

// objectives checks the SLOs.
func (v *validation) objectives() {
	var names []string
	for i, slo := range v.sc.SLOs {
		name := []string{"slos", strconv.Itoa(i), "name"}
		if slo.Name != "" {
			v.once("objective name", slo.Name, names, name...)
		}
		names = append(names, slo.Name)
		n, found := v.at("slos", strconv.Itoa(i), "objective")
		if found && slo.Objective != "" && !v.seen[n.where] {
			v.objective(slo.Objective, n)
		}
	}
}

// objective checks one expression and the names in it.
func (v *validation) objective(text string, n *node) {
	parsed, err := check.ParseObjective(text)
	if err == nil {
		kinds := []string{parsed.Kind}
		if v.kinds != nil {
			kinds = v.kinds
		}
		faults := make([]string, len(v.sc.Faults))
		for i, f := range v.sc.Faults {
			faults[i] = f.Name
		}
		err = parsed.Resolve(text, kinds, faults)
	}
	var wrong *check.ParseError
	switch {
	case errors.As(err, &wrong):
		v.add(Problem{
			Where: n.inside(wrong.Column), What: "unexpected " + wrong.Found + " in the objective",
			Expected: wrong.Expected, Suggestion: wrong.Nearest,
		})
	case err != nil:
		v.add(Problem{Where: n.where, What: err.Error()})
	}
}

// inside is the place of a character of a scalar's text, counted from 1. It
// is exact for text on one line without escapes.
func (n *node) inside(column int) Where {
	where := n.where
	if where.Flag == "" {
		where.Column += column - 1
		if n.quoted {
			where.Column++
		}
	}
	return where
}
