package export

import (
	_ "embed" // metrics.gotmpl
	"fmt"
	"io"
	"strings"
	"text/template"

	"stampede/harness/plain"
	"stampede/harness/rundir"
	"stampede/reports/answer"
	"stampede/reports/words"
)

//go:embed metrics.gotmpl
var metricsText string

// Metrics writes the run's numbers in the OpenMetrics text format 1.0, for CI
// systems that track them and for Prometheus. Times are in seconds.
func Metrics(w io.Writer, d answer.Data) error {
	t, err := words.Template(metricsText, template.FuncMap{"label": escapeLabel, "bit": bit,
		"seconds": metricSeconds,
		"skips": func(st answer.Standing, invariant string) bool {
			_, skip := st.NotApplicable[invariant]
			return skip
		},
		"violations": func(st answer.Standing, name string) int { return st.Violations([]string{name}) }})
	if err != nil {
		return err
	}
	s := d.Summary
	if err := t.Execute(w, map[string]any{"Scenario": answer.Marked(s), "Word": answer.VerdictWord(s),
		"Standings": answer.Ranked(s), "States": []string{rundir.Pass, rundir.Fail, rundir.Inconclusive,
			rundir.Invalid, answer.Interrupted}}); err != nil {
		return fmt.Errorf("write metrics: %w", err)
	}
	return nil
}

// escapeLabel escapes a label's value as the format asks.
func escapeLabel(text string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(plain.Text(text))
}

func bit(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

func metricSeconds(ns int64) string {
	if ns == rundir.Infinite {
		return "+Inf"
	}
	return fmt.Sprintf("%.9f", float64(ns)/1e9)
}
