package scenario

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"stampede/harness/check"
)

// objectives checks the SLOs.
func (v *validation) objectives() {
	for i, slo := range v.sc.SLOs {
		item := []string{"slos", strconv.Itoa(i)}
		if n, _ := v.at(item...); n.kind != mapping {
			continue
		}
		in := func(name string) []string { return append(slices.Clone(item), name) }
		v.missing("name is missing", "it for every objective", in("name")...)
		v.missing("objective is missing", "it for every objective", in("objective")...)
		if _, found := v.at(in("name")...); found && !nameForm.MatchString(slo.Name) {
			v.reject(fmt.Sprintf("objective name %q is not a name", slo.Name),
				"lower-case letters, digits and hyphens", in("name")...)
		}
		if slices.ContainsFunc(v.sc.SLOs[:i], func(o SLO) bool { return o.Name == slo.Name }) {
			v.reject(fmt.Sprintf("objective name %q appears twice", slo.Name),
				"a name of its own for each objective", in("name")...)
		}
		if n, found := v.at(in("objective")...); found && !v.seen[n.where] {
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
