//go:build browser

package browsertest

import (
	"bytes"
	"compress/gzip"
	_ "embed" // axe
	"io"
	"testing"

	"github.com/chromedp/chromedp"
)

// axeZipped is axe-core 4.14.1 of Deque Systems under the MPL 2.0, as npm has it,
// compressed. It checks pages in tests and is part of nothing else.
//
//go:embed axe-core-4.14.1.min.js.gz
var axeZipped []byte

func axeScript() (string, error) {
	unzip, err := gzip.NewReader(bytes.NewReader(axeZipped))
	if err != nil {
		return "", err
	}
	script, err := io.ReadAll(unzip)
	return string(script), err
}

// axeRun runs the rules of WCAG 2.2 A and AA and the best practices over everything
// that the page has, folded or not, and returns a line for each violation.
const axeRun = `(async () => {
	document.querySelectorAll('details').forEach(d => d.open = true);
	const found = await axe.run(document, {resultTypes: ['violations'], runOnly: {type: 'tag',
		values: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']}});
	return {passes: found.passes.length, violations: found.violations.flatMap(v =>
		v.nodes.slice(0, 3).map(n => v.id + ': ' + v.help + ': ' + n.html.slice(0, 200)))};
})()`

// Audited is what axe said: how many rules passed, and a line for each violation.
type Audited struct {
	Passes     int      `json:"passes"`
	Violations []string `json:"violations"`
}

// Audit has axe look at a page.
func Audit(t testing.TB, tb *Tab) Audited {
	t.Helper()
	script, err := axeScript()
	if err != nil {
		t.Fatal(err)
	}
	Eval[bool](t, tb, script+"; true")
	got, err := chromedp.Run(tb, chromedp.Evaluate[Audited](axeRun, chromedp.EvalAwaitPromise))
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// Accessible fails the test for each violation.
func Accessible(t testing.TB, tb *Tab) {
	t.Helper()
	got := Audit(t, tb)
	for _, violation := range got.Violations {
		t.Error(violation)
	}
	if got.Passes < 15 {
		t.Errorf("%d rules passed: it has looked at nothing", got.Passes)
	}
}
