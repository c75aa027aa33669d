package answer

import (
	"bytes"
	"fmt"
	"io"
	"math"

	"stampede/harness/rundir"
)

// HGRM writes an operation's response times as a percentile distribution in
// the text format of HdrHistogram's own tools (.hgrm), in milliseconds, with
// five points for each halving of the distance to 100 %. Operations that were
// dropped or never ended have the value Infinity; the mean and deviation are
// those of the finite ones. It returns an error if the operation has no
// readable histogram.
func HGRM(w io.Writer, op rundir.Operation) error {
	d, err := DecodeResponse(op)
	if err != nil {
		return fmt.Errorf("percentiles of %s: %w", op.Kind, err)
	}
	if d.Finite == nil {
		return fmt.Errorf("percentiles of %s: the run stored no histogram", op.Kind)
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "%12s %14s %10s %14s\n\n", "Value", "Percentile", "TotalCount",
		"1/(1-Percentile)")
	hgrmRows(&out, d)
	finite := d.Finite
	fmt.Fprintf(&out, "#[Mean    = %12.3f, StdDeviation   = %12.3f]\n",
		finite.Mean()/1e6, finite.StdDev()/1e6)
	fmt.Fprintf(&out, "#[Max     = %12s, Total count    = %12d]\n",
		milliseconds(d.last()), d.Total)
	fmt.Fprintf(&out, "#[Buckets = %12d, SubBuckets     = %12d]\n", 0, 0)
	if _, err := w.Write(out.Bytes()); err != nil {
		return fmt.Errorf("write percentiles of %s: %w", op.Kind, err)
	}
	return nil
}

// last is the largest response time in seconds.
func (d Distribution) last() float64 {
	if d.Total > d.Finite.TotalCount() {
		return math.Inf(1)
	}
	return float64(d.Finite.Max()) / 1e9
}

// hgrmRows steps towards 100 %: hgrmTicks steps for each half of what is
// left, until the rest is less than one operation.
func hgrmRows(out *bytes.Buffer, d Distribution) {
	const hgrmTicks = 5
	if d.Total == 0 {
		return
	}
	for half := 0; ; half++ {
		width := math.Pow(2, -float64(half)) // from 1 - width to 1 - width/2
		for tick := range hgrmTicks {
			q := 1 - width + width/2*float64(tick)/hgrmTicks
			if (1-q)*float64(d.Total) < 1 {
				fmt.Fprintf(out, "%12s %14.12f %10d %14s\n", milliseconds(d.last()), 1.0, d.Total, "inf")
				return
			}
			rank := max(int64(math.Ceil(q*float64(d.Total)-1e-9)), 1)
			fmt.Fprintf(out, "%12s %14.12f %10d %14.2f\n", milliseconds(d.rank(rank)), q, rank, 1/(1-q))
		}
	}
}

// milliseconds formats seconds for a percentile file.
func milliseconds(s float64) string {
	if math.IsInf(s, 1) {
		return "Infinity"
	}
	return fmt.Sprintf("%.3f", s*1e3)
}
