package page

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"stampede/harness/rundir"
	"stampede/reports/chart"
	"stampede/reports/words"
)

// maxErrorRows is how many classes of errors are drawn over time.
const maxErrorRows = 6

// density is what the heat maps of all lanes share: how many operations had which
// response time when, and how many had which error.
type density struct {
	kind string
	// Rows from first to before last are those of rundir.LatencyRow; step of them are one
	// cell high. columns is how many cells a lane may have, and spans how many rows its
	// table.
	first, last, step, columns, spans int
	infinite                          bool
	// Values are operations a second.
	cells, mistakes chart.Shade
	errors          []errorKey
	// more is set if the last row of errors is all others.
	more bool
}

// errorKey is a class of errors of an operation kind.
type errorKey struct{ kind, outcome, class string }

// name says it in words.
func (k errorKey) name() string {
	return words.JoinNonEmpty(": ", k.kind, k.outcome, k.class)
}

// densityOf finds what the lanes share. Without windows, as in runs from before there
// were any, it is nil.
func densityOf(kind string, lanes []lane) *density {
	d := &density{kind: kind, first: math.MaxInt, step: 1, columns: 120, spans: 20}
	if len(lanes) > 3 {
		d.columns, d.spans = 60, 12
	}
	if len(lanes) > 6 {
		d.step, d.spans = 2, 8
	}
	for _, l := range lanes {
		for _, w := range l.windowsOf(kind) {
			d.infinite = d.infinite || w.Infinite > 0
			if len(w.Counts) > 0 {
				d.first, d.last = min(d.first, w.FirstRow), max(d.last, w.FirstRow+len(w.Counts))
			}
		}
	}
	if d.last == 0 && !d.infinite {
		return nil
	}
	d.first = min(d.first, d.last) / d.step * d.step
	d.errors, d.more = frequentErrors(lanes)
	for _, l := range lanes {
		cells := append(d.grid(l), d.never(l))
		d.cells = d.cells.Over(cells, d.width(l))
		d.mistakes = d.mistakes.Over(d.failures(l), d.width(l))
	}
	return d
}

// windowsOf is one kind's windows.
func (l lane) windowsOf(kind string) []rundir.Window {
	for _, k := range l.windows.Kinds {
		if k.Kind == kind {
			return k.Windows
		}
	}
	return nil
}

// end is where a lane's numbers end, in seconds.
func (l lane) end() float64 {
	end := float64(length(l.timeline)) * float64(l.timeline.BucketNS) / 1e9
	for _, k := range l.windows.Kinds {
		end = max(end, float64(len(k.Windows))*float64(l.windows.WidthNS)/1e9)
	}
	return end
}

// merged is how many windows of a lane are one column.
func (d *density) merged(l lane) int {
	return max(1, (len(l.windowsOf(d.kind))+d.columns-1)/d.columns)
}

// width is that of a column, in seconds.
func (d *density) width(l lane) float64 {
	return float64(d.merged(l)) * float64(l.windows.WidthNS) / 1e9
}

// row makes a row of columns from a count for each window.
func (d *density) row(l lane, count func(window int) int64) []float64 {
	n, windows := d.merged(l), len(l.windowsOf(d.kind))
	row := make([]float64, (windows+n-1)/n)
	for i := range windows {
		row[i/n] += float64(count(i)) / d.width(l)
	}
	return row
}

// grid is the finite response times, the fastest first.
func (d *density) grid(l lane) (rows [][]float64) {
	windows := l.windowsOf(d.kind)
	for from := d.first; from < d.last; from += d.step {
		rows = append(rows, d.row(l, func(i int) int64 {
			return together(windows[i:i+1]).between(from, from+d.step)
		}))
	}
	return rows
}

// never is the row of what was dropped or never ended.
func (d *density) never(l lane) []float64 {
	windows := l.windowsOf(d.kind)
	return d.row(l, func(i int) int64 { return windows[i].Infinite })
}

// failures has a row for each class of errors, the most frequent last.
func (d *density) failures(l lane) (rows [][]float64) {
	for _, counts := range slices.Backward(d.failed(l)) {
		rows = append(rows, d.row(l, func(i int) int64 { return counts[i] }))
	}
	return rows
}

// failed counts each class of errors by window, the most frequent first.
func (d *density) failed(l lane) [][]int64 {
	rows := len(d.errors)
	if d.more {
		rows++
	}
	all := make([][]int64, rows)
	for i := range all {
		all[i] = make([]int64, len(l.windowsOf(d.kind)))
	}
	for _, k := range l.windows.Kinds {
		for _, e := range k.Errors {
			at := slices.Index(d.errors, errorKey{k.Kind, e.Outcome, e.Class})
			if at < 0 {
				at = rows - 1
			}
			for i, window := range e.At {
				if window < len(all[at]) {
					all[at][window] += e.Counts[i]
				}
			}
		}
	}
	return all
}

// frequentErrors are the most frequent classes over all lanes, and whether there are
// more of them.
func frequentErrors(lanes []lane) (keys []errorKey, more bool) {
	counts := map[errorKey]int64{}
	for _, l := range lanes {
		for _, k := range l.windows.Kinds {
			for _, e := range k.Errors {
				key := errorKey{k.Kind, e.Outcome, e.Class}
				if counts[key] == 0 {
					keys = append(keys, key)
				}
				for _, n := range e.Counts {
					counts[key] += n
				}
			}
		}
	}
	slices.SortFunc(keys, func(a, b errorKey) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a.name(), b.name()))
	})
	if len(keys) <= maxErrorRows {
		return keys, false
	}
	return keys[:maxErrorRows], true
}

// values are what the axis of response times must have room for.
func (d *density) values() (values []float64) {
	if d.first < d.last {
		values = append(values, rundir.RowStart(d.first), rundir.RowStart(d.last))
	}
	if d.infinite {
		values = append(values, math.Inf(1))
	}
	return values
}

// overTime draws a lane's heat map on an axis of times, on which infinite ones lie at
// at(∞).
func (d *density) overTime(l lane, axes timeAxes) *plot.Plot {
	p := chart.NewPlot()
	at := chart.TimeAxis(p, axes.latencies, 4)
	p.Y.Label.Text = words.Short(d.kind, 8)
	p.Add(backgrounds(l, false)...)
	half := math.Pow(10, float64(d.step)/rundir.LatencyRows/2)
	p.Add(chart.Heat(d.grid(l), d.width(l), d.cells, func(row int) (low, high float64) {
		from := d.first + row*d.step
		return rundir.RowStart(from), rundir.RowStart(from + d.step)
	}))
	if d.infinite {
		p.Add(chart.Heat([][]float64{d.never(l)}, d.width(l), d.cells,
			func(int) (low, high float64) { return at(math.Inf(1)) / half, at(math.Inf(1)) * half }))
	}
	p.Add(l.faults(false, true))
	p.Add(violationMarks(l, false)...)
	return p
}

// errorsOverTime draws a row for each class of errors, below its name.
func (d *density) errorsOverTime(l lane) (p *plot.Plot, height vg.Length) {
	p = chart.NewPlot()
	rows := d.failures(l)
	p.Y.Min, p.Y.Max = 0, float64(len(rows))
	p.Y.Tick.Marker, p.Y.Tick.Length = plot.ConstantTicks(nil), 0
	p.Y.Label.Text = "errors"
	p.Add(backgrounds(l, false)...)
	p.Add(chart.Heat(rows, d.width(l), d.mistakes,
		func(row int) (low, high float64) { return float64(row), float64(row) + 0.45 }))
	p.Add(chart.Mark(func(c chart.Pen) { // the names, at the left end, each above its row
		for i := range rows {
			c.Text(chart.RoleText, chart.NoVariant, draw.XLeft, draw.YTop,
				vg.Point{X: c.Min.X + 3, Y: c.Y(float64(len(rows)-i)) - 1}, words.Short(d.errorName(i), 60))
		}
	}))
	p.Add(l.faults(false, true))
	p.Add(violationMarks(l, false)...)
	return p, vg.Length(8 + 23*len(rows))
}

// errorName is a class of errors in full.
func (d *density) errorName(i int) string {
	if i == len(d.errors) {
		return "all others"
	}
	return d.errors[i].name()
}

// finding says where nine of ten of a lane's operations lie.
func (d *density) finding(l lane) string {
	h := together(l.windowsOf(d.kind))
	total := h.total()
	if total == 0 {
		return ""
	}
	rank := func(share float64) float64 {
		left := share * float64(total)
		for row, n := range h.rows {
			if left -= float64(n); left <= 0 && n > 0 {
				return float64(row)
			}
		}
		return math.Inf(1)
	}
	low, high := rank(0.05), rank(0.95)
	if math.IsInf(low, 1) {
		return "nearly none of them was answered"
	}
	if math.IsInf(high, 1) {
		return fmt.Sprintf("it took %s or longer, and %s of them got no answer",
			rounded2(rundir.RowStart(int(low))), words.Share(h.infinite, total))
	}
	from, end := rounded2(rundir.RowStart(int(low))), d.within(l, int(high))
	to := rounded2(end)
	if end < rundir.RowStart(int(high)+1) {
		to = estimated(end) // the longest that there was
	}
	if from == to {
		return "nine of ten took about " + to
	}
	return fmt.Sprintf("nine of ten took %s to %s", from, to)
}

// within is the end of a row in seconds, or the longest response time of the lane's
// operations if that lies in the row.
func (d *density) within(l lane, row int) float64 {
	end := rundir.RowStart(row + 1)
	for _, op := range l.repeat.Operations {
		longest := float64(op.Latency.Response.Max) / 1e9
		if op.Kind == d.kind && longest >= rundir.RowStart(row) {
			end = min(end, longest)
		}
	}
	return end
}

// rounded2 is a time with two digits, as good as a row tells it.
func rounded2(s float64) string { return digits2(s, math.Round) }

// estimated is rounded2 for what may be the longest that there was: it is rounded down.
func estimated(s float64) string {
	return digits2(s, func(x float64) float64 { return math.Floor(x + 1e-6) })
}

func digits2(s float64, round func(float64) float64) string {
	scale := math.Pow(10, 1-math.Floor(math.Log10(s)))
	text := words.Seconds(round(s*scale) / scale)
	number, unit, _ := strings.Cut(text, " ")
	if strings.Contains(number, ".") {
		number = strings.TrimSuffix(strings.TrimRight(number, "0"), ".")
	}
	return number + " " + unit
}

// table is the heat maps' data: counts by time and decade, and errors.
func (d *density) table(title string, l lane) chart.DataTable {
	t := chart.DataTable{Title: title, What: "the cells", Columns: []string{"from"}}
	windows := l.windowsOf(d.kind)
	if len(windows) == 0 {
		return t
	}
	first, last := d.first/rundir.LatencyRows, (d.last+rundir.LatencyRows-1)/rundir.LatencyRows
	for decades := first; decades < last; decades++ {
		t.Columns = append(t.Columns, "from "+words.Decade(decades-6))
	}
	if d.infinite {
		t.Columns = append(t.Columns, "∞")
	}
	failed := d.failed(l)
	for i := range failed {
		t.Columns = append(t.Columns, d.errorName(i))
	}
	n := (len(windows) + d.spans - 1) / d.spans
	for from := 0; from < len(windows); from += n {
		to := min(from+n, len(windows))
		row := []string{words.PlainNumber(float64(from)*float64(l.windows.WidthNS)/1e9) + " s"}
		h := together(windows[from:to])
		for decades := first; decades < last; decades++ {
			row = append(row, words.Grouped(h.between(decades*rundir.LatencyRows,
				(decades+1)*rundir.LatencyRows)))
		}
		if d.infinite {
			row = append(row, words.Grouped(h.infinite))
		}
		for _, counts := range failed {
			row = append(row, words.Grouped(sum(counts[from:to])))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// densityView is what the page says about all heat maps.
type densityView struct {
	Kind string
	// Cell says how large a cell is, Least and Most what the faintest and the darkest one
	// stand for; Shades are their opacities.
	Cell, Least, Most string
	Shades            []heatStep
	// Mistakes is Most of the rows of errors, "" if there are none.
	Mistakes string
}

type heatStep struct {
	X       int
	Opacity string
}

func (d *density) view(lanes []lane) *densityView {
	width := 0.0
	for _, l := range lanes {
		width = max(width, d.width(l))
	}
	v := &densityView{Kind: d.kind, Least: perSecond(d.cells.Least), Most: perSecond(d.cells.Most),
		Mistakes: perSecond(d.mistakes.Most),
		Cell: fmt.Sprintf("%s wide; its upper edge is %.2f times its lower one", words.Seconds(width),
			math.Pow(10, float64(d.step)/rundir.LatencyRows))}
	for i := range chart.HeatLevels {
		v.Shades = append(v.Shades, heatStep{12 * i, fmt.Sprintf("%.2g", (chart.RoleHeat +
			chart.Role(i)).Opacity())})
	}
	if len(d.errors) == 0 {
		v.Mistakes = ""
	}
	return v
}

func perSecond(v float64) string { return words.PlainNumber(rounded(v)) + "/s" }
