package measure

import (
	"fmt"
	"math"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"stampede/harness/rundir"
)

// The range and precision of histograms, in nanoseconds and decimal digits.
const (
	lowest      = 1000
	highest     = int64(24 * time.Hour)
	digits      = 3
	roughDigits = 2 // of a timeline's buckets
)

// Histogram is an HdrHistogram of nanoseconds from 1 µs to 24 h that also
// counts what never ended, keeps the exact maximum, and loses nothing: a value
// outside the range goes into the nearest bucket.
type Histogram struct {
	hdr      *hdrhistogram.Histogram // nil until the first finite value
	digits   int
	infinite int64
	max      int64
}

// NewHistogram returns an empty histogram with three digits.
func NewHistogram() *Histogram { return &Histogram{digits: digits} }

func newRoughHistogram() *Histogram { return &Histogram{digits: roughDigits} }

// Record adds a duration.
func (h *Histogram) Record(d time.Duration) {
	h.max = max(h.max, int64(d))
	// In range by now, so there can be no error.
	_ = h.counts().RecordValue(min(max(int64(d), 0), highest))
}

// RecordInfinite adds an operation that was dropped or never ended.
func (h *Histogram) RecordInfinite() { h.infinite++ }

// counts is the underlying histogram, made when first needed.
func (h *Histogram) counts() *hdrhistogram.Histogram {
	if h.hdr == nil {
		h.hdr = hdrhistogram.New(lowest, highest, h.digits)
	}
	return h.hdr
}

// Merge adds all of from, which must have the same precision.
func (h *Histogram) Merge(from *Histogram) {
	h.infinite += from.infinite
	h.max = max(h.max, from.max)
	if from.hdr != nil {
		h.counts().Merge(from.hdr) // of equal range, so nothing is dropped
	}
}

// Count is the number of operations, infinite ones included.
func (h *Histogram) Count() int64 { return h.finite() + h.infinite }

// Infinite is the number of operations that were dropped or never ended.
func (h *Histogram) Infinite() int64 { return h.infinite }

func (h *Histogram) finite() int64 {
	if h.hdr == nil {
		return 0
	}
	return h.hdr.TotalCount()
}

// Quantile is the smallest recorded value (to three digits) that at least the
// share q of all operations does not exceed, in nanoseconds; rundir.Infinite
// if that falls among infinite ones, and 0 if there are no operations.
func (h *Histogram) Quantile(q float64) int64 {
	total, finite := h.Count(), h.finite()
	if total == 0 {
		return 0
	}
	// A hair is taken off, so that 0.99 of 100 is the 99th and not, by
	// rounding, the 100th.
	rank := max(1, int64(math.Ceil(q*float64(total)-1e-6)))
	switch {
	case rank > finite:
		return rundir.Infinite
	case rank == finite:
		return h.max
	}
	// ValueAtPercentile rounds to the nearest rank, which leads back to ours.
	return min(h.hdr.ValueAtPercentile(100*float64(rank)/float64(finite)), h.max)
}

// Percentiles are the usual ones. Max is exact.
func (h *Histogram) Percentiles() rundir.Percentiles {
	return rundir.Percentiles{
		Count: h.Count(), P50: h.Quantile(0.5), P90: h.Quantile(0.9),
		P99: h.Quantile(0.99), P999: h.Quantile(0.999), Max: h.Quantile(1),
	}
}

// Encode returns the finite values as HdrHistogram V2, compressed, in base64.
func (h *Histogram) Encode() (string, error) {
	text, err := h.counts().Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		return "", fmt.Errorf("encoding a histogram: %w", err)
	}
	return string(text), nil
}
