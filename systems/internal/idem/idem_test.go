package idem_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"stampede/systems/internal/idem"
)

// memory keeps keys in a map.
type memory struct {
	mu   sync.Mutex
	keys map[string]*entry
}

type entry struct {
	print string
	busy  bool
	kept  *idem.Response
}

func (m *memory) Begin(
	_ context.Context, req idem.Request,
) (idem.Claim, *idem.Response, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.keys[req.Key]
	switch {
	case e == nil:
		e = &entry{print: req.Fingerprint}
		m.keys[req.Key] = e
	case e.print != req.Fingerprint:
		return nil, nil, idem.ErrOtherBody
	case e.busy:
		return nil, nil, idem.ErrInProgress
	}
	if e.kept != nil {
		return nil, e.kept, nil
	}
	e.busy = true
	return claim{m, e}, nil, nil
}

type claim struct {
	m *memory
	e *entry
}

func (claim) Fence() int64                       { return 1 }
func (claim) Again() bool                        { return false }
func (claim) Noted() []byte                      { return nil }
func (claim) Note(context.Context, []byte) error { return nil }

func (c claim) Finish(_ context.Context, a idem.Response) error {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	c.e.kept, c.e.busy = &a, false
	return nil
}

func (c claim) Abandon(context.Context) error {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	c.e.busy = false
	return nil
}

// ask sends a request and returns the status and the body of the answer.
func ask(h http.Handler, key, body string) string {
	r := httptest.NewRequest(http.MethodPost, "/charges", strings.NewReader(body))
	if key != "" {
		r.Header.Set(idem.KeyHeader, key)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return fmt.Sprint(w.Code, " ", w.Header().Get("Content-Type"), " ", w.Body)
}

// counting answers with how often it was called, and with a status of its own.
func counting(status *int) http.Handler {
	calls := 0
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls++
		x := idem.ExecutionOf(r.Context())
		w.Header().Set("Content-Type", "text/odd")
		w.WriteHeader(*status)
		_, _ = fmt.Fprintf(w, "%d\x00 %s", calls, x.Body)
	})
}

func TestMiddleware(t *testing.T) {
	status := http.StatusTeapot
	m := &idem.Middleware{Store: &memory{keys: map[string]*entry{}}, Next: counting(&status),
		MaxBody: 10}
	for _, one := range []struct {
		name, key, body string
		status          int
		want            string
	}{
		{"first", "k1", "a", 418, "418 text/odd 1\x00 a"},
		{"again, byte by byte", "k1", "a", 201, "418 text/odd 1\x00 a"},
		{"another body", "k1", "b", 201, "422 application/json"},
		{"another key", "k2", "a", 503, "503 text/odd 2\x00 a"},
		{"what failed is not kept", "k2", "a", 201, "201 text/odd 3\x00 a"},
		{"no key", "", "a", 201, "400 application/json"},
		{"too large", "k3", "01234567890", 201, "413 application/json"},
	} {
		status = one.status
		if got := ask(m, one.key, one.body); !strings.HasPrefix(got, one.want) {
			t.Errorf("%s: got %q, want %q", one.name, got, one.want)
		}
	}
}

// TestWait: a request waits for the first one with its key, or is turned away.
func TestWait(t *testing.T) {
	for wait, want := range map[time.Duration]string{
		0:               "409 application/json",
		time.Second:     "409 application/json",
		3 * time.Second: "200  slow",
	} {
		synctest.Test(t, func(t *testing.T) {
			m := &idem.Middleware{Store: &memory{keys: map[string]*entry{}}, Wait: wait,
				Next: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					time.Sleep(2 * time.Second)
					_, _ = w.Write([]byte("slow"))
				})}
			first := make(chan string)
			go func() { first <- ask(m, "k", "a") }()
			synctest.Wait()
			if got := ask(m, "k", "a"); !strings.HasPrefix(got, want) {
				t.Errorf("waiting %v: got %q, want %q", wait, got, want)
			}
			if got := <-first; got != "200  slow" {
				t.Errorf("the first: %q", got)
			}
		})
	}
}
