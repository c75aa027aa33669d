package page

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"stampede/harness/rundir"
	"stampede/reports/answer"
	"stampede/reports/chart"
	"stampede/reports/words"
)

// timePanel is the designs over time: those that stand for all in one figure, and a figure
// for each of all, on the same axes but for the time.
type timePanel struct {
	Kind string
	// Overlay has the designs that stand for all.
	Overlay chart.Figure
	// Grey is the design whose warm-up and drain the overlay marks, "" if it marks none.
	Grey    string
	Figures []chart.TimeFigure
	// Bucket says how much time a point covers.
	Bucket string
	// Merged says that a point covers several recorded intervals, Worst that the worst of
	// them stands for its percentiles, because nothing else was recorded.
	Merged, Worst bool
	// Density says what the heat maps show, nil if there are none.
	Density *densityView
	// Rare says that there are enough operations for a p99.9.
	Rare bool
	// Later names the designs whose first repeat is not the one that is drawn.
	Later string
}

// moment is one point of time: rates per second, times in seconds.
type moment struct {
	start                      float64
	offered, achieved, dropped float64
	inFlight                   float64
	p50, p99, p999             float64
}

// lane is one repeat of one variant over time.
type lane struct {
	answer.Standing
	repeat   rundir.Repeat
	timeline rundir.Timeline
	windows  rundir.Windows
	moments  []moment
	// width is how much time a moment covers, in nanoseconds; merged says that it is more
	// than one bucket.
	width  int64
	merged bool
}

// pointsFor is how many points a lane may have: fewer when there are many.
func pointsFor(lanes int) int {
	switch {
	case lanes <= 3:
		return 300
	case lanes <= 8:
		return 100
	}
	return 40
}

// timePanels draws a repeat of every variant that has a timeline.
func timePanels(d answer.Data, standings []answer.Standing) timePanel {
	panel := timePanel{Kind: mainKind(standings)}
	lanes := timeLanes(d, standings)
	if len(lanes) == 0 {
		return panel
	}
	var widths []float64
	for i, l := range lanes {
		l = l.mergeTo(panel.Kind, widthFor(lanes[i:i+1], panel.Kind, pointsFor(len(lanes))))
		lanes[i] = l
		widths = append(widths, float64(l.width)/1e9)
		panel.Merged = panel.Merged || l.merged
		panel.Worst = panel.Worst || l.merged && len(l.windowsOf(panel.Kind)) == 0
	}
	panel.Bucket = words.Seconds(slices.Min(widths))
	if most := words.Seconds(slices.Max(widths)); most != panel.Bucket {
		panel.Bucket += " to " + most
	}
	panel.Overlay, panel.Grey = overlay(panel.Kind, lanes, answer.ChartGroups(standings)[0])
	dense := densityOf(panel.Kind, lanes)
	if dense != nil {
		panel.Density = dense.view(lanes)
	}
	axes := sharedAxes(lanes, dense)
	panel.Rare = axes.rare
	for i, l := range lanes {
		panel.Figures = append(panel.Figures,
			timeFigureOf(fmt.Sprintf("t%d", i), panel.Kind, l, axes, dense))
	}
	chart.ShareMarks(chart.FiguresOf(panel.Figures))
	panel.Later = later(panel.Figures)
	return panel
}

// timeLanes finds of every variant the repeat that tells most, of those that have a
// timeline: the first in which something broke that it should hold, or just the first.
func timeLanes(d answer.Data, standings []answer.Standing) (lanes []lane) {
	for _, st := range standings {
		var found *lane
		for _, r := range st.Repeats {
			ref := answer.RepeatRef{Variant: st.Name, Repeat: r.Index}
			timeline := d.Timelines[ref]
			if timeline.BucketNS <= 0 || length(timeline) == 0 {
				continue
			}
			breaks := st.Breaks(r)
			if found == nil || breaks {
				found = &lane{Standing: st, repeat: r, timeline: timeline, windows: d.Windows[ref]}
			}
			if breaks {
				break
			}
		}
		if found != nil {
			lanes = append(lanes, *found)
		}
	}
	return lanes
}

// figure is an empty one of the lane's repeat.
func (l lane) figure(id, title string) chart.TimeFigure {
	f := chart.TimeFigure{Letter: l.Letter, Name: l.Name, Wrong: l.Group == answer.Wrong,
		Baseline: l.Baseline}
	if f.Wrong {
		f.Chip = l.Word()
	}
	f.ID, f.Title = id, title
	if l.repeat.Index > 0 {
		f.Later = fmt.Sprintf("repeat %d", l.repeat.Index+1)
	}
	return f
}

// firstOf has the figures of the designs that stand for all, and the others.
func firstOf(figures []chart.TimeFigure, standings []answer.Standing) (first,
	more []chart.TimeFigure) {
	chosen := answer.ChartGroups(standings)[0]
	return words.Split(figures, func(f chart.TimeFigure) bool {
		return slices.ContainsFunc(chosen, func(m answer.Member) bool { return m.Letter == f.Letter })
	})
}

// later names the designs that are drawn in another repeat than the first.
func later(figures []chart.TimeFigure) string {
	var names []string
	for _, f := range figures {
		if f.Later != "" {
			names = append(names, fmt.Sprintf("%s (%s)", f.Letter, f.Later))
		}
	}
	return strings.Join(names, ", ")
}

// step is the least width of a point that covers whole buckets, and, of several buckets,
// whole windows, from which its percentiles are.
func (l lane) step(kind string) int64 {
	if len(l.windowsOf(kind)) == 0 {
		return l.timeline.BucketNS
	}
	return commonMultiple(l.timeline.BucketNS, l.windows.WidthNS)
}

// widthFor is the width of a point such that each lane has at most so many: that of a bucket, or
// a multiple of all their steps.
func widthFor(lanes []lane, kind string, points int) int64 {
	bucket, alike := lanes[0].timeline.BucketNS, true
	step, longest := int64(1), int64(0)
	for _, l := range lanes {
		step, alike = commonMultiple(step, l.step(kind)), alike && l.timeline.BucketNS == bucket
		longest = max(longest, int64(length(l.timeline))*l.timeline.BucketNS)
	}
	if alike && longest <= int64(points)*bucket {
		return bucket
	}
	most := int64(points) * step
	return max(1, (longest+most-1)/most) * step
}

// mergeTo returns a lane with moments of a width that is a bucket's or a multiple of the
// lane's step.
func (l lane) mergeTo(kind string, width int64) lane {
	l.width, l.merged = width, width > l.timeline.BucketNS
	l.moments = merge(l.timeline, kind, int(width/l.timeline.BucketNS))
	windows := l.windowsOf(kind)
	if !l.merged || len(windows) == 0 {
		return l
	}
	each := int(width / l.windows.WidthNS)
	recorded := l.bucketsOf(kind)
	of := int(width / l.timeline.BucketNS)
	for i := range l.moments {
		from := min(i*each, len(windows))
		h := together(windows[from:min(from+each, len(windows))])
		at := min(i*of, len(recorded))
		buckets := recorded[at:min(at+of, len(recorded))]
		m := &l.moments[i]
		m.p50 = within(h.quantile(0.5), buckets, func(p rundir.Percentiles) int64 { return p.P50 })
		m.p99 = within(h.quantile(0.99), buckets, func(p rundir.Percentiles) int64 { return p.P99 })
		m.p999 = math.NaN()
		if h.total() >= answer.ForP999 {
			m.p999 = within(h.quantile(0.999), buckets,
				func(p rundir.Percentiles) int64 { return p.P999 })
		}
	}
	return l
}

// within keeps a percentile of several intervals together, which is estimated from rows,
// between the lowest and the highest of those that were recorded of each: so it is never
// above the slowest operation.
func within(s float64, buckets []rundir.Bucket, of func(rundir.Percentiles) int64) float64 {
	low, high := math.Inf(1), 0.0
	for _, b := range buckets {
		if b.Response.Count > 0 {
			low, high = min(low, secondsOf(of(b.Response))), max(high, secondsOf(of(b.Response)))
		}
	}
	if low > high || math.IsNaN(s) || math.IsInf(s, 1) {
		return s
	}
	return min(max(s, low), high)
}

// bucketsOf is one kind's recorded intervals.
func (l lane) bucketsOf(kind string) []rundir.Bucket {
	for _, k := range l.timeline.Kinds {
		if k.Kind == kind {
			return k.Buckets
		}
	}
	return nil
}

// commonMultiple is the least one of two widths.
func commonMultiple(a, b int64) int64 {
	x, y := a, b
	for y != 0 {
		x, y = y, x%y
	}
	return a / x * b
}

func mainKind(standings []answer.Standing) string {
	for _, st := range standings {
		if st.Main != nil {
			return st.Main.Kind
		}
	}
	return ""
}

// length is the number of buckets of the longest kind.
func length(t rundir.Timeline) int {
	longest := 0
	for _, k := range t.Kinds {
		longest = max(longest, len(k.Buckets))
	}
	return longest
}

// merge sums the counts of all kinds over every n buckets. Percentiles are of
// the main kind. Of several buckets they cannot be told from those of each: the worst
// stands for them, as does the highest number in flight.
func merge(t rundir.Timeline, main string, n int) []moment {
	moments := make([]moment, (length(t)+n-1)/n)
	width := float64(t.BucketNS) / 1e9
	for i := range moments {
		moments[i] = moment{start: float64(i*n) * width, p50: math.NaN(), p99: math.NaN(),
			p999: math.NaN()}
	}
	inFlight := make([]float64, length(t))
	for _, k := range t.Kinds {
		for i, b := range k.Buckets {
			m := &moments[i/n]
			covered := min(n, length(t)-i/n*n) // the last point may cover less
			perS := 1 / (width * float64(covered))
			m.offered += float64(b.Load.Scheduled) * perS
			m.dropped += float64(b.Load.Dropped) * perS
			m.achieved += float64(b.Ended) * perS
			inFlight[i] += float64(b.InFlight)
			if k.Kind == main && b.Response.Count > 0 {
				m.p50 = worse(m.p50, b.Response.P50)
				m.p99 = worse(m.p99, b.Response.P99)
				if b.Response.Count >= answer.ForP999 {
					m.p999 = worse(m.p999, b.Response.P999)
				}
			}
		}
	}
	for i, v := range inFlight {
		moments[i/n].inFlight = max(moments[i/n].inFlight, v)
	}
	return moments
}

// worse returns the larger of a time in seconds, NaN if there is none yet,
// and one in nanoseconds.
func worse(s float64, ns int64) float64 {
	other := secondsOf(ns)
	if math.IsNaN(s) {
		return other
	}
	return max(s, other)
}

// secondsOf is a stored time in seconds, infinite for what was dropped or never
// ended.
func secondsOf(ns int64) float64 {
	if ns == rundir.Infinite {
		return math.Inf(1)
	}
	return float64(ns) / 1e9
}

// timeAxes are what all lanes of a panel share.
type timeAxes struct {
	latencies      []float64
	rate, inFlight float64
	// rare says that there is a p99.9.
	rare bool
}

func sharedAxes(lanes []lane, dense *density) timeAxes {
	var axes timeAxes
	if dense != nil {
		axes.latencies = dense.values()
	}
	for _, l := range lanes {
		for _, m := range l.moments {
			axes.rare = axes.rare || !math.IsNaN(m.p999)
			axes.rate = max(axes.rate, m.offered, m.achieved, m.dropped)
			axes.inFlight = max(axes.inFlight, m.inFlight)
			axes.latencies = append(axes.latencies, m.p50, m.p99, m.p999)
		}
	}
	return axes
}

// The parts of a time figure.
const (
	slotP50 = iota
	slotP99
	slotAchieved
	slotFlight
	slotP999
	slotDropped
)

// timeFigureOf draws, from the top: the heat map, percentiles, load, operations in
// flight, errors.
func timeFigureOf(
	id, kind string, l lane, axes timeAxes, dense *density,
) chart.TimeFigure {
	plots := []*plot.Plot{latencyOverTime(l, axes), loadOverTime(l, axes),
		inFlightOverTime(l, axes)}
	heights := []vg.Length{100, 76, 58}
	if dense != nil {
		plots = slices.Insert(plots, 0, dense.overTime(l, axes))
		heights = slices.Insert(heights, 0, 104)
	}
	if dense != nil && len(dense.errors) > 0 {
		p, height := dense.errorsOverTime(l)
		plots, heights = append(plots, p), append(heights, height)
	}
	for _, p := range plots {
		chart.Since(p, l.end(), 6)
	}
	chart.LabelLast(plots)
	heights[len(heights)-1] += 26

	f := l.figure(id, l.Name+" over time")
	f.Finding = timeFinding(kind, l, dense)
	timeTable(&f, l, axes.rare)
	if dense != nil {
		more := dense.table(l.Name+": "+kind+" by response time, and errors", l)
		f.More = &more
	}
	f.Draw(360, 6, plots, heights...)
	f.Place(plots[0], 0, float64(l.width)/1e9*float64(len(l.moments)-1))
	return f
}

func latencyOverTime(l lane, axes timeAxes) *plot.Plot {
	p := chart.NewPlot()
	at := chart.TimeAxis(p, axes.latencies, 4)
	p.Y.Label.Text = "p50, p99"
	p.Add(bands(l, true)...)
	p.Add(chart.Grid(false), l.line(slotP50, func(m moment) float64 { return at(m.p50) }),
		l.line(slotP99, func(m moment) float64 { return at(m.p99) }))
	if axes.rare {
		p.Add(l.line(slotP999, func(m moment) float64 { return at(m.p999) }))
	}
	return p
}

func loadOverTime(l lane, axes timeAxes) *plot.Plot {
	p := countPlot("operations/s", axes.rate)
	p.Add(bands(l, false)...)
	p.Add(chart.Grid(false), l.line(slotAchieved, func(m moment) float64 { return m.achieved }),
		l.line(slotDropped, func(m moment) float64 { return m.dropped }),
		l.series(chart.Line(chart.RoleInk, 1.5, []vg.Length{2, 2}, chart.NoVariant),
			func(m moment) float64 { return m.offered }))
	return p
}

func inFlightOverTime(l lane, axes timeAxes) *plot.Plot {
	p := countPlot("in flight", axes.inFlight)
	p.Add(bands(l, false)...)
	p.Add(chart.Grid(false), l.line(slotFlight, func(m moment) float64 { return m.inFlight }))
	return p
}

func countPlot(name string, most float64) *plot.Plot {
	p := chart.NewPlot()
	p.Y.Label.Text = name
	p.Y.Min, p.Y.Max = 0, max(most*1.08, 1)
	p.Y.Tick.Marker = chart.RoundTicks(3)
	return p
}

// line is a series in a slot's colour, dashed where the page's key is.
func (l lane) line(slot int, value func(moment) float64) plot.Plotter {
	dash := chart.Dash(slot)
	if slot == slotAchieved || slot == slotFlight {
		dash = nil
	}
	return l.series(chart.Line(chart.RoleFirst+chart.Role(slot), 1.5, dash, chart.NoVariant), value)
}

// series is a number of the lane over time.
func (l lane) series(style draw.LineStyle, value func(moment) float64) plot.Plotter {
	var points []chart.Point
	for _, m := range l.moments {
		points = append(points, chart.Point{X: m.start, Y: value(m)})
	}
	return chart.Curve(points, style)
}

// bands marks warm-up and drain, faults and the first violation.
func bands(l lane, labelled bool) []plot.Plotter {
	return append(backgrounds(l, labelled), violationMarks(l, labelled)...)
}

// phases are those of a lane's repeat.
func (l lane) phases() []rundir.Phase {
	if l.Main == nil {
		return nil
	}
	if op := answer.Operation(l.repeat.Operations, l.Main.Kind); op != nil && len(op.Phases) > 0 {
		return op.Phases
	}
	return l.Main.Phases
}

// backgrounds marks warm-up and drain, and faults.
func backgrounds(l lane, labelled bool) (marks []plot.Plotter) {
	for _, phase := range l.phases() {
		if phase.Name == "warm-up" || phase.Name == "drain" {
			marks = append(marks, chart.Band(float64(phase.StartNS)/1e9, float64(phase.EndNS)/1e9,
				chart.RolePhase))
		}
	}
	return append(marks, l.faults(labelled, false))
}

// violationMarks marks the first violation.
func violationMarks(l lane, labelled bool) (marks []plot.Plotter) {
	if at, ok := firstViolation(l.repeat); ok {
		marks = append(marks, chart.Violation(at, labelled))
	}
	return marks
}

// firstViolation returns when the first invariant broke, in seconds, if the
// checkers know.
func firstViolation(r rundir.Repeat) (at float64, ok bool) {
	at = math.Inf(1)
	for _, inv := range r.Invariants {
		for _, v := range inv.Violations {
			if v.AtNS > 0 {
				at = min(at, float64(v.AtNS)/1e9)
			}
		}
	}
	return at, !math.IsInf(at, 1)
}

func timeFinding(kind string, l lane, dense *density) string {
	var dropped, offered float64
	worst, when := 0.0, 0.0
	for _, m := range l.moments {
		dropped += m.dropped
		offered += m.offered
		if m.p99 > worst {
			worst, when = m.p99, m.start
		}
	}
	text := fmt.Sprintf("Repeat %d: the p99 of %s peaked at %s, %s s after the start",
		l.repeat.Index+1, kind, l.shown(worst), words.PlainNumber(when))
	if math.IsInf(worst, 1) {
		text = fmt.Sprintf("Repeat %d: from %s s after the start, 1 %% or more of %s got no answer",
			l.repeat.Index+1, words.PlainNumber(when), kind)
	}
	if dense != nil && worst > 0 {
		text = words.JoinNonEmpty("; ", text, dense.finding(l))
	}
	if worst == 0 {
		text = fmt.Sprintf("Repeat %d: no %s was due", l.repeat.Index+1, kind)
	}
	if dropped > 0 {
		text += fmt.Sprintf("; %s of what was offered was dropped",
			words.Share(int64(math.Round(dropped)), int64(math.Round(offered))))
	}
	return text + "."
}

// timeTable fills the figure's rows: the points that are drawn. Percentiles of merged
// intervals are from a histogram of rows, and have as many digits as it tells.
func timeTable(f *chart.TimeFigure, l lane, rare bool) {
	f.Columns = []string{"from", "offered/s", "achieved/s", "dropped/s", "in flight", "p50", "p99"}
	if rare {
		f.Columns = append(f.Columns, "p99.9")
	}
	for _, m := range l.moments {
		row := []string{
			words.PlainNumber(m.start) + " s", words.PlainNumber(math.Round(m.offered)),
			words.PlainNumber(math.Round(m.achieved)), words.PlainNumber(math.Round(m.dropped)),
			words.PlainNumber(m.inFlight), l.shown(m.p50), l.shown(m.p99),
		}
		if rare {
			row = append(row, l.shown(m.p999))
		}
		f.Rows = append(f.Rows, row)
	}
}

// shown is a percentile of a lane's point with as many digits as it is known to.
func (l lane) shown(s float64) string {
	if l.merged && !math.IsNaN(s) && !math.IsInf(s, 1) && s > 0 {
		return estimated(s)
	}
	return words.Seconds(s)
}
