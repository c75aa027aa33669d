package export

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"stampede/harness/check"
	"stampede/harness/rundir"
	"stampede/reports/answer"
	"stampede/reports/words"
)

// MostAnnotations is how many annotations of one kind GitHub shows for a step.
const MostAnnotations = 10

// annotation is what a CI system shows beside a job: one line for what a reader
// must know before opening anything.
type annotation struct{ level, title, text string }

// Annotations writes what went wrong as workflow commands of GitHub Actions, at
// most so many: an error for each invariant that a variant broke or was not caught
// breaking and for each repeat that failed, and a warning for each invariant that was not
// decided, for each objective that was missed and for a measurement that does not count.
// Where there are more, the last one says how many. It returns how many lines it wrote.
func Annotations(w io.Writer, d answer.Data, most int) (int, error) {
	all := annotations(d.Summary)
	if most <= 0 || len(all) == 0 {
		return 0, nil
	}
	if len(all) > most {
		rest := annotation{"error", d.Summary.Run.Scenario,
			fmt.Sprintf("%d more problems; the job's summary has all", len(all)-most+1)}
		all = append(all[:most-1:most-1], rest)
	}
	var out strings.Builder
	for _, a := range all {
		fmt.Fprintf(&out, "::%s title=%s::%s\n", a.level,
			commandProperty.Replace(words.Short(a.title, 200)), commandData.Replace(words.Short(a.text,
				1000)))
	}
	if _, err := io.WriteString(w, out.String()); err != nil {
		return 0, fmt.Errorf("write annotations: %w", err)
	}
	return len(all), nil
}

// What GitHub's runner takes back from the data and the properties of a command.
var (
	commandData     = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	commandProperty = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A",
		",", "%2C")
)

// annotations lists what went wrong: what is wrong with the designs first.
func annotations(s rundir.Summary) (all []annotation) {
	standings := answer.Ranked(s)
	add := func(level string, st answer.Standing, what, text string) {
		all = append(all, annotation{level, s.Run.Scenario + ": " + st.Name + " " + what, text})
	}
	for _, st := range standings {
		for _, name := range st.Broken {
			_, v, _ := st.Evidence(name)
			text := words.Plural(st.Violations([]string{name}), "violation")
			if len(v.Violations) > 0 {
				text += ", first: " + v.Violations[0].Text
			}
			add("error", st, "broke "+name, text)
		}
		for _, name := range st.Missed {
			add("error", st, "was not caught", "it is known to break "+name+
				", and the run did not show it")
		}
	}
	for _, st := range standings {
		for _, r := range st.Repeats {
			if r.Error != "" {
				add("error", st, fmt.Sprintf("failed in repeat %d", r.Index+1), r.Error)
			}
		}
		for _, inv := range st.Invariants {
			if inv.Status == check.Undecided && !slices.Contains(st.Missed, inv.Invariant) {
				add("warning", st, "leaves "+inv.Invariant+" undecided", inv.Reason)
			}
		}
		for _, slo := range st.SLOs {
			if slo.Status == check.Broken && len(st.ExpectedBroken) == 0 {
				add("warning", st, "missed "+slo.Name, fmt.Sprintf("%s: actual %s", slo.Objective, slo.Actual))
			}
		}
	}
	if s.Verdict.Correctness == rundir.Inconclusive || s.Verdict.Correctness == rundir.Invalid {
		all = append(all, annotation{"warning", s.Run.Scenario + ": there is no answer about " +
			"correctness", strings.Join(answer.CorrectLines(s, standings), "; ")})
	}
	return all
}
