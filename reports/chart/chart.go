// Package chart draws charts as SVG, in colours that the page decides.
package chart

import (
	"cmp"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"stampede/harness/history"
	"stampede/reports/words"
)

// A chart's measures, in points; a point of a full-width chart is about a
// CSS pixel.
const (
	textSize  = 11 * vg.Length(1)
	SmallSize = 10 * vg.Length(1)
	axisWidth = 0.75 * vg.Length(1)
)

// Figure is a chart with its legend and its data, for the page.
type Figure struct {
	ID, Title, Finding string
	SVG                template.HTML
	Legend             []LegendItem
	// Columns and Rows are the data as a table; the first column is x.
	Columns []string
	Rows    [][]string
	// X0 and DX place row i at X0 + i·DX in the view box, from Y0 to Y1; From and Step
	// are its x in units of the axis, From + i·Step.
	X0, DX, Y0, Y1, From, Step float64
}

// What implements what the page's table of data asks of a figure.
func (Figure) What() string { return "this chart" }

// LegendItem is one series.
type LegendItem struct {
	Slot int
	// Variant is the variant's index in the run, noVariant for none.
	Variant      int
	Letter, Name string
	Note         string
	// Diamond is "hollow" or "filled" for a series of diamonds, "" for a line.
	Diamond string
}

// ByLetter has a legend in the order of the designs' letters.
func ByLetter(legend []LegendItem) {
	slices.SortStableFunc(legend, func(a, b LegendItem) int {
		return cmp.Or(cmp.Compare(len(a.Letter), len(b.Letter)), cmp.Compare(a.Letter, b.Letter))
	})
}

// Dash returns the dash pattern that tells a slot's line apart without
// colour.
func Dash(slot int) []vg.Length {
	patterns := [Slots][]vg.Length{
		nil, {7, 3}, {2, 2}, {9, 3, 2, 3}, {4, 2}, {12, 3},
	}
	return patterns[slot]
}

// NewPlot returns an empty plot in the page's style.
func NewPlot() *plot.Plot {
	p := plot.New()
	p.BackgroundColor = nil
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.Padding = 0
		axis.LineStyle = Line(RoleAxis, axisWidth, nil, NoVariant)
		axis.Tick.LineStyle = axis.LineStyle
		axis.Tick.Length = 3
		axis.Tick.Label = restyle(axis.Tick.Label, SmallSize)
		axis.Label.TextStyle = restyle(axis.Label.TextStyle, textSize)
		axis.Label.Padding = 3
	}
	return p
}

func restyle(style text.Style, size vg.Length) text.Style {
	style.Color = Ink(RoleText, NoVariant)
	style.Font.Size = size
	style.Font.Variant = "Sans"
	return style
}

// Line is the style of a line in a role's colour.
func Line(r Role, width vg.Length, dashes []vg.Length, variant int) draw.LineStyle {
	return draw.LineStyle{Color: Ink(r, variant), Width: width, Dashes: dashes}
}

// Label returns the style of text inside a chart.
func Label(p *plot.Plot, r Role, variant int) text.Style {
	style := restyle(p.X.Tick.Label, SmallSize)
	style.XAlign, style.YAlign = text.XLeft, text.YTop
	style.Color = Ink(r, variant)
	return style
}

// Point is a place in a chart, in data coordinates.
type Point struct{ X, Y float64 }

// Curve draws one series; a NaN breaks the line.
type Curve struct {
	Points []Point
	Style  draw.LineStyle
}

// Plot implements plot.Plotter.
func (k Curve) Plot(c draw.Canvas, p *plot.Plot) {
	tx, ty := p.Transforms(&c)
	var run []vg.Point
	flush := func() {
		// A lone point between gaps would be invisible as a line.
		if len(run) == 1 {
			run = append(run, vg.Point{X: run[0].X + 1, Y: run[0].Y})
		}
		c.StrokeLines(k.Style, c.ClipLinesXY(straightened(run))...)
		run = nil
	}
	for _, pt := range k.Points {
		if math.IsNaN(pt.X) || math.IsNaN(pt.Y) {
			flush()
			continue
		}
		run = append(run, vg.Point{X: tx(pt.X), Y: ty(pt.Y)})
	}
	flush()
}

// hairsbreadth is how far from a point a line may pass, in points: less than a screen
// shows.
const hairsbreadth = 0.2

// straightened leaves out the points that the line between their neighbours passes
// within a hairsbreadth (Ramer, "An iterative procedure for the polygonal approximation
// of plane curves", 1972).
func straightened(points []vg.Point) []vg.Point {
	if len(points) < 3 {
		return slices.Clone(points)
	}
	first, last := points[0], points[len(points)-1]
	farthest, distance := 0, vg.Length(hairsbreadth)
	for i, p := range points[1 : len(points)-1] {
		if d := distanceTo(p, first, last); d > distance {
			farthest, distance = i+1, d
		}
	}
	if farthest == 0 {
		return []vg.Point{first, last}
	}
	left := straightened(points[:farthest+1])
	return append(left[:len(left)-1], straightened(points[farthest:])...)
}

// distanceTo is that of a point to the line between two.
func distanceTo(p, from, to vg.Point) vg.Length {
	along, off := to.Sub(from), p.Sub(from)
	length := vg.Length(math.Hypot(float64(along.X), float64(along.Y)))
	if length == 0 {
		return vg.Length(math.Hypot(float64(off.X), float64(off.Y)))
	}
	return vg.Length(math.Abs(float64(along.X*off.Y-along.Y*off.X))) / length
}

// Ribbon fills the area between the lowest and the highest of several
// repeats.
type Ribbon struct {
	Low, High []Point
	Slot      int
	Variant   int
}

// Plot implements plot.Plotter.
func (r Ribbon) Plot(c draw.Canvas, p *plot.Plot) {
	if len(r.Low) < 2 {
		return
	}
	tx, ty := p.Transforms(&c)
	var low, high []vg.Point
	for _, pt := range r.Low {
		low = append(low, vg.Point{X: tx(pt.X), Y: ty(pt.Y)})
	}
	for _, pt := range slices.Backward(r.High) {
		high = append(high, vg.Point{X: tx(pt.X), Y: ty(pt.Y)})
	}
	outline := append(straightened(low), straightened(high)...)
	c.FillPolygon(Ink(roleSoft+Role(r.Slot), r.Variant), c.ClipPolygonXY(outline))
}

// Band marks a span of x, from bottom to top.
type Band struct {
	From, To float64
	Role     Role
}

// Plot implements plot.Plotter.
func (b Band) Plot(c draw.Canvas, p *plot.Plot) {
	tx, _ := p.Transforms(&c)
	from, to := max(tx(b.From), c.Min.X), min(tx(b.To), c.Max.X)
	if to <= from {
		return
	}
	c.FillPolygon(Ink(b.Role, NoVariant), []vg.Point{
		{X: from, Y: c.Min.Y}, {X: from, Y: c.Max.Y}, {X: to, Y: c.Max.Y}, {X: to, Y: c.Min.Y}})
}

// FaultBands marks the faults of a repeat by bands and, if they are labelled, by their
// numbers and names at the top. Those that begin too close for a label each have one together.
type FaultBands struct {
	Windows  []history.Window
	At       func(time.Duration) float64
	Labelled bool
	// edges has lines where faults begin and end, for bands would hide what is drawn.
	Edges bool
}

// BandsOf marks faults on an axis of seconds.
func BandsOf(windows []history.Window, labelled bool) FaultBands {
	return FaultBands{Windows: windows, At: time.Duration.Seconds, Labelled: labelled}
}

// Plot implements plot.Plotter.
func (f FaultBands) Plot(c draw.Canvas, p *plot.Plot) {
	tx, _ := p.Transforms(&c)
	style := Label(p, RoleText, NoVariant)
	first, last, place, free := 0, -1, vg.Length(0), c.Min.X
	text := func() string {
		if first == last {
			return words.JoinNonEmpty(" ", fmt.Sprintf("F%d", first+1), words.Short(f.Windows[first].Name,
				24))
		}
		return fmt.Sprintf("F%d–F%d", first+1, last+1)
	}
	write := func() {
		if !f.Labelled || last < first {
			return
		}
		name := text()
		x := min(place, c.Max.X-ShownWidth(style, name))
		if x < free { // it would lie over the one before
			name, _, _ = strings.Cut(name, " ")
			x = max(free, min(place, c.Max.X-ShownWidth(style, name)))
		}
		c.FillText(style, vg.Point{X: x, Y: c.Max.Y - 1}, name)
		free = x + ShownWidth(style, name)
	}
	for i, w := range f.Windows {
		from, to := max(tx(f.At(w.Start)), c.Min.X), tx(f.At(w.End))
		if to <= c.Min.X || from >= c.Max.X {
			continue
		}
		f.mark(f.At(w.Start), f.At(w.End)).Plot(c, p)
		if last >= first && from+2 < place+style.Width(text())+2 {
			last = i
			continue
		}
		write()
		first, last, place = i, i, from+2
	}
	write()
}

// ShownWidth is how wide a text may be in a browser, whose fonts are wider than the one that
// measures here.
func ShownWidth(style text.Style, txt string) vg.Length { return 1.2 * style.Width(txt) }

// mark is what shows for how long a fault was in force.
func (f FaultBands) mark(from, to float64) plot.Plotter {
	if f.Edges {
		return plotters{edge{from}, edge{to}}
	}
	return Band{from, to, roleFault}
}

// plotters are several as one.
type plotters []plot.Plotter

// Plot implements plot.Plotter.
func (list plotters) Plot(c draw.Canvas, p *plot.Plot) {
	for _, one := range list {
		one.Plot(c, p)
	}
}

// edge is a dashed line at an x.
type edge struct{ at float64 }

// Plot implements plot.Plotter.
func (e edge) Plot(c draw.Canvas, p *plot.Plot) {
	tx, _ := p.Transforms(&c)
	x := tx(e.at)
	if !c.ContainsX(x) {
		return
	}
	c.StrokeLine2(Line(RoleLimit, 1, []vg.Length{3, 2}, NoVariant), x, c.Min.Y, x, c.Max.Y)
}

// GridLines draws a line at every labelled tick of y.
type GridLines struct{ Vertical bool }

// Plot implements plot.Plotter.
func (g GridLines) Plot(c draw.Canvas, p *plot.Plot) {
	tx, ty := p.Transforms(&c)
	style := Line(RoleGrid, 0.75, nil, NoVariant)
	for _, tick := range p.Y.Tick.Marker.Ticks(p.Y.Min, p.Y.Max) {
		if y := ty(tick.Value); tick.Label != "" && c.ContainsY(y) && y > c.Min.Y {
			c.StrokeLine2(style, c.Min.X, y, c.Max.X, y)
		}
	}
	if !g.Vertical {
		return
	}
	for _, tick := range p.X.Tick.Marker.Ticks(p.X.Min, p.X.Max) {
		if x := tx(tick.Value); tick.Label != "" && c.ContainsX(x) && x > c.Min.X {
			c.StrokeLine2(style, x, c.Min.Y, x, c.Max.Y)
		}
	}
}

// EndLabel names a series where its curve ends.
type EndLabel struct {
	At            Point
	Text          string
	Slot, Variant int
}

// EndLabels draws labels right of the ends of their curves, pushed apart so
// that none hides another.
type EndLabels []EndLabel

// Plot implements plot.Plotter.
func (labels EndLabels) Plot(c draw.Canvas, p *plot.Plot) {
	tx, ty := p.Transforms(&c)
	type placed struct {
		EndLabel
		x, y vg.Length
	}
	var all []placed
	for _, l := range labels {
		y := min(max(ty(l.At.Y), c.Min.Y), c.Max.Y)
		all = append(all, placed{l, tx(l.At.X), y})
	}
	slices.SortStableFunc(all, func(a, b placed) int { return cmp.Compare(a.y, b.y) })
	for i := 1; i < len(all); i++ {
		all[i].y = max(all[i].y, all[i-1].y+SmallSize)
	}
	// What was pushed out at the top goes back in, and pushes down.
	ceiling := c.Max.Y
	for i := len(all) - 1; i >= 0 && all[i].y > ceiling; i-- {
		all[i].y = ceiling
		ceiling -= SmallSize
	}
	for _, l := range all {
		style := Label(p, RoleFirst+Role(l.Slot), l.Variant)
		style.YAlign = text.YCenter
		c.FillText(style, vg.Point{X: l.x + 4, Y: l.y}, l.Text)
	}
}

// Dots draws a diamond at each point, filled or hollow.
type Dots struct {
	Points  []Point
	Slot    int
	Variant int
	Hollow  bool
}

// Plot implements plot.Plotter.
func (d Dots) Plot(c draw.Canvas, p *plot.Plot) {
	const radius = vg.Length(3.2)
	tx, ty := p.Transforms(&c)
	var all vg.Path
	for _, pt := range d.Points {
		x, y := tx(pt.X), ty(pt.Y)
		all.Move(vg.Point{X: x - radius, Y: y})
		all.Line(vg.Point{X: x, Y: y + radius})
		all.Line(vg.Point{X: x + radius, Y: y})
		all.Line(vg.Point{X: x, Y: y - radius})
		all.Close()
	}
	c.SetLineStyle(Line(RoleFirst+Role(d.Slot), 1.2, nil, d.Variant))
	if d.Hollow {
		c.Stroke(all)
		return
	}
	c.Fill(all)
}

// timeTicks labels a logarithmic axis of seconds at its decades.
type timeTicks struct {
	// infinite, if positive, is where ∞ stands.
	infinite float64
	// most is how many decades have room for a label.
	most int
}

// Ticks implements plot.Ticker.
func (t timeTicks) Ticks(from, to float64) []plot.Tick {
	var ticks []plot.Tick
	first, last := int(math.Round(math.Log10(from))), int(math.Floor(math.Log10(to)+1e-3))
	if t.infinite > 0 {
		last = int(math.Floor(math.Log10(t.infinite) - 0.5))
	}
	step := (last - first + t.most) / t.most
	for e := first; e <= last; e++ {
		tick := plot.Tick{Value: math.Pow(10, float64(e))}
		if (e-first)%step == 0 {
			tick.Label = words.Decade(e)
		}
		ticks = append(ticks, tick)
	}
	if t.infinite > 0 {
		ticks = append(ticks, plot.Tick{Value: t.infinite, Label: "∞"})
	}
	return ticks
}

// TimeAxis makes the y axis logarithmic in seconds, around all the given
// values: whole decades, at most most of them labelled, with a place for ∞
// on top if one is infinite. It returns what to draw a value at.
func TimeAxis(p *plot.Plot, values []float64, most int) (at func(float64) float64) {
	low, high, infinite := bounds(values)
	p.Y.Scale = plot.LogScale{}
	p.Y.Min = math.Pow(10, math.Floor(math.Log10(low)))
	p.Y.Max = math.Pow(10, math.Ceil(math.Log10(high)))
	if p.Y.Max <= p.Y.Min {
		p.Y.Max = p.Y.Min * 10
	}
	ticks := timeTicks{most: most}
	if infinite {
		p.Y.Max *= 10
		ticks.infinite = p.Y.Max / 1.5
	}
	p.Y.Tick.Marker = ticks
	return func(v float64) float64 {
		if math.IsInf(v, 1) {
			return ticks.infinite
		}
		return max(v, p.Y.Min)
	}
}

// bounds returns the smallest and largest positive finite values, 1 ms to 1 s
// if there are none, and whether any value is infinite.
func bounds(values []float64) (low, high float64, infinite bool) {
	low, high = math.Inf(1), 0
	for _, v := range values {
		switch {
		case math.IsInf(v, 1):
			infinite = true
		case v > 0:
			low, high = min(low, v), max(high, v)
		}
	}
	if high == 0 {
		return 1e-3, 1, infinite
	}
	return low, high, infinite
}

// SecondTicks labels a time axis at round seconds.
type SecondTicks struct{ Most int }

// Ticks implements plot.Ticker.
func (t SecondTicks) Ticks(from, to float64) []plot.Tick {
	step := NiceStep((to - from) / float64(t.Most))
	var ticks []plot.Tick
	for i := math.Ceil(from/step - 1e-9); i*step <= to*1.0001; i++ {
		value := i*step + 0 // adding 0 turns -0 into 0
		ticks = append(ticks, plot.Tick{Value: value, Label: words.PlainNumber(value)})
	}
	return ticks
}

// NiceStep returns the smallest of 1, 2 or 5 times a power of ten that is at
// least x.
func NiceStep(x float64) float64 {
	if !(x > 0) {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(x)))
	for _, m := range []float64{1, 2, 5} {
		if m*power >= x*0.9999 {
			return m * power
		}
	}
	return 10 * power
}

// Drawing is a canvas with plots stacked on it, which share their x axis.
type Drawing struct {
	Canvas *vgsvg.Canvas
	areas  []vg.Rectangle // of the data, top to bottom
	height vg.Length
}

// Stack draws plots of the given heights below each other, their data areas
// aligned; right keeps room for labels beside the data.
func Stack(width, right vg.Length, plots []*plot.Plot, heights []vg.Length) Drawing {
	var total vg.Length
	for _, h := range heights {
		total += h
	}
	canvas := vgsvg.New(width, total)
	d := Drawing{Canvas: canvas, height: total}
	left := leftmost(plots, width)
	top := total
	for i, p := range plots {
		whole := draw.NewCanvas(canvas, width, total)
		whole.Min.Y, whole.Max.Y = top-heights[i], top
		// Shift the plot so that all data areas start at the same x.
		dc := p.DataCanvas(whole)
		area := draw.Crop(whole, left-dc.Min.X, -right, 0, -5)
		p.Draw(area)
		d.areas = append(d.areas, p.DataCanvas(area).Rectangle)
		top -= heights[i]
	}
	return d
}

// leftmost returns where the data of the plot with the widest labels starts.
func leftmost(plots []*plot.Plot, width vg.Length) vg.Length {
	var left vg.Length
	for _, p := range plots {
		probe := draw.NewCanvas(vgsvg.New(width, width), width, width)
		left = max(left, p.DataCanvas(probe).Min.X)
	}
	return left
}

// Place fills in a figure's geometry: rows rows, whose x goes evenly from
// first to last on the shared axis of p.
func (f *Figure) Place(d Drawing, p *plot.Plot, first, last float64, rows int) {
	area := d.areas[len(d.areas)-1]
	at := func(x float64) float64 {
		return float64(area.Min.X) + p.X.Norm(x)*float64(area.Max.X-area.Min.X)
	}
	f.X0, f.From = round1(at(first)), rounded6(first)
	if rows > 1 {
		f.Step = rounded6((last - first) / float64(rows-1))
		f.DX = math.Round((at(last)-at(first))/float64(rows-1)*1000) / 1000
	}
	f.Y0 = round1(float64(d.height - d.areas[0].Max.Y))
	f.Y1 = round1(float64(d.height - area.Min.Y))
}

// rounded6 keeps millionths, which are below what any chart shows.
func rounded6(x float64) float64 { return math.Round(x*1e6) / 1e6 }

func round1(x float64) float64 { return math.Round(x*10) / 10 }

// ViolationMark is a line where the first violation became true.
type ViolationMark struct {
	At       float64
	Labelled bool
}

// Plot implements plot.Plotter.
func (v ViolationMark) Plot(c draw.Canvas, p *plot.Plot) {
	tx, _ := p.Transforms(&c)
	x := tx(v.At)
	if !c.ContainsX(x) {
		return
	}
	c.StrokeLine2(Line(RoleLimit, 1.25, nil, NoVariant), x, c.Min.Y, x, c.Max.Y)
	if v.Labelled {
		style := Label(p, RoleLimit, NoVariant)
		style.YAlign = text.YBottom // the faults have the top
		c.FillText(style, vg.Point{X: x + 2, Y: c.Min.Y + 2}, "✗")
	}
}
