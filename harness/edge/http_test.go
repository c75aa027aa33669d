package edge_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"stampede/harness/edge"
)

// serve puts an edge with its own transport, over TCP, before a handler.
func serve(t testing.TB, cfg edge.Config, h http.HandlerFunc) (*edge.Edge, string, *http.Client) {
	t.Helper()
	behind := httptest.NewServer(h)
	t.Cleanup(behind.Close)
	base, err := url.Parse(behind.URL)
	if err != nil {
		t.Fatal(err)
	}
	e, err := edge.New(base, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	front := httptest.NewServer(e)
	t.Cleanup(front.Close)
	return e, front.URL, front.Client()
}

func get(ctx context.Context, t testing.TB, c *http.Client, uri string) (*http.Response, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, uri, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	return c.Do(r)
}

// TestStreamsPassUnbuffered: a viewer reads a line before the origin writes the next, and the
// origin is told when the viewer leaves.
func TestStreamsPassUnbuffered(t *testing.T) {
	next, left := make(chan string), make(chan struct{})
	for _, coalesce := range []bool{false, true} {
		_, base, client := serve(t, edge.Config{Coalesce: coalesce},
			func(w http.ResponseWriter, r *http.Request) {
				http.NewResponseController(w).Flush()
				for {
					select {
					case line := <-next:
						io.WriteString(w, line+"\n")
						http.NewResponseController(w).Flush()
					case <-r.Context().Done():
						left <- struct{}{}
						return
					}
				}
			})
		head, err := client.Head(base + "/stream")
		if err != nil {
			t.Fatal(err)
		}
		head.Body.Close()
		<-left // the origin was asked with GET, and its body is not wanted
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		go func() { next <- "one" }()
		res, err := get(ctx, t, client, base+"/stream")
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(res.Body)
		for _, line := range []string{"two", "three"} {
			lines.Scan()
			next <- line
		}
		if !lines.Scan() || lines.Text() != "three" {
			t.Errorf("read %q", lines.Text())
		}
		leave()
		<-left
		res.Body.Close()
	}
}

// TestBrokenBodies: one that may be stored is an error from its start, another breaks off.
func TestBrokenBodies(t *testing.T) {
	e, base, client := serve(t, edge.Config{Coalesce: true},
		func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Cache-Control", r.URL.Query().Get("cc"))
			if r.URL.Path == "/sized" {
				w.Header().Set("Content-Length", "100")
			}
			io.WriteString(w, "half")
			http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		})
	for _, path := range []string{"/sized", "/chunked"} {
		res, err := get(t.Context(), t, client, base+path+"?cc=max-age=60")
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(res.Body); res.StatusCode != http.StatusBadGateway || err != nil ||
			strings.Contains(string(text), "half") {
			t.Errorf("%s: %d %s %v", path, res.StatusCode, text, err)
		}
		res.Body.Close()
		res, err = get(t.Context(), t, client, base+path+"?cc=no-store")
		if err == nil { // else it broke off before its fields were sent
			_, err = io.ReadAll(res.Body)
			res.Body.Close()
		}
		if !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
			t.Errorf("%s: the viewer took half a body for a whole one: %v", path, err)
		}
	}
	if n := e.Counts(); n.Objects != 0 || n.Failed != 2 || n.OriginFailures != 2 {
		t.Errorf("%+v", n)
	}
}

// TestEncodedBodiesStayEncoded: the edge neither asks for an encoding nor undoes one.
func TestEncodedBodiesStayEncoded(t *testing.T) {
	e, base, client := serve(t, edge.Config{}, func(w http.ResponseWriter, r *http.Request) {
		if accepts := r.Header.Get("Accept-Encoding"); accepts != "" {
			t.Errorf("the origin was asked for %q", accepts)
		}
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Set("Cache-Control", "max-age=60")
		io.WriteString(w, "not gzip")
	})
	client.Transport.(*http.Transport).DisableCompression = true
	for range 2 {
		res, err := get(t.Context(), t, client, base)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(res.Body)
		res.Body.Close()
		if string(text) != "not gzip" || err != nil || res.Header.Get("Content-Encoding") != "gzip" {
			t.Errorf("%s %v %v", text, err, res.Header)
		}
	}
	if n := e.Counts(); n.Hits != 1 || n.BytesToViewers != 16 || n.BytesFromOrigin != 8 {
		t.Errorf("%+v", n)
	}
}

func TestNewRefuses(t *testing.T) {
	here := &url.URL{Scheme: "http", Host: "origin.test"}
	for name, c := range map[string]struct {
		origin *url.URL
		cfg    edge.Config
	}{
		"no origin":      {nil, edge.Config{}},
		"a path":         {&url.URL{Path: "/a"}, edge.Config{}},
		"negative bytes": {here, edge.Config{MaxBytes: -1}},
		"negative time":  {here, edge.Config{Timeout: -1}},
	} {
		if _, err := edge.New(c.origin, c.cfg); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// BenchmarkHit is a hit without the network, beside an origin's answer through the edge.
func BenchmarkHit(b *testing.B) {
	o := &origin{says: says(`200 | Cache-Control: max-age=3600 | Etag: "a" | Content-Type: x/y | @size: 2000`)}
	e, err := edge.New(&url.URL{Scheme: "http", Host: "o"}, edge.Config{Transport: o, Coalesce: true})
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close()
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/a", http.NoBody)
	b.ReportAllocs()
	for b.Loop() {
		e.ServeHTTP(nowhere{http.Header{}}, r)
	}
}

type nowhere struct{ h http.Header }

func (w nowhere) Header() http.Header         { return w.h }
func (w nowhere) Write(p []byte) (int, error) { return len(p), nil }
func (w nowhere) WriteHeader(int)             {}
