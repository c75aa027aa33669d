package measure_test

import (
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"pgregory.net/rapid"

	"stampede/harness/measure"
	"stampede/harness/rundir"
)

func TestNothingIsLostOutsideTheRange(t *testing.T) {
	h := measure.NewHistogram()
	h.Record(-time.Second)
	h.Record(time.Nanosecond) // below 1 µs, but inside: it rounds
	h.Record(48 * time.Hour)
	if h.Count() != 3 {
		t.Errorf("%d values", h.Count())
	}
	if got := h.Percentiles().Max; got != int64(48*time.Hour) {
		t.Errorf("max %d is not exact", got)
	}
}

func TestQuantilesAmongInfiniteOnes(t *testing.T) {
	h := measure.NewHistogram()
	for range 99 {
		h.Record(time.Millisecond)
	}
	h.RecordInfinite()
	if got := h.Quantile(0.99); got != int64(time.Millisecond) {
		t.Errorf("the 99th of 100 is %d", got)
	}
	for _, q := range []float64{0.991, 0.999, 1} {
		if got := h.Quantile(q); got != rundir.Infinite {
			t.Errorf("quantile %g is %d", q, got)
		}
	}
	if h.Infinite() != 1 || h.Count() != 100 {
		t.Errorf("%d of %d are infinite", h.Infinite(), h.Count())
	}
}

func TestEmptyHistogram(t *testing.T) {
	h := measure.NewHistogram()
	if h.Percentiles() != (rundir.Percentiles{}) {
		t.Errorf("%+v", h.Percentiles())
	}
	if _, err := h.Encode(); err != nil {
		t.Error(err)
	}
}

func TestEncodeIsReadByHdrHistogram(t *testing.T) {
	h := measure.NewHistogram()
	for i := range 1000 {
		h.Record(time.Duration(i) * time.Millisecond)
	}
	text, err := h.Encode()
	if err != nil {
		t.Fatal(err)
	}
	decoded, err := hdrhistogram.Decode([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if decoded.TotalCount() != 1000 || !near(decoded.ValueAtPercentile(90), h.Quantile(0.9)) {
		t.Errorf("%d values, p90 %d", decoded.TotalCount(), decoded.ValueAtPercentile(90))
	}
}

func TestMergeIsTheSameAsRecordingTogether(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, both := measure.NewHistogram(), measure.NewHistogram(), measure.NewHistogram()
		for i, v := range rapid.SliceOf(rapid.Int64Range(-1e6, 1e14)).Draw(t, "values") {
			part := []*measure.Histogram{a, b}[i%2]
			if v%7 == 0 {
				part.RecordInfinite()
				both.RecordInfinite()
				continue
			}
			part.Record(time.Duration(v))
			both.Record(time.Duration(v))
		}
		a.Merge(b)
		if a.Percentiles() != both.Percentiles() || a.Infinite() != both.Infinite() {
			t.Fatalf("merged %+v, together %+v", a.Percentiles(), both.Percentiles())
		}
	})
}

// Every rank of histograms of all small sizes is found exactly.
func TestQuantileFindsEachRank(t *testing.T) {
	for n := 1; n <= 300; n++ {
		h := measure.NewHistogram()
		for i := range n {
			h.Record(time.Duration(i+1) * time.Second)
		}
		for rank := 1; rank <= n; rank++ {
			want := int64(time.Duration(rank) * time.Second)
			if got := h.Quantile(float64(rank) / float64(n)); !near(got, want) {
				t.Fatalf("rank %d of %d is %d, want %d", rank, n, got, want)
			}
		}
	}
}
