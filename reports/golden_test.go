package reports_test

import (
	"bytes"
	"flag"
	"html"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"stampede/reports/answer"
	"stampede/reports/export"
	"stampede/reports/words"
)

var update = flag.Bool("update", false, "rewrite the golden files under testdata")

// golden compares got with a file under testdata, or rewrites it. Whatever it is, it has
// nothing that a terminal would obey or a reader would not see.
func golden(t *testing.T, name, got string) {
	t.Helper()
	keepsQuiet(t, name, got)
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (run go test ./reports -update)", err)
	}
	if got != string(want) {
		t.Errorf("%s differs (run go test ./reports -update and look at the diff)\n%s", path,
			firstDifference(got, string(want)))
	}
}

// keepsQuiet finds control characters, marks of direction and, but in what a page says,
// lines that GitHub's runner would obey.
func keepsQuiet(t *testing.T, name, text string) {
	t.Helper()
	page := strings.HasSuffix(name, ".html.txt")
	for i, line := range strings.Split(text, "\n") {
		loud := strings.ContainsFunc(line, func(r rune) bool {
			return r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r))
		})
		if loud || !page && strings.HasPrefix(strings.TrimSpace(line), "::") {
			t.Errorf("%s, line %d is an order to a terminal or a log: %q", name, i+1, line)
		}
	}
}

func firstDifference(got, want string) string {
	a, b := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range a {
		if i >= len(b) || a[i] != b[i] {
			line := ""
			if i < len(b) {
				line = b[i]
			}
			return "line " + strings.Join([]string{a[i], line}, "\nwant ")
		}
	}
	return "it ends too early"
}

var (
	hidden = regexp.MustCompile(
		`(?s)<(style|script)>.*?</(style|script)>|<svg class="(defs|key)".*?</svg>`)
	// The rows of a chart's table are the chart's points: the chart's golden
	// file has them.
	chartData = regexp.MustCompile(`(?s)<details class="data">.*?</details>`)
	shape     = regexp.MustCompile(`(?s)<g transform.*?</svg>`)
	block     = regexp.MustCompile(
		`</?(h1|h2|h3|p|li|tr|caption|summary|figcaption|dt|section|nav|button|header|title|desc)[ >]`)
	tag   = regexp.MustCompile(`<[^>]*>`)
	blank = regexp.MustCompile(`[ \t]*\n\s*`)
)

// outline is what a page says, without how it looks: the text in reading
// order, a line for each block.
func outline(page string) string {
	text := hidden.ReplaceAllString(page, "")
	text = chartData.ReplaceAllString(text, "Data of this chart")
	text = shape.ReplaceAllString(text, "")
	text = strings.ReplaceAll(text, "\n", " ")
	text = block.ReplaceAllStringFunc(text, func(s string) string { return "\n" + s })
	for _, cell := range []string{"<td", "<th", "<dd"} {
		text = strings.ReplaceAll(text, cell, " | "+cell)
	}
	text = html.UnescapeString(tag.ReplaceAllString(text, ""))
	return strings.TrimSpace(blank.ReplaceAllString(text, "\n")) + "\n"
}

func TestHTMLGolden(t *testing.T) {
	for _, s := range scenes() {
		t.Run(s.name, func(t *testing.T) {
			golden(t, s.name+".html.txt", outline(s.page(t)))
		})
	}
}

// TestChartGolden keeps one chart of each kind in full, so that a change of
// the drawing library or of the rewriting shows.
func TestChartGolden(t *testing.T) {
	svg := regexp.MustCompile(`(?s)<svg viewBox.*?</svg>`)
	for name, chart := range map[string]struct{ scene, id string }{
		"percentiles.svg": {"three", `"p0-0-t `}, "time.svg": {"three", `"t0-t `},
		"repeats.svg": {"three", `"repeats-chart-t `}, "watched.svg": {"faults", `"w0-0-t `},
	} {
		found := false
		for _, text := range svg.FindAllString(sceneOf(t, chart.scene).page(t), -1) {
			if strings.Contains(text, "aria-labelledby="+chart.id) {
				found = true
				golden(t, name, strings.ReplaceAll(text, "><", ">\n<")+"\n")
			}
		}
		if !found {
			t.Errorf("no chart %s", chart.id)
		}
	}
}

func TestOtherFormatsGolden(t *testing.T) {
	formats := map[string]func(io.Writer, answer.Data) error{
		"md": export.Markdown, "junit.xml": export.JUnit, "metrics.txt": export.Metrics,
		"txt": func(w io.Writer, d answer.Data) error {
			return export.Text(w, d, words.TextOptions{Report: "runs/x/report.html", Exit: 1})
		},
	}
	// Of formats whose files are alike only some are kept.
	kept := map[string][]string{"metrics.txt": {"three", "hostile"},
		"junit.xml": {"three", "hostile", "noisy", "missed", "latent", "nothing",
			"undecided", "invalid"}}
	for _, s := range scenes() {
		for extension, write := range formats {
			if names := kept[extension]; names != nil && !slices.Contains(names, s.name) {
				continue
			}
			t.Run(s.name+"."+extension, func(t *testing.T) {
				var out bytes.Buffer
				if err := write(&out, s.data(t)); err != nil {
					t.Fatal(err)
				}
				golden(t, s.name+"."+extension, out.String())
			})
		}
	}
}
