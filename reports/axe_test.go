//go:build browser

package reports_test

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"stampede/reports/browsertest"
)

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
			browsertest.Accessible(t, tb)
		})
	}
	for _, name := range []string{"three", "hostile", "nothing"} {
		t.Run(name, func(t *testing.T) { browsertest.Accessible(t, open(t, sceneOf(t, name).page(t))) })
	}
	for _, name := range []string{"mixed", "many", "hostile", "nothing"} {
		t.Run("knee "+name, func(t *testing.T) {
			browsertest.Accessible(t, open(t, kneePage(t, kneeScenes(t)[name])))
		})
	}
	for _, name := range []string{"regression", "unlike", "several", "hostile", "nothing"} {
		t.Run("compare "+name, func(t *testing.T) {
			browsertest.Accessible(t, open(t, comparePage(t, false, comparisonScenes(t)[name])))
		})
	}
	t.Run("index", func(t *testing.T) { browsertest.Accessible(t, open(t, index(t, runs(t)))) })
}

// TestAxeSees: what it would find, it finds.
func TestAxeSees(t *testing.T) {
	page := strings.Replace(sceneOf(t, "one").page(t), `<html lang="en">`, `<html>`, 1)
	got := browsertest.Audit(t, open(t, page))
	if len(got.Violations) != 1 ||
		!strings.HasPrefix(got.Violations[0], "html-has-lang") {
		t.Errorf("got %q", got.Violations)
	}
}
