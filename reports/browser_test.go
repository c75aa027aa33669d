//go:build browser

package reports_test

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"stampede/harness/check"
	"stampede/harness/rundir"
	"stampede/reports/answer"
	"stampede/reports/browsertest"
	"stampede/reports/compare"
)

// tab is an open page.
type tab = browsertest.Tab

// open loads a page from a file.
func open(t testing.TB, page string, before ...chromedp.Action[chromedp.Void]) *tab {
	t.Helper()
	path := filepath.Join(t.TempDir(), "report.html")
	if err := os.WriteFile(path, []byte(page), 0o644); err != nil {
		t.Fatal(err)
	}
	return browsertest.Open(t, "file://"+path, before...)
}

// eval runs an expression in the page.
func eval[T any](t testing.TB, tb *tab, expression string) T {
	t.Helper()
	return browsertest.Eval[T](t, tb, expression)
}

// The backgrounds of the themes, as a browser spells them.
const (
	white = "rgb(255, 255, 255)"
	black = "rgb(20, 22, 26)"
)

// styleOf returns a computed property of the first element that matches.
func styleOf(t *testing.T, tb *tab, selector, property string) string {
	t.Helper()
	return eval[string](t, tb,
		fmt.Sprintf("getComputedStyle(document.querySelector(%q))[%q]", selector, property))
}

// quiet fails if the page said anything or asked for anything but itself.
func quiet(t *testing.T, tb *tab) {
	t.Helper()
	said, requests := tb.Said(t)
	alone(t, said, requests)
}

// alone fails if anything was said or asked for but the page.
func alone(t *testing.T, said, requests []string) {
	t.Helper()
	for _, line := range said {
		t.Errorf("the page said: %s", line)
	}
	for _, url := range requests {
		if !strings.HasPrefix(url, "file://") || !strings.HasSuffix(url, "/report.html") {
			t.Errorf("the page asked for %s", url)
		}
	}
	if len(requests) != 1 {
		t.Errorf("%d requests, want the page alone: %q", len(requests), requests)
	}
}

func emulate(kind string, features ...*emulation.MediaFeature) chromedp.Action[chromedp.Void] {
	return browsertest.Emulate(kind, features...)
}

func scheme(name string) chromedp.Action[chromedp.Void] { return browsertest.Scheme(name) }

// keep writes a screenshot where go test -artifacts keeps it.
func keep(t *testing.T, tb *tab, name string) {
	t.Helper()
	png, err := chromedp.Run(tb, chromedp.FullScreenshot(100))
	if err != nil {
		t.Fatalf("screenshot: %v", err)
	}
	if err := os.WriteFile(filepath.Join(t.ArtifactDir(), name+".png"), png, 0o644); err != nil {
		t.Fatal(err)
	}
	if len(png) < 10_000 {
		t.Errorf("screenshot %s has %d bytes: is the page empty?", name, len(png))
	}
}

func TestBrowserLoadsWithoutAWord(t *testing.T) {
	for _, name := range []string{"three", "nothing", "hostile", "all_failed", "broken_histograms"} {
		t.Run(name, func(t *testing.T) {
			tb := open(t, sceneOf(t, name).page(t))
			eval[any](t, tb, `document.querySelectorAll("details").forEach(d => d.open = true)`)
			quiet(t, tb)
			if got := eval[bool](t, tb, "!document.getElementById('theme').hidden"); !got {
				t.Error("the script did not run: its digest is not what the policy allows")
			}
			if got := styleOf(t, tb, "nav", "position"); got != "sticky" {
				t.Error("the style did not apply: its digest is not what the policy allows")
			}
			if got := eval[int](t, tb, "document.querySelectorAll('script').length"); got != 1 {
				t.Errorf("%d scripts", got)
			}
		})
	}
}

func TestBrowserThemes(t *testing.T) {
	page := render(t, fixture{designs: flashSale(), repeats: 6, ops: 20_000, faults: true}.build(t))
	for name, background := range map[string]string{"light": white, "dark": black} {
		t.Run(name, func(t *testing.T) {
			tb := open(t, page, scheme(name))
			if got := styleOf(t, tb, "body", "backgroundColor"); got != background {
				t.Errorf("background %s, want %s", got, background)
			}
			// A series must take the theme's colour, not the fallback in its attribute.
			curve := styleOf(t, tb, "path.k1", "stroke")
			if dark := curve == "rgb(255, 138, 76)"; dark != (name == "dark") {
				t.Errorf("a series is %s", curve)
			}
			keep(t, tb, name)
			quiet(t, tb)
		})
	}
}

func TestBrowserThemeButton(t *testing.T) {
	tb := open(t, sceneOf(t, "one").page(t), scheme("light"))
	if err := chromedp.Do(tb, chromedp.Click(chromedp.CSS("#theme"))); err != nil {
		t.Fatal(err)
	}
	if got := styleOf(t, tb, "body", "backgroundColor"); got != black {
		t.Errorf("after the button the background is %s", got)
	}
	if got := eval[string](t, tb, "document.getElementById('theme').textContent"); got != "Light" {
		t.Errorf("the button offers %q", got)
	}
}

func TestBrowserWithoutScript(t *testing.T) {
	off := chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, emulation.SetScriptExecutionDisabled,
			emulation.SetScriptExecutionDisabledParams{Value: true})
		return err
	})
	tb := open(t, sceneOf(t, "three").page(t), off)
	visible := func(selector string) bool {
		return eval[bool](t, tb, fmt.Sprintf(`(b => b.width > 20 && b.height > 5)(
			document.querySelector(%q).getBoundingClientRect())`, selector))
	}
	for _, selector := range []string{".badge", ".answer", "table.variants", "table.matrix",
		"#latency figure svg", "#time figure svg", "#repeats figure svg"} {
		if !visible(selector) {
			t.Errorf("%s is not visible without a script", selector)
		}
	}
	if visible("#theme") {
		t.Error("a button that needs the script shows without it")
	}
	// The legend's boxes work by style alone.
	if err := chromedp.Do(tb, chromedp.Click(chromedp.CSS("#tg1"))); err != nil {
		t.Fatal(err)
	}
	if got := styleOf(t, tb, "path.v1", "visibility"); got != "hidden" {
		t.Errorf("a series whose box is empty is %s", got)
	}
	keep(t, tb, "without-script")
}

func TestBrowserKeyboard(t *testing.T) {
	tb := open(t, sceneOf(t, "three").page(t))
	unfold(t, tb, "#time")
	reached := map[string]bool{}
	for range 400 {
		press(t, tb, kb.Tab)
		if eval[bool](t, tb, "document.activeElement === document.body") {
			break // past the end
		}
		at := eval[string](t, tb, `(e => e.className || e.id || e.tagName)(document.activeElement)`)
		reached[at] = true
		if styleOf(t, tb, ":focus", "outlineStyle") == "none" {
			t.Errorf("%s has the focus without showing it",
				eval[string](t, tb, "document.activeElement.outerHTML.slice(0, 80)"))
		}
	}
	for _, want := range []string{"skip", "A", "theme", "scroll", "SUMMARY", "tg0", "plot"} {
		if !reached[want] {
			t.Errorf("tabbing did not reach %s: %v", want, reached)
		}
	}
}

// press is a key of the keyboard.
func press(t *testing.T, tb *tab, key string) {
	t.Helper()
	if err := chromedp.Do(tb, chromedp.KeyEvent(key)); err != nil {
		t.Fatal(err)
	}
}

// unfold opens all that is folded in a section of the page.
func unfold(t *testing.T, tb *tab, section string) {
	t.Helper()
	eval[any](t, tb, fmt.Sprintf(
		"document.querySelectorAll('%s details').forEach(d => { d.open = true })", section))
}

func TestBrowserReadsAChartByKeys(t *testing.T) {
	tb := open(t, sceneOf(t, "three").page(t))
	eval[any](t, tb, "document.querySelector('#latency .plot').focus()")
	for range 11 {
		press(t, tb, kb.ArrowRight)
	}
	readout := eval[string](t, tb, "document.querySelector('#latency .readout').textContent")
	if !strings.HasPrefix(readout, "90 %:") || !strings.Contains(readout, " ms") {
		t.Errorf("ten steps from the start read %q", readout)
	}
	// The cursor stands on the grid line of 90 %.
	x := eval[float64](t, tb, "+document.querySelector('#latency .cursor').getAttribute('x1')")
	label := eval[float64](t, tb, `(e => { const b = e.getBBox(); return b.x + b.width / 2 })(
		[...document.querySelectorAll('#latency figure:first-child svg text')]
			.find(e => e.textContent === '90 %'))`)
	if x < label-2 || x > label+2 {
		t.Errorf("the cursor is at %v, the label 90 %% at %v", x, label)
	}
	press(t, tb, kb.Escape)
	if got := styleOf(t, tb, "#latency .cursor", "visibility"); got != "hidden" {
		t.Errorf("after Escape the cursor is %s", got)
	}
}

// TestBrowserReadsNames: a readout names each value as the head of its column does: of
// stores two quantities may begin with the same word.
func TestBrowserReadsNames(t *testing.T) {
	tb := open(t, sceneOf(t, "three").page(t))
	unfold(t, tb, "#stores")
	unfold(t, tb, "#time")
	for section, want := range map[string][]string{
		"#stores":             {"0 s:  transactions committed ", "  transactions rolled back ", "  WAL "},
		"#time figure.single": {"0 s:  p99 B ", "  p99 A ", "  done/s B ", "  done/s C "},
		"#time .grid": {"0 s:  offered/s ", "  achieved/s ", "  dropped/s ", "  in flight ",
			"  p50 ", "  p99 "},
		"#latency": {"0 %:  B ", "  A ", "  C "},
	} {
		eval[any](t, tb, fmt.Sprintf("document.querySelector('%s .plot').focus()", section))
		press(t, tb, kb.Home)
		readout := eval[string](t, tb, fmt.Sprintf(
			"document.querySelector('%s .readout').textContent", section))
		for _, part := range want {
			if !strings.Contains(readout, part) {
				t.Errorf("%s reads %q, without %q", section, readout, part)
			}
		}
		label := eval[string](t, tb, "document.activeElement.getAttribute('aria-label')")
		title := eval[string](t, tb, "document.activeElement.querySelector('svg title').textContent")
		if want := "Chart: " + title + "; arrow keys read its values"; label != want {
			t.Errorf("%s: a chart is labelled %q, want %q", section, label, want)
		}
	}
	quiet(t, tb)
}

// TestBrowserCursorsMoveTogether: cursors of one panel stand at the same time, also where a
// chart's rows are of another width; one whose chart has ended is gone.
func TestBrowserCursorsMoveTogether(t *testing.T) {
	d := fixture{designs: flashSale()[:4], repeats: 1, ops: 1000}.build(t)
	change := func(variant int, change func(*rundir.Timeline)) {
		ref := answer.RepeatRef{Variant: d.Summary.Variants[variant].Name}
		timeline := d.Timelines[ref]
		change(&timeline)
		d.Timelines[ref] = timeline
	}
	change(1, func(l *rundir.Timeline) { l.BucketNS = l.BucketNS * 4 / 5 })
	change(2, func(l *rundir.Timeline) { l.Kinds[0].Buckets = l.Kinds[0].Buckets[:60] })
	tb := open(t, render(t, d))
	unfold(t, tb, "#time")
	type cursor struct {
		Shown    bool
		At, Step float64
		Read     string
	}
	for key, gone := range map[string]int{kb.Home: 0, kb.End: 2} {
		// The one that lasts longest leads.
		eval[any](t, tb, `[...document.querySelectorAll('#time .grid .plot')].sort((a, b) => {
			const end = p => p.dataset.step * p.parentElement.querySelectorAll('tbody tr').length;
			return end(b) - end(a) })[0].focus()`)
		press(t, tb, key)
		cursors := eval[[]cursor](t, tb, `[...document.querySelectorAll('#time .grid .plot')].map(p => {
			const line = p.querySelector('.cursor'), of = p.dataset;
			const row = (line.getAttribute('x1') - of.x0) / of.dx;
			return {Shown: line.getAttribute('visibility') === 'visible', At: +of.from + row * of.step,
				Step: +of.step, Read: p.nextElementSibling.textContent} })`)
		lead := slices.IndexFunc(cursors, func(c cursor) bool { return c.Shown })
		for i, c := range cursors {
			if !c.Shown {
				gone--
			} else if math.Abs(c.At-cursors[lead].At) > c.Step/2+1e-6 {
				t.Errorf("chart %d is at %v s, another at %v s", i, c.At, cursors[lead].At)
			}
			if c.Shown == (c.Read == "") {
				t.Errorf("chart %d shows its cursor: %v, and reads %q", i, c.Shown, c.Read)
			}
		}
		if gone != 0 {
			t.Errorf("cursors: %+v", cursors)
		}
	}
	quiet(t, tb)
}

// TestBrowserBearsABadLink: what follows the # of somebody's link may be anything.
func TestBrowserBearsABadLink(t *testing.T) {
	tb := open(t, sceneOf(t, "three").page(t))
	eval[any](t, tb, "location.hash = '#%E0%A4%A'")
	eval[any](t, tb, "location.hash = '#v=B'")
	browsertest.Wait(t, tb, "!document.getElementById('tg1').checked")
	quietButHash(t, tb)
}

// A link to a violation opens what hides it.
func TestBrowserFollowsAnchors(t *testing.T) {
	tb := open(t, sceneOf(t, "three").page(t))
	eval[any](t, tb, "location.hash = '#v-no-oversell-redis_get_decr-3'")
	open, err := chromedp.Run(tb, chromedp.Poll[bool](
		"document.getElementById('v-no-oversell-redis_get_decr').open"))
	if err != nil || !open {
		t.Errorf("the evidence stayed closed: %v", err)
	}
	eval[any](t, tb, "location.hash = '#v=B'")
	hidden, err := chromedp.Run(tb, chromedp.Poll[bool]("!document.getElementById('tg1').checked"))
	if err != nil || !hidden {
		t.Errorf("#v=B did not hide the others: %v", err)
	}
	quietButHash(t, tb)
}

// quietButHash is quiet for a page whose hash was changed, which some browsers
// report as a request for the page.
func quietButHash(t *testing.T, tb *tab) {
	t.Helper()
	said, requests := tb.Said(t)
	alone(t, said, requests[:1])
}

// On a phone, and at 400 % zoom, the page itself does not scroll sideways.
func TestBrowserNarrow(t *testing.T) {
	for _, name := range []string{"three", "hostile", "all_failed"} {
		narrow(t, open(t, sceneOf(t, name).page(t)), "narrow-"+name)
	}
}

// narrow fails if a page scrolls sideways at 320 pixels, and keeps what it looks like.
func narrow(t *testing.T, tb *tab, name string) {
	t.Helper()
	at(t, tb, 320, 800)
	if width := eval[int](t, tb, "document.documentElement.scrollWidth"); width > 320 {
		t.Errorf("%s: %d pixels wide at 320", name, width)
	}
	keep(t, tb, name)
}

// at shows a page at a size.
func at(t testing.TB, tb *tab, width, height int64) {
	t.Helper()
	if err := chromedp.Do(tb, chromedp.EmulateViewport(width, height)); err != nil {
		t.Fatal(err)
	}
}

// TestBrowserFits: on a desk the table of designs has no column beside it, on a phone no box
// of the legend is cut off and no command is broken, and on both the text of the charts is of
// one size.
func TestBrowserFits(t *testing.T) {
	d := noisy(t)
	d.Summary.Environment.Deploy = "in-process"
	watch(d, 0)
	tb := open(t, render(t, d))
	size := func(chart string) float64 {
		return eval[float64](t, tb, `(svg => svg.getBoundingClientRect().width /
			svg.viewBox.baseVal.width)(document.querySelector('`+chart+`'))`)
	}
	for _, width := range []int64{1280, 390} {
		at(t, tb, width, 900)
		for _, place := range []string{"#variants .scroll", ".toggles"} {
			if !eval[bool](t, tb, `(e => e.scrollWidth <= e.clientWidth &&
				e.scrollHeight <= e.clientHeight)(document.querySelector('`+place+`'))`) {
				t.Errorf("%s is cut off at %d", place, width)
			}
		}
		if got := eval[string](t, tb, `getComputedStyle(
			document.querySelector('#reproduce pre')).whiteSpace`); got != "pre" {
			t.Errorf("a command is broken at %d: white-space %s", width, got)
		}
		for _, chart := range []string{"#latency .plot.wide svg", "#time .grid.three .plot svg"} {
			if scale := size(chart); scale < 0.8 || scale > 1.3 {
				t.Errorf("%s is drawn %.2f times as large at %d", chart, scale, width)
			}
		}
	}
}

// TestBrowserSizes: of sixteen designs the page is not too long for a phone, its first screen
// has the answer and all designs, and by default it is printed on few sheets.
func TestBrowserSizes(t *testing.T) {
	designs := flashSale()
	for _, name := range []string{"counter_row", "queue_serialized"} {
		more := designs[0]
		more.name = name
		designs = append(designs, more)
	}
	tb := open(t, render(t, fixture{designs: designs, repeats: 1, ops: 1000}.build(t)))
	at(t, tb, 1280, 800)
	if end := eval[float64](t, tb,
		"document.querySelector('.controls').getBoundingClientRect().bottom"); end > 800 {
		t.Errorf("the first screen ends at %v", end)
	}
	if err := chromedp.Do(tb, chromedp.EmulateViewport(390, 844), chromedp.Reload()); err != nil {
		t.Fatal(err)
	}
	if height := eval[int](t, tb, "document.documentElement.scrollHeight"); height > 12_000 {
		t.Errorf("%d pixels long at 390: %s", height, eval[string](t, tb, `[...document.querySelectorAll(
			'header, section')].map(e => e.id + ' ' + Math.round(e.getBoundingClientRect().height)).join()`))
	}
	keep(t, tb, "phone")
	pdf, err := chromedp.Run(tb, chromedp.PrintToPDF(chromedp.PDFOutlineAndTagged()))
	if err != nil {
		t.Fatal(err)
	}
	if sheets := len(sheet.FindAll(pdf, -1)); sheets < 2 || sheets > 4 {
		t.Errorf("%d sheets of paper", sheets)
	}
}

// TestBrowserSizesOfAStoredRun: the page of a run in which a store was killed, with hundreds of
// errors, is not too long for a phone, and on a desk its evidence does not push the times far
// down.
func TestBrowserSizesOfAStoredRun(t *testing.T) {
	tb := open(t, render(t, keptRun(t, "store-faults")))
	if err := chromedp.Do(tb, chromedp.EmulateViewport(1280, 800), chromedp.Reload()); err != nil {
		t.Fatal(err)
	}
	const top = "document.getElementById('variants').getBoundingClientRect().top + scrollY"
	if at := eval[float64](t, tb, top); at > 2400 {
		t.Errorf("the times begin at %v", at)
	}
	if err := chromedp.Do(tb, chromedp.EmulateViewport(390, 844), chromedp.Reload()); err != nil {
		t.Fatal(err)
	}
	if height := eval[int](t, tb, "document.documentElement.scrollHeight"); height > 12_000 {
		t.Errorf("%d pixels long at 390", height)
	}
	keep(t, tb, "phone-stored")
}

// TestBrowserChartsKeepTheirTexts: no label of a chart runs past its chart, wherever a fault
// begins, however long its name, and whatever the number of the operation that crossed a limit.
func TestBrowserChartsKeepTheirTexts(t *testing.T) {
	counted := sceneOf(t, "three").make(t)
	const ms = 1_000_000
	var steps []check.CountedStep
	for i := range int64(230) {
		steps = append(steps, check.CountedStep{Op: uint64(9_638_400 + i), StartNS: (10*i + 1) * ms,
			AtNS: (10*i + 30) * ms})
	}
	v := &counted.Summary.Variants[2].Repeats[0].Invariants[0]
	v.Violations[0].Counted = check.CountUp("units of item-1 held and later paid", 200, steps)
	for name, d := range map[string]answer.Data{"counted": counted,
		"stored": keptRun(t, "store-faults")} {
		tb := open(t, render(t, d))
		for _, width := range []int64{1280, 390} {
			at(t, tb, width, 900)
			eval[any](t, tb, "document.querySelectorAll('details').forEach(d => { d.open = true })")
			for _, text := range eval[[]string](t, tb, `[...document.querySelectorAll('.plot svg text')]
				.filter(e => {
					const box = e.getBoundingClientRect();
					const chart = e.ownerSVGElement.getBoundingClientRect();
					if (e.hasAttribute('transform')) // beside an axis, from the bottom to the top
						return box.bottom > chart.bottom + 1 || box.top < chart.top - 1;
					return box.right > chart.right + 1 || box.left < chart.left - 1 }).map(e => e.textContent)`) {
				t.Errorf("%s: %q runs past its chart at %d", name, text, width)
			}
			if name == "counted" && !eval[bool](t, tb, `(e => e.scrollWidth <= e.clientWidth)(
				document.querySelector('figure.count .plot'))`) {
				t.Errorf("the count is cut off at %d", width)
			}
		}
	}
}

// keptRun is a run of testdata, which is kept without its history.
func keptRun(t *testing.T, name string) answer.Data {
	t.Helper()
	kept, err := zip.OpenReader(filepath.Join("testdata", name+".zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = kept.Close() }()
	dir := t.TempDir()
	if err := os.CopyFS(dir, kept); err != nil {
		t.Fatal(err)
	}
	d, err := answer.Load(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// sheet is a page of a PDF.
var sheet = regexp.MustCompile(`/Type\s*/Page\b`)

func TestBrowserPrints(t *testing.T) {
	tb := open(t, sceneOf(t, "three").page(t), scheme("dark"), emulate("print",
		&emulation.MediaFeature{Name: "prefers-color-scheme", Value: "dark"}))
	if got := styleOf(t, tb, "body", "backgroundColor"); got != white {
		t.Errorf("on paper the background is %s", got)
	}
	// Evidence that is folded on the screen is printed by style alone, without the script;
	// what explains is printed after a link to #full.
	onPaper := func(selector string) bool {
		return eval[bool](t, tb, fmt.Sprintf(`document.querySelector(%q).checkVisibility(
			{contentVisibilityAuto: true})`, selector))
	}
	for selector, always := range map[string]bool{".strip td": true, ".controls td": true,
		".exhibit figure svg": true, ".exhibit .ops td": true, ".variants td": true,
		"#designs td": false, "#stores figure svg": false, "#time .grid figure svg": false} {
		eval[any](t, tb, "location.hash = ''")
		if onPaper(selector) != always {
			t.Errorf("%s is on paper: %v", selector, !always)
		}
		eval[any](t, tb, "location.hash = '#full'")
		if !onPaper(selector) {
			t.Errorf("%s is not on paper where all of it is", selector)
		}
	}
	eval[any](t, tb, "location.hash = ''")
	pdf, err := chromedp.Run(tb, chromedp.PrintToPDF(chromedp.PDFOutlineAndTagged()))
	path := filepath.Join(t.ArtifactDir(), "report.pdf")
	if err = errors.Join(err, os.WriteFile(path, pdf, 0o644)); err != nil {
		t.Fatal(err)
	}
	if len(pdf) < 20_000 {
		t.Errorf("the PDF has %d bytes", len(pdf))
	}
	for _, part := range []string{"/StructTreeRoot", "/Outlines", "/Marked true"} {
		if !bytes.Contains(pdf, []byte(part)) {
			t.Errorf("the PDF has no %s: it is not tagged, or has no outline", part)
		}
	}
	tellsVerdict(t, path, pdf)
}

// tellsVerdict looks for the verdict in a PDF's text, or where nothing can read that in its
// title, which is in UTF-16.
func tellsVerdict(t *testing.T, path string, pdf []byte) {
	t.Helper()
	if _, err := exec.LookPath("pdftotext"); err != nil {
		var title []byte
		for _, unit := range utf16.Encode([]rune("PASS · ✓ correct")) {
			title = fmt.Appendf(title, "%04X", unit)
		}
		if !bytes.Contains(bytes.ToUpper(pdf), title) {
			t.Error("the PDF's title does not say the verdict")
		}
		return
	}
	text, err := exec.CommandContext(t.Context(), "pdftotext", "-layout", path, "-").Output()
	if err != nil {
		t.Fatal(err)
	}
	// Among the evidence that is folded on the screen is that of what broke as expected.
	for _, want := range []string{"PASS", "2 of 2 hold every invariant", "redis_lua",
		"item-1 has 101 of 100 units sold", "Reproduce"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the PDF does not say %q", want)
		}
	}
}

// TestBrowserUnderJenkins: its policy takes away the style and the script of what a build
// has made. The verdict, the tables and the charts stay.
func TestBrowserUnderJenkins(t *testing.T) {
	for _, name := range []string{"three", "all_failed"} {
		page := sceneOf(t, name).page(t)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			w.Header().Set("Content-Security-Policy",
				"sandbox; default-src 'none'; img-src 'self'; style-src 'self'")
			_, _ = io.WriteString(w, page)
		}))
		t.Cleanup(server.Close)
		tb := browsertest.Open(t, server.URL)
		if got := styleOf(t, tb, "nav", "position"); got != "static" {
			t.Fatalf("the style applies (nav is %s): this is not what Jenkins does", got)
		}
		for _, selector := range []string{".badge", ".answer", "dl.parts dd", "table.variants td",
			"table.matrix td", "#latency figure svg path", "#time figure svg path", "details summary"} {
			if !eval[bool](t, tb, fmt.Sprintf(`(e => { const b = e.getBoundingClientRect();
				return b.width > 2 && b.height > 1 && getComputedStyle(e).visibility === 'visible' })(
				[...document.querySelectorAll(%q)].find(e => e.getBoundingClientRect().width > 2) ||
				document.head)`, selector)) {
				t.Errorf("%s: %s cannot be seen", name, selector)
			}
		}
		if got := eval[bool](t, tb, `document.getElementById('theme').checkVisibility()`); got {
			t.Errorf("%s: a button that does nothing shows", name)
		}
		curve := eval[string](t, tb, "getComputedStyle(document.querySelector('path.k1')).stroke")
		if curve != "rgb(213, 94, 0)" {
			t.Errorf("%s: without a style sheet a curve is %s", name, curve)
		}
		keep(t, tb, "jenkins-"+name)
	}
}

// TestBrowserCards: on a phone each design is a card, with the heads of the columns beside
// the values, and still a table to those who cannot see it.
func TestBrowserCards(t *testing.T) {
	tb := open(t, sceneOf(t, "three").page(t))
	at(t, tb, 390, 800)
	if !eval[bool](t, tb, `(e => e.scrollWidth <= e.clientWidth)(
			document.querySelector('#variants .scroll'))`) {
		t.Error("the table scrolls sideways")
	}
	label := eval[string](t, tb, `getComputedStyle(
		document.querySelector('#variants td[data-l=p99]'), '::before').content`)
	if label != `"p99 "` {
		t.Errorf("the p99 is labelled %s", label)
	}
	nodes, err := chromedp.Call(tb, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
	if err != nil {
		t.Fatal(err)
	}
	roles := map[string]int{}
	for _, node := range nodes.Nodes {
		if node.Role != nil {
			roles[string(node.Role.Value)]++
		}
	}
	if roles[`"table"`] == 0 || roles[`"rowheader"`] < 3 {
		t.Errorf("what is read out: %v", roles)
	}
	keep(t, tb, "cards")
}

// The page of a comparison says nothing, asks for nothing and fits a phone.
func TestBrowserCompare(t *testing.T) {
	for name, all := range comparisonScenes(t) {
		tb := open(t, told(t, compare.HTML, false, all...))
		quiet(t, tb)
		narrow(t, tb, "compare-"+name)
	}
}

// In forced colours a heat map keeps shades that differ from the background.
func TestBrowserForcedColours(t *testing.T) {
	tb := open(t, sceneOf(t, "three").page(t),
		browsertest.Emulate("", &emulation.MediaFeature{Name: "forced-colors", Value: "active"}))
	const cells = `path[shape-rendering=crispEdges]`
	stroke, background := styleOf(t, tb, cells, "stroke"), styleOf(t, tb, "body", "backgroundColor")
	if stroke == background || stroke == "none" {
		t.Errorf("cells are %s on %s", stroke, background)
	}
	keep(t, tb, "forced-colours")
	quiet(t, tb)
}

// TestBrowserDrawsSharedAxes: the second chart of a panel shows the axes that the first
// one has, in the colours of the theme.
func TestBrowserDrawsSharedAxes(t *testing.T) {
	for _, theme := range []string{"light", "dark"} {
		tb := open(t, sceneOf(t, "three").page(t), scheme(theme))
		unfold(t, tb, "#time")
		const drawn = `(function () {
			var of = function (n) { return document.querySelectorAll('#time .grid figure')[n]; };
			var use = of(1).querySelector('use').getBBox(), own = of(0).querySelector('g[id]').getBBox();
			return [use.width, use.height, own.width, own.height].join(' '); })()`
		var width, height, ownWidth, ownHeight float64
		text := eval[string](t, tb, drawn)
		if _, err := fmt.Sscan(text, &width, &height, &ownWidth, &ownHeight); err != nil {
			t.Fatal(err)
		}
		if width < 200 || width != ownWidth || height != ownHeight {
			t.Errorf("%s: the axes referred to are %v by %v, the first ones %v by %v", theme,
				width, height, ownWidth, ownHeight)
		}
		keep(t, tb, "shared-axes-"+theme)
		quiet(t, tb)
	}
}

// TestIndexInTheBrowser: the page over many runs says nothing, asks for nothing, and
// follows the theme.
func TestIndexInTheBrowser(t *testing.T) {
	tb := open(t, index(t, mixedRuns(t)))
	if n := eval[int](t, tb, `document.querySelectorAll('table').length`); n < 4 {
		t.Errorf("%d tables", n)
	}
	if !eval[bool](t, tb, `document.querySelector('.trend svg') !== null`) {
		t.Error("there is no trend")
	}
	const shown = `[...document.querySelectorAll('[data-verdict]')].filter(x => x.checkVisibility())`
	for verdict, want := range map[string]int{"FAIL": 1, "PASS": 2, "": 3} {
		n := eval[int](t, tb, fmt.Sprintf(`(() => { const only = document.getElementById('only');
			only.value = %q; only.dispatchEvent(new Event('change')); return %s.length })()`, verdict,
			shown))
		if n != want {
			t.Errorf("%d scenarios shown of the verdict %q, want %d", n, verdict, want)
		}
	}
	quiet(t, tb)
	narrow(t, tb, "index")
	widest := eval[int](t, tb, `(document.querySelectorAll("details").forEach(d => d.open = true),
		Math.max(...[...document.querySelectorAll('details table')].map(x => x.scrollWidth)))`)
	if widest > 320 {
		t.Errorf("the runs of a scenario are %d pixels wide at 320", widest)
	}
}

// The page of a search obeys its own policy and fits a narrow screen.
func TestBrowserKnee(t *testing.T) {
	for _, name := range []string{"mixed", "hostile", "nothing"} {
		tb := open(t, kneePage(t, kneeScenes(t)[name]))
		eval[any](t, tb, `document.querySelectorAll("details").forEach(d => d.open = true)`)
		quiet(t, tb)
		if got := eval[bool](t, tb, "!document.getElementById('theme').hidden"); !got {
			t.Errorf("%s: the script did not run: its digest is not what the policy allows", name)
		}
		narrow(t, tb, "knee-"+name)
	}
}
