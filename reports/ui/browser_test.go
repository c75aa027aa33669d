//go:build browser

package ui_test

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"stampede/reports/browsertest"
)

// browse opens the address with the token and waits for the list that follows.
func (s *site) browse(t *testing.T, before ...chromedp.Action[chromedp.Void]) *browsertest.Tab {
	t.Helper()
	tb := browsertest.Open(t, s.server.URL(), before...)
	browsertest.Wait(t, tb, "document.getElementById('runs')")
	return tb
}

// show loads a path of the site and waits for an expression to be true.
func (s *site) show(t *testing.T, tb *browsertest.Tab, path, ready string) {
	t.Helper()
	if err := chromedp.Do(tb, chromedp.Navigate(s.base+path)); err != nil {
		t.Fatal(err)
	}
	browsertest.Wait(t, tb, ready)
}

// silent fails the test for each word that the page said.
func silent(t *testing.T, tb *browsertest.Tab) {
	t.Helper()
	said, _ := tb.Said(t)
	for _, line := range said {
		t.Errorf("the page said: %s", line)
	}
}

// keep writes a screenshot where go test -artifacts keeps it.
func keep(t *testing.T, tb *browsertest.Tab, name string) {
	t.Helper()
	png, err := chromedp.Run(tb, chromedp.FullScreenshot(100))
	if err == nil {
		err = os.WriteFile(filepath.Join(t.ArtifactDir(), name+".png"), png, 0o644)
	}
	if err != nil || len(png) < 5_000 {
		t.Errorf("screenshot %s: %d bytes, %v", name, len(png), err)
	}
}

// TestBrowserPages: each page, in both themes and at two widths, passes axe, says
// nothing, and does not scroll sideways.
func TestBrowserPages(t *testing.T) {
	s := newSite(t, "fails")
	dead, deadName := s.write(t, time.Now().Add(-2*time.Minute))
	done, doneName := s.write(t, time.Now().Add(-time.Minute))
	if err := done.finish(); err != nil {
		t.Fatal(err)
	}
	if err := dead.dir.Close(); err != nil {
		t.Fatal(err)
	}
	s.enter(t)
	s.post(t, "/start", s.form(t))
	s.until(t, "/job", "exit code 5")
	_, liveName := s.write(t, time.Now())
	for _, theme := range []string{"light", "dark"} {
		t.Run(theme, func(t *testing.T) {
			tb := s.browse(t, browsertest.Scheme(theme))
			for _, width := range []int64{1280, 390} {
				if err := chromedp.Do(tb, chromedp.EmulateViewport(width, 900)); err != nil {
					t.Fatal(err)
				}
				for name, path := range map[string]string{"home": "/", "start": "/start/sale", "job": "/job",
					"live": "/run/" + liveName, "done": "/run/" + doneName, "dead": "/run/" + deadName} {
					s.show(t, tb, path, "!document.getElementById('theme').hidden")
					browsertest.Accessible(t, tb)
					if w := browsertest.Eval[int64](t, tb, "document.documentElement.scrollWidth"); w > width {
						t.Errorf("%s: %d pixels wide at %d", name, w, width)
					}
					keep(t, tb, fmt.Sprintf("%s-%d", name, width))
				}
			}
			silent(t, tb)
		})
	}
}

// TestBrowserFollows: the page of a run, and the list, change by themselves.
func TestBrowserFollows(t *testing.T) {
	s := inside(t, "runs")
	r, name := s.write(t, time.Now())
	tb := s.browse(t)
	s.show(t, tb, "/run/"+name, "document.body.innerText.includes('fault: stall')")
	if err := r.finish(); err != nil {
		t.Fatal(err)
	}
	browsertest.Wait(t, tb, "document.getElementById('report') && "+
		"document.getElementById('state').innerText.includes('PASS')")
	s.show(t, tb, "/", "document.querySelectorAll('.runs tbody tr').length === 1")
	s.write(t, time.Now().Add(time.Second))
	browsertest.Wait(t, tb, "document.querySelectorAll('.runs tbody tr').length === 2 && "+
		"document.body.innerText.includes('follow sale')")
	silent(t, tb)
}

// TestBrowserFollowsWhatIsSeen: a page in the background keeps no connection, and catches
// up when it is looked at again.
func TestBrowserFollowsWhatIsSeen(t *testing.T) {
	s := inside(t, "runs")
	r, name := s.write(t, time.Now())
	tb := s.browse(t, chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, page.AddScriptToEvaluateOnNewDocument,
			page.AddScriptToEvaluateOnNewDocumentParams{Source: `
				var opened = [], hide = false, real = EventSource;
				EventSource = function (address) { opened.push(new real(address)); return opened.at(-1); };
				Object.defineProperty(document, 'hidden', {get: () => hide});
				function hidden(yes) { hide = yes; document.dispatchEvent(new Event('visibilitychange')); }`})
		return err
	}))
	const open = "opened.filter(s => s.readyState < 2).length"
	s.show(t, tb, "/run/"+name, "document.body.innerText.includes('fault: stall') && "+open+" === 1")
	browsertest.Eval[any](t, tb, "hidden(true)")
	if n := browsertest.Eval[int](t, tb, open); n != 0 {
		t.Errorf("%d streams in the background", n)
	}
	if err := r.finish(); err != nil {
		t.Fatal(err)
	}
	browsertest.Eval[any](t, tb, "hidden(false)")
	browsertest.Wait(t, tb, "document.getElementById('report') && "+
		"document.getElementById('state').innerText.includes('PASS') && "+open+" === 0")
	silent(t, tb)
}

// TestBrowserListWaitsForTheFocus: a list in which somebody is at work changes when they
// have left it.
func TestBrowserListWaitsForTheFocus(t *testing.T) {
	s := inside(t, "runs")
	s.write(t, time.Now())
	// A page that has not the focus itself tells nobody that an element has lost it.
	tb := s.browse(t, chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, emulation.SetFocusEmulationEnabled,
			emulation.SetFocusEmulationEnabledParams{Enabled: true})
		return err
	}))
	const links = "document.querySelectorAll('#runs a[href^=\"/run/\"]').length"
	s.show(t, tb, "/", links+" > 0")
	browsertest.Eval[any](t, tb, `var before = `+links+`, asked = 0, real = fetch;
		fetch = function (a) { asked++; return real(a); };
		document.querySelector('#runs a').focus()`)
	s.write(t, time.Now().Add(time.Second))
	browsertest.Wait(t, tb, "asked > 0")
	if browsertest.Eval[int](t, tb, links+" - before") != 0 {
		t.Error("the list changed under somebody's hands")
	}
	browsertest.Eval[any](t, tb, "document.activeElement.blur()")
	browsertest.Wait(t, tb, links+" > before")
	silent(t, tb)
}

// TestBrowserKeyboard: a run is started with the keyboard, without script.
func TestBrowserKeyboard(t *testing.T) {
	s := newSite(t, "runs")
	tb := s.browse(t)
	s.show(t, tb, "/start/sale", "document.querySelector('form.start')")
	focused := []string{}
	for range 12 {
		if err := chromedp.Do(tb, chromedp.KeyEvent("\t")); err != nil {
			t.Fatal(err)
		}
		focused = append(focused, browsertest.Eval[string](t, tb,
			"document.activeElement.name || document.activeElement.textContent"))
	}
	if got := strings.Join(focused, ","); !strings.Contains(got,
		"profile,backend,seed,repeats,variant,variant,Start the run") {
		t.Errorf("Tab goes through %s", got)
	}
	browsertest.Eval[any](t, tb, "document.querySelector('button.main').focus()")
	if err := chromedp.Do(tb, chromedp.KeyEvent("\r")); err != nil {
		t.Fatal(err)
	}
	browsertest.Wait(t, tb, "location.pathname.startsWith('/run/sale/') && "+
		"document.body.innerText.includes('fault: stall')")
	silent(t, tb)
}

// TestBrowserSandbox: a stored page runs its script, which can do nothing to this one.
func TestBrowserSandbox(t *testing.T) {
	s := newSite(t, "runs")
	r, name := s.write(t, time.Now())
	hostile := `<!doctype html><title>x</title><p id="p">no script</p><form method="post" ` +
		`action="/start"></form><a href="report.html">r</a><script>
		const said = [origin];
		try { said.push(document.cookie); } catch (e) { said.push('no cookie'); }
		try { said.push(localStorage.length); } catch (e) { said.push('no storage'); }
		try { said.push(String(window.open('/'))); } catch (e) { said.push('no window'); }
		fetch('/').then(() => said.push('fetched'), () => said.push('not fetched')).then(() => {
			try { document.forms[0].submit(); } catch (e) { said.push('no form'); }
			p.textContent = said.join(', '); });
		</script>`
	if err := os.WriteFile(r.dir.File("evil.html"), []byte(hostile), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := r.finish(); err != nil {
		t.Fatal(err)
	}
	s.enter(t)
	_, page := s.get(t, "/run/"+name)
	report := between(page, `id="report" href="`, `"`)
	tb := s.browse(t)
	s.show(t, tb, strings.Replace(report, "report.html", "evil.html", 1),
		"p.textContent.includes('fetched')")
	got := browsertest.Eval[string](t, tb, "p.textContent")
	if got != "null, no cookie, no storage, null, not fetched" {
		t.Errorf("a stored page: %s", got)
	}
	// What it links to is there all the same: no cookie is needed.
	browsertest.Eval[any](t, tb, "document.querySelector('a').click()")
	browsertest.Wait(t, tb, "document.title === 'the report'")
	at, err := url.Parse(browsertest.Eval[string](t, tb, "location.href"))
	if err != nil || at.Path != report {
		t.Errorf("at %s (%v)", at, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.lines) > 0 {
		t.Errorf("it has started %q", s.lines)
	}
}
