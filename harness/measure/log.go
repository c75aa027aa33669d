package measure

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// logEvery is the least length of an interval in a log.
const logEvery = time.Second

// WriteLog writes the response times of an operation kind over time as an
// HdrHistogram log (.hlog, format 1.3): a histogram in nanoseconds with two
// digits for each second, or each bucket of the timeline where that is longer,
// by intended time, the warm-up included. Time stamps are seconds since the
// repeat began; began is when the run did. What was dropped or never ended has
// the highest value that the histograms can hold, 24 h, since a log knows no
// infinity. It is an error if there is no such kind.
func (r *Result) WriteLog(w io.Writer, kind string, began time.Time) error {
	k := slices.Index(r.kinds, kind)
	if k < 0 {
		return fmt.Errorf("log of %s: there is no such operation", kind)
	}
	var out bytes.Buffer
	log := hdrhistogram.NewHistogramLogWriter(&out)
	// To a buffer: these cannot fail.
	_ = log.OutputComment("[stampede: response times in ns; 24 h is dropped or never ended]")
	_ = log.OutputLogFormatVersion()
	_ = log.OutputStartTime(began.UnixMilli())
	_ = log.OutputLegend()
	buckets := r.over.kinds[k]
	each := max(1, int(logEvery/r.over.width))
	for i := 0; i < len(buckets); i += each {
		h := together(buckets[i:min(i+each, len(buckets))])
		if h.TotalCount() == 0 {
			continue
		}
		h.SetStartTimeMs((time.Duration(i) * r.over.width).Milliseconds())
		h.SetEndTimeMs((time.Duration(i+each) * r.over.width).Milliseconds())
		if err := log.OutputIntervalHistogram(h); err != nil {
			return fmt.Errorf("log of %s: %w", kind, err)
		}
	}
	if _, err := w.Write(out.Bytes()); err != nil {
		return fmt.Errorf("write log of %s: %w", kind, err)
	}
	return nil
}

// together is the response times of several buckets.
func together(buckets []bucket) *hdrhistogram.Histogram {
	h := hdrhistogram.New(lowest, highest, roughDigits)
	for _, b := range buckets {
		if b.times == nil {
			continue
		}
		if finite := b.times.response.hdr; finite != nil {
			h.Merge(finite) // of equal range, so nothing is dropped
		}
		// In range, so there can be no error.
		_ = h.RecordValues(highest, b.times.response.infinite)
	}
	return h
}
