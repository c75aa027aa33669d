package edge_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"stampede/harness/edge"
)

// crowd sends a request n times at once and waits for the answers.
func crowd(t *testing.T, e http.Handler, n int, text string) []*httptest.ResponseRecorder {
	t.Helper()
	answers := make([]*httptest.ResponseRecorder, n)
	var group sync.WaitGroup
	for i := range answers {
		group.Go(func() { answers[i] = ask(t, e, strings.ReplaceAll(text, "{i}", fmt.Sprint(i%2))) })
	}
	group.Wait()
	return answers
}

// TestCoalescing has rows of what a hundred viewers that ask at the same time cost the origin and
// how long they wait, in its delays of a second. Then they ask again.
func TestCoalescing(t *testing.T) {
	on, while := edge.Config{Coalesce: true}, edge.Config{Coalesce: true, StaleWhileRevalidate: true}
	for _, c := range []struct {
		name         string
		cfg          edge.Config
		origin       string
		ask          string
		first, again int // requests to the origin
		waits, then  int // seconds
		status       int
	}{
		{"concurrent misses make one request", on,
			"200 | Cache-Control: max-age=60", "GET /a", 1, 0, 1, 0, 200},
		{"without coalescing each makes one", edge.Config{},
			"200 | Cache-Control: max-age=60", "GET /a", 100, 0, 1, 0, 200},
		{"two variants make two", on,
			"200 | Cache-Control: max-age=60 | Vary: X", "GET /a | X: {i}", 2, 0, 2, 0, 200},
		{"viewers who want it validated do not wait", on,
			"200 | Cache-Control: max-age=60", "GET /a | Cache-Control: no-cache", 100, 100, 1, 1, 200},
		{"what cannot be shared is asked for at the same time, then without waiting", on,
			"200 | Cache-Control: private", "GET /a", 100, 100, 2, 1, 200},
		{"so is what must always be validated", on,
			`200 | Cache-Control: no-cache, max-age=60 | Etag: "a"`, "GET /a", 100, 100, 2, 1, 200},
		{"so is a response to Authorization", on,
			"200 | Cache-Control: max-age=60", "GET /a | Authorization: {i}", 100, 100, 2, 1, 200},
		{"an origin that is slower than the lifetime is asked once", on,
			"200 | Cache-Control: max-age=1", "GET /a", 1, 1, 1, 1, 200},
		{"a stale one is served meanwhile", while,
			"200 | Cache-Control: max-age=1, stale-while-revalidate=60", "GET /a", 1, 1, 1, 0, 200},
		{"a failure is shared by those who waited", on, "200 | @down", "GET /a", 1, 1, 1, 1, 502},
		{"so is the status of an error", on, "503", "GET /a", 1, 1, 1, 1, 503},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := &origin{says: says(c.origin + "| @delay: 1s")}
				e := open(t, c.cfg, o)
				defer e.Close()
				before := 0
				for _, want := range [][2]int{{c.first, c.waits}, {c.again, c.then}} {
					began := time.Now()
					for _, w := range crowd(t, e, 100, c.ask) {
						if w.Code != c.status {
							t.Errorf("%d %s", w.Code, w.Body)
						}
					}
					if took := time.Since(began); took != time.Duration(want[1])*time.Second {
						t.Errorf("it took %s, not %d s", took, want[1])
					}
					synctest.Wait()
					if n := o.count() - before; n != want[0] {
						t.Errorf("%d requests to the origin, not %d: %+v", n, want[0], e.Counts())
					}
					before = o.count()
				}
				if n := e.Counts().Requests(); n != 200 {
					t.Errorf("%d requests were counted: %+v", n, e.Counts())
				}
			})
		})
	}
}

// TestPrivateIsNotShared: each viewer has a response of its own.
func TestPrivateIsNotShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, says := range []string{"200 | Cache-Control: private", "200 | Set-Cookie: {n}",
			"200 | Cache-Control: max-age=9 | Vary: *"} {
			e := open(t, edge.Config{Coalesce: true}, &origin{says: []string{says + "| @delay: 1s"}})
			seen := map[string]bool{}
			for _, w := range crowd(t, e, 50, "GET /a") {
				seen[w.Body.String()] = true
			}
			if len(seen) != 50 {
				t.Errorf("%s: 50 viewers got %d responses", says, len(seen))
			}
			e.Close()
		}
	})
}

// TestCoalescingBeginsAgain: one response that cannot be shared neither keeps those without
// Authorization apart, nor anybody once there is one that can.
func TestCoalescingBeginsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &origin{says: says("200 | Cache-Control: private", "200 | Cache-Control: private",
			"200 | Cache-Control: max-age=1", "200 | Cache-Control: max-age=60 | @delay: 1s")}
		e := open(t, edge.Config{Coalesce: true}, o)
		defer e.Close()
		ask(t, e, "GET /a | Authorization: me")
		ask(t, e, "GET /a")
		ask(t, e, "GET /a")
		time.Sleep(time.Second)
		crowd(t, e, 50, "GET /a")
		if o.count() != 4 {
			t.Errorf("%d requests: %+v", o.count(), e.Counts())
		}
		o = &origin{says: says("200 | Cache-Control: max-age=60 | @delay: 1s")}
		e = open(t, edge.Config{Coalesce: true}, o)
		defer e.Close()
		ask(t, e, "GET /a | Authorization: me")
		crowd(t, e, 50, "GET /a")
		if o.count() != 2 {
			t.Errorf("%d requests: %+v", o.count(), e.Counts())
		}
	})
}

// TestErrorsAreNotShared: those that waited get the status of an error without its body.
func TestErrorsAreNotShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := open(t, edge.Config{Coalesce: true}, &origin{says: says("503 | @delay: 1s")})
		defer e.Close()
		with := 0
		for _, w := range crowd(t, e, 50, "GET /a") {
			if w.Body.String() == "v1" {
				with++
			}
		}
		if with != 1 {
			t.Errorf("%d viewers got the body", with)
		}
	})
}

// TestViewersMayLeave: one that gives up neither waits on nor ends what others wait for.
func TestViewersMayLeave(t *testing.T) {
	for name, leaves := range map[string]int{"leader": 0, "follower": 1} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := &origin{says: says("200 | Cache-Control: max-age=60 | @delay: 5s")}
				e := open(t, edge.Config{Coalesce: true}, o)
				defer e.Close()
				ctx, cancel := context.WithCancel(t.Context())
				var group sync.WaitGroup
				for viewer := range 3 {
					time.Sleep(time.Second) // the first one leads
					group.Go(func() {
						if viewer != leaves {
							if w := ask(t, e, "GET /a"); w.Body.String() != "v1" {
								t.Errorf("%d %s", w.Code, w.Body)
							}
							return
						}
						r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/a", http.NoBody)
						e.ServeHTTP(httptest.NewRecorder(), r)
						if left := ctx.Err() != nil; leaves == 1 && (!left || o.count() != 1) {
							t.Error("a follower was not let go")
						}
					})
				}
				cancel()
				group.Wait()
				if o.count() != 1 {
					t.Errorf("%d requests to the origin", o.count())
				}
			})
		})
	}
}

// TestInvalidationOvertakesAFlight: what was asked for before a change is given to those that asked
// before, and neither stored nor given to those that ask after.
func TestInvalidationOvertakesAFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := "200 | Cache-Control: max-age=60 | @delay: 5s"
		o := &origin{says: says(slow, "204", slow)}
		e := open(t, edge.Config{Coalesce: true}, o)
		defer e.Close()
		var group sync.WaitGroup
		for i, want := range []string{"v1", "v1", "", "v3", "v3", "v3", "v3"} {
			group.Go(func() {
				time.Sleep(time.Duration(i)*time.Second + time.Millisecond)
				method := http.MethodGet
				if want == "" {
					method = http.MethodPost
				}
				if w := ask(t, e, method+" /a"); w.Body.String() != want {
					t.Errorf("viewer %d got %s, not %s", i, w.Body, want)
				}
			})
		}
		group.Wait()
		if w := ask(t, e, "GET /a"); w.Body.String() != "v3" || o.count() != 3 {
			t.Errorf("%s is stored after %d requests", w.Body, o.count())
		}
	})
}

// TestOneValidationInTheBackground: stale viewers start one, which Close ends.
func TestOneValidationInTheBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &origin{says: says("200 | Cache-Control: max-age=1, stale-while-revalidate=60",
			"200 | @delay: 1h")}
		e := open(t, staleWhile(), o)
		ask(t, e, "GET /a")
		time.Sleep(2 * time.Second)
		for _, w := range crowd(t, e, 100, "GET /a") {
			if w.Body.String() != "v1" {
				t.Errorf("%d %s", w.Code, w.Body)
			}
		}
		began := time.Now()
		e.Close()
		if n := e.Counts(); time.Since(began) != 0 || n.OriginRequests != 2 || n.Stale != 100 ||
			n.OriginFailures != 0 {
			t.Errorf("closed after %s: %+v", time.Since(began), n)
		}
		time.Sleep(2 * time.Second) // longer than the pause after a failure
		w := ask(t, e, "GET /a")
		synctest.Wait()
		if w.Body.String() != "v1" || o.count() != 2 {
			t.Error("a closed edge must not begin a validation")
		}
	})
}

// TestMemoryIsBounded: neither URIs nor variants grow beyond the bounds.
func TestMemoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &origin{says: says("200 | Cache-Control: max-age=60 | Vary: X | @size: 1000")}
		e := open(t, edge.Config{MaxBytes: 200_000}, o)
		defer e.Close()
		for i := range 100 {
			ask(t, e, fmt.Sprintf("GET /a | X: %d", i))
		}
		if n := e.Counts(); n.Objects != 64 {
			t.Errorf("a hundred variants: %+v", n)
		}
		for i := range 1000 {
			ask(t, e, fmt.Sprintf("GET /%d", i))
			if n := e.Counts(); n.Bytes > 200_000 || n.Bytes < 1000*n.Objects {
				t.Fatalf("%+v", n)
			}
		}
		if n := e.Counts(); n.Evicted == 0 || n.Objects < 50 {
			t.Errorf("%+v", n)
		}
	})
}

// TestFreshnessAgainstAnOracle compares hits at random times with sums of whole seconds.
func TestFreshnessAgainstAnOracle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(1, 2))
		hits := 0
		for i := range 600 {
			text, age, lifetime, delay := "200", 0, 0, random.IntN(3)
			if random.IntN(2) == 0 {
				lifetime = random.IntN(9)
				// The origin's clock is asked after its delay.
				text += fmt.Sprintf(" | Date: {now} | Expires: {now+%d}", lifetime)
			}
			for _, name := range []string{"max-age", "s-maxage"} { // the latter goes before
				if random.IntN(3) == 0 {
					lifetime = random.IntN(9)
					text += fmt.Sprintf(" | Cache-Control: %s=%d", name, lifetime)
				}
			}
			if random.IntN(3) == 0 {
				age = random.IntN(5)
				text += fmt.Sprintf(" | Age: %d", age)
			}
			o := &origin{says: says(text + fmt.Sprintf(" | @delay: %ds", delay))}
			e := open(t, plain(), o)
			ask(t, e, "GET /a")
			after := random.IntN(6)
			time.Sleep(time.Duration(after) * time.Second)
			w := ask(t, e, "GET /a")
			fresh := age + delay + after
			if hit := o.count() == 1; hit != (fresh < lifetime) {
				t.Errorf("%d: %s after %d s: hit is %t, age %d, lifetime %d", i, text, after, hit, fresh,
					lifetime)
			} else if hit {
				hits++
				if got := w.Header().Get("Age"); got != fmt.Sprint(fresh) {
					t.Errorf("%d: Age %s, not %d", i, got, fresh)
				}
			}
			e.Close()
		}
		if hits < 60 {
			t.Errorf("only %d hits", hits)
		}
	})
}
