package edge

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxWaits bounds how many flights a request waits for, one after the other: the first may tell
// that responses differ by Vary, the second is of its own variant.
const maxWaits = 2

// request is a viewer's GET or HEAD that the cache may answer.
type request struct {
	*http.Request
	uri string
	cc  directives
	// key names the flight that would answer it, epoch the invalidations before it.
	key   string
	epoch uint64
}

// answer is the transport of the proxy. It has no error: failures are responses.
func (e *Edge) answer(out *http.Request) (*http.Response, error) {
	if why := bypass(out); why != "" {
		return e.pass(out, why), nil
	}
	req := &request{Request: out, uri: out.URL.RequestURI(), cc: requestDirectives(out.Header)}
	for waits := 0; ; waits++ {
		l := e.lookup(req, waits < maxWaits)
		switch {
		case l.use != forward:
			return e.reuse(req, l), nil
		case req.cc.has("only-if-cached"):
			return e.fail(req.Request, http.StatusGatewayTimeout, "edge; detail=only-if-cached"), nil
		case req.cc.has("no-store"):
			return e.pass(out, "request"), nil
		case l.flight == nil || l.leads:
			return e.fetch(req, l), nil
		}
		select {
		case <-l.flight.done:
		case <-req.Context().Done():
			return e.fail(req.Request, http.StatusBadGateway, "edge; detail=gone"), nil
		}
		if res := e.collapsed(req, l); res != nil {
			return res, nil
		}
	}
}

// bypass says why the cache has no say in a request, "" if it has. Ranges are not cached. If-Match
// and If-Unmodified-Since are for the origin to evaluate (section 4.3.2).
func bypass(r *http.Request) string {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return "method"
	}
	for _, name := range []string{
		"Range", "If-Range", "If-Match", "If-Unmodified-Since", "Upgrade",
	} {
		if r.Header.Get(name) != "" {
			return "bypass"
		}
	}
	if r.Body != nil && r.Body != http.NoBody {
		return "bypass"
	}
	return ""
}

// reuse answers with what is stored.
func (e *Edge) reuse(req *request, l found) *http.Response {
	left := l.object.left(time.Now())
	status := fmt.Sprintf("edge; hit; ttl=%d", int64(left/time.Second))
	kind := hit
	switch l.use {
	case granted:
		kind, status = stale, status+"; detail=max-stale"
	case whileRevalidate:
		kind, status = stale, status+"; detail=stale-while-revalidate"
	}
	return e.serve(req, l.object, kind, false, status)
}

// collapsed answers with the outcome of a flight that the request has waited for, nil if that is
// none of its business: the response may be private to another, or another variant.
func (e *Edge) collapsed(req *request, l found) *http.Response {
	status := "edge; fwd=" + l.why
	f := l.flight
	switch {
	case f.fault != 0:
		return e.failed(req, l.object, arrival{fault: f.fault, status: f.status}, status, "; collapsed")
	case f.object != nil && f.object.matches(req.Header):
		return e.serve(req, f.object, coalesced, false, status+"; collapsed")
	}
	return nil
}

// deliver answers with what the origin has sent for this request.
func (e *Edge) deliver(req *request, l found, got arrival) *http.Response {
	status := "edge; fwd=" + l.why
	if got.object == nil && got.stream == nil {
		return e.failed(req, l.object, got, status, "")
	}
	status += fmt.Sprintf("; fwd-status=%d", got.status)
	if got.stream != nil {
		return e.finish(req.Request, got.stream, miss, status)
	}
	if got.keep {
		status += "; stored"
	}
	kind := miss
	if got.status == http.StatusNotModified {
		kind = revalidated
	}
	return e.serve(req, got.object, kind, true, status)
}

// failed answers when the origin failed: with a stale object if that is allowed.
func (e *Edge) failed(
	req *request, o *object, got arrival, status, more string,
) *http.Response {
	if got.status != 0 {
		status += fmt.Sprintf("; fwd-status=%d", got.status)
	}
	status += more
	if e.onError(req, o) {
		return e.serve(req, o, stale, false, status+"; detail=stale-if-error")
	}
	if got.status == 0 && o != nil && o.mustRevalidate() { // section 5.2.2.2
		got.fault = http.StatusGatewayTimeout
	}
	return e.fail(req.Request, got.fault, status)
}

func (e *Edge) onError(req *request, o *object) bool {
	return e.cfg.StaleIfError && o != nil && o.onError(req.cc, time.Now())
}

// serve answers with an object, or with 304 if the viewer has it. A response that was just
// received or validated has no Age but the origin's own.
func (e *Edge) serve(
	req *request, o *object, kind class, firsthand bool, status string,
) *http.Response {
	h := o.header.Clone()
	if !firsthand || o.aged {
		h.Set("Age", strconv.FormatInt(int64(o.age(time.Now())/time.Second), 10))
	}
	code, text := o.status, o.body
	if o.unchanged(req.Header) {
		code, text = http.StatusNotModified, nil
		for _, name := range []string{"Content-Type", "Content-Encoding", "Content-Language"} {
			h.Del(name)
		}
		e.count.notModified.Add(1)
	} else if code != http.StatusNoContent {
		h.Set("Content-Length", strconv.Itoa(len(text)))
	}
	return e.finish(req.Request, response(code, h, text), kind, status)
}

// fail answers with an error of the edge's own, which nobody may store.
func (e *Edge) fail(r *http.Request, code int, status string) *http.Response {
	text := []byte(strings.ToLower(http.StatusText(code)) + "\n")
	h := http.Header{
		"Content-Type": {"text/plain; charset=utf-8"}, "Cache-Control": {"no-store"},
		"Content-Length": {strconv.Itoa(len(text))},
	}
	return e.finish(r, response(code, h, text), failed, status)
}

func response(code int, h http.Header, text []byte) *http.Response {
	return &http.Response{
		StatusCode: code, Header: h, ContentLength: int64(len(text)),
		Body: io.NopCloser(bytes.NewReader(text)),
	}
}

// finish counts an answer and says in Cache-Status how it came about, after the caches before.
func (e *Edge) finish(
	r *http.Request, res *http.Response, kind class, status string,
) *http.Response {
	e.count.answered[kind].Add(1)
	res.Header.Add("Cache-Status", status)
	switch {
	case res.StatusCode == http.StatusSwitchingProtocols: // the proxy needs the connection itself
	case r.Method == http.MethodHead:
		_ = res.Body.Close() // the origin may have been asked with GET
		res.Body = http.NoBody
	default:
		res.Body = &body{Reader: res.Body, closer: res.Body, count: &e.count.bytesOut}
	}
	return res
}
