package page

import (
	"fmt"
	"html/template"
	"net/url"
	"strings"

	"stampede/reports/words"
)

// favicon is what a browser's tab shows of one verdict or of three, of which the first is
// the largest: a drawing in the page itself. Without a verdict it is a sheet of paper.
// What is good is a disc with a tick, what is bad a square with a cross, what was not asked
// a small bar, anything else a triangle, so that neither colour nor a sharp eye is needed
// to tell them apart.
func favicon(marks []words.Mark) template.URL {
	places := []string{""}
	if len(marks) == 3 {
		places = []string{"translate(3.5)scale(.5625)", "translate(0 9)scale(.4375)",
			"translate(9 9)scale(.4375)"}
	}
	var parts strings.Builder
	for i, place := range places {
		shape := `<path d="M3 1h10v14H3z" fill="#40464f"/><path d="M5 5h6M5 8h6M5 11h6"/>`
		if len(marks) > 0 {
			shape = partOf(marks[i])
		}
		fmt.Fprintf(&parts, `<g transform="%s">%s</g>`, place, shape)
	}
	svg := `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><g fill="none" ` +
		`stroke="#fff" stroke-width="2">` + strings.ReplaceAll(parts.String(), ` transform=""`, "") +
		`</g></svg>`
	return template.URL("data:image/svg+xml," + url.PathEscape(svg))
}

// partOf draws one verdict, 16 by 16.
func partOf(m words.Mark) string {
	switch m.Class {
	case "good":
		return `<circle cx="8" cy="8" r="8" fill="#0b6b38" stroke="none"/><path d="M4 8.5l3 3 5-6.5"/>`
	case "bad":
		return `<path d="M0 0h16v16H0z" fill="#b3261e" stroke="none"/><path d="M4 4l8 8M12 4l-8 8"/>`
	case "na":
		return `<path d="M1 6h14v4H1z" fill="#40464f" stroke="none"/>`
	}
	return `<path d="M8 0l8 16H0z" fill="#7a5200" stroke="none"/><path d="M8 5.5v5M8 12v2"/>`
}
