package reports

import (
	"fmt"
	"math"
	"strings"

	"github.com/HdrHistogram/hdrhistogram-go"

	"stampede/harness/rundir"
)

// distribution is a response histogram together with the operations that
// have no finite response time.
type distribution struct {
	finite *hdrhistogram.Histogram
	// total counts the dropped and unfinished operations too.
	total int64
}

// decodeResponse reads an operation's response histogram.
func decodeResponse(op rundir.Operation) (distribution, error) {
	return decodeHistogram(op.HDR, op.Latency.Response.Count)
}

func decodeHistogram(encoded string, total int64) (distribution, error) {
	if encoded == "" {
		return distribution{}, nil
	}
	h, err := hdrhistogram.Decode([]byte(encoded))
	if err != nil {
		return distribution{}, fmt.Errorf("decode histogram: %w", err)
	}
	return distribution{finite: h, total: max(total, h.TotalCount())}, nil
}

// empty reports whether there is no operation at all.
func (d distribution) empty() bool { return d.finite == nil || d.total == 0 }

// unanswered counts the operations that were dropped or never ended.
func (d distribution) unanswered() int64 { return d.total - d.finite.TotalCount() }

// nines is how far a curve may be drawn, in nines (2 is 99 %): up to the
// quantile 1 - 1/total, beyond which there is nothing but the maximum.
func (d distribution) nines() float64 {
	if d.empty() {
		return 0
	}
	return math.Log10(float64(d.total))
}

// at returns the response time in seconds that the share 1 - 10^-nines of
// all operations did not exceed; +Inf where it falls among those that were
// dropped or never ended.
func (d distribution) at(nines float64) float64 {
	return d.rank(int64(math.Ceil((1-math.Pow(10, -nines))*float64(d.total) - 1e-9)))
}

// rank returns the response time in seconds of the n-th fastest operation,
// from 1.
func (d distribution) rank(n int64) float64 {
	n = max(n, 1)
	finite := d.finite.TotalCount()
	if n > finite {
		return math.Inf(1)
	}
	return float64(d.finite.ValueAtQuantile(float64(n)/float64(finite)*100)) / 1e9
}

// quantileName writes 1 - 10^-nines as a percentage, with as many digits as
// it takes to tell it from its neighbours in a table.
func quantileName(nines float64) string {
	digits := max(1, int(math.Ceil(nines-1e-9))-1)
	text := fmt.Sprintf("%.*f", digits, (1-math.Pow(10, -nines))*100)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".") + " %"
}
