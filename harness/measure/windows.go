package measure

import (
	"cmp"
	"slices"
	"time"

	"stampede/harness/history"
	"stampede/harness/rundir"
)

const (
	// maxWindows bounds how finely time is cut: a heat map has no room for more.
	maxWindows = 120
	// maxErrorLines is how many classes of a kind are followed over time.
	maxErrorLines = 8
)

// windows collects the distributions of response times, and the errors, over time.
type windows struct {
	width time.Duration
	kinds []kindWindows
}

// kindWindows is one kind: counts by window and row, and by class and window.
type kindWindows struct {
	counts   [][]int64
	infinite []int64
	errors   map[classKey][]int64
}

func newWindows(last time.Duration, kinds int) *windows {
	w := &windows{width: bucketWidth(last, maxWindows)}
	n := last/w.width + 1
	for range kinds {
		w.kinds = append(w.kinds, kindWindows{counts: make([][]int64, n),
			infinite: make([]int64, n), errors: map[classKey][]int64{}})
	}
	return w
}

// add counts a record. Every dropped operation is of one class.
func (w *windows) add(kind int, rec *history.Record, class string) {
	k, at := &w.kinds[kind], rec.Intended/w.width
	if rec.Outcome == history.Dropped || rec.End == history.Never {
		k.infinite[at]++
	} else {
		k.count(int(at), rundir.LatencyRow(rec.End-rec.Intended))
	}
	if class == "" && rec.Outcome != history.Dropped {
		return
	}
	key := classKey{rec.Outcome, class}
	if k.errors[key] == nil {
		if len(k.errors) >= maxClasses {
			key.class = otherClass
		}
		if k.errors[key] == nil {
			k.errors[key] = make([]int64, len(k.counts))
		}
	}
	k.errors[key][at]++
}

// count adds one to a row of a window.
func (k *kindWindows) count(at, row int) {
	rows := k.counts[at]
	if missing := row + 1 - len(rows); missing > 0 {
		rows = append(rows, make([]int64, missing)...)
		k.counts[at] = rows
	}
	rows[row]++
}

func (w *windows) result(kinds []string) rundir.Windows {
	out := rundir.Windows{WidthNS: int64(w.width), Kinds: []rundir.KindWindows{}}
	for i, name := range kinds {
		k := w.kinds[i]
		one := rundir.KindWindows{Kind: name, Windows: []rundir.Window{}, Errors: k.lines()}
		for at, rows := range k.counts {
			first := max(0, slices.IndexFunc(rows, func(n int64) bool { return n > 0 }))
			one.Windows = append(one.Windows, rundir.Window{FirstRow: first,
				Counts: append([]int64{}, rows[first:]...), Infinite: k.infinite[at]})
		}
		out.Kinds = append(out.Kinds, one)
	}
	return out
}

// lines are the most frequent classes over time, and the others as one.
func (k *kindWindows) lines() (lines []rundir.ErrorLine) {
	keys := make([]classKey, 0, len(k.errors))
	for key := range k.errors {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b classKey) int {
		return cmp.Or(cmp.Compare(total(k.errors[b]), total(k.errors[a])),
			cmp.Compare(a.outcome, b.outcome), cmp.Compare(a.class, b.class))
	})
	rest := make([]int64, len(k.counts))
	for i, key := range keys {
		if i < maxErrorLines {
			lines = append(lines, errorLine(key.outcome.String(), key.class, k.errors[key]))
			continue
		}
		for at, n := range k.errors[key] {
			rest[at] += n
		}
	}
	if total(rest) > 0 {
		lines = append(lines, errorLine("", otherClass, rest))
	}
	return lines
}

// errorLine leaves out the windows that have none.
func errorLine(outcome, class string, counts []int64) rundir.ErrorLine {
	line := rundir.ErrorLine{Outcome: outcome, Class: class}
	for at, n := range counts {
		if n > 0 {
			line.At, line.Counts = append(line.At, at), append(line.Counts, n)
		}
	}
	return line
}

func total(counts []int64) (sum int64) {
	for _, n := range counts {
		sum += n
	}
	return sum
}
