//go:build browser

package reports_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"stampede/reports/browsertest"
	"stampede/reports/compare"
)

// TestAxe: no violation in either theme, in print and on a narrow screen.
func TestAxe(t *testing.T) {
	pages := map[string]string{"faults": sceneOf(t, "faults").page(t), "index": index(t, runs(t))}
	for _, name := range []string{"three", "hostile", "nothing"} {
		pages[name] = sceneOf(t, name).page(t)
	}
	for _, name := range []string{"mixed", "many", "hostile", "nothing"} {
		pages["knee "+name] = kneePage(t, kneeScenes(t)[name])
	}
	comparisons := comparisonScenes(t)
	for _, name := range []string{"regression", "unlike", "several", "hostile", "nothing"} {
		pages["compare "+name] = told(t, compare.HTML, false, comparisons[name]...)
	}
	inBoth := []string{"faults", "index", "knee mixed", "compare regression", "compare unlike"}
	for name, page := range pages {
		t.Run(name, func(t *testing.T) {
			tb := open(t, page, scheme("light"))
			browsertest.Accessible(t, tb)
			if !slices.Contains(inBoth, name) {
				return
			}
			if err := chromedp.Do(tb, scheme("dark")); err != nil {
				t.Fatal(err)
			}
			if got := styleOf(t, tb, "body", "backgroundColor"); got != black {
				t.Fatalf("in the dark the background is %s", got)
			}
			browsertest.Accessible(t, tb)
		})
	}
	for name, action := range map[string]chromedp.Action[chromedp.Void]{
		"print": emulate("print"), "narrow": chromedp.EmulateViewport(320, 800),
	} {
		t.Run(name, func(t *testing.T) {
			tb := open(t, pages["faults"])
			if err := chromedp.Do(tb, action); err != nil {
				t.Fatal(err)
			}
			browsertest.Accessible(t, tb)
		})
	}
}

// TestAxeSees: what it would find, it finds.
func TestAxeSees(t *testing.T) {
	page := strings.Replace(sceneOf(t, "one").page(t), `<html lang="en">`, `<html>`, 1)
	page = strings.Replace(page, ` role="group" aria-label="Command"`, ` aria-label="Command"`, 1)
	got := browsertest.Audit(t, open(t, page))
	for what, found := range map[string][]string{"html-has-lang": got.Violations,
		"aria-prohibited-attr": got.Undecided} {
		if len(found) != 1 || !strings.HasPrefix(found[0], what) {
			t.Errorf("got %q, want %s alone", found, what)
		}
	}
}
