package api

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// resultOK labels an operation that took effect; others have their problem's
// code.
const resultOK = "ok"

// metrics counts what a server did, in memory, for GET /metrics. Everything
// is allocated at the start, so that counting takes no lock.
type metrics struct {
	system   string
	names    []string // of the kinds
	results  []string
	more     func(io.Writer)         // appends lines of the instance's own, if set
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

func newMetrics(system string, kinds []string, problems Problems) *metrics {
	m := &metrics{system: system, names: kinds, results: []string{resultOK},
		kinds: make(map[string]*kindMetrics)}
	for _, p := range problems {
		m.results = append(m.results, p.code())
	}
	for _, kind := range m.names {
		k := &kindMetrics{
			results: make(map[string]*atomic.Int64),
			buckets: make([]atomic.Int64, len(bucketBounds())+1),
		}
		for _, result := range m.results {
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
	fmt.Fprintf(&out, "# TYPE %[1]s_operations counter\n"+
		"# HELP %[1]s_operations Operations by kind and result.\n", m.system)
	for _, kind := range m.names {
		for _, result := range m.results {
			if n := m.kinds[kind].results[result].Load(); n > 0 {
				fmt.Fprintf(&out, "%s_operations_total{kind=%q,result=%q} %d\n", m.system, kind,
					result, n)
			}
		}
	}
	latency := m.system + "_operation_seconds"
	fmt.Fprintf(&out, "# TYPE %[1]s histogram\n# UNIT %[1]s seconds\n"+
		"# HELP %[1]s Time from request to reply.\n", latency)
	for _, kind := range m.names {
		m.kinds[kind].writeLatency(&out, latency, kind)
	}
	if m.more != nil {
		m.more(&out)
	}
	fmt.Fprintf(&out, "# TYPE %[1]s_in_flight gauge\n# HELP %[1]s_in_flight Operations under way.\n"+
		"%[1]s_in_flight %[2]d\n# EOF\n", m.system, m.inFlight.Load())
	w.Header().Set("Content-Type",
		"application/openmetrics-text; version=1.0.0; charset=utf-8")
	_, _ = w.Write(out.Bytes())
}

// writeLatency sums the buckets itself, so that count and buckets agree also
// while operations go on.
func (k *kindMetrics) writeLatency(out io.Writer, name, kind string) {
	sum := int64(0)
	for i, bound := range bucketBounds() {
		sum += k.buckets[i].Load()
		le := strconv.FormatFloat(bound.Seconds(), 'f', -1, 64)
		if !strings.Contains(le, ".") {
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
