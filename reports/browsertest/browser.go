//go:build browser

package browsertest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// Chromium finds the browser: without one the tests are skipped, but not in CI.
func Chromium(t testing.TB) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "headless-shell"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("CI") != "" {
		t.Fatal("no Chromium on PATH; CI must have one")
	}
	t.Skip("no Chromium on PATH: install chromium to test the page in a browser")
	return ""
}

// Tab is an open page with everything that it said and asked for.
type Tab struct {
	context.Context
	mu       sync.Mutex
	said     []string // console, exceptions, the browser's log
	requests []string
}

// Open loads an address in a browser of its own, after some actions.
func Open(t testing.TB, address string, before ...chromedp.Action[chromedp.Void]) *Tab {
	t.Helper()
	deadline, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(stop)
	// Chromium leaves the lock of its profile where TMPDIR says, in a path that must be
	// short.
	kept, err := os.MkdirTemp("", "chromium")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(kept) })
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]),
		chromedp.ExecPath(Chromium(t)), chromedp.UserDataDir(t.TempDir()), chromedp.NoSandbox,
		chromedp.Env("TMPDIR="+kept),
		chromedp.DisableGPU, chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("hide-scrollbars", true))
	allocator, end := chromedp.NewExecAllocator(deadline, options...)
	t.Cleanup(end)
	ctx, closeTab := chromedp.NewContext(allocator)
	t.Cleanup(closeTab)
	tb := &Tab{Context: ctx}
	if err := chromedp.Listen(ctx, tb.hear); err != nil {
		t.Fatalf("start Chromium: %v", err)
	}
	if _, err := chromedp.Call(ctx, network.Enable, network.EnableParams{}); err != nil {
		t.Fatal(err)
	}
	steps := append(before, chromedp.EmulateViewport(1360, 1400), chromedp.Navigate(address))
	if err := chromedp.Do(ctx, steps...); err != nil {
		t.Fatal(err)
	}
	return tb
}

func (tb *Tab) hear(event any) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventConsoleAPICalled:
		tb.said = append(tb.said, fmt.Sprintf("console %s %v", e.Type, e.Args))
	case *runtime.EventExceptionThrown:
		tb.said = append(tb.said, "exception "+e.ExceptionDetails.Text)
	case *log.EventEntryAdded:
		tb.said = append(tb.said, "log "+e.Entry.Text)
	case *network.EventRequestWillBeSent:
		tb.requests = append(tb.requests, e.Request.URL)
	}
}

// Said is what the page has said so far on its console and in the browser's log, and
// what it has asked for.
func (tb *Tab) Said(t testing.TB) (said, requests []string) {
	t.Helper()
	Eval[int](t, tb, "1") // whatever happened before has been heard by now
	tb.mu.Lock()
	defer tb.mu.Unlock()
	return slices.Clone(tb.said), slices.Clone(tb.requests)
}

// Eval runs an expression in the page.
func Eval[T any](t testing.TB, tb *Tab, expression string) T {
	t.Helper()
	value, err := chromedp.Run(tb, chromedp.Evaluate[T](expression))
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	return value
}

// Emulate shows a page as on a medium with some features.
func Emulate(kind string, features ...*emulation.MediaFeature) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia,
			emulation.SetEmulatedMediaParams{Media: kind, Features: features})
		return err
	})
}

// Scheme shows a page to who prefers light or dark.
func Scheme(name string) chromedp.Action[chromedp.Void] {
	return Emulate("", &emulation.MediaFeature{Name: "prefers-color-scheme", Value: name})
}

// Wait waits until an expression is true, on whatever page the browser is by then.
func Wait(t testing.TB, tb *Tab, expression string) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		ok, err := chromedp.Run(tb, chromedp.Evaluate[bool]("Boolean("+expression+")"))
		if err == nil && ok {
			return
		}
		select {
		case <-tick.C:
		case <-tb.Done():
			t.Fatalf("%s never became true: %v", expression, err)
		}
	}
}
