package chart

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"html"
	"html/template"
	"io"
	"math"
	"strconv"
	"strings"

	"gonum.org/v1/plot/vg/vgsvg"

	"stampede/harness/plain"
)

// errForeignSVG is returned for markup that vgsvg is not known to write: it
// would bypass the page's escaping.
var errForeignSVG = errors.New("unexpected SVG")

// inline turns what a canvas holds into SVG for a page with a strict content
// security policy: no prologue, no size, no style attributes, no fonts. Marks
// get presentation attributes, which work alone, and classes, which let the
// page's theme override them. title and desc describe it to those who cannot
// see it; id makes theirs unique in the page.
//
// Only its output bypasses the page's escaping, so it emits a known set of
// elements and attributes and escapes every value.
func inline(canvas *vgsvg.Canvas, id, title, desc string) (template.HTML, error) {
	var raw bytes.Buffer
	if _, err := canvas.WriteTo(&raw); err != nil {
		return "", fmt.Errorf("draw chart %s: %w", id, err)
	}
	w := svgWriter{id: id, title: title, desc: desc}
	decoder := xml.NewDecoder(&raw)
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return template.HTML(w.out.String()), nil
		}
		if err != nil {
			return "", fmt.Errorf("read chart %s: %w", id, err)
		}
		if err := w.token(token); err != nil {
			return "", fmt.Errorf("rewrite chart %s: %w", id, err)
		}
	}
}

type svgWriter struct {
	out             strings.Builder
	id, title, desc string
	inText          bool
	// paint is that of the path that is still open for more of the same.
	paint string
	// depth counts open groups. The first one turns the chart upside down, as vgsvg
	// draws it, and each text in it back again; labels are the texts just inside it,
	// which are written behind it instead, the right way up. height is the chart's.
	depth  int
	labels strings.Builder
	height float64
}

func (w *svgWriter) token(token xml.Token) error {
	switch t := token.(type) {
	case xml.StartElement:
		if t.Name.Local != "path" {
			w.closePath()
		}
		return w.start(t)
	case xml.EndElement:
		if t.Name.Local == "path" {
			return nil // open until something else comes
		}
		w.closePath()
		w.inText = false
		w.end(t.Name.Local)
	case xml.CharData:
		if w.inText {
			w.texts().WriteString(html.EscapeString(string(t)))
		}
	}
	return nil
}

// texts is where a text goes.
func (w *svgWriter) texts() *strings.Builder {
	if w.depth == 1 {
		return &w.labels
	}
	return &w.out
}

func (w *svgWriter) end(element string) {
	switch element {
	case "text":
		w.texts().WriteString("</text>")
	case "g":
		w.out.WriteString("</g>")
		if w.depth--; w.depth == 0 {
			w.out.WriteString(w.labels.String())
			w.labels.Reset()
		}
	default:
		w.out.WriteString("</" + element + ">")
	}
}

func (w *svgWriter) closePath() {
	if w.paint != "" {
		w.out.WriteString(`"` + w.paint + "/>")
		w.paint = ""
	}
}

func (w *svgWriter) start(el xml.StartElement) error {
	attr := map[string]string{}
	for _, a := range el.Attr {
		attr[a.Name.Local] = a.Value
	}
	switch el.Name.Local {
	case "svg":
		fmt.Fprintf(&w.out, `<svg viewBox="%[1]s" role="img" aria-labelledby="%[2]s-t %[2]s-d" `+
			`font-family="Liberation Sans,Arial,Helvetica,sans-serif" font-size="%[5]s" `+
			`fill="%[6]s" class="%[7]s">`+
			`<title id="%[2]s-t">%[3]s</title><desc id="%[2]s-d">%[4]s</desc>`,
			html.EscapeString(attr["viewBox"]), html.EscapeString(w.id),
			html.EscapeString(plain.Text(w.title)), html.EscapeString(plain.Text(w.desc)),
			usualSize, RoleText.fallback(), RoleText.class(true))
		w.height = heightOf(attr["viewBox"])
	case "g":
		w.depth++
		fmt.Fprintf(&w.out, `<g transform="%s">`, html.EscapeString(attr["transform"]))
	case "path":
		return w.path(attr["d"], attr["style"])
	case "text":
		return w.text(attr)
	default:
		return fmt.Errorf("%w element %q", errForeignSVG, el.Name.Local)
	}
	return nil
}

// path appends to the path before it if that looks the same: ticks and grid
// lines become one element. Areas stay apart, since they may overlap.
func (w *svgWriter) path(d, style string) error {
	paint, err := presentation(style)
	if err != nil {
		return err
	}
	if paint != w.paint || !strings.Contains(paint, ` fill="none"`) {
		w.closePath()
		w.out.WriteString(`<path d="`)
		w.paint = paint
	}
	w.out.WriteString(html.EscapeString(compactPath(d)))
	return nil
}

// usualSize is the font size of most of a chart's text; like its colour, it
// stands once, at the top.
const usualSize = "10"

func (w *svgWriter) text(attr map[string]string) error {
	w.inText = true
	paint, err := presentation(attr["style"])
	if err != nil {
		return err
	}
	usual := fmt.Sprintf(` font-size="%spx" fill="%s" class="%s"`, usualSize,
		RoleText.fallback(), RoleText.class(true))
	if paint == usual {
		paint = ""
	}
	if w.depth == 1 {
		y := w.height + float64(tenths(attr["y"]))/10
		fmt.Fprintf(&w.labels, `<text x="%s" y="%s"%s>`, compactNumber(attr["x"]),
			tenthsText(int(math.Round(y*10))), paint)
		return nil
	}
	fmt.Fprintf(&w.out, `<text x="%s" y="%s" transform="%s"%s>`, compactNumber(attr["x"]),
		compactNumber(attr["y"]), html.EscapeString(attr["transform"]), paint)
	return nil
}

// heightOf is the last of the four numbers of a view box.
func heightOf(viewBox string) float64 {
	fields := strings.Fields(viewBox)
	if len(fields) != 4 {
		return 0
	}
	return float64(tenths(fields[3])) / 10
}

// presentation turns a style attribute into presentation attributes and a
// class.
func presentation(style string) (string, error) {
	var attrs, classes strings.Builder
	for property := range strings.SplitSeq(style, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(property), ":")
		switch name {
		case "fill", "stroke":
			if value == "none" {
				attrs.WriteString(` fill="none"`)
				continue
			}
			role, variant, ok := decode(value)
			if !ok {
				return "", fmt.Errorf("%w colour %q", errForeignSVG, value)
			}
			fmt.Fprintf(&attrs, ` %s="%s"`, name, role.fallback())
			if opacity := role.Opacity(); opacity < 1 {
				fmt.Fprintf(&attrs, ` %s-opacity="%.2g"`, name, opacity)
			}
			if role.heat() {
				// Rows that meet must not show a seam.
				attrs.WriteString(` shape-rendering="crispEdges"`)
			}
			classes.WriteString(role.class(name == "fill"))
			if variant != NoVariant {
				fmt.Fprintf(&classes, " v%d", variant)
			}
		case "stroke-width", "stroke-dasharray", "font-size":
			fmt.Fprintf(&attrs, ` %s="%s"`, name, html.EscapeString(value))
		}
	}
	if classes.Len() == 0 {
		return "", fmt.Errorf("%w: a mark without a colour: %q", errForeignSVG, style)
	}
	return fmt.Sprintf(`%s class="%s"`, attrs.String(), classes.String()), nil
}

// compactPath rounds a path's numbers to a tenth of a point, which is below
// what a screen can show, and writes lines as steps from point to point,
// which have fewer digits. Steps are between rounded points, so that errors
// do not add up. Steps that go on straight along an axis are one.
func compactPath(d string) string {
	var out pathWriter
	for _, step := range pathSteps(d) {
		numbers := strings.FieldsFunc(step[1:], func(r rune) bool { return r == ',' || r == ' ' })
		if (step[0] != 'M' && step[0] != 'L') || len(numbers) != 2 {
			out.other(step[0], numbers)
			continue
		}
		x, y := tenths(numbers[0]), tenths(numbers[1])
		if step[0] == 'M' {
			out.move(x, y)
		} else {
			out.line(x, y)
		}
	}
	return out.done()
}

// pathWriter writes path data in tenths of a point.
type pathWriter struct {
	out  strings.Builder
	x, y int
	// along is the axis, 'h' or 'v', of a straight line that may go on, 0 if there is
	// none, and by how far it goes.
	along byte
	by    int
}

func (p *pathWriter) move(x, y int) {
	p.end()
	p.out.WriteString("M" + pair(x, y))
	p.x, p.y = x, y
}

func (p *pathWriter) line(x, y int) {
	dx, dy := x-p.x, y-p.y
	p.x, p.y = x, y
	switch {
	case dy == 0:
		p.straight('h', dx)
	case dx == 0:
		p.straight('v', dy)
	default:
		p.end()
		p.out.WriteString("l" + pair(dx, dy))
	}
}

// straight goes along an axis. What turns back is a line of its own.
func (p *pathWriter) straight(axis byte, by int) {
	if p.along != axis || (p.by < 0) != (by < 0) {
		p.end()
		p.along = axis
	}
	p.by += by
}

// end writes the straight line that has ended.
func (p *pathWriter) end() {
	if p.along != 0 {
		p.out.WriteString(string(p.along) + tenthsText(p.by))
	}
	p.along, p.by = 0, 0
}

// other writes a command that is neither a move nor a line.
func (p *pathWriter) other(command byte, numbers []string) {
	p.end()
	p.out.WriteByte(command)
	for _, n := range numbers {
		p.out.WriteString(compactNumber(n) + " ")
	}
}

func (p *pathWriter) done() string {
	p.end()
	return p.out.String()
}

// pathSteps splits path data before every command letter.
func pathSteps(d string) (steps []string) {
	from := 0
	for i := 1; i <= len(d); i++ {
		if i == len(d) || (d[i] >= 'A' && d[i] <= 'Z') {
			steps = append(steps, d[from:i])
			from = i
		}
	}
	return steps
}

func tenths(text string) int {
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(x) || math.Abs(x) > 1e6 {
		return 0 // far outside any chart: vgsvg writes no such number
	}
	return int(math.Round(x * 10))
}

// pair writes two numbers of tenths with as few characters as SVG needs.
func pair(x, y int) string {
	first, second := tenthsText(x), tenthsText(y)
	// A sign begins a number, and so does a second decimal point.
	if second[0] == '-' || second[0] == '.' && strings.Contains(first, ".") {
		return first + second
	}
	return first + " " + second
}

func tenthsText(n int) string {
	sign := ""
	if n < 0 {
		sign, n = "-", -n
	}
	switch {
	case n%10 == 0:
		return sign + strconv.Itoa(n/10)
	case n < 10:
		return sign + "." + strconv.Itoa(n)
	}
	return sign + strconv.Itoa(n/10) + "." + strconv.Itoa(n%10)
}

// compactNumber rounds a number to a tenth.
func compactNumber(text string) string { return tenthsText(tenths(text)) }
