package export

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"stampede/harness/check"
	"stampede/harness/plain"
	"stampede/harness/rundir"
	"stampede/reports/answer"
)

// Metrics writes the run's numbers in the OpenMetrics text format 1.0, for CI
// systems that track them and for Prometheus. Times are in seconds.
func Metrics(w io.Writer, d answer.Data) error {
	s := d.Summary
	standings := answer.Ranked(s)
	var out bytes.Buffer
	m := metricsWriter{out: &out, scenario: s.Run.Scenario}
	m.verdict(s)
	m.invariants(standings)
	m.objectives(standings)
	m.operations(standings)
	m.responses(standings)
	m.throughput(standings)
	out.WriteString("# EOF\n")
	if _, err := w.Write(out.Bytes()); err != nil {
		return fmt.Errorf("write metrics: %w", err)
	}
	return nil
}

type metricsWriter struct {
	out      *bytes.Buffer
	scenario string
}

func (m metricsWriter) family(name, kind, unit, help string) {
	fmt.Fprintf(m.out, "# TYPE %s %s\n", name, kind)
	if unit != "" {
		fmt.Fprintf(m.out, "# UNIT %s %s\n", name, unit)
	}
	fmt.Fprintf(m.out, "# HELP %s %s\n", name, help)
}

// sample writes one line; labels are name, value, name, value, …
func (m metricsWriter) sample(name, value string, labels ...string) {
	fmt.Fprintf(m.out, `%s{scenario="%s"`, name, escapeLabel(m.scenario))
	for i := 0; i < len(labels); i += 2 {
		fmt.Fprintf(m.out, `,%s="%s"`, labels[i], escapeLabel(labels[i+1]))
	}
	fmt.Fprintf(m.out, "} %s\n", value)
}

// escapeLabel escapes a label's value as the format asks.
func escapeLabel(text string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(plain.Text(text))
}

func (m metricsWriter) verdict(s rundir.Summary) {
	m.family("stampede_verdict", "stateset", "", "The run's verdict.")
	word := answer.VerdictWord(s)
	for _, state := range []string{rundir.Pass, rundir.Fail, rundir.Inconclusive, rundir.Invalid,
		answer.Interrupted} {
		m.sample("stampede_verdict", bit(state == word), "stampede_verdict", state)
	}
}

func bit(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

func (m metricsWriter) invariants(standings []answer.Standing) {
	m.family("stampede_invariant_held", "gauge", "",
		"1 if the invariant held, 0 if it was broken or could not be decided.")
	for _, st := range standings {
		for _, inv := range st.Invariants {
			if _, skip := st.NotApplicable[inv.Invariant]; !skip {
				m.sample("stampede_invariant_held", bit(inv.Status == check.Held), "variant", st.Name,
					"invariant", inv.Invariant)
			}
		}
	}
	m.family("stampede_violations", "gauge", "", "Violations found.")
	for _, st := range standings {
		for _, inv := range st.Invariants {
			n := st.Violations([]string{inv.Invariant})
			m.sample("stampede_violations", fmt.Sprint(n), "variant", st.Name, "invariant",
				inv.Invariant)
		}
	}
}

func (m metricsWriter) objectives(standings []answer.Standing) {
	m.family("stampede_objective_margin_ratio", "gauge", "ratio",
		"How far inside (positive) its limit an objective is, as a share of the limit.")
	for _, st := range standings {
		for _, slo := range st.SLOs {
			if slo.Status != check.Undecided {
				m.sample("stampede_objective_margin_ratio", fmt.Sprintf("%g", slo.Margin),
					"variant", st.Name, "objective", slo.Name)
			}
		}
	}
}

func (m metricsWriter) operations(standings []answer.Standing) {
	m.family("stampede_operations", "counter", "", "Operations by outcome.")
	for _, st := range standings {
		for _, op := range st.Operations {
			for _, n := range []struct {
				outcome string
				count   int64
			}{{"ok", op.Load.OK}, {"refused", op.Load.Refused}, {"unknown", op.Load.Unknown},
				{"dropped", op.Load.Dropped}} {
				m.sample("stampede_operations_total", fmt.Sprint(n.count), "variant", st.Name,
					"operation", op.Kind, "outcome", n.outcome)
			}
		}
	}
}

func (m metricsWriter) responses(standings []answer.Standing) {
	m.family("stampede_response_seconds", "summary", "seconds",
		"Response time from when an operation was due; +Inf among the dropped.")
	for _, st := range standings {
		for _, op := range st.Operations {
			p := op.Latency.Response
			if p.Count == 0 {
				continue
			}
			for _, q := range []struct {
				name string
				ns   int64
			}{{"0.5", p.P50}, {"0.9", p.P90}, {"0.99", p.P99}, {"0.999", p.P999}, {"1.0", p.Max}} {
				m.sample("stampede_response_seconds", metricSeconds(q.ns), "variant", st.Name,
					"operation", op.Kind, "quantile", q.name)
			}
			m.sample("stampede_response_seconds_count", fmt.Sprint(p.Count), "variant", st.Name,
				"operation", op.Kind)
		}
	}
}

func metricSeconds(ns int64) string {
	if ns == rundir.Infinite {
		return "+Inf"
	}
	return fmt.Sprintf("%.9f", float64(ns)/1e9)
}

func (m metricsWriter) throughput(standings []answer.Standing) {
	m.family("stampede_throughput_per_second", "gauge", "", "OK operations per second.")
	for _, st := range standings {
		m.sample("stampede_throughput_per_second", fmt.Sprintf("%g", st.ThroughputPerS),
			"variant", st.Name)
	}
}
