//go:build browser

package main

import (
	"testing"

	"stampede/reports/browsertest"
)

// TestBrowserUI: a smoke run is started from the page and followed to its report, and
// nothing is said on the console on the way.
func TestBrowserUI(t *testing.T) {
	s := serveUI(t)
	tb := browsertest.Open(t, s.url)
	wait := func(expression string) {
		t.Helper()
		browsertest.Wait(t, tb, expression)
	}
	click := func(selector string) {
		t.Helper()
		wait("document.querySelector('" + selector + "')")
		browsertest.Eval[any](t, tb, "document.querySelector('"+selector+"').click()")
	}
	click(`a[href="/start/flash-sale-100k"]`)
	wait("document.querySelector('form.start')")
	browsertest.Eval[any](t, tb, `document.querySelectorAll('[name=variant]').forEach(
		b => { b.checked = b.value === 'units_skip_locked'; });
		document.getElementById('profile').value = 'smoke';
		document.getElementById('backend').value = 'processes';
		document.getElementById('seed').value = '1';`)
	click("button.main")
	wait("location.pathname.startsWith('/run/flash-sale-100k/')")
	wait("document.getElementById('state').innerText.includes('units_skip_locked, steady')")
	wait("document.querySelectorAll('.spark path').length === 2")
	wait("/left/.test(document.getElementById('clock').innerText)")
	click("#report")
	wait("document.title.includes('flash-sale-100k') && origin === 'null'")
	wait("!document.getElementById('theme').hidden") // its own script has run
	said, _ := tb.Said(t)
	for _, line := range said {
		t.Errorf("a page said: %s", line)
	}
	if code, errs := s.end(t); code != exitOK {
		t.Errorf("exit code %d\n%s", code, errs)
	}
}
