//go:build browser

package browsertest

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"io"
	"slices"
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
// that the page has, folded or not, and returns a line for each violation and for each
// place that axe could not decide. Of the latter it leaves out the contrast of texts over
// what it cannot see through, as those of charts: tests of the palette have that; and heads
// of groups of rows, which it takes for heads of the single row that they stand in.
const axeRun = `(async () => {
	const closed = [...document.querySelectorAll('details:not([open])')];
	closed.forEach(d => d.open = true);
	const found = await axe.run(document, {resultTypes: ['violations', 'incomplete'],
		runOnly: {type: 'tag', values: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa',
			'best-practice']}});
	closed.forEach(d => d.open = false);
	const ofRowGroup = n => {
		const cells = [...n.any, ...n.all, ...n.none].flatMap(c => c.relatedNodes);
		return cells.length > 0 && cells.every(c => c.html.includes('scope="rowgroup"'));
	};
	const undecided = found.incomplete.filter(v => v.id !== 'color-contrast').map(v => ({...v,
		nodes: v.nodes.filter(n => v.id !== 'th-has-data-cells' || !ofRowGroup(n))}));
	const lines = (all, what) => all.flatMap(v => v.nodes.slice(0, 3).map(n =>
		v.id + ': ' + what + v.help + ': ' + n.html.slice(0, 200)));
	return {passes: found.passes.length, violations: lines(found.violations, ''),
		undecided: lines(undecided, 'undecided: ')};
})()`

// Audited is what axe said: how many rules passed, a line for each violation, and a line
// for each place that it could not decide about.
type Audited struct {
	Passes     int      `json:"passes"`
	Violations []string `json:"violations"`
	Undecided  []string `json:"undecided"`
}

// Audit has axe look at a page as it is shown now. What was folded is folded afterwards.
func Audit(t testing.TB, tb *Tab) Audited {
	t.Helper()
	script, err := axeScript()
	if err != nil {
		t.Fatal(err)
	}
	if !Eval[bool](t, tb, "typeof axe === 'object'") {
		Eval[bool](t, tb, script+"; true")
	}
	got, err := chromedp.Run(tb, chromedp.Evaluate[Audited](axeRun, chromedp.EvalAwaitPromise))
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// Accessible fails the test for each violation, and for each place that axe could not
// decide about.
func Accessible(t testing.TB, tb *Tab) {
	t.Helper()
	got := Audit(t, tb)
	for _, line := range slices.Concat(got.Violations, got.Undecided) {
		t.Error(line)
	}
	if got.Passes < 15 {
		t.Errorf("%d rules passed: it has looked at nothing", got.Passes)
	}
}
