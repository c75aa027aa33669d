//go:build browser

package reports_test

import (
	"compress/gzip"
	"io"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"
)

// axeScript is axe-core 4.14.1 of Deque Systems under the MPL 2.0, as npm has it,
// compressed. It checks pages in tests and is part of nothing else.
var axeScript = sync.OnceValues(func() (string, error) {
	file, err := os.Open("testdata/axe-core-4.14.1.min.js.gz")
	if err != nil {
		return "", err
	}
	defer file.Close() // opened for reading: nothing to lose
	unzip, err := gzip.NewReader(file)
	if err != nil {
		return "", err
	}
	script, err := io.ReadAll(unzip)
	return string(script), err
})

// axeRun runs the rules of WCAG 2.2 A and AA and the best practices over everything
// that the page has, folded or not, and returns a line for each violation.
const axeRun = `(async () => {
	document.querySelectorAll('details').forEach(d => d.open = true);
	const found = await axe.run(document, {resultTypes: ['violations'], runOnly: {type: 'tag',
		values: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']}});
	return {passes: found.passes.length, violations: found.violations.flatMap(v =>
		v.nodes.slice(0, 3).map(n => v.id + ': ' + v.help + ': ' + n.html.slice(0, 200)))};
})()`

// audited is what axe said.
type audited struct {
	Passes     int      `json:"passes"`
	Violations []string `json:"violations"`
}

// audit has axe look at a page.
func audit(t *testing.T, tb *tab) audited {
	t.Helper()
	script, err := axeScript()
	if err != nil {
		t.Fatal(err)
	}
	eval[bool](t, tb, script+"; true")
	got, err := chromedp.Run(tb, chromedp.Evaluate[audited](axeRun, chromedp.EvalAwaitPromise))
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// accessible fails the test for each violation.
func accessible(t *testing.T, tb *tab) {
	t.Helper()
	got := audit(t, tb)
	for _, violation := range got.Violations {
		t.Error(violation)
	}
	if got.Passes < 15 {
		t.Errorf("%d rules passed: it has looked at nothing", got.Passes)
	}
}

// TestAxe: no violation in either theme, in print and on a narrow screen.
func TestAxe(t *testing.T) {
	faults := sceneOf(t, "faults").page(t)
	for name, before := range map[string][]chromedp.Action[chromedp.Void]{
		"light": {scheme("light")}, "dark": {scheme("dark")}, "print": {emulate("print")},
		"narrow": nil,
	} {
		t.Run(name, func(t *testing.T) {
			tb := open(t, faults, before...)
			if name == "narrow" {
				if err := chromedp.Do(tb, chromedp.EmulateViewport(320, 800)); err != nil {
					t.Fatal(err)
				}
			}
			accessible(t, tb)
		})
	}
	for _, name := range []string{"three", "hostile", "nothing"} {
		t.Run(name, func(t *testing.T) { accessible(t, open(t, sceneOf(t, name).page(t))) })
	}
	for _, name := range []string{"mixed", "many", "hostile", "nothing"} {
		t.Run("knee "+name, func(t *testing.T) {
			accessible(t, open(t, kneePage(t, kneeScenes(t)[name])))
		})
	}
	for _, name := range []string{"regression", "unlike", "several", "hostile", "nothing"} {
		t.Run("compare "+name, func(t *testing.T) {
			accessible(t, open(t, comparePage(t, false, comparisonScenes(t)[name])))
		})
	}
	t.Run("index", func(t *testing.T) { accessible(t, open(t, index(t, runs(t)))) })
}

// TestAxeSees: what it would find, it finds.
func TestAxeSees(t *testing.T) {
	page := strings.Replace(sceneOf(t, "one").page(t), `<html lang="en">`, `<html>`, 1)
	got := audit(t, open(t, page))
	if len(got.Violations) != 1 ||
		!strings.HasPrefix(got.Violations[0], "html-has-lang") {
		t.Errorf("got %q", got.Violations)
	}
}
