package page

import (
	"fmt"
	"slices"
	"strings"

	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"stampede/harness/rundir"
	"stampede/reports/answer"
	"stampede/reports/chart"
	"stampede/reports/words"
)

// anatomy is what some variants consist of: who calls whom, and where faults struck.
type anatomy struct {
	chart.Figure
	Variants []chart.LegendItem
	// Struck is set if a fault hit something.
	Struck bool
	// Roles say what each role does.
	Roles []rundir.Role
}

// anatomies draws the variants, those that are built alike once.
func anatomies(standings []answer.Standing) (list []anatomy) {
	var shapes []string
	by := map[string][]answer.Standing{}
	for _, st := range standings {
		if len(st.Needs) == 0 {
			continue // a foreign server, or a run from before it was recorded
		}
		shape := fmt.Sprint(st.Needs, st.Roles, st.Servers)
		if by[shape] == nil {
			shapes = append(shapes, shape)
		}
		by[shape] = append(by[shape], st)
	}
	for i, shape := range shapes {
		list = append(list, anatomyOf(fmt.Sprintf("a%d", i), by[shape]))
	}
	return list
}

func anatomyOf(id string, alike []answer.Standing) anatomy {
	first := alike[0]
	a := anatomy{Roles: first.Roles}
	var names []string
	for _, st := range alike {
		a.Variants = append(a.Variants, chart.LegendItem{Letter: st.Letter, Name: st.Name})
		names = append(names, st.Name)
	}
	d := newDiagram(alike)
	a.ID, a.Title = id, "What "+words.List(names, 4)+" consist of"
	if len(names) == 1 {
		a.Title = "What " + names[0] + " consists of"
	}
	a.Finding = d.words(first)
	a.Struck = d.struck()
	a.Show(d.draw())
	return a
}

// Sizes of a diagram, in points.
const (
	boxWidth, boxHeight = vg.Length(132), vg.Length(26)
	boxGap, columnGap   = vg.Length(10), vg.Length(74)
)

// box is a part of a system, in a column: the load, the API and the roles, the stores.
type box struct {
	name, note string
	column     int
	x, y       vg.Length // its lower left corner
	struck     []int     // the numbers of the faults that hit it
}

// link goes from one box to another.
type link struct {
	from, to int
	struck   []int
}

type diagram struct {
	boxes []box
	links []link
	// idle are the faults that never fired.
	idle          []string
	width, height vg.Length
}

// newDiagram lays variants out that are built alike: the load calls the API, the API and
// every role may call every store that they need, for all of them are given its address.
func newDiagram(alike []answer.Standing) diagram {
	st, d := alike[0], diagram{boxes: []box{{name: "load"}}}
	add := func(column int, name, note string) {
		d.boxes = append(d.boxes, box{name: name, note: note, column: column})
	}
	add(1, "API", replicasText(st.Servers))
	for _, r := range st.Roles {
		add(1, r.Name, replicasText(r.Replicas))
	}
	for _, need := range st.Needs {
		add(2, sourceTitle(need), "")
	}
	d.place()
	for i, from := range d.boxes {
		for k, to := range d.boxes {
			if from.column == 0 && k == 1 || from.column == 1 && to.column == 2 {
				d.links = append(d.links, link{from: i, to: k})
			}
		}
	}
	d.strikes(alike)
	return d
}

// strikes marks what faults hit, if they fired in any repeat of any of the variants: one
// without evidence has hit nothing.
func (d *diagram) strikes(alike []answer.Standing) {
	fired := map[int]bool{}
	for _, st := range alike {
		for _, r := range st.Repeats {
			for i, w := range answer.FaultWindows(r) {
				if fired[i] = fired[i] || len(w.Evidence) > 0; len(w.Evidence) > 0 {
					d.strike(i+1, w.Fault)
				}
			}
		}
	}
	for i := range len(fired) {
		if !fired[i] {
			d.idle = append(d.idle, fmt.Sprintf("F%d", i+1))
		}
	}
}

// struck reports whether a fault hit something.
func (d *diagram) struck() bool {
	return slices.ContainsFunc(d.boxes, func(b box) bool { return len(b.struck) > 0 }) ||
		slices.ContainsFunc(d.links, func(l link) bool { return len(l.struck) > 0 })
}

// replicasText says how many replicas there are, if not one.
func replicasText(n int) string {
	if n <= 1 {
		return ""
	}
	return fmt.Sprintf(" ×%d", n)
}

// place gives each box its place, columns centred.
func (d *diagram) place() {
	counts := [3]int{}
	for _, b := range d.boxes {
		counts[b.column]++
	}
	high := func(n int) vg.Length { return vg.Length(n)*(boxHeight+boxGap) - boxGap }
	d.width = 3*boxWidth + 2*columnGap + 4
	d.height = high(slices.Max(counts[:])) + 8
	seen := [3]int{}
	for i := range d.boxes {
		b := &d.boxes[i]
		top := d.height - (d.height-high(counts[b.column]))/2
		b.x = 2 + vg.Length(b.column)*(boxWidth+columnGap)
		b.y = top - vg.Length(seen[b.column])*(boxHeight+boxGap) - boxHeight
		seen[b.column]++
	}
}

// strike marks what a fault hit, as package fault words it: "kill redis", or
// "partition counter from postgres".
func (d *diagram) strike(number int, fault string) {
	parts := strings.Fields(fault)
	if len(parts) < 2 {
		return
	}
	target := d.find(parts[1])
	if from := slices.Index(parts, "from"); from > 0 && from+1 < len(parts) {
		store := d.find(parts[from+1])
		for i, l := range d.links {
			if l.from == target && l.to == store {
				d.links[i].struck = words.With(l.struck, number)
			}
		}
		return
	}
	if target >= 0 {
		d.boxes[target].struck = words.With(d.boxes[target].struck, number)
	}
}

// folded names faults, those that follow each other as a range: "F1–F3 F5".
func folded(faults []int) string {
	var parts []string
	numbers := slices.Sorted(slices.Values(faults))
	for i := 0; i < len(numbers); i++ {
		part := fmt.Sprintf("F%d", numbers[i])
		first := i
		for i+1 < len(numbers) && numbers[i+1] == numbers[i]+1 {
			i++
		}
		if i > first {
			part += fmt.Sprintf("–F%d", numbers[i])
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, " ")
}

// fitted is a text with faults behind it, folded; where they have no room, the first one
// and how many more there are.
func fitted(style text.Style, before string, faults []int, room vg.Length) string {
	if whole := before + folded(faults); style.Width(whole) <= room {
		return whole
	}
	return fmt.Sprintf("%sF%d +%d", before, faults[0], len(faults)-1)
}

// find returns the box of a role, of one of its replicas, or of a store or one of its
// members, such as "counter-2"; -1 if there is none.
func (d *diagram) find(name string) int {
	whole := strings.TrimRight(name, "0123456789")
	for i, b := range d.boxes {
		if own := strings.ToLower(b.name); b.column > 0 && (own == name || own+"-" == whole) {
			return i
		}
	}
	return -1
}

// words is the diagram for those who cannot see it.
func (d *diagram) words(st answer.Standing) string {
	text := "The load calls the API" + replicasText(st.Servers)
	var roles, stores []string
	for _, r := range st.Roles {
		roles = append(roles, r.Name+replicasText(r.Replicas))
	}
	for _, need := range st.Needs {
		stores = append(stores, sourceTitle(need))
	}
	if len(roles) > 0 {
		text += "; it and " + words.List(roles, 8)
	} else {
		text += ", which"
	}
	text += " reach " + words.List(stores, 8) + "."
	var hits []string
	for _, b := range d.boxes {
		if len(b.struck) > 0 {
			hits = append(hits, folded(b.struck)+" hit "+b.name)
		}
	}
	for _, l := range d.links {
		if len(l.struck) > 0 {
			hits = append(hits, fmt.Sprintf("%s cut %s off %s", folded(l.struck), d.boxes[l.from].name,
				d.boxes[l.to].name))
		}
	}
	if len(hits) > 0 {
		text += " " + strings.Join(hits, ", ") + "."
	}
	if len(d.idle) > 0 {
		text += " " + words.List(d.idle, 8) + " did not fire."
	}
	return text
}

func (d *diagram) draw() *vgsvg.Canvas {
	canvas := vgsvg.New(d.width, d.height)
	c := draw.NewCanvas(canvas, d.width, d.height)
	style := chart.Label(chart.NewPlot(), chart.RoleText, chart.NoVariant)
	style.XAlign, style.YAlign = text.XCenter, text.YCenter
	for _, l := range d.links {
		d.drawLink(c, style, l)
	}
	for _, b := range d.boxes {
		d.drawBox(c, style, b)
	}
	return canvas
}

func (d *diagram) drawLink(c draw.Canvas, style text.Style, l link) {
	from, to := d.boxes[l.from], d.boxes[l.to]
	start := vg.Point{X: from.x + boxWidth, Y: from.y + boxHeight/2}
	end := vg.Point{X: to.x - 1, Y: to.y + boxHeight/2}
	kind, dashes := chart.RoleAxis, []vg.Length(nil)
	if len(l.struck) > 0 {
		kind, dashes = chart.RoleLimit, chart.Dash(1)
	}
	c.StrokeLine2(chart.Line(kind, 0.9, dashes, chart.NoVariant), start.X, start.Y, end.X, end.Y)
	c.FillPolygon(chart.Ink(chart.RoleText, chart.NoVariant), []vg.Point{end, {X: end.X - 6, Y: end.Y +
		3},
		{X: end.X - 6, Y: end.Y - 3}})
	if len(l.struck) > 0 {
		style.Color = chart.Ink(chart.RoleLimit, chart.NoVariant)
		c.FillText(style, vg.Point{X: (start.X + end.X) / 2, Y: (start.Y+end.Y)/2 + 7},
			fitted(style, "", l.struck, columnGap-8))
	}
}

func (d *diagram) drawBox(c draw.Canvas, style text.Style, b box) {
	kind, width := chart.RoleAxis, vg.Length(0.9)
	if b.column == 2 {
		kind, width = chart.RoleFirst, 1.6 // a store
	}
	if len(b.struck) > 0 {
		kind, width = chart.RoleLimit, 1.8
	}
	outline := chart.Rectangle(b.x, b.y, b.x+boxWidth, b.y+boxHeight)
	c.StrokeLines(chart.Line(kind, width, nil, chart.NoVariant), append(outline, outline[0]))
	name := words.Short(b.name, 20) + b.note
	if len(b.struck) > 0 {
		name = fitted(style, name+" · ", b.struck, boxWidth-8)
	}
	c.FillText(style, vg.Point{X: b.x + boxWidth/2, Y: b.y + boxHeight/2}, name)
}
