package chart

import (
	"html/template"
	"slices"
	"strings"
	"testing"

	"stampede/reports/words"
)

// expanded is every mark of a chart, with what it refers to, in the given other chart.
func expanded(chart, first template.HTML) []string {
	c := marksOf(string(chart))
	var all []string
	for _, mark := range slices.Concat(c.drawn, c.texts) {
		if id, isUse := strings.CutPrefix(mark, `<use href="#`); isUse {
			_, inside, _ := strings.Cut(string(first), `<g id="`+strings.TrimSuffix(id, `"/>`)+`">`)
			mark = "<g >" + inside
		}
		if strings.HasPrefix(mark, `<g id=`) || strings.HasPrefix(mark, "<g >") {
			inside, _ := elements(mark[strings.IndexByte(mark, '>')+1:])
			all = append(all, inside...)
			continue
		}
		all = append(all, mark)
	}
	return all
}

// covering are the marks that can hide others, or be hidden, in the order in which they
// are drawn.
func covering(marks []string) []string { return slices.DeleteFunc(slices.Clone(marks), lowest) }

// TestShareMarks: the charts of a panel have the marks that they had, and those in common
// once; what is not worth it, and charts that have nothing in common, stay as they are.
// What a chart draws over something lies over it still.
func TestShareMarks(t *testing.T) {
	axis := `<path d="` + strings.Repeat("M0 0h1", 40) + `" fill="none" stroke="#6B727C" ` +
		`stroke-width="0.75" class="k-axis"/>`
	fault := `<path d="M0 0h1v1Z" class="f-fault"/>`
	curve := `<path d="` + strings.Repeat("M0 0h1", 40) + `" stroke-width="1.5" class="k0"/>`
	zero := strings.ReplaceAll(axis, "0.75", "1")
	turned := `<g transform="rotate(90)"><text x="1" y="2">a &gt; b</text></g>`
	heat := `<g transform="scale(2)"><g transform="scale(3)"><path d="M0 0h1"/></g></g>`
	second := `<text x="3" y="4">` + strings.Repeat("s", 300) + `</text>`
	chart := func(drawn, texts string) template.HTML {
		return template.HTML(`<svg><title>t</title><g transform="scale(1, -1)">` + drawn + "</g>" +
			texts + "</svg>")
	}
	for name, c := range map[string]struct {
		charts []template.HTML
		shared int
	}{
		"some in common": {[]template.HTML{
			chart(heat+axis+turned, second+`<text x="5">1</text>`),
			chart(axis+turned+`<path d="M1 1h1"/>`, second),
			chart(turned+axis, `<text x="5">2</text>`+second),
		}, 2},
		"a curve over a fault": {[]template.HTML{chart(fault+curve+zero, ""),
			chart(curve+zero, "")}, 0},
		"axes of a second plot": {[]template.HTML{chart(fault+curve+axis, ""),
			chart(curve+axis, "")}, 1},
		"too little":    {[]template.HTML{chart(turned, ""), chart(turned, "")}, 0},
		"nothing":       {[]template.HTML{chart(axis, ""), chart(heat, second)}, 0},
		"without marks": {[]template.HTML{`<svg><title>t</title></svg>`, chart(axis, "")}, 0},
		"one":           {[]template.HTML{chart(axis, second)}, 0},
		"no picture":    {[]template.HTML{"", ""}, 0},
	} {
		var figures []*Figure
		for i, svg := range c.charts {
			figures = append(figures, &Figure{ID: words.Letter(i), svg: svg})
		}
		ShareMarks(figures)
		for i, f := range figures {
			want, got := expanded(c.charts[i], ""), expanded(f.svg, figures[0].svg)
			if !slices.Equal(covering(got), covering(want)) {
				t.Errorf("%s: chart %d draws\n%q, want\n%q", name, i, covering(got), covering(want))
			}
			slices.Sort(want)
			if slices.Sort(got); !slices.Equal(got, want) {
				t.Errorf("%s: chart %d has\n%q, want\n%q", name, i, got, want)
			}
			if n := strings.Count(string(f.svg), "<use "); i > 0 && n != c.shared {
				t.Errorf("%s: chart %d refers to %d groups, want %d", name, i, n, c.shared)
			}
			if c.shared == 0 && f.svg != c.charts[i] {
				t.Errorf("%s: chart %d became\n%s, was\n%s", name, i, f.svg, c.charts[i])
			}
		}
	}
}
