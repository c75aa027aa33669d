package views

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
)

// resultOK labels an operation that took effect; others have their problem's
// code.
const resultOK = "ok"

// metrics counts what a server did, in memory, for GET /metrics. Everything
// is allocated at the start, so that counting takes no lock.
type metrics struct {
	kinds    map[string]*kindMetrics // never changed after newMetrics
	inFlight atomic.Int64
}

type kindMetrics struct {
	results map[string]*atomic.Int64 // never changed after newMetrics
	buckets []atomic.Int64           // one for each of bucketBounds, and one beyond
	nanos   atomic.Int64
}

// bucketBounds are the upper bounds of the latency histogram.
func bucketBounds() []time.Duration {
	return []time.Duration{
		500 * time.Microsecond, time.Millisecond, 2500 * time.Microsecond,
		5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond,
		50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond,
		500 * time.Millisecond, time.Second, 2500 * time.Millisecond, 5 * time.Second,
	}
}

func metricKinds() []string {
	return []string{KindHeartbeat, KindViews, KindRules, KindReprocess}
}

func metricResults() []string {
	results := []string{resultOK}
	for _, p := range problems() {
		results = append(results, p.code)
	}
	return results
}

func newMetrics() *metrics {
	m := &metrics{kinds: make(map[string]*kindMetrics)}
	for _, kind := range metricKinds() {
		k := &kindMetrics{
			results: make(map[string]*atomic.Int64),
			buckets: make([]atomic.Int64, len(bucketBounds())+1),
		}
		for _, result := range metricResults() {
			k.results[result] = new(atomic.Int64)
		}
		m.kinds[kind] = k
	}
	return m
}

func (m *metrics) begin() time.Time {
	m.inFlight.Add(1)
	return time.Now()
}

func (m *metrics) end(kind, result string, began time.Time) {
	took := time.Since(began)
	k := m.kinds[kind]
	k.results[result].Add(1)
	k.nanos.Add(int64(took))
	bucket := 0
	for _, bound := range bucketBounds() {
		if took <= bound {
			break
		}
		bucket++
	}
	k.buckets[bucket].Add(1)
	m.inFlight.Add(-1)
}

// ServeHTTP writes all metrics in the OpenMetrics text format, version 1.0.0.
// Results that never occurred are left out.
func (m *metrics) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	var out bytes.Buffer
	out.WriteString("# TYPE views_operations counter\n" +
		"# HELP views_operations Operations by kind and result.\n")
	for _, kind := range metricKinds() {
		for _, result := range metricResults() {
			if n := m.kinds[kind].results[result].Load(); n > 0 {
				fmt.Fprintf(&out, "views_operations_total{kind=%q,result=%q} %d\n", kind, result, n)
			}
		}
	}
	out.WriteString("# TYPE views_operation_seconds histogram\n" +
		"# UNIT views_operation_seconds seconds\n" +
		"# HELP views_operation_seconds Time from request to reply.\n")
	for _, kind := range metricKinds() {
		m.kinds[kind].writeLatency(&out, kind)
	}
	fmt.Fprintf(&out, "# TYPE views_in_flight gauge\n"+
		"# HELP views_in_flight Operations under way.\n"+
		"views_in_flight %d\n# EOF\n", m.inFlight.Load())
	w.Header().Set("Content-Type",
		"application/openmetrics-text; version=1.0.0; charset=utf-8")
	_, _ = w.Write(out.Bytes())
}

// writeLatency sums the buckets itself, so that count and buckets agree also
// while operations go on.
func (k *kindMetrics) writeLatency(out *bytes.Buffer, kind string) {
	const name = "views_operation_seconds"
	sum := int64(0)
	for i, bound := range bucketBounds() {
		sum += k.buckets[i].Load()
		le := strconv.FormatFloat(bound.Seconds(), 'f', -1, 64)
		if i := bytes.IndexByte([]byte(le), '.'); i < 0 {
			le += ".0" // OpenMetrics writes bounds as floats
		}
		fmt.Fprintf(out, "%s_bucket{kind=%q,le=%q} %d\n", name, kind, le, sum)
	}
	sum += k.buckets[len(bucketBounds())].Load()
	fmt.Fprintf(out, "%s_bucket{kind=%q,le=\"+Inf\"} %d\n", name, kind, sum)
	fmt.Fprintf(out, "%s_count{kind=%q} %d\n", name, kind, sum)
	fmt.Fprintf(out, "%s_sum{kind=%q} %g\n", name, kind,
		time.Duration(k.nanos.Load()).Seconds())
}
