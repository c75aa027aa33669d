package reports

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"html"
	"html/template"
	"io"
	"regexp"
	"strconv"
	"strings"

	"gonum.org/v1/plot/vg/vgsvg"
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
}

func (w *svgWriter) token(token xml.Token) error {
	switch t := token.(type) {
	case xml.StartElement:
		return w.start(t)
	case xml.EndElement:
		if t.Name.Local == "text" {
			w.inText = false
		}
		if t.Name.Local != "path" {
			w.out.WriteString("</" + t.Name.Local + ">")
		}
	case xml.CharData:
		if w.inText {
			w.out.WriteString(html.EscapeString(string(t)))
		}
	}
	return nil
}

func (w *svgWriter) start(el xml.StartElement) error {
	attr := map[string]string{}
	for _, a := range el.Attr {
		attr[a.Name.Local] = a.Value
	}
	switch el.Name.Local {
	case "svg":
		fmt.Fprintf(&w.out, `<svg viewBox="%[1]s" role="img" aria-labelledby="%[2]s-t %[2]s-d" `+
			`font-family="Liberation Sans,Arial,Helvetica,sans-serif">`+
			`<title id="%[2]s-t">%[3]s</title><desc id="%[2]s-d">%[4]s</desc>`,
			html.EscapeString(attr["viewBox"]), html.EscapeString(w.id),
			html.EscapeString(printable(w.title)), html.EscapeString(printable(w.desc)))
	case "g":
		fmt.Fprintf(&w.out, `<g transform="%s">`, html.EscapeString(attr["transform"]))
	case "path":
		paint, err := presentation(attr["style"])
		fmt.Fprintf(&w.out, `<path d="%s"%s/>`, html.EscapeString(compactPath(attr["d"])), paint)
		return err
	case "text":
		w.inText = true
		paint, err := presentation(attr["style"])
		fmt.Fprintf(&w.out, `<text x="%s" y="%s" transform="%s"%s>`,
			html.EscapeString(compactNumber(attr["x"])), html.EscapeString(compactNumber(attr["y"])),
			html.EscapeString(attr["transform"]), paint)
		return err
	default:
		return fmt.Errorf("%w element %q", errForeignSVG, el.Name.Local)
	}
	return nil
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
			if role >= roleSoft {
				attrs.WriteString(` fill-opacity="0.16"`)
			}
			classes.WriteString(role.class(name == "fill"))
			if variant != noVariant {
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

var number = regexp.MustCompile(`-?[0-9]+(\.[0-9]+)?(e[-+][0-9]+)?`)

// compactPath rounds a path's numbers to a tenth of a point, which is below
// what a screen can show, and leaves out what SVG implies.
func compactPath(d string) string {
	d = number.ReplaceAllStringFunc(d, compactNumber)
	return strings.NewReplacer("L", " ").Replace(d)
}

func compactNumber(text string) string {
	x, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return "0"
	}
	rounded := strconv.FormatFloat(x, 'f', 1, 64)
	rounded = strings.TrimSuffix(rounded, ".0")
	if rounded == "-0" {
		return "0"
	}
	return rounded
}
