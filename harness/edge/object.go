package edge

import (
	"net/http"
	"slices"
	"strings"
	"time"
)

// object is a whole response of the origin. It never changes: body, validators and all other
// fields are replaced together, by another object.
type object struct {
	uri    string
	status int
	header http.Header
	body   []byte
	cc     directives

	// vary names the request's fields that selected this response, selected has their values.
	vary, selected []string

	// lifetime is for how long the origin allows reuse, initial the age when the response was
	// received, delay how much of it the exchange took (section 4.2.3).
	lifetime, initial, delay time.Duration
	sent, received           time.Time
	// aged is set if the response came with an Age, out of another cache.
	aged bool
}

// newObject makes one of the response to a request with the fields asked. It takes over header.
func newObject(
	uri string, asked http.Header, status int, header http.Header, body []byte,
	sent, received time.Time,
) *object {
	dropHopByHop(header)
	o := &object{
		uri: uri, status: status, header: header, body: body, sent: sent, received: received,
		cc: parseDirectives(header.Values("Cache-Control")), delay: received.Sub(sent),
	}
	date, err := http.ParseTime(header.Get("Date"))
	if err != nil {
		date = received
		header.Set("Date", received.UTC().Format(http.TimeFormat))
	}
	o.age0(date)
	o.lifetime = lifetime(header, o.cc, date)
	o.vary = varyNames(header)
	o.selected = selecting(o.vary, asked)
	for _, field := range []string{"Age", "Content-Length"} { // computed for each answer
		header.Del(field)
	}
	return o
}

// age0 computes the age at the time of receiving. RFC 9111 lets a cache use the corrected Age
// value alone. A Date before the request raises it; one from within the exchange is ignored, as
// it has whole seconds and would make a response of a lifetime of 1 s stale at once.
func (o *object) age0(date time.Time) {
	if ages := o.header.Values("Age"); len(ages) > 0 {
		first, _, _ := strings.Cut(ages[0], ",")
		o.initial, o.aged = deltaSeconds(strings.TrimSpace(first))
	}
	o.initial += o.delay
	if date.Before(o.sent.Truncate(time.Second)) {
		o.initial = max(o.initial, min(o.received.Sub(date), maxSeconds*time.Second))
	}
}

// lifetime is how long a response is fresh by what it says. There are no heuristics: a response
// that says nothing is stale at once, and is reused only after it was validated.
func lifetime(h http.Header, cc directives, date time.Time) time.Duration {
	for _, name := range []string{"s-maxage", "max-age"} {
		if value, given := cc.seconds(name); given {
			return value
		}
	}
	lines := h.Values("Expires")
	if len(lines) != 1 {
		return 0
	}
	expires, err := http.ParseTime(lines[0])
	if err != nil {
		return 0
	}
	return min(max(0, expires.Sub(date)), maxSeconds*time.Second)
}

// dropHopByHop removes the fields that belong to one connection (section 3.1).
func dropHopByHop(h http.Header) {
	for _, line := range h.Values("Connection") {
		for name := range strings.SplitSeq(line, ",") {
			h.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range []string{
		"Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authentication-Info",
		"Proxy-Authorization", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
	} {
		h.Del(name)
	}
}

// varyNames lists the fields that Vary names, "*" among them.
func varyNames(h http.Header) []string {
	var names []string
	for _, line := range h.Values("Vary") {
		for name := range strings.SplitSeq(line, ",") {
			if name = strings.TrimSpace(name); name != "" {
				names = append(names, http.CanonicalHeaderKey(name))
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// selecting are the values of a request's fields, lines joined and spaces trimmed. An absent
// field is like no present one.
func selecting(names []string, h http.Header) []string {
	values := make([]string, len(names))
	for i, name := range names {
		for _, line := range h.Values(name) {
			values[i] += "," + strings.TrimSpace(line)
		}
	}
	return values
}

// matches says whether the object answers requests with these fields (section 4.1).
func (o *object) matches(h http.Header) bool {
	return slices.Equal(o.selected, selecting(o.vary, h))
}

// size is about what the object takes of the memory, with its place in the maps.
func (o *object) size() int64 {
	n := len(o.body) + 2*len(o.uri) + 512
	for name, lines := range o.header {
		n += len(name) + 64
		for _, line := range lines {
			n += len(line) + 16
		}
	}
	for i := range o.vary {
		n += len(o.vary[i]) + len(o.selected[i]) + 32
	}
	return int64(n)
}

// storable says whether a shared cache may keep a response to a GET (section 3).
func storable(asked http.Header, status int, h http.Header, cc directives) bool {
	switch {
	case status < http.StatusOK, status == http.StatusPartialContent,
		status == http.StatusNotModified:
		return false
	case cc.has("must-understand"): // then no-store is for caches that do not know it
		if !understood(status) {
			return false
		}
	case cc.has("no-store"):
		return false
	}
	if cc.has("private") || slices.Contains(varyNames(h), "*") {
		return false
	}
	if asked.Get("Authorization") != "" && !cc.has("public", "must-revalidate", "s-maxage") {
		return false
	}
	return understood(status) || h.Get("Expires") != "" || cc.has("public", "max-age", "s-maxage")
}

// understood lists the final statuses that may be kept without a lifetime (RFC 9110 section 15.1).
func understood(status int) bool {
	switch status {
	case 200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 501:
		return true
	}
	return false
}

// worth says whether an object can ever be used again: it has a lifetime or can be validated.
func (o *object) worth() bool {
	return o.lifetime > 0 || o.validators() ||
		o.cc.has("stale-while-revalidate", "stale-if-error")
}

func (o *object) validators() bool {
	return o.header.Get("Etag") != "" || o.header.Get("Last-Modified") != ""
}

// age is the current age (section 4.2.3).
func (o *object) age(now time.Time) time.Duration { return o.initial + now.Sub(o.received) }

// left is how long the object remains fresh, negative if it is stale.
func (o *object) left(now time.Time) time.Duration { return o.lifetime - o.age(now) }

// use says what a stored response is good for.
type use int

const (
	forward         use = iota // the origin must be asked
	fresh                      // it answers the request
	granted                    // it is stale, and the viewer takes that
	whileRevalidate            // it is stale, and answers while it is validated
)

// usable says what the object is good for, and why not if the origin must be asked, in the words
// of Cache-Status (RFC 9211).
func (o *object) usable(req directives, now time.Time, whileStale bool) (u use, why string) {
	left, why := o.left(now), "request"
	if left <= 0 || o.cc.has("no-cache") {
		why = "stale"
	}
	if req.has("no-cache") || o.cc.has("no-cache") {
		return forward, why
	}
	limit, limited := req.seconds("max-age")
	atLeast, wanted := req.seconds("min-fresh")
	switch {
	case limited && o.age(now) > limit || wanted && left < atLeast:
		return forward, why
	case left > 0:
		return fresh, ""
	case o.mustRevalidate():
		return forward, why
	}
	if most, given := req.seconds("max-stale"); given && (req["max-stale"] == "" || -left <= most) {
		return granted, ""
	}
	if whileStale && !limited && o.staleFor("stale-while-revalidate", now) {
		return whileRevalidate, ""
	}
	return forward, why
}

// mustRevalidate says that the object must not be used stale (section 4.2.4). An s-maxage has the
// meaning of proxy-revalidate: stale-while-revalidate beside it has no effect in a shared cache.
func (o *object) mustRevalidate() bool {
	return o.cc.has("no-cache", "must-revalidate", "proxy-revalidate", "s-maxage")
}

// staleFor says whether the object is stale for no longer than a directive of RFC 5861 allows.
func (o *object) staleFor(directive string, now time.Time) bool {
	limit, given := o.cc.seconds(directive)
	return given && -o.left(now) <= limit
}

// onError says whether the object may be used in place of an origin's error (RFC 5861 section 4).
func (o *object) onError(req directives, now time.Time) bool {
	return !o.mustRevalidate() && !req.has("no-cache", "max-age", "min-fresh") &&
		o.staleFor("stale-if-error", now)
}

// shareable says whether requests that waited for the object may have it. It must have been fresh
// when the origin sent it; that its way here took longer than it lasts does not matter, or a slow
// origin would get one request of each of them, when it can bear it least.
func (o *object) shareable() bool {
	return !o.cc.has("no-cache") && o.lifetime > o.initial-o.delay
}

// conditions makes a request ask for the object only if it has changed (section 4.3.1).
func (o *object) conditions(h http.Header) {
	if tag := o.header.Get("Etag"); tag != "" {
		h.Set("If-None-Match", tag)
	}
	if modified := o.header.Get("Last-Modified"); modified != "" {
		h.Set("If-Modified-Since", modified)
	}
}

// freshened is the object after a 304 with these fields, nil if that is about another one
// (section 4.3.4). A 304 without an ETag is about the one representation that was asked for.
func (o *object) freshened(asked, update http.Header, sent, received time.Time) *object {
	before, after := o.header.Get("Etag"), update.Get("Etag")
	if after != "" && after != before && (!isWeak(after) || !weakEqual(before, after)) {
		return nil
	}
	update = update.Clone()
	dropHopByHop(update)
	merged := o.header.Clone()
	merged.Del("Date")                // it is not the 304's
	for name, lines := range update { // section 3.2: all but what describes the stored body
		if name != "Content-Encoding" && name != "Content-Range" {
			merged[name] = lines
		}
	}
	return newObject(o.uri, asked, o.status, merged, o.body, sent, received)
}

func isWeak(tag string) bool { return strings.HasPrefix(tag, "W/") }

// weakEqual is the weak comparison of RFC 9110 section 8.8.3.2.
func weakEqual(a, b string) bool {
	return strings.TrimPrefix(a, "W/") == strings.TrimPrefix(b, "W/")
}

// unchanged says whether a viewer's own conditions are answered with 304 (section 4.3.2).
func (o *object) unchanged(h http.Header) bool {
	if o.status < 200 || o.status > 299 {
		return false
	}
	if lines := h.Values("If-None-Match"); len(lines) > 0 {
		return o.listed(strings.Join(lines, ","))
	}
	since, err := http.ParseTime(h.Get("If-Modified-Since"))
	if err != nil {
		return false
	}
	modified, err := http.ParseTime(o.header.Get("Last-Modified"))
	if err != nil {
		modified, err = http.ParseTime(o.header.Get("Date"))
	}
	return err == nil && !modified.After(since)
}

// listed says whether a list of ETags has the object's, or is "*".
func (o *object) listed(tags string) bool {
	own := o.header.Get("Etag")
	for tags != "" {
		var tag string
		tag, tags = cutItem(tags, 0)
		tag = strings.TrimSpace(tag)
		if tag == "*" || own != "" && weakEqual(tag, own) {
			return true
		}
	}
	return false
}
