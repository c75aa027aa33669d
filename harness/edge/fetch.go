package edge

import (
	"bytes"
	"context"
	"errors"
	"hash/fnv"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	// apartFor is for how long requests whose response could not be shared are not made to wait
	// for each other: they would go to the origin one after the other.
	apartFor = 10 * time.Second
	// refreshPause is how long after a failed validation in the background the next one is.
	refreshPause = time.Second
	// maxMarks bounds the keys that are remembered for that; losing them costs a flight each.
	maxMarks = 4096
)

// errTimeout ends a request to the origin.
var errTimeout = errors.New("the origin took too long")

// flight is one request to the origin that others wait for. What it brought may be read once
// done is closed.
type flight struct {
	key  string
	done chan struct{}
	// object is what those that waited may have, nil if there is nothing. If fault is not 0,
	// the origin failed, with this status or without one.
	object        *object
	fault, status int
}

// found is what there is for a request.
type found struct {
	object *object
	use    use
	// why is the reason to ask the origin, in the words of Cache-Status.
	why string
	// flight is to be waited for, or, if the request leads it, to be landed.
	flight *flight
	leads  bool
}

// arrival is what came of a request to the origin: a whole object, a stream for one viewer, or
// neither.
type arrival struct {
	object *object
	keep   bool // the object may be stored
	stream *http.Response
	// status is the origin's, 0 without one; fault what a viewer is told if it failed, else 0.
	status, fault int
}

// lookup finds what is stored and, if the origin must be asked, boards a flight if allowed. It is
// one step: a flight that has landed is found in the store.
func (e *Edge) lookup(req *request, board bool) found {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	o, known := e.store.find(req.uri, req.Header)
	l := found{object: o, why: "uri-miss"}
	switch {
	case o != nil:
		l.use, l.why = o.usable(req.cc, now, e.cfg.StaleWhileRevalidate)
	case known:
		l.why = "vary-miss"
	}
	if l.use == fresh || l.use == granted {
		return l
	}
	req.epoch = e.epoch[slot(req.uri)]
	req.key = e.flightKey(req)
	switch {
	case l.use == whileRevalidate:
		e.refresh(req, o, now)
	case board && e.cfg.Coalesce && req.waits():
		l.flight, l.leads = e.board(req.key, now)
	}
	return l
}

// waits says whether a request takes what was asked for before it came.
func (r *request) waits() bool {
	return !r.cc.has("no-cache", "no-store", "max-age", "min-fresh", "only-if-cached")
}

// flightKey tells requests apart that cannot have the same response: by URI, by what selects
// among its variants, by whether they are authorized, and by an invalidation between them.
func (e *Edge) flightKey(req *request) string {
	epoch := strconv.FormatUint(req.epoch, 10)
	parts := append([]string{req.uri, epoch}, selecting(e.store.vary(req.uri), req.Header)...)
	if req.Header.Get("Authorization") != "" {
		parts = append(parts, "authorized")
	}
	return strings.Join(parts, "\x00")
}

func (e *Edge) board(key string, now time.Time) (f *flight, leads bool) {
	if f := e.flights[key]; f != nil {
		return f, false
	}
	if now.Before(e.marks[key]) {
		return nil, false
	}
	return e.begin(key), true
}

func (e *Edge) begin(key string) *flight {
	f := &flight{key: key, done: make(chan struct{})}
	e.flights[key] = f
	return f
}

func (e *Edge) mark(key string, until time.Time) {
	if len(e.marks) >= maxMarks {
		clear(e.marks)
	}
	e.marks[key] = until
}

// refresh validates an object in the background, unless that is under way or has just failed.
func (e *Edge) refresh(req *request, o *object, now time.Time) {
	pause := "refresh\x00" + req.key
	if e.closed || e.flights[req.key] != nil || now.Before(e.marks[pause]) {
		return
	}
	f := e.begin(req.key)
	own := *req
	own.Request = req.Clone(e.ctx)
	e.group.Go(func() {
		got := e.ask(e.ctx, &own, o)
		got.drop()
		if got.fault != 0 {
			got.object = nil // the stale one is better
			e.mu.Lock()
			e.mark(pause, time.Now().Add(refreshPause))
			e.mu.Unlock()
		}
		e.land(&own, f, got)
	})
}

// fetch asks the origin for a request. A flight goes on when the viewer who began it has left:
// others may wait for it, and the next will ask for it.
func (e *Edge) fetch(req *request, l found) *http.Response {
	parent := req.Context()
	if l.flight != nil {
		parent = context.WithoutCancel(parent)
	}
	got := e.ask(parent, req, l.object)
	if got.fault != 0 && e.onError(req, l.object) {
		got.drop()
		got.object, got.stream = nil, nil
	}
	e.land(req, l.flight, got)
	return e.deliver(req, l, got)
}

// land stores what a request to the origin brought, and lets those go on that waited for it.
func (e *Edge) land(req *request, f *flight, got arrival) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !got.keep {
		got.object = nil
	}
	if req.epoch == e.epoch[slot(req.uri)] {
		e.replace(req, got)
	}
	if f == nil {
		return
	}
	switch {
	case got.object != nil && got.object.shareable():
		f.object = got.object
	case got.object == nil:
		f.fault, f.status = got.fault, got.status
	}
	delete(e.flights, f.key)
	close(f.done)
}

// replace stores an object, or removes the one in whose place there is now nothing to store.
func (e *Edge) replace(req *request, got arrival) {
	now, apart := time.Now(), true
	switch o := got.object; {
	case o != nil:
		e.store.put(o, req.Header)
		again, _ := o.usable(nil, now, e.cfg.StaleWhileRevalidate)
		apart = again == forward && !o.shareable()
	case got.fault != 0 || aboutRequest(got.status):
		return
	case req.Header.Get("Authorization") == "":
		e.store.drop(req.uri, func(old *object) bool { return old.matches(req.Header) })
	}
	if apart {
		e.mark(req.key, now.Add(apartFor))
	} else {
		delete(e.marks, req.key)
	}
}

// aboutRequest says which statuses refuse a request for what is in its headers, or for how often it
// came, and say nothing of the resource.
func aboutRequest(status int) bool {
	switch status {
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusGone,
		http.StatusRequestURITooLong:
		return false
	}
	return status >= 400 && status < 500
}

// call bounds one request to the origin in time.
type call struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
}

func (e *Edge) call(parent context.Context) *call {
	ctx, cancel := context.WithCancelCause(parent)
	return &call{ctx, cancel, time.AfterFunc(e.cfg.Timeout, func() { cancel(errTimeout) })}
}

func (c *call) end() {
	c.timer.Stop()
	c.cancel(nil)
}

// left says whether a request is over because its viewer has left.
func (c *call) left() bool {
	return c.ctx.Err() != nil && !errors.Is(context.Cause(c.ctx), errTimeout)
}

// stream lets a response go on for as long as its one viewer reads it.
func (c *call) stream(viewer context.Context, res *http.Response) {
	c.timer.Stop()
	if res.StatusCode == http.StatusSwitchingProtocols {
		return // its connection ends with the viewer's
	}
	stop := context.AfterFunc(viewer, func() { c.cancel(context.Cause(viewer)) })
	if counted, is := res.Body.(*body); is {
		counted.end = func() { stop(); c.cancel(nil) }
	}
}

// send sends a request to the origin and counts it.
func (e *Edge) send(c *call, out *http.Request) (*http.Response, error) {
	e.count.asked.Add(1)
	res, err := e.origin.RoundTrip(out.WithContext(c.ctx))
	if err == nil && res.StatusCode != http.StatusSwitchingProtocols {
		res.Body = &body{Reader: res.Body, closer: res.Body, count: &e.count.bytesFromOrigin}
	}
	if err != nil && !c.left() || err == nil && isFault(res.StatusCode) {
		e.count.failures.Add(1)
	}
	return res, err
}

// ask asks the origin for a response, if there is an object, for a newer one. HEAD becomes GET,
// so that it fills the cache, and a viewer's own conditions are left for the edge to evaluate.
func (e *Edge) ask(parent context.Context, req *request, o *object) arrival {
	c := e.call(parent)
	for {
		out := req.Clone(c.ctx)
		out.Method = http.MethodGet
		out.Header.Del("If-None-Match")
		out.Header.Del("If-Modified-Since")
		if o != nil {
			o.conditions(out.Header)
		}
		sent := time.Now()
		res, err := e.send(c, out)
		switch {
		case err != nil:
			return c.lost(err)
		case res.StatusCode != http.StatusNotModified || o == nil || !o.validators():
			return e.read(c, req, res, sent)
		}
		_ = res.Body.Close() // a 304 has none
		if n := o.freshened(req.Header, res.Header, sent, time.Now()); n != nil {
			c.end()
			keep := n.worth() && storable(req.Header, n.status, n.header, n.cc)
			return arrival{object: n, keep: keep, status: res.StatusCode}
		}
		o = nil // it is not about ours: ask for the whole
	}
}

// lost says what a request without a whole answer is to the viewer.
func (c *call) lost(err error) arrival {
	fault := http.StatusBadGateway
	slow, isNet := errors.AsType[net.Error](err)
	if errors.Is(context.Cause(c.ctx), errTimeout) || isNet && slow.Timeout() {
		fault = http.StatusGatewayTimeout
	}
	c.end()
	return arrival{fault: fault}
}

// read reads the whole response if it may be stored, so that none is stored or served by half.
func (e *Edge) read(c *call, req *request, res *http.Response, sent time.Time) arrival {
	got := arrival{status: res.StatusCode}
	if isFault(res.StatusCode) {
		got.fault = res.StatusCode
	}
	o := newObject(req.uri, req.Header, res.StatusCode, res.Header.Clone(), nil, sent, time.Now())
	if !o.worth() || !storable(req.Header, o.status, o.header, o.cc) || res.Uncompressed ||
		res.ContentLength > e.cfg.MaxObject {
		c.stream(req.Context(), res)
		got.stream = res
		return got
	}
	text, err := io.ReadAll(io.LimitReader(res.Body, e.cfg.MaxObject+1))
	switch {
	case err == nil && int64(len(text)) > e.cfg.MaxObject:
		c.stream(req.Context(), res)
		res.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(bytes.NewReader(text), res.Body), res.Body}
		got.stream = res
		return got
	case err == nil && res.ContentLength >= 0 && res.ContentLength != int64(len(text)):
		err = io.ErrUnexpectedEOF
	}
	_ = res.Body.Close() // it was read to its end, or its error is known
	if err != nil {
		if got.fault == 0 && !c.left() { // it was not counted by its status
			e.count.failures.Add(1)
		}
		return c.lost(err)
	}
	c.end()
	o.body = text
	got.object, got.keep = o, true
	return got
}

// drop closes what was not read.
func (got *arrival) drop() {
	if got.stream != nil {
		_ = got.stream.Body.Close() // nobody reads it
	}
}

// isFault says which statuses are the origin's failure (RFC 5861 section 4).
func isFault(status int) bool {
	switch status {
	case http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable,
		http.StatusGatewayTimeout:
		return true
	}
	return false
}

// pass sends a request on as it came and gives its answer to its viewer alone.
func (e *Edge) pass(out *http.Request, why string) *http.Response {
	status := "edge; fwd=" + why
	c := e.call(out.Context())
	res, err := e.send(c, out)
	if err != nil {
		got := c.lost(err)
		e.invalidate(out, nil)
		return e.fail(out, got.fault, status)
	}
	c.stream(out.Context(), res)
	if res.StatusCode < http.StatusBadRequest {
		e.invalidate(out, res.Header)
	}
	return e.finish(out, res, passed, status)
}

// invalidate removes what an unsafe request may have changed (section 4.4): its own URI, and those
// of the same origin that the answer names. One without an answer may have changed it, too.
func (e *Edge) invalidate(out *http.Request, answer http.Header) {
	switch out.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return
	}
	uris := []string{out.URL.RequestURI()}
	for _, name := range []string{"Location", "Content-Location"} {
		u, err := url.Parse(answer.Get(name))
		if err != nil || answer.Get(name) == "" {
			continue
		}
		if u = out.URL.ResolveReference(u); u.Scheme == out.URL.Scheme && u.Host == out.URL.Host {
			uris = append(uris, u.RequestURI())
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, uri := range uris {
		e.store.drop(uri, func(*object) bool { return true })
		e.epoch[slot(uri)]++
	}
}

// slot is the place of a URI among the epochs.
func slot(uri string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(uri)) // it cannot fail
	return h.Sum32() % epochs
}
