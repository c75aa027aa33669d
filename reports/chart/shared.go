package chart

import (
	"fmt"
	"html/template"
	"slices"
	"strings"
)

// leastShared is for how many bytes in common it is worth referring to them.
const leastShared = 200

// ShareMarks has the charts of a panel, whose axes are the same, say what they have in
// common but once: the first draws it, below its own marks, and the others refer to it.
// That is what lies below all else, or hides nothing: axes, phases and words. What it
// reads is what inline wrote.
func ShareMarks(figures []*Figure) {
	if len(figures) < 2 {
		return
	}
	charts := make([]chartMarks, len(figures))
	for i, f := range figures {
		charts[i] = marksOf(string(f.svg))
	}
	drawn := common(charts, func(c chartMarks) []string { return c.drawn })
	texts := common(charts, func(c chartMarks) []string { return c.texts })
	id := figures[0].ID
	for i, c := range charts {
		c.drawn = shared(c.drawn, drawn, id+"-axes", i == 0)
		c.texts = shared(c.texts, texts, id+"-texts", i == 0)
		figures[i].svg = c.svg()
	}
}

// FiguresOf are those of a panel.
func FiguresOf(panel []TimeFigure) (all []*Figure) {
	for i := range panel {
		all = append(all, &panel[i].Figure)
	}
	return all
}

// chartMarks are a chart's elements: those in its group, from head on, and the texts
// behind it. A chart without a group has but a head.
type chartMarks struct {
	head         string
	drawn, texts []string
}

func marksOf(svg string) chartMarks {
	at := strings.Index(svg, "<g ")
	if at < 0 {
		return chartMarks{head: svg}
	}
	at += strings.IndexByte(svg[at:], '>') + 1
	c := chartMarks{head: svg[:at]}
	var rest string
	c.drawn, rest = elements(svg[at:])
	c.texts, _ = elements(strings.TrimPrefix(rest, "</g>"))
	return c
}

func (c chartMarks) svg() template.HTML {
	if c.drawn == nil {
		return template.HTML(c.head)
	}
	return template.HTML(c.head + strings.Join(c.drawn, "") + "</g>" +
		strings.Join(c.texts, "") + "</svg>")
}

// elements splits markup up to the end of what it stands in.
func elements(markup string) (all []string, rest string) {
	for markup != "" && !strings.HasPrefix(markup, "</") {
		n := elementEnd(markup)
		all, markup = append(all, markup[:n]), markup[n:]
	}
	return all, markup
}

// elementEnd is how long the element is with which markup begins.
func elementEnd(markup string) int {
	switch {
	case strings.HasPrefix(markup, "<g "):
		inside := strings.IndexByte(markup, '>') + 1
		_, rest := elements(markup[inside:])
		return len(markup) - len(rest) + len("</g>")
	case strings.HasPrefix(markup, "<text "):
		return strings.Index(markup, "</text>") + len("</text>")
	}
	return strings.Index(markup, "/>") + len("/>")
}

// common are the elements that every chart has, in the order of the first, nil if it is
// not worth it.
func common(charts []chartMarks, of func(chartMarks) []string) (all []string) {
	size := 0
	for _, element := range of(charts[0]) {
		if !lowest(element) || slices.Contains(all, element) {
			continue
		}
		if !slices.ContainsFunc(charts[1:], func(c chartMarks) bool {
			return !slices.Contains(of(c), element)
		}) {
			all, size = append(all, element), size+len(element)
		}
	}
	if size < leastShared {
		return nil
	}
	return all
}

// lowest says whether an element may be drawn before all others: nothing that a chart
// draws before it could be hidden by it, or hide it.
func lowest(element string) bool {
	switch {
	case strings.HasPrefix(element, "<path "):
		axis := fmt.Sprintf(` stroke-width="%v" class="%s"`, axisWidth, RoleAxis.class(false))
		return strings.Contains(element, axis) ||
			strings.Contains(element, ` class="`+RolePhase.class(true)+`"`)
	case strings.HasPrefix(element, "<g "):
		return !strings.Contains(element, "<path ")
	}
	return true
}

// shared puts what is common before what is a chart's own: itself in the first chart, a
// reference in the others.
func shared(own, common []string, id string, first bool) []string {
	if len(common) == 0 {
		return own
	}
	own = slices.DeleteFunc(own, func(e string) bool { return slices.Contains(common, e) })
	if first {
		return slices.Concat([]string{`<g id="` + id + `">`}, common, []string{"</g>"}, own)
	}
	return append([]string{`<use href="#` + id + `"/>`}, own...)
}
