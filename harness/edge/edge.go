// Package edge is a shared HTTP cache before one origin, as a CDN's node or Varnish is one: it
// stores, reuses, validates and invalidates responses by RFC 9111, and can coalesce concurrent
// misses and serve stale responses by RFC 5861.
package edge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"
	"time"
)

// Config says what an Edge does beyond RFC 9111 and what bounds it. Zero numbers are defaults.
type Config struct {
	// MaxBytes bounds what is stored, 64 MiB by default; the least recently used goes first.
	// MaxObject bounds the body of one response, 1 MiB by default; larger ones are passed on
	// as they come and not stored. Smaller ones are read to their end before a viewer gets any.
	MaxBytes, MaxObject int64
	// Coalesce lets concurrent misses of one response wait for one request to the origin.
	Coalesce bool
	// StaleWhileRevalidate and StaleIfError honour the origin's directives of RFC 5861. They
	// do nothing beside s-maxage, must-revalidate and their like, as RFC 9111 has it.
	StaleWhileRevalidate, StaleIfError bool
	// Timeout bounds a request to the origin, 10 s by default: until the response begins, and
	// until it ends if it is to be stored.
	Timeout time.Duration
	// Transport reaches the origin, http.Transport without limits by default. It must leave
	// bodies as they are encoded (http.Transport.DisableCompression).
	Transport http.RoundTripper
}

// Counts is what an Edge has done since it was made. Each viewer's request is in exactly one of
// the fields from Hits to Failed.
type Counts struct {
	// Hits were answered with a fresh stored response, Stale with a stale one.
	Hits, Stale int64
	// Revalidated were answered after the origin said 304, Misses with what it sent,
	// Coalesced with what it sent for another.
	Revalidated, Misses, Coalesced int64
	// Passed went to the origin as they came: unsafe methods, ranges, no-store.
	Passed int64
	// Failed were answered with an error of the edge's own.
	Failed int64

	// NotModified of all requests were answered with 304 by the edge.
	NotModified int64
	// OriginRequests went to the origin; OriginFailures of them had no answer, half an answer,
	// or one of 500, 502, 503 and 504.
	OriginRequests, OriginFailures int64
	// BytesToViewers and BytesFromOrigin are bodies.
	BytesToViewers, BytesFromOrigin int64
	// Evicted objects had no room. Objects and Bytes are stored now.
	Evicted, Objects, Bytes int64
}

// Requests is how many requests of viewers were answered.
func (c Counts) Requests() int64 {
	return c.Hits + c.Stale + c.Revalidated + c.Misses + c.Coalesced + c.Passed + c.Failed
}

// class is how a request was answered.
type class int

const (
	hit class = iota
	stale
	revalidated
	miss
	coalesced
	passed
	failed
	classes
)

// counters are what Counts is read from.
type counters struct {
	answered                  [classes]atomic.Int64
	notModified               atomic.Int64
	asked, failures           atomic.Int64
	bytesOut, bytesFromOrigin atomic.Int64
}

// epochs is how many counters of invalidations there are; URIs share them by their hash.
const epochs = 256

// Edge is a shared cache before one origin. Its methods may be called concurrently.
//
// httputil.ReverseProxy stands before the cache, which is its transport: it removes what belongs
// to a connection, copies bodies as they come, and passes upgrades on.
type Edge struct {
	cfg    Config
	proxy  *httputil.ReverseProxy
	origin http.RoundTripper
	count  counters

	// ctx ends with Close, group has the requests that no viewer waits for.
	ctx    context.Context
	cancel context.CancelFunc
	group  sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	store   *store
	flights map[string]*flight
	// marks has the keys of flights that are not to be begun until then.
	marks map[string]time.Time
	// epoch counts the invalidations: a response that was asked for before one is not stored.
	epoch [epochs]uint64
}

// New makes an edge before the origin with this base URL. Its answers have a Cache-Status of the
// cache "edge" (RFC 9211).
func New(origin *url.URL, cfg Config) (*Edge, error) {
	if origin == nil || origin.Scheme == "" || origin.Host == "" {
		return nil, errors.New("expected an origin such as http://127.0.0.1:8080")
	}
	if cfg.MaxBytes < 0 || cfg.MaxObject < 0 || cfg.Timeout < 0 {
		return nil, fmt.Errorf("expected no negative bounds, got %d and %d bytes and %s",
			cfg.MaxBytes, cfg.MaxObject, cfg.Timeout)
	}
	cfg.MaxBytes = orDefault(cfg.MaxBytes, 64<<20)
	cfg.MaxObject = min(orDefault(cfg.MaxObject, 1<<20), cfg.MaxBytes)
	cfg.Timeout = orDefault(cfg.Timeout, 10*time.Second)
	e := &Edge{
		cfg: cfg, origin: cfg.Transport, store: newStore(cfg.MaxBytes),
		flights: map[string]*flight{}, marks: map[string]time.Time{},
	}
	if e.origin == nil {
		e.origin = &http.Transport{
			DisableCompression: true, MaxIdleConnsPerHost: 256, IdleConnTimeout: 3 * time.Second,
		}
	}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	e.proxy = &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(origin)
			r.SetXForwarded()
			r.Out.Header.Add("Via", "1.1 edge")
		},
		Transport:  transport(e.answer),
		BufferPool: &buffers{},
		ErrorLog:   log.New(io.Discard, "", 0), // errors are counted and answered
	}
	return e, nil
}

func orDefault[T int64 | time.Duration](value, otherwise T) T {
	if value == 0 {
		return otherwise
	}
	return value
}

// ServeHTTP answers a viewer, from the store if RFC 9111 allows it.
func (e *Edge) ServeHTTP(w http.ResponseWriter, r *http.Request) { e.proxy.ServeHTTP(w, r) }

// Close ends validations in the background and waits for them. Requests of viewers end with
// their contexts or the timeout.
func (e *Edge) Close() {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	e.cancel()
	e.group.Wait()
	if own, is := e.origin.(*http.Transport); is && e.cfg.Transport == nil {
		own.CloseIdleConnections()
	}
}

// Counts counts what has happened so far.
func (e *Edge) Counts() Counts {
	n := &e.count
	c := Counts{
		Hits: n.answered[hit].Load(), Stale: n.answered[stale].Load(),
		Revalidated: n.answered[revalidated].Load(), Misses: n.answered[miss].Load(),
		Coalesced: n.answered[coalesced].Load(), Passed: n.answered[passed].Load(),
		Failed: n.answered[failed].Load(), NotModified: n.notModified.Load(),
		OriginRequests: n.asked.Load(), OriginFailures: n.failures.Load(),
		BytesToViewers: n.bytesOut.Load(), BytesFromOrigin: n.bytesFromOrigin.Load(),
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	c.Evicted, c.Objects, c.Bytes = e.store.evicted, int64(e.store.recent.Len()), e.store.used
	return c
}

// transport makes an http.RoundTripper of a function.
type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// buffers are what bodies are copied through.
type buffers struct{ pool sync.Pool }

// Get is a buffer of the pool.
func (b *buffers) Get() []byte {
	if buf, have := b.pool.Get().(*[]byte); have {
		return *buf
	}
	return make([]byte, 32<<10)
}

// Put gives a buffer back.
func (b *buffers) Put(buf []byte) { b.pool.Put(&buf) }

// body counts what is read of another body, and calls end once it is closed.
type body struct {
	io.Reader
	closer io.Closer
	count  *atomic.Int64
	end    func()
}

// Read counts the bytes.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	b.count.Add(int64(n))
	return n, err
}

// Close closes the body that is read.
func (b *body) Close() error {
	err := b.closer.Close()
	if b.end != nil {
		b.end()
	}
	return err
}
