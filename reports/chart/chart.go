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
	Legend             []LegendItem
	// Columns and Rows are the data as a table; the first column is x.
	Columns []string
	Rows    [][]string
	// X0 and DX place row i at X0 + i·DX in the view box, from Y0 to Y1; From and Step
	// are its x in units of the axis, From + i·Step.
	X0, DX, Y0, Y1, From, Step float64

	svg    template.HTML
	err    error
	areas  []vg.Rectangle // of the data, top to bottom
	height vg.Length
}

// What implements what the page's table of data asks of a figure.
func (Figure) What() string { return "this chart" }

// SVG is the drawing, "" before Draw. Only its text bypasses a template's escaping.
func (f Figure) SVG() (template.HTML, error) { return f.svg, f.err }

// Drawn reports whether there is a drawing.
func (f Figure) Drawn() bool { return f.svg != "" || f.err != nil }

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

// Pen draws on a plot: X and Y turn data coordinates into those of the canvas.
type Pen struct {
	draw.Canvas
	Plot *plot.Plot
	X, Y func(float64) vg.Length
}

// Mark is something on a plot.
type Mark func(Pen)

// Plot implements plot.Plotter.
func (m Mark) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	m(Pen{c, p, x, y})
}

// Text writes on a plot, anchored as x and y say.
func (c Pen) Text(
	r Role, variant int, x text.XAlignment, y text.YAlignment, at vg.Point, txt string,
) {
	style := Label(c.Plot, r, variant)
	style.XAlign, style.YAlign = x, y
	c.FillText(style, at, txt)
}

// Upright is a line at an x from the bottom to the top, and whether that is on the plot.
func (c Pen) Upright(style draw.LineStyle, at float64) (x vg.Length, ok bool) {
	if x = c.X(at); !c.ContainsX(x) {
		return x, false
	}
	c.StrokeLine2(style, x, c.Min.Y, x, c.Max.Y)
	return x, true
}

// Polygon fills an area in a role's colour.
func (c Pen) Polygon(r Role, points ...vg.Point) { c.FillPolygon(Ink(r, NoVariant), points) }

// Rectangle has the corners between two opposite ones.
func Rectangle(left, bottom, right, top vg.Length) []vg.Point {
	return []vg.Point{{X: left, Y: bottom}, {X: right, Y: bottom}, {X: right, Y: top},
		{X: left, Y: top}}
}

// Diamond has the corners around a point.
func Diamond(x, y, radius vg.Length) []vg.Point {
	return []vg.Point{{X: x - radius, Y: y}, {X: x, Y: y + radius}, {X: x + radius, Y: y},
		{X: x, Y: y - radius}}
}

// Curve draws one series; a NaN breaks the line.
func Curve(points []Point, style draw.LineStyle) Mark {
	return func(c Pen) {
		var run []vg.Point
		flush := func() {
			// A lone point between gaps would be invisible as a line.
			if len(run) == 1 {
				run = append(run, vg.Point{X: run[0].X + 1, Y: run[0].Y})
			}
			c.StrokeLines(style, c.ClipLinesXY(straightened(run))...)
			run = nil
		}
		for _, pt := range points {
			if math.IsNaN(pt.X) || math.IsNaN(pt.Y) {
				flush()
				continue
			}
			run = append(run, vg.Point{X: c.X(pt.X), Y: c.Y(pt.Y)})
		}
		flush()
	}
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
func Ribbon(low, high []Point, slot, variant int) Mark {
	return func(c Pen) {
		if len(low) < 2 {
			return
		}
		line := func(points []Point) (line []vg.Point) {
			for _, pt := range points {
				line = append(line, vg.Point{X: c.X(pt.X), Y: c.Y(pt.Y)})
			}
			return line
		}
		back := line(high)
		slices.Reverse(back)
		outline := append(straightened(line(low)), straightened(back)...)
		c.FillPolygon(Ink(roleSoft+Role(slot), variant), c.ClipPolygonXY(outline))
	}
}

// Band marks a span of x, from bottom to top.
func Band(from, to float64, r Role) Mark {
	return func(c Pen) {
		left, right := max(c.X(from), c.Min.X), min(c.X(to), c.Max.X)
		if right > left {
			c.Polygon(r, Rectangle(left, c.Min.Y, right, c.Max.Y)...)
		}
	}
}

// Faults marks the faults of a repeat by bands or, where these would hide what is drawn, by
// lines at their edges, and, if they are labelled, by their numbers and names at the top. Those
// that begin too close for a label each have one together.
func Faults(
	windows []history.Window, at func(time.Duration) float64, labelled, edges bool,
) Mark {
	return func(c Pen) {
		style := Label(c.Plot, RoleText, NoVariant)
		first, last, place, free := 0, -1, vg.Length(0), c.Min.X
		text := func() string {
			if first == last {
				return words.JoinNonEmpty(" ", fmt.Sprintf("F%d", first+1),
					words.Short(windows[first].Name, 24))
			}
			return fmt.Sprintf("F%d–F%d", first+1, last+1)
		}
		write := func() {
			if !labelled || last < first {
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
		for i, w := range windows {
			from, to := max(c.X(at(w.Start)), c.Min.X), c.X(at(w.End))
			if to <= c.Min.X || from >= c.Max.X {
				continue
			}
			inForce(c, at(w.Start), at(w.End), edges)
			if last >= first && from+2 < place+style.Width(text())+2 {
				last = i
				continue
			}
			write()
			first, last, place = i, i, from+2
		}
		write()
	}
}

// inForce shows for how long a fault was in force.
func inForce(c Pen, from, to float64, edges bool) {
	if !edges {
		Band(from, to, roleFault)(c)
		return
	}
	for _, at := range []float64{from, to} {
		c.Upright(Line(RoleLimit, 1, []vg.Length{3, 2}, NoVariant), at)
	}
}

// ShownWidth is how wide a text may be in a browser, whose fonts are wider than the one that
// measures here.
func ShownWidth(style text.Style, txt string) vg.Length { return 1.2 * style.Width(txt) }

// Grid draws a line at every labelled tick of y, and of x if it is to be vertical too.
func Grid(vertical bool) Mark {
	return func(c Pen) {
		style := Line(RoleGrid, 0.75, nil, NoVariant)
		for _, tick := range c.Plot.Y.Tick.Marker.Ticks(c.Plot.Y.Min, c.Plot.Y.Max) {
			if y := c.Y(tick.Value); tick.Label != "" && c.ContainsY(y) && y > c.Min.Y {
				c.StrokeLine2(style, c.Min.X, y, c.Max.X, y)
			}
		}
		if !vertical {
			return
		}
		for _, tick := range c.Plot.X.Tick.Marker.Ticks(c.Plot.X.Min, c.Plot.X.Max) {
			if x := c.X(tick.Value); tick.Label != "" && x > c.Min.X {
				c.Upright(style, tick.Value)
			}
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
func EndLabels(labels []EndLabel) Mark {
	type placed struct {
		EndLabel
		y vg.Length
	}
	return func(c Pen) {
		var all []placed
		for _, l := range labels {
			all = append(all, placed{l, min(max(c.Y(l.At.Y), c.Min.Y), c.Max.Y)})
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
			c.Text(RoleFirst+Role(l.Slot), l.Variant, text.XLeft, text.YCenter,
				vg.Point{X: c.X(l.At.X) + 4, Y: l.y}, l.Text)
		}
	}
}

// Dots draws a diamond at each point, filled or hollow.
func Dots(points []Point, slot, variant int, hollow bool) Mark {
	return func(c Pen) {
		var all vg.Path
		for _, pt := range points {
			for i, corner := range Diamond(c.X(pt.X), c.Y(pt.Y), 3.2) {
				if i == 0 {
					all.Move(corner)
				} else {
					all.Line(corner)
				}
			}
			all.Close()
		}
		c.SetLineStyle(Line(RoleFirst+Role(slot), 1.2, nil, variant))
		if hollow {
			c.Stroke(all)
			return
		}
		c.Fill(all)
	}
}

// decades labels a logarithmic axis of seconds at most of its decades; infinite, if
// positive, is where ∞ stands.
func decades(most int, infinite float64) plot.TickerFunc {
	return func(from, to float64) (ticks []plot.Tick) {
		first, last := int(math.Round(math.Log10(from))), int(math.Floor(math.Log10(to)+1e-3))
		if infinite > 0 {
			last = int(math.Floor(math.Log10(infinite) - 0.5))
		}
		step := (last - first + most) / most
		for e := first; e <= last; e++ {
			tick := plot.Tick{Value: math.Pow(10, float64(e))}
			if (e-first)%step == 0 {
				tick.Label = words.Decade(e)
			}
			ticks = append(ticks, tick)
		}
		if infinite > 0 {
			ticks = append(ticks, plot.Tick{Value: infinite, Label: "∞"})
		}
		return ticks
	}
}

// TimeAxis makes the y axis logarithmic in seconds, around all the given
// values: whole decades, at most most of them labelled, with a place for ∞
// on top if one is infinite. It returns what to draw a value at.
func TimeAxis(p *plot.Plot, values []float64, most int) (at func(float64) float64) {
	low, high, anyInfinite := bounds(values)
	p.Y.Scale = plot.LogScale{}
	p.Y.Min = math.Pow(10, math.Floor(math.Log10(low)))
	p.Y.Max = math.Pow(10, math.Ceil(math.Log10(high)))
	if p.Y.Max <= p.Y.Min {
		p.Y.Max = p.Y.Min * 10
	}
	infinite := 0.0
	if anyInfinite {
		p.Y.Max *= 10
		infinite = p.Y.Max / 1.5
	}
	p.Y.Tick.Marker = decades(most, infinite)
	return func(v float64) float64 {
		if math.IsInf(v, 1) {
			return infinite
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

// RoundTicks labels an axis at round numbers, about most of them.
func RoundTicks(most int) plot.TickerFunc {
	return func(from, to float64) (ticks []plot.Tick) {
		step := NiceStep((to - from) / float64(most))
		for i := math.Ceil(from/step - 1e-9); i*step <= to*1.0001; i++ {
			value := i*step + 0 // adding 0 turns -0 into 0
			ticks = append(ticks, plot.Tick{Value: value, Label: words.PlainNumber(value)})
		}
		return ticks
	}
}

// Since makes the x axis one of seconds, with labels at about most of them.
func Since(p *plot.Plot, end float64, most int) {
	p.X.Min, p.X.Max = 0, max(end, 1e-3)
	p.X.Tick.Marker = RoundTicks(most)
	p.X.Label.Text = "seconds since the start"
}

// Rows gives the y axis a row of height 1 for each label, the first at the top.
func Rows(p *plot.Plot, labels ...string) {
	var ticks plot.ConstantTicks
	for i, label := range labels {
		ticks = append(ticks, plot.Tick{Value: float64(len(labels)-i) - 0.5, Label: label})
	}
	p.Y.Min, p.Y.Max = 0, float64(len(labels))
	p.Y.Tick.Marker, p.Y.Tick.Length, p.Y.Padding = ticks, 0, 4
}

// LabelLast keeps the ticks of x but not their labels, which stand once, below the last of
// several plots.
func LabelLast(plots []*plot.Plot) {
	for _, p := range plots[:len(plots)-1] {
		labelled := p.X.Tick.Marker
		p.X.Label.Text = ""
		p.X.Tick.Marker = plot.TickerFunc(func(from, to float64) []plot.Tick {
			ticks := labelled.Ticks(from, to)
			for i := range ticks {
				ticks[i].Label = ""
			}
			return ticks
		})
	}
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

// Draw draws plots of the given heights below each other, their data areas
// aligned; right keeps room for labels beside the data.
func (f *Figure) Draw(width, right vg.Length, plots []*plot.Plot, heights ...vg.Length) {
	f.areas, f.height = nil, 0
	for _, h := range heights {
		f.height += h
	}
	canvas := vgsvg.New(width, f.height)
	left, top := leftmost(plots, width), f.height
	for i, p := range plots {
		whole := draw.NewCanvas(canvas, width, f.height)
		whole.Min.Y, whole.Max.Y = top-heights[i], top
		// Shift the plot so that all data areas start at the same x.
		dc := p.DataCanvas(whole)
		area := draw.Crop(whole, left-dc.Min.X, -right, 0, -5)
		p.Draw(area)
		f.areas = append(f.areas, p.DataCanvas(area).Rectangle)
		top -= heights[i]
	}
	f.Show(canvas)
}

// Show takes a drawing for the figure's, described by its title and its finding.
func (f *Figure) Show(canvas *vgsvg.Canvas) {
	f.svg, f.err = inline(canvas, f.ID, f.Title, f.Finding)
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

// Place fills in the geometry of what was drawn: its rows, whose x goes evenly from
// first to last on the shared axis of p.
func (f *Figure) Place(p *plot.Plot, first, last float64) {
	rows := len(f.Rows)
	area := f.areas[len(f.areas)-1]
	at := func(x float64) float64 {
		return float64(area.Min.X) + p.X.Norm(x)*float64(area.Max.X-area.Min.X)
	}
	f.X0, f.From = round1(at(first)), rounded6(first)
	if rows > 1 {
		f.Step = rounded6((last - first) / float64(rows-1))
		f.DX = math.Round((at(last)-at(first))/float64(rows-1)*1000) / 1000
	}
	f.Y0 = round1(float64(f.height - f.areas[0].Max.Y))
	f.Y1 = round1(float64(f.height - area.Min.Y))
}

// rounded6 keeps millionths, which are below what any chart shows.
func rounded6(x float64) float64 { return math.Round(x*1e6) / 1e6 }

func round1(x float64) float64 { return math.Round(x*10) / 10 }

// Violation is a line where the first violation became true.
func Violation(at float64, labelled bool) Mark {
	return func(c Pen) {
		x, ok := c.Upright(Line(RoleLimit, 1.25, nil, NoVariant), at)
		if ok && labelled { // the faults have the top
			c.Text(RoleLimit, NoVariant, text.XLeft, text.YBottom, vg.Point{X: x + 2, Y: c.Min.Y + 2}, "✗")
		}
	}
}
