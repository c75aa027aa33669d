package page

import (
	"math"

	"stampede/harness/rundir"
)

// rowCounts is how many operations were in each row of rundir.LatencyRow, from 0, and how
// many got no answer.
type rowCounts struct {
	rows     []int64
	infinite int64
}

// together adds up windows.
func together(windows []rundir.Window) (h rowCounts) {
	for _, w := range windows {
		if n := w.FirstRow + len(w.Counts); n > len(h.rows) {
			h.rows = append(h.rows, make([]int64, n-len(h.rows))...)
		}
		for i, n := range w.Counts {
			h.rows[w.FirstRow+i] += n
		}
		h.infinite += w.Infinite
	}
	return h
}

// total counts all operations.
func (h rowCounts) total() int64 {
	return h.infinite + sum(h.rows)
}

// between counts the operations in the rows from one to before another.
func (h rowCounts) between(from, to int) int64 {
	return sum(h.rows[min(from, len(h.rows)):min(to, len(h.rows))])
}

func sum(counts []int64) (n int64) {
	for _, c := range counts {
		n += c
	}
	return n
}

// quantile is the response time in seconds that the share q of all operations did not
// exceed: NaN without operations, infinite where it falls among those without an answer.
// Within a row the operations are taken to lie at equal ratios.
func (h rowCounts) quantile(q float64) float64 {
	total := h.total()
	if total == 0 {
		return math.NaN()
	}
	rank := int64(math.Max(1, math.Ceil(q*float64(total)-1e-9)))
	for row, n := range h.rows {
		if rank <= n {
			low, high := rundir.RowStart(row), rundir.RowStart(row+1)
			return low * math.Pow(high/low, (float64(rank)-0.5)/float64(n))
		}
		rank -= n
	}
	return math.Inf(1)
}
