package page

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"

	"stampede/harness/rundir"
	"stampede/reports/answer"
	"stampede/reports/chart"
	"stampede/reports/words"
)

// storesView is what the stores and the processes said of themselves.
type storesView struct {
	Sources []storeSource
	Period  string
	// Headlines say what differs most between the designs.
	Headlines []headline
}

// storeSource is one that was asked, with a figure for each design. A figure has a
// plot for each quantity, on axes that all designs share.
type storeSource struct {
	Name  string
	Plots []storePlot
	// Figures are those of the designs that stand for all, More the others.
	Figures, More []chart.TimeFigure
	// Open is set if a headline is about it.
	Open bool
	// Glance names the quantities, Zero those of which there was none.
	Glance, Zero string
	// Gaps say which designs' questions were not answered, and why.
	Gaps []string
}

// storePlot is one quantity: its axes, and its parts in order. Too many for lines are
// a heat map.
type storePlot struct {
	Quantity, Unit string
	Parts          []string
	Legend         []chart.LegendItem
	// Scale is what the darkest cell of a heat map stands for, "" of lines.
	Scale string
	most  float64
}

// storeLane is what one source said under one design.
type storeLane struct {
	lane
	source rundir.TelemetrySource
	period float64 // seconds
}

// storesOf draws what was said in a repeat of every variant that has a timeline.
func storesOf(d answer.Data, standings []answer.Standing) (view storesView) {
	bySource, order := map[string][]storeLane{}, []string{}
	end := 0.0
	for _, l := range timeLanes(d, standings) {
		said := d.Telemetry[answer.RepeatRef{Variant: l.Name, Repeat: l.repeat.Index}]
		end = max(end, l.end())
		for _, source := range said.Sources {
			order = words.With(order, source.Name)
			bySource[source.Name] = append(bySource[source.Name],
				storeLane{l, source, float64(said.PeriodNS) / 1e9})
		}
		if said.PeriodNS > 0 {
			view.Period = words.PlainNumber(float64(said.PeriodNS)/1e9) + " s"
		}
	}
	view.Headlines = headlines(bySource)
	for _, name := range order {
		s := storeSourceOf(fmt.Sprintf("s%d", len(view.Sources)), name, bySource[name], standings, end)
		s.lead(view.Headlines, name)
		if len(s.Plots)+len(s.Gaps) > 0 {
			view.Sources = append(view.Sources, s)
		}
	}
	return view
}

// lead opens a source that headlines are about, and has the designs that they name, and the
// baseline, before all others.
func (s *storeSource) lead(headlines []headline, source string) {
	leads := func(f chart.TimeFigure) bool {
		return slices.ContainsFunc(headlines, func(h headline) bool {
			return h.source == source && h.design == f.Name
		})
	}
	all := slices.Concat(s.Figures, s.More)
	if !slices.ContainsFunc(all, leads) {
		return
	}
	s.Open = true
	s.Figures, s.More = words.Split(all, func(f chart.TimeFigure) bool {
		return leads(f) || f.Baseline
	})
}

func storeSourceOf(
	id, name string, lanes []storeLane, standings []answer.Standing, end float64,
) storeSource {
	s := storeSource{Name: sourceTitle(name)}
	var drawn, zero []string
	for _, quantity := range quantitiesOf(lanes) {
		p := storePlotOf(lanes, quantity, end)
		if p.most <= 0 {
			zero = append(zero, p.name())
			continue
		}
		s.Plots, drawn = append(s.Plots, p), append(drawn, p.name())
	}
	s.Glance, s.Zero = words.List(drawn, 8), strings.Join(zero, ", ")
	axes := storeAxesOf(lanes, end)
	var figures []chart.TimeFigure
	for i, l := range lanes {
		if l.source.Missed > 0 {
			s.Gaps = append(s.Gaps, fmt.Sprintf("%s: %d of %s not answered; the first said: %s",
				l.Name, l.source.Missed, words.Plural(l.source.Asked, "question"), l.source.Trouble))
		}
		if len(s.Plots) == 0 {
			continue
		}
		figures = append(figures, storeFigureOf(fmt.Sprintf("%s-%d", id, i), l, s, axes))
	}
	chart.ShareMarks(chart.FiguresOf(figures))
	s.Figures, s.More = firstOf(figures, standings)
	return s
}

// sourceTitle is what people call a source.
func sourceTitle(name string) string {
	if title, ok := map[string]string{"postgres": "Postgres", "replica": "Replica of Postgres",
		"redis": "Redis", "kafka": "Kafka", "files": "Own files", "cpu": "CPU",
		"go": "Load generator"}[name]; ok {
		return title
	}
	return name
}

// quantitiesOf lists what there is to draw, in the order in which it was said.
func quantitiesOf(lanes []storeLane) (names []string) {
	for _, l := range lanes {
		for _, series := range l.source.Series {
			names = words.With(names, series.Quantity)
		}
	}
	return names
}

// storeAxes are what all figures of a source share, in seconds: the end, the width of
// what is drawn as one point, and the time that a row of the data covers.
type storeAxes struct{ end, width, row float64 }

// storeRows is how many rows the data of a figure has at most: fewer when there are
// many.
func storeRows(lanes int) float64 {
	if lanes <= 6 {
		return 40
	}
	return 15
}

func storeAxesOf(lanes []storeLane, end float64) storeAxes {
	period := 0.0
	for _, l := range lanes {
		period = max(period, l.period)
	}
	return storeAxes{end: end, width: max(period, end/float64(pointsFor(len(lanes)))),
		row: chart.NiceStep(max(period, end/storeRows(len(lanes))))}
}

// storePlotOf finds what all designs' plots of a quantity share.
func storePlotOf(lanes []storeLane, quantity string, end float64) storePlot {
	p := storePlot{Quantity: quantity}
	for _, l := range lanes {
		for _, s := range l.of(quantity) {
			p.Unit = s.Unit
			p.Parts = words.With(p.Parts, s.Part)
			for i, v := range s.Values {
				if float64(s.AtNS[i])/1e9 <= end {
					p.most = max(p.most, v)
				}
			}
		}
	}
	switch {
	case p.heat():
		p.Scale = amount(p.most, p.Unit)
	case len(p.Parts) > 1:
		for i, part := range p.Parts {
			p.Legend = append(p.Legend, chart.LegendItem{Slot: i, Variant: chart.NoVariant,
				Name: partName(part)})
		}
	}
	return p
}

// heat says that there are too many parts for lines.
func (p storePlot) heat() bool { return len(p.Parts) > chart.Slots }

// of returns the series of a quantity.
func (l storeLane) of(quantity string) (found []rundir.Series) {
	for _, s := range l.source.Series {
		if s.Quantity == quantity {
			found = append(found, s)
		}
	}
	return found
}

// Title names a quantity with its unit, unless that is its name.
func (p storePlot) Title() string {
	if p.named() {
		return p.name()
	}
	return p.name() + ", " + unitText(p.Unit)
}

// named says that the quantity's name has the unit in it: "dead rows", "locks granted".
func (p storePlot) named() bool {
	return p.Unit != "" && slices.Contains(strings.Fields(p.name()), p.Unit)
}

// partName is what a part is called on the page.
func partName(part string) string {
	return strings.Replace(part, "an internal lock", "a lightweight lock (LWLock)", 1)
}

// name is what a quantity is called on the page.
func (p storePlot) name() string {
	switch p.Quantity {
	case rundir.Taken:
		return "CPU taken by others"
	case "processor":
		return "CPU used"
	}
	return p.Quantity
}

// unitText spells a unit out.
func unitText(unit string) string {
	return strings.TrimSpace(strings.Replace(unit, "/s", " per second", 1))
}

func storeFigureOf(id string, l storeLane, s storeSource, axes storeAxes) chart.TimeFigure {
	f := l.figure(id, fmt.Sprintf("%s: %s over time", l.Name, s.Name))
	f.Columns = []string{"from"}
	for at := 0.0; at < axes.end-1e-9; at += axes.row {
		f.Rows = append(f.Rows, []string{words.PlainNumber(at) + " s"})
	}
	var plots []*plot.Plot
	var heights []vg.Length
	var findings []string
	for i, quantity := range s.Plots {
		all := l.of(quantity.Quantity)
		p, height := quantity.draw(l, all, axes, i == 0)
		plots, heights = append(plots, p), append(heights, height)
		findings = append(findings, quantity.finding(all, axes))
		addColumns(&f, quantity, all, axes)
	}
	chart.LabelLast(plots)
	heights[len(heights)-1] += 26
	f.Finding = fmt.Sprintf("Repeat %d: %s.", l.repeat.Index+1, strings.Join(findings, "; "))
	f.Draw(360, 6, plots, heights...)
	f.Place(plots[0], axes.row/2, axes.row*(float64(len(f.Rows))-0.5))
	return f
}

// draw draws a quantity under one design, and returns how high.
func (p storePlot) draw(
	l storeLane, all []rundir.Series, axes storeAxes, labelled bool,
) (*plot.Plot, vg.Length) {
	drawn := chart.NewPlot()
	chart.Since(drawn, axes.end, 6)
	drawn.Y.Label.Text = words.Short(strings.TrimSuffix(p.name(), " by others"), 17)
	if len(drawn.Y.Label.Text) > 13 {
		drawn.Y.Label.TextStyle.Font.Size = 9 // as high as the plot
	}
	if p.heat() {
		drawn.Y.Min, drawn.Y.Max = 0, float64(len(p.Parts))
		drawn.Y.Tick.Marker = partTicks(p.Parts)
		drawn.Add(chart.Heat(p.rows(all, axes), axes.width, chart.Shade{Most: p.most}, chart.Even),
			l.faults(labelled, true))
		return drawn, vg.Length(80 + min(len(p.Parts), 100))
	}
	drawn.Y.Min, drawn.Y.Max = 0, p.most*1.08
	drawn.Y.Tick.Marker = amountTicks(p.Unit)
	drawn.Add(bands(l.lane, labelled)...)
	drawn.Add(chart.Grid(false))
	for _, s := range all {
		slot := slices.Index(p.Parts, s.Part)
		drawn.Add(chart.Curve(seriesPoints(s, axes, l.period), chart.Line(
			chart.RoleFirst+chart.Role(slot), 1.5, chart.Dash(slot), chart.NoVariant)))
	}
	return drawn, 76
}

// spans averages a series over spans of equal width from 0 to the end. A span in
// which nothing was seen is NaN.
func spans(s rundir.Series, width, end float64) []float64 {
	n := max(1, int(math.Ceil(end/width-1e-9)))
	sums, counts := make([]float64, n), make([]int, n)
	for i, v := range s.Values {
		if at := int(float64(s.AtNS[i]) / 1e9 / width); at >= 0 && at < n {
			sums[at] += v
			counts[at]++
		}
	}
	for i := range sums {
		if counts[i] == 0 {
			sums[i] = math.NaN()
		} else {
			sums[i] /= float64(counts[i])
		}
	}
	return sums
}

// seriesPoints are the points of a line: those that were seen, or averages where
// they are too many. Where nothing was seen for several periods the line is broken.
func seriesPoints(s rundir.Series, axes storeAxes, period float64) (points []chart.Point) {
	if axes.width > period {
		for i, v := range spans(s, axes.width, axes.end) {
			points = append(points, chart.Point{X: (float64(i) + 0.5) * axes.width, Y: v})
		}
		return points
	}
	for i, v := range s.Values {
		at := float64(s.AtNS[i]) / 1e9
		if at > axes.end {
			break
		}
		if n := len(points); n > 0 && at-points[n-1].X > 3*period {
			points = append(points, chart.Point{X: (at + points[n-1].X) / 2, Y: math.NaN()})
		}
		points = append(points, chart.Point{X: at, Y: v})
	}
	return points
}

// rows are the parts of a quantity from the bottom to the top, over time. What
// was seen lasts until the next was; where nothing was for several periods, it is
// empty.
func (p storePlot) rows(all []rundir.Series, axes storeAxes) [][]float64 {
	rows := make([][]float64, len(p.Parts))
	for _, s := range all {
		row := spans(s, axes.width, axes.end)
		for i := 1; i < len(row); i++ {
			if math.IsNaN(row[i]) && i+1 < len(row) && !math.IsNaN(row[i+1]) {
				row[i] = row[i-1]
			}
		}
		rows[slices.Index(p.Parts, s.Part)] = row
	}
	return rows
}

// faults marks those of the lane's repeat.
func (l lane) faults(labelled, edges bool) plot.Plotter {
	return chart.Faults(answer.FaultWindows(l.repeat), time.Duration.Seconds, labelled, edges)
}

// partTicks labels the first, the middle and the last of many parts.
func partTicks(parts []string) plot.ConstantTicks {
	n := len(parts)
	var ticks plot.ConstantTicks
	for _, i := range slices.Compact([]int{0, n / 2, n - 1}) {
		ticks = append(ticks, plot.Tick{Value: float64(i) + 0.5, Label: words.Short(parts[i], 12)})
	}
	return ticks
}

// amountTicks labels an axis of amounts of a unit.
func amountTicks(unit string) plot.TickerFunc {
	return func(from, to float64) []plot.Tick {
		ticks := chart.RoundTicks(3)(from, to)
		for i := range ticks {
			ticks[i].Label = amount(ticks[i].Value, "")
			if strings.HasPrefix(unit, "bytes") {
				ticks[i].Label = strings.TrimSuffix(amount(ticks[i].Value, "bytes"), "B")
			}
		}
		return ticks
	}
}

// amount is a value with its unit, short enough for a sentence: "1.2k/s", "3.4 MB".
func amount(v float64, unit string) string {
	rest, isBytes := strings.CutPrefix(unit, "bytes")
	switch {
	case isBytes:
		return decimalBytes(v) + rest
	case unit == "" || strings.HasPrefix(unit, "/"):
		return words.PlainNumber(rounded(v)) + unit
	}
	return words.PlainNumber(rounded(v)) + " " + unit
}

// rounded keeps three digits.
func rounded(v float64) float64 {
	if v == 0 {
		return 0
	}
	scale := math.Pow(10, 2-math.Floor(math.Log10(math.Abs(v))))
	return math.Round(v*scale) / scale
}

// decimalBytes is a size by powers of a thousand, as axes have round numbers of.
func decimalBytes(v float64) string {
	for _, unit := range []struct {
		size float64
		name string
	}{{1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}} {
		if v >= unit.size {
			return fmt.Sprintf("%.3g %s", v/unit.size, unit.name)
		}
	}
	return fmt.Sprintf("%.0f B", v)
}

// finding says how much it was at most, of what, and when.
func (p storePlot) finding(all []rundir.Series, axes storeAxes) string {
	most, at, part := -1.0, 0.0, ""
	for _, s := range all {
		for i, v := range s.Values {
			if when := float64(s.AtNS[i]) / 1e9; v > most && when <= axes.end {
				most, at, part = v, when, s.Part
			}
		}
	}
	switch {
	case most < 0:
		return "no sample of " + p.name()
	case most == 0:
		return "no " + p.name()
	}
	text := p.name() + " at most " + amount(most, p.Unit)
	if p.named() {
		text = p.name() + " at most " + amount(most, "")
	}
	if part != "" && len(p.Parts) > 1 {
		text += " (" + partName(part) + ")"
	}
	return fmt.Sprintf("%s, at %s s", text, words.PlainNumber(math.Round(at*10)/10))
}

// addColumns adds what was seen of a quantity to the figure's rows: a column for each
// part, or, of many, the least, the median and the most.
func addColumns(f *chart.TimeFigure, p storePlot, all []rundir.Series, axes storeAxes) {
	columns := make([][]float64, 0, len(all))
	for _, s := range all {
		columns = append(columns, spans(s, axes.row, axes.end))
		if !p.heat() {
			f.Columns = append(f.Columns, strings.TrimSpace(p.name()+" "+partName(s.Part)))
		}
	}
	if p.heat() {
		f.Columns = append(f.Columns, p.name()+": least", "median", "most")
	}
	for i := range f.Rows {
		var seen []float64
		for _, column := range columns {
			switch v := column[i]; {
			case !p.heat():
				f.Rows[i] = append(f.Rows[i], cell(v, p.Unit))
			case !math.IsNaN(v):
				seen = append(seen, v)
			}
		}
		if p.heat() {
			f.Rows[i] = append(f.Rows[i], leastToMost(seen, p.Unit)...)
		}
	}
}

// leastToMost is the least, the median and the most.
func leastToMost(values []float64, unit string) []string {
	if len(values) == 0 {
		return []string{words.None, words.None, words.None}
	}
	slices.Sort(values)
	return []string{cell(values[0], unit), cell(values[len(values)/2], unit),
		cell(values[len(values)-1], unit)}
}

// cell is a value in a table.
func cell(v float64, unit string) string {
	if math.IsNaN(v) {
		return words.None
	}
	return amount(v, unit)
}
