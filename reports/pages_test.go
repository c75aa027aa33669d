//go:build browser

package reports_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"stampede/harness/rundir"
	"stampede/reports/answer"
	"stampede/reports/browsertest"
	"stampede/reports/page"
)

// widths are those of a desk and of a phone, in CSS pixels.
var widths = map[string]int64{"1280": 1280, "390": 390}

// TestPages makes the page of the newest run of each scenario under the folder that
// STAMPEDE_PAGES names and looks at it light and dark and on paper, wide and narrow: it
// says nothing, asks for nothing, all of it fits, and axe finds nothing in any
// of them. What it looks like is kept in that folder's shots. See `make pages`.
func TestPages(t *testing.T) {
	folder := os.Getenv("STAMPEDE_PAGES")
	if folder == "" {
		t.Skip("STAMPEDE_PAGES names no folder")
	}
	shots := filepath.Join(folder, "shots")
	if err := os.MkdirAll(shots, 0o755); err != nil {
		t.Fatal(err)
	}
	runs, err := filepath.Glob(filepath.Join(folder, "*", "latest", rundir.SummaryFile))
	if err != nil || len(runs) == 0 {
		t.Fatalf("no runs under %s: %v", folder, err)
	}
	for _, path := range runs {
		run := filepath.Dir(path)
		name := filepath.Base(filepath.Dir(run))
		t.Run(name, func(t *testing.T) { lookAt(t, run, filepath.Join(shots, name)) })
	}
}

// lookAt shows a run's page in all ways and keeps what it looks like.
func lookAt(t *testing.T, run, shot string) {
	d, err := answer.Load(run)
	if err != nil {
		t.Fatal(err)
	}
	page := write(t, page.HTML, d)
	if t.Logf("%d bytes", len(page)); len(page) > maxPage {
		t.Errorf("%d bytes, limit %d", len(page), maxPage)
	}
	tb := open(t, page)
	for _, theme := range []string{"light", "dark"} {
		for width, pixels := range widths {
			if err := chromedp.Do(tb, scheme(theme), chromedp.EmulateViewport(pixels, 900)); err != nil {
				t.Fatal(err)
			}
			fits(t, tb, theme+", "+width)
			browsertest.Accessible(t, tb)
			picture(t, tb, shot+"-"+theme+"-"+width+".jpg")
		}
	}
	paper := chromedp.EmulateViewport(paperWidth, 1000)
	if err := chromedp.Do(tb, emulate("print"), paper); err != nil {
		t.Fatal(err)
	}
	fits(t, tb, "paper")
	pdf, err := chromedp.Run(tb, chromedp.PrintToPDF(chromedp.PDFOutlineAndTagged()))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(shot+".pdf", pdf, 0o644); err != nil {
		t.Fatal(err)
	}
	quiet(t, tb)
	browsertest.Accessible(t, tb)
}

// maxPage is how many bytes the page of a real scenario may have.
const maxPage = 2_000_000

// paperWidth is that of a sheet of A4 within its margins, in CSS pixels.
const paperWidth = 718

// fits fails for what does not fit the page.
func fits(t *testing.T, tb *tab, shown string) {
	t.Helper()
	if crowded := browsertest.Crowded(t, tb); len(crowded) > 0 {
		t.Errorf("%s:\n\t%s", shown, strings.Join(crowded, "\n\t"))
	}
}

// picture keeps what a page looks like, from its top to its end.
func picture(t *testing.T, tb *tab, path string) {
	t.Helper()
	shot, err := chromedp.Run(tb, chromedp.FullScreenshot(85))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, shot, 0o644); err != nil {
		t.Fatal(err)
	}
}
