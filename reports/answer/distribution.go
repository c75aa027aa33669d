package answer

import (
	"fmt"
	"math"

	"github.com/HdrHistogram/hdrhistogram-go"

	"stampede/harness/rundir"
)

// Distribution is a response histogram together with the operations that
// have no finite response time.
type Distribution struct {
	Finite *hdrhistogram.Histogram
	// total counts the dropped and unfinished operations too.
	Total int64
}

// DecodeResponse reads an operation's response histogram.
func DecodeResponse(op rundir.Operation) (Distribution, error) {
	return decodeHistogram(op.HDR, op.Latency.Response.Count)
}

func decodeHistogram(encoded string, total int64) (Distribution, error) {
	if encoded == "" {
		return Distribution{}, nil
	}
	h, err := hdrhistogram.Decode([]byte(encoded))
	if err != nil {
		return Distribution{}, fmt.Errorf("decode histogram: %w", err)
	}
	return Distribution{Finite: h, Total: max(total, h.TotalCount())}, nil
}

// Empty reports whether there is no operation at all.
func (d Distribution) Empty() bool { return d.Finite == nil || d.Total == 0 }

// Unanswered counts the operations that were dropped or never ended.
func (d Distribution) Unanswered() int64 { return d.Total - d.Finite.TotalCount() }

// Nines is how far a curve may be drawn, in nines (2 is 99 %): up to the
// quantile 1 - 1/total, beyond which there is nothing but the maximum.
func (d Distribution) Nines() float64 {
	if d.Empty() {
		return 0
	}
	return math.Log10(float64(d.Total))
}

// At returns the response time in seconds that the share 1 - 10^-nines of
// all operations did not exceed; +Inf where it falls among those that were
// dropped or never ended.
func (d Distribution) At(nines float64) float64 {
	return d.rank(int64(math.Ceil((1-math.Pow(10, -nines))*float64(d.Total) - 1e-9)))
}

// rank returns the response time in seconds of the n-th fastest operation,
// from 1.
func (d Distribution) rank(n int64) float64 {
	n = max(n, 1)
	finite := d.Finite.TotalCount()
	if n > finite {
		return math.Inf(1)
	}
	return float64(d.Finite.ValueAtQuantile(float64(n)/float64(finite)*100)) / 1e9
}
