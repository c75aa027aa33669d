package edge_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"stampede/harness/edge"
)

// rule is a rule of RFC 9111, or of the RFC that it names, by section. The script has a line for
// each request:
//
//	[+5s] METHOD /uri | Name: value -> STATUS [BODY] #REQUESTS | Name: value | > Name: value
//
// The time passes before the request, #REQUESTS is how many the origin has had after it, and ">"
// is a field of the last of these. A field without a value must be absent.
type rule struct {
	name   string
	cfg    edge.Config
	origin []string
	script string
}

func plain() edge.Config        { return edge.Config{} }
func staleWhile() edge.Config   { return edge.Config{StaleWhileRevalidate: true} }
func staleError() edge.Config   { return edge.Config{StaleIfError: true} }
func says(s ...string) []string { return s }

func TestRules(t *testing.T) {
	for _, group := range [][]rule{
		storing(), keys(), freshness(), requests(), validation(), viewers(), staleness(),
		invalidation(), status(),
	} {
		for _, r := range group {
			t.Run(r.name, func(t *testing.T) { r.run(t) })
		}
	}
}

func (r rule) run(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &origin{says: r.origin}
		e := open(t, r.cfg, o)
		defer e.Close()
		lines := strings.Split(strings.TrimSpace(r.script), "\n")
		for _, line := range lines {
			send, want, _ := strings.Cut(strings.TrimSpace(line), "->")
			if after, timed := strings.CutPrefix(send, "+"); timed {
				after, send, _ = strings.Cut(after, " ")
				pause, err := time.ParseDuration(after)
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(pause)
			}
			w := ask(t, e, send)
			synctest.Wait()
			compare(t, line, want, w, o)
		}
		if n := e.Counts().Requests(); n != int64(len(lines)) {
			t.Errorf("%d requests were counted, not %d: %+v", n, len(lines), e.Counts())
		}
	})
}

func compare(t *testing.T, line, want string, w *httptest.ResponseRecorder, o *origin) {
	t.Helper()
	head, fields, _ := strings.Cut(want, "|")
	got := fmt.Sprintf("%d %s", w.Code, w.Body)
	if strings.Contains(w.Header().Get("Content-Type"), "text/plain") {
		got = fmt.Sprintf("%d ", w.Code) // an error of the edge's own
	}
	if got = fmt.Sprintf("%s #%d", strings.TrimSpace(got), o.count()); got != strings.TrimSpace(head) {
		t.Errorf("%s\ngot %s %v", strings.TrimSpace(line), got, w.Header())
	}
	for field := range strings.SplitSeq(fields, "|") {
		field, sent := strings.CutPrefix(strings.TrimSpace(field), ">")
		h := w.Header()
		if sent {
			h = o.last.Header
		}
		wanted, _ := parseFields(field)
		for name := range wanted {
			if got := strings.Join(h.Values(name), ", "); got != wanted.Get(name) {
				t.Errorf("%s\ngot %s %q", strings.TrimSpace(line), name, got)
			}
		}
	}
}

func storing() []rule {
	return []rule{
		{"3 a GET is stored", plain(), says("200 | Cache-Control: max-age=60"), `
			GET /a -> 200 v1 #1
			GET /a -> 200 v1 #1`},
		{"3 other methods are not", plain(), says("200 | Cache-Control: max-age=60"), `
			OPTIONS /a -> 200 v1 #1
			OPTIONS /a -> 200 v2 #2
			GET /a -> 200 v3 #3`},
		{"3 HEAD is answered from a GET, and fills the cache", plain(),
			says("200 | Cache-Control: max-age=60 | X: 1"), `
			HEAD /a -> 200 #1 | Content-Length: 2 | X: 1
			GET /a -> 200 v1 #1
			HEAD /a -> 200 #1 | Content-Length: 2`},
		{"3 HEAD of what is not stored has no body", plain(), says("200 | Cache-Control: no-store"), `
			HEAD /a -> 200 #1`},
		{"5.2.2.5 no-store is not stored", plain(), says("200 | Cache-Control: no-store, max-age=60"), `
			GET /a -> 200 v1 #1
			GET /a -> 200 v2 #2`},
		{"5.2.2.7 private is not stored", plain(), says("200 | Cache-Control: private, max-age=60"), `
			GET /a -> 200 v1 #1
			GET /a -> 200 v2 #2`},
		{"5.2.2.7 private of some fields is not stored either", plain(),
			says(`200 | Cache-Control: private="x, y", max-age=60`), `
			GET /a -> 200 v1 #1
			GET /a -> 200 v2 #2`},
		{"3 any final status is stored if it has a lifetime", plain(),
			says("599 | Cache-Control: max-age=60"), `
			GET /a -> 599 v1 #1
			GET /a -> 599 v1 #1`},
		{"3 a status that is not understood is not stored without one", plain(),
			says(`599 | Etag: "a"`), `
			GET /a -> 599 v1 #1
			GET /a -> 599 v2 #2 | > If-None-Match:`},
		{"3 public is enough", plain(), says(`599 | Etag: "a" | Cache-Control: public`), `
			GET /a -> 599 v1 #1
			GET /a -> 599 v2 #2 | > If-None-Match: "a"`},
		{"3 an understood one is, to be validated", plain(), says(`404 | Etag: "a"`), `
			GET /a -> 404 v1 #1
			GET /a -> 404 v2 #2 | > If-None-Match: "a"`},
		{"5.2.2.3 must-understand overrides no-store for an understood status", plain(),
			says("200 | Cache-Control: must-understand, no-store, max-age=60"), `
			GET /a -> 200 v1 #1
			GET /a -> 200 v1 #1`},
		{"5.2.2.3 must-understand forbids to store others", plain(),
			says("599 | Cache-Control: must-understand, max-age=60"), `
			GET /a -> 599 v1 #1
			GET /a -> 599 v2 #2`},
		{"3.1 fields of the connection are not stored", plain(),
			says("200 | Cache-Control: max-age=60 | Connection: X-Hop | X-Hop: 1 | Keep-Alive: 5 | X: 1"), `
			GET /a -> 200 v1 #1 | X-Hop: | Keep-Alive: | X: 1
			GET /a -> 200 v1 #1 | X-Hop: | Keep-Alive: | Connection: | X: 1`},
		{"3.1 a Date is added", plain(), says("200 | Cache-Control: max-age=60"), `
			GET /a -> 200 v1 #1
			+5s GET /a -> 200 v1 #1 | Date: {now-5}`},
		{"3.3 a body shorter than Content-Length is not stored", plain(),
			says("200 | Cache-Control: max-age=60 | @short", "200"), `
			GET /a -> 502 #1
			GET /a -> 200 v2 #2`},
		{"3.3 a body that breaks off is not stored", plain(),
			says("200 | Cache-Control: max-age=60 | @torn", "200"), `
			GET /a -> 502 #1
			GET /a -> 200 v2 #2`},
		{"3.3 a body without a length that ends is", plain(),
			says("200 | Cache-Control: max-age=60 | @unsized"), `
			GET /a -> 200 v1 #1
			GET /a -> 200 v1 #1 | Content-Length: 2`},
		{"3.3 ranges are passed on", plain(), says("206 | Cache-Control: max-age=60"), `
			GET /a | Range: bytes=0-1 -> 206 v1 #1 | > Range: bytes=0-1
			GET /a | Range: bytes=0-1 -> 206 v2 #2`},
		{"3.3 partial content is not stored", plain(),
			says("206 | Cache-Control: max-age=60", "200 | Cache-Control: max-age=60"), `
			GET /a -> 206 v1 #1
			GET /a -> 200 v2 #2`},
		{"3.5 a response to Authorization is not stored", plain(),
			says("200 | Cache-Control: max-age=60"), `
			GET /a | Authorization: me -> 200 v1 #1
			GET /a -> 200 v2 #2
			GET /a | Authorization: me -> 200 v2 #2`},
		{"3.5 and replaces none", plain(), says("200 | Cache-Control: max-age=60"), `
			GET /a -> 200 v1 #1
			GET /a | Authorization: me | Cache-Control: no-cache -> 200 v2 #2
			GET /a -> 200 v1 #2`},
		{"3.5 it is with public", plain(), says("200 | Cache-Control: max-age=60, public"), `
			GET /a | Authorization: me -> 200 v1 #1
			GET /a -> 200 v1 #1`},
		{"3.5 it is with s-maxage", plain(), says("200 | Cache-Control: s-maxage=60"), `
			GET /a | Authorization: me -> 200 v1 #1
			GET /a -> 200 v1 #1`},
		{"3.5 it is with must-revalidate", plain(),
			says("200 | Cache-Control: max-age=60, must-revalidate"), `
			GET /a | Authorization: me -> 200 v1 #1
			GET /a -> 200 v1 #1`},
		{"7.3 Set-Cookie does not forbid to store", plain(),
			says("200 | Cache-Control: max-age=60 | Set-Cookie: a=1"), `
			GET /a -> 200 v1 #1
			GET /a -> 200 v1 #1 | Set-Cookie: a=1`},
		{"9110 9.3.1 a GET with a body is passed on", plain(), says("200 | Cache-Control: max-age=60"), `
			GET /a | @body: x -> 200 v1 #1 | Cache-Status: edge; fwd=bypass
			GET /a -> 200 v2 #2
			GET /a | @body: x -> 200 v3 #3`},
		{"a body that the transport has decoded is not stored", plain(),
			says(`200 | Cache-Control: max-age=60 | Etag: "gzip" | @decoded`), `
			GET /a -> 200 v1 #1
			GET /a -> 200 v2 #2`},
		{"large bodies are passed on and not stored", edge.Config{MaxObject: 10},
			says("200 | Cache-Control: max-age=60 | @size: 11 | @unsized"), `
			GET /a -> 200 xxxxxxxxxxx #1
			GET /a -> 200 xxxxxxxxxxx #2`},
		{"bodies that just fit are stored", edge.Config{MaxObject: 10},
			says("200 | Cache-Control: max-age=60 | @size: 10 | @unsized"), `
			GET /a -> 200 xxxxxxxxxx #1
			GET /a -> 200 xxxxxxxxxx #1`},
		{"the least recently used goes first", edge.Config{MaxBytes: 2400},
			says("200 | Cache-Control: max-age=60 | @size: 100"), `
			HEAD /a -> 200 #1
			HEAD /b -> 200 #2
			HEAD /a -> 200 #2
			HEAD /c -> 200 #3
			HEAD /a -> 200 #3
			HEAD /b -> 200 #4`},
	}
}

func keys() []rule {
	const vary = "200 | Cache-Control: max-age=60 | Vary: Accept, X"
	return []rule{
		{"2 the key has the query", plain(), says("200 | Cache-Control: max-age=60"), `
			GET /a?x=1 -> 200 v1 #1
			GET /a?x=2 -> 200 v2 #2
			GET /a?x=1 -> 200 v1 #2`},
		{"4.1 Vary tells responses apart", plain(), says(vary), `
			GET /a | Accept: b -> 200 v1 #1
			GET /a | Accept: c -> 200 v2 #2 | Cache-Status: edge; fwd=vary-miss; fwd-status=200; stored
			GET /a | Accept: b -> 200 v1 #2
			GET /a | Accept: c -> 200 v2 #2`},
		{"4.1 all named fields count, and no others", plain(), says(vary), `
			GET /a | Accept: b | X: 1 | Y: 1 -> 200 v1 #1
			GET /a | Accept: b | X: 2 -> 200 v2 #2
			GET /a | Accept: b | X: 1 | Y: 2 -> 200 v1 #2`},
		{"4.1 an absent field matches an absent one only", plain(), says(vary), `
			GET /a -> 200 v1 #1
			GET /a | Accept: -> 200 v2 #2
			GET /a -> 200 v1 #2`},
		{"4.1 lines may be joined", plain(), says(vary), `
			GET /a | Accept: b | Accept: c -> 200 v1 #1
			GET /a | Accept: b,c -> 200 v1 #1`},
		{"4.1 Vary: * matches nothing", plain(), says("200 | Cache-Control: max-age=60 | Vary: X, *"), `
			GET /a -> 200 v1 #1
			GET /a -> 200 v2 #2`},
	}
}

func freshness() []rule {
	return []rule{
		{"4.2 a response is fresh until its lifetime has passed", plain(),
			says("200 | Cache-Control: max-age=10"), `
			GET /a -> 200 v1 #1
			+9999ms GET /a -> 200 v1 #1 | Age: 9 | Cache-Status: edge; hit; ttl=0
			+1ms GET /a -> 200 v2 #2 | Age:`},
		{"4.2.1 s-maxage goes before max-age", plain(), says("200 | Cache-Control: max-age=1, s-maxage=10"), `
			GET /a -> 200 v1 #1
			+9s GET /a -> 200 v1 #1`},
		{"4.2.1 max-age goes before Expires", plain(),
			says("200 | Cache-Control: max-age=1 | Expires: {now+60}"), `
			GET /a -> 200 v1 #1
			+2s GET /a -> 200 v2 #2`},
		{"5.3 Expires counts from Date", plain(),
			says("200 | Date: {now+100} | Expires: {now+110}"), `
			GET /a -> 200 v1 #1
			+9s GET /a -> 200 v1 #1
			+1s GET /a -> 200 v2 #2`},
		{"5.3 an invalid Expires is past", plain(), says(`200 | Expires: 0 | Etag: "a"`), `
			GET /a -> 200 v1 #1
			GET /a -> 200 v2 #2`},
		{"4.2.1 two Expires are stale", plain(),
			says(`200 | Expires: {now+60} | Expires: {now+60} | Etag: "a"`), `
			GET /a -> 200 v1 #1
			GET /a -> 200 v2 #2`},
		{"4.2.1 conflicting max-age are stale", plain(),
			says(`200 | Cache-Control: max-age=60 | Cache-Control: max-age=50`), `
			GET /a -> 200 v1 #1
			GET /a -> 200 v2 #2`},
		{"4.2.1 equal ones are not", plain(), says(`200 | Cache-Control: max-age=60, MAX-AGE="60"`), `
			GET /a -> 200 v1 #1
			GET /a -> 200 v1 #1`},
		{"4.2.1 an invalid s-maxage is stale", plain(), says("200 | Cache-Control: s-maxage=a, max-age=60"), `
			GET /a -> 200 v1 #1
			GET /a -> 200 v2 #2`},
		{"1.2.2 more seconds than fit are many", plain(),
			says("200 | Cache-Control: max-age=99999999999999999999"), `
			GET /a -> 200 v1 #1
			+1000h GET /a -> 200 v1 #1`},
		{"4.2.2 there is no heuristic", plain(), says("200 | Last-Modified: {now-9999999}"), `
			GET /a -> 200 v1 #1
			GET /a -> 200 v2 #2`},
		{"5.2.3 unknown directives are ignored", plain(),
			says(`200 | Cache-Control: x, y="no-store, private", max-age=60`), `
			GET /a -> 200 v1 #1
			GET /a -> 200 v1 #1`},
		{"4.2.3 Age of another cache counts", plain(), says("200 | Cache-Control: max-age=60 | Age: 50"), `
			GET /a -> 200 v1 #1 | Age: 50
			+9s GET /a -> 200 v1 #1 | Age: 59
			+1s GET /a -> 200 v2 #2`},
		{"5.1 the first of many Ages counts", plain(),
			says("200 | Cache-Control: max-age=60 | Age: 50, 1 | Age: 2"), `
			GET /a -> 200 v1 #1
			+5s GET /a -> 200 v1 #1 | Age: 55`},
		{"5.1 an invalid Age is ignored", plain(), says("200 | Cache-Control: max-age=60 | Age: -50"), `
			GET /a -> 200 v1 #1 | Age:
			+5s GET /a -> 200 v1 #1 | Age: 5`},
		{"4.2.3 so does the time of the exchange", plain(),
			says("200 | Cache-Control: max-age=10 | @delay: 4s"), `
			GET /a -> 200 v1 #1
			+5s GET /a -> 200 v1 #1 | Age: 9
			+1s GET /a -> 200 v2 #2`},
		{"4.2.3 so does a Date before it", plain(), says("200 | Cache-Control: max-age=60 | Date: {now-50}"), `
			GET /a -> 200 v1 #1
			+5s GET /a -> 200 v1 #1 | Age: 55
			+5s GET /a -> 200 v2 #2`},
		{"4.2.3 the larger of both counts", plain(),
			says("200 | Cache-Control: max-age=60 | Date: {now-20} | Age: 50"), `
			GET /a -> 200 v1 #1
			+5s GET /a -> 200 v1 #1 | Age: 55`},
		{"4.2.3 a Date in the same second does not", plain(),
			says("200", "200 | Cache-Control: max-age=1 | Date: {now} | @delay: 10ms"), `
			GET /b -> 200 v1 #1
			+800ms GET /a -> 200 v2 #2
			+900ms GET /a -> 200 v2 #2 | Age: 0`},
	}
}

func requests() []rule {
	const ten = "200 | Cache-Control: max-age=10"
	return []rule{
		{"5.2.1.1 max-age limits the age", plain(), says(ten), `
			GET /a -> 200 v1 #1
			+5s GET /a | Cache-Control: max-age=5 -> 200 v1 #1
			+1s GET /a | Cache-Control: max-age=5 -> 200 v2 #2 | Cache-Status: edge; fwd=request; fwd-status=200; stored
			GET /a -> 200 v2 #2`},
		{"5.2.1.2 max-stale allows staleness", plain(), says(ten), `
			GET /a -> 200 v1 #1
			+15s GET /a | Cache-Control: max-stale=5 -> 200 v1 #1 | Age: 15 | Cache-Status: edge; hit; ttl=-5; detail=max-stale
			+1s GET /a | Cache-Control: max-stale -> 200 v1 #1
			GET /a | Cache-Control: max-stale=5 -> 200 v2 #2`},
		{"4.2.4 must-revalidate forbids max-stale", plain(), says(ten + ", must-revalidate"), `
			GET /a -> 200 v1 #1
			+15s GET /a | Cache-Control: max-stale -> 200 v2 #2`},
		{"4.2.4 proxy-revalidate does", plain(), says(ten + ", proxy-revalidate"), `
			GET /a -> 200 v1 #1
			+15s GET /a | Cache-Control: max-stale -> 200 v2 #2`},
		{"4.2.4 s-maxage does", plain(), says("200 | Cache-Control: s-maxage=10"), `
			GET /a -> 200 v1 #1
			+15s GET /a | Cache-Control: max-stale -> 200 v2 #2`},
		{"5.2.1.3 min-fresh wants time left", plain(), says(ten), `
			GET /a -> 200 v1 #1
			+5s GET /a | Cache-Control: min-fresh=5 -> 200 v1 #1
			+1s GET /a | Cache-Control: min-fresh=5 -> 200 v2 #2`},
		{"5.2.1.4 no-cache asks the origin, and stores", plain(), says(ten), `
			GET /a -> 200 v1 #1
			GET /a | Cache-Control: no-cache -> 200 v2 #2 | > Cache-Control: no-cache
			GET /a -> 200 v2 #2`},
		{"5.2.1.5 no-store is not stored", plain(), says(ten), `
			GET /a | Cache-Control: no-store -> 200 v1 #1
			GET /a -> 200 v2 #2
			GET /a | Cache-Control: no-store -> 200 v2 #2`},
		{"5.2.1.7 only-if-cached does not ask the origin", plain(), says(ten), `
			GET /a | Cache-Control: only-if-cached -> 504 #0
			GET /a -> 200 v1 #1
			GET /a | Cache-Control: only-if-cached -> 200 v1 #1
			+10s GET /a | Cache-Control: only-if-cached -> 504 #1`},
		{"5.4 Pragma: no-cache is no-cache", plain(), says(ten), `
			GET /a -> 200 v1 #1
			GET /a | Pragma: no-cache -> 200 v2 #2`},
		{"5.4 unless there is a Cache-Control", plain(), says(ten), `
			GET /a -> 200 v1 #1
			GET /a | Pragma: no-cache | Cache-Control: max-age=5 -> 200 v1 #1`},
	}
}

func validation() []rule {
	const tagged = `200 | Cache-Control: max-age=10 | Etag: "a" | X: 1`
	return []rule{
		{"4.3.1 a stale response is validated with its validators", plain(),
			says(tagged+" | Last-Modified: Sat, 01 Jan 2000 00:00:00 GMT", `304 | Etag: "a"`), `
			GET /a -> 200 v1 #1 | > If-None-Match:
			+11s GET /a -> 200 v1 #2 | > If-None-Match: "a" | > If-Modified-Since: Sat, 01 Jan 2000 00:00:00 GMT | Cache-Status: edge; fwd=stale; fwd-status=304; stored`},
		{"4.3.1 a viewer's own conditions are not sent", plain(), says(tagged), `
			GET /a | If-None-Match: "z" | If-Modified-Since: {now} -> 200 v1 #1 | > If-None-Match: | > If-Modified-Since:`},
		{"4.3.4 a 304 makes it fresh and replaces fields", plain(),
			says(tagged, `304 | Etag: "a" | Cache-Control: max-age=20 | X: 2 | Content-Length: 9`), `
			GET /a -> 200 v1 #1
			+11s GET /a -> 200 v1 #2 | X: 2 | Content-Length: 2
			+19s GET /a -> 200 v1 #2 | X: 2 | Age: 19 | Content-Length: 2
			+1s GET /a -> 200 v1 #3`},
		{"4.3.4 fields that a 304 does not name remain", plain(), says(tagged, "304"), `
			GET /a -> 200 v1 #1
			+11s GET /a -> 200 v1 #2 | X: 1
			+9s GET /a -> 200 v1 #2 | X: 1 | Etag: "a"`},
		{"4.3.4 a 304 about another strong ETag is not used", plain(),
			says(tagged, `304 | Etag: "b"`, `200 | Etag: "b"`), `
			GET /a -> 200 v1 #1
			+11s GET /a -> 200 v3 #3 | Etag: "b" | > If-None-Match:`},
		{"4.3.4 a weak ETag is compared weakly", plain(), says(tagged, `304 | Etag: W/"a"`), `
			GET /a -> 200 v1 #1
			+11s GET /a -> 200 v1 #2
			GET /a -> 200 v1 #2`},
		{"4.3.4 a strong ETag is not", plain(),
			says(`200 | Cache-Control: max-age=10 | Etag: W/"a"`, `304 | Etag: "a"`, "200"), `
			GET /a -> 200 v1 #1 | Etag: W/"a"
			+11s GET /a -> 200 v3 #3 | > If-None-Match:`},
		{"3.2 the coding of the body and fields of the connection are not replaced", plain(),
			says(tagged+" | Content-Encoding: gzip", "304 | Content-Encoding: br | Connection: X | X: 2"), `
			GET /a -> 200 v1 #1
			+11s GET /a -> 200 v1 #2 | Content-Encoding: gzip | X: 1`},
		{"4.3.4 a 304 that says no-store ends the storing", plain(),
			says(tagged, `304 | Cache-Control: no-store`, "200"), `
			GET /a -> 200 v1 #1
			+11s GET /a -> 200 v1 #2
			GET /a -> 200 v3 #3 | > If-None-Match:`},
		{"4.3.3 a full response replaces the stored one", plain(),
			says(tagged, `200 | Cache-Control: max-age=10 | Etag: "b"`), `
			GET /a -> 200 v1 #1
			+11s GET /a -> 200 v2 #2 | Etag: "b" | X:
			GET /a -> 200 v2 #2 | Etag: "b" | X:`},
		{"4.3.3 also if it is not stored itself", plain(), says(tagged, "404", "304"), `
			GET /a -> 200 v1 #1
			+11s GET /a -> 404 v2 #2
			GET /a -> 304 #3 | > If-None-Match:`},
		{"4.3.3 a refusal of one request says nothing of the resource", plain(),
			says(tagged, "429", "304"), `
			GET /a -> 200 v1 #1
			+11s GET /a -> 429 v2 #2
			GET /a -> 200 v1 #3 | > If-None-Match: "a"`},
		{"4.3.3 a server's error is passed on and replaces nothing", plain(), says(tagged, "503", "304"), `
			GET /a -> 200 v1 #1
			+11s GET /a -> 503 v2 #2
			GET /a -> 200 v1 #3 | > If-None-Match: "a"`},
		{"5.2.2.4 no-cache is validated each time", plain(),
			says(`200 | Cache-Control: no-cache, max-age=10 | Etag: "a"`, "304"), `
			GET /a -> 200 v1 #1
			GET /a -> 200 v1 #2 | > If-None-Match: "a"
			GET /a | Cache-Control: max-stale -> 200 v1 #3`},
		{"5.2.2.4 no-cache of some fields is no-cache", plain(),
			says(`200 | Cache-Control: no-cache="set-cookie", max-age=10`), `
			GET /a -> 200 v1 #1
			GET /a -> 200 v2 #2`},
		{"5.2.2.2 must-revalidate is reused while fresh", plain(),
			says(`200 | Cache-Control: must-revalidate, max-age=10`), `
			GET /a -> 200 v1 #1
			GET /a -> 200 v1 #1`},
		{"5.2.2.2 must-revalidate without an origin is 504", plain(),
			says(`200 | Cache-Control: must-revalidate, max-age=10`, "200 | @down"), `
			GET /a -> 200 v1 #1
			+11s GET /a -> 504 #2`},
		{"an origin that is down is 502", plain(), says("200 | @down"), `
			GET /a -> 502 #1 | Cache-Control: no-store | Cache-Status: edge; fwd=uri-miss`},
		{"a body that is stored must end in time, another may take longer",
			edge.Config{Timeout: time.Second},
			says("200 | @trickle: 9s", "200 | Cache-Control: max-age=60 | @trickle: 9s"), `
			GET /a -> 200 v1 #1
			GET /a -> 504 #2`},
		{"an origin that is slow is 504", edge.Config{Timeout: time.Second}, says("200 | @delay: 2s"), `
			GET /a -> 504 #1
			POST /a -> 504 #2`},
	}
}

func viewers() []rule {
	const tagged = `200 | Cache-Control: max-age=60 | Etag: "a" | Content-Type: x/y | Last-Modified: {now-100}`
	const dated = "200 | Cache-Control: max-age=60 | Last-Modified: {now-100}"
	return []rule{
		{"4.3.2 If-None-Match is answered", plain(), says(tagged), `
			GET /a | If-None-Match: "a" -> 304 #1 | Etag: "a" | Cache-Control: max-age=60 | Content-Type: | Content-Length:
			+5s GET /a | If-None-Match: "z", W/"a" -> 304 #1 | Age: 5 | Cache-Status: edge; hit; ttl=55
			HEAD /a | If-None-Match: "a" -> 304 #1
			GET /a | If-None-Match: "z\", "a" -> 304 #1
			GET /a | If-None-Match: * -> 304 #1
			GET /a | If-None-Match: "z", "A" -> 200 v1 #1
			GET /a | If-None-Match: "z" | If-Modified-Since: {now} -> 200 v1 #1`},
		{"4.3.2 If-Modified-Since is answered", plain(), says(dated), `
			GET /a -> 200 v1 #1
			GET /a | If-Modified-Since: {now-100} -> 304 #1
			GET /a | If-Modified-Since: {now-101} -> 200 v1 #1
			GET /a | If-Modified-Since: yesterday -> 200 v1 #1`},
		{"4.3.2 Date stands in for Last-Modified", plain(), says("200 | Cache-Control: max-age=60"), `
			GET /a -> 200 v1 #1
			+5s GET /a | If-Modified-Since: {now-5} -> 304 #1
			GET /a | If-Modified-Since: {now-6} -> 200 v1 #1`},
		{"4.3.2 conditions are for 2xx", plain(), says(`404 | Cache-Control: max-age=60 | Etag: "a"`), `
			GET /a | If-None-Match: "a" -> 404 v1 #1`},
		{"4.3.2 If-Match is the origin's to evaluate", plain(), says(tagged, "412"), `
			GET /a -> 200 v1 #1
			GET /a | If-Match: "b" -> 412 v2 #2 | > If-Match: "b"
			GET /a | If-Unmodified-Since: {now} -> 412 v3 #3`},
		{"4.3.2 a viewer's condition is evaluated after a validation", plain(),
			says(tagged, `304 | Etag: "a"`), `
			GET /a -> 200 v1 #1
			+61s GET /a | If-None-Match: "a" -> 304 #2
			GET /a -> 200 v1 #2`},
	}
}

func staleness() []rule {
	const while = `200 | Cache-Control: max-age=10, stale-while-revalidate=5 | Etag: "a"`
	const onError = "200 | Cache-Control: max-age=10, stale-if-error=5"
	return []rule{
		{"5861 3 a stale response is served and validated", staleWhile(), says(while, "304"), `
			GET /a -> 200 v1 #1
			+15s GET /a -> 200 v1 #2 | Age: 15 | Cache-Status: edge; hit; ttl=-5; detail=stale-while-revalidate | > If-None-Match: "a"
			+9s GET /a -> 200 v1 #2 | Age: 9`},
		{"5861 3 and replaced", staleWhile(), says(while), `
			GET /a -> 200 v1 #1
			+11s GET /a -> 200 v1 #2
			GET /a -> 200 v2 #2`},
		{"5861 3 not for longer", staleWhile(), says(while), `
			GET /a -> 200 v1 #1
			+15001ms GET /a -> 200 v2 #2`},
		{"5861 3 not unless configured", plain(), says(while), `
			GET /a -> 200 v1 #1
			+11s GET /a -> 200 v2 #2`},
		{"5861 3 not if the viewer wants no stale one", staleWhile(), says(while), `
			GET /a -> 200 v1 #1
			+11s GET /a | Cache-Control: max-age=60 -> 200 v2 #2
			+11s GET /a | Cache-Control: no-cache -> 200 v3 #3`},
		{"4.2.4 not with must-revalidate", staleWhile(),
			says("200 | Cache-Control: max-age=10, stale-while-revalidate=5, must-revalidate"), `
			GET /a -> 200 v1 #1
			+11s GET /a -> 200 v2 #2`},
		{"4.2.4 not with s-maxage", staleWhile(),
			says("200 | Cache-Control: s-maxage=10, stale-while-revalidate=5"), `
			GET /a -> 200 v1 #1
			+11s GET /a -> 200 v2 #2`},
		{"5861 3 a failed validation keeps it and is tried again after a pause", staleWhile(),
			says(while, "503 | Cache-Control: max-age=60", "304"), `
			GET /a -> 200 v1 #1
			+11s GET /a -> 200 v1 #2
			GET /a -> 200 v1 #2 | Age: 11
			+1s GET /a -> 200 v1 #3 | Age: 12
			GET /a -> 200 v1 #3 | Age: 0`},
		{"5861 4 stale-if-error serves a stale one for a server's error", staleError(),
			says(onError, "503 | Cache-Control: max-age=60", "200 | @down", "404"), `
			GET /a -> 200 v1 #1
			+11s GET /a -> 200 v1 #2 | Age: 11 | Cache-Status: edge; fwd=stale; fwd-status=503; detail=stale-if-error
			GET /a -> 200 v1 #3 | Cache-Status: edge; fwd=stale; detail=stale-if-error
			GET /a -> 404 v4 #4`},
		{"5861 4 not for longer", staleError(), says(onError, "503"), `
			GET /a -> 200 v1 #1
			+16s GET /a -> 503 v2 #2`},
		{"5861 4 not unless configured", plain(), says(onError, "503"), `
			GET /a -> 200 v1 #1
			+11s GET /a -> 503 v2 #2`},
		{"4.2.4 not with no-cache", staleError(),
			says(`200 | Cache-Control: no-cache, max-age=10, stale-if-error=5 | Etag: "a"`, "503"), `
			GET /a -> 200 v1 #1
			GET /a -> 503 v2 #2`},
		{"5861 4 not if the viewer wants no stale one", staleError(), says(onError, "503"), `
			GET /a -> 200 v1 #1
			+11s GET /a | Cache-Control: no-cache -> 503 v2 #2
			GET /a | Cache-Control: max-age=60 -> 503 v3 #3
			GET /a -> 200 v1 #4`},
		{"4.2.4 nor with must-revalidate", staleError(), says(onError+", must-revalidate", "503"), `
			GET /a -> 200 v1 #1
			+11s GET /a -> 503 v2 #2`},
	}
}

func invalidation() []rule {
	const hour = "200 | Cache-Control: max-age=3600"
	return []rule{
		{"4.4 an unsafe method invalidates its URI", plain(), says(hour, "204", hour), `
			GET /a -> 200 v1 #1
			POST /a -> 204 #2 | Cache-Status: edge; fwd=method
			GET /a -> 200 v3 #3`},
		{"4.4 with all variants, also for unknown methods", plain(),
			says(hour+" | Vary: X", hour+" | Vary: X", "302", hour), `
			GET /a -> 200 v1 #1
			GET /a | X: 1 -> 200 v2 #2
			FROB /a -> 302 v3 #3
			GET /a -> 200 v4 #4
			GET /a | X: 1 -> 200 v4 #4`},
		{"4.4 not others", plain(), says(hour, "200"), `
			GET /a -> 200 v1 #1
			POST /b -> 200 v2 #2
			GET /a -> 200 v1 #2`},
		{"4.4 not if it failed", plain(), says(hour, "400", "503"), `
			GET /a -> 200 v1 #1
			PUT /a -> 400 v2 #2
			DELETE /a -> 503 v3 #3
			GET /a -> 200 v1 #3`},
		{"4.4 but if its outcome is unknown", plain(), says(hour, "200 | @down", hour), `
			GET /a -> 200 v1 #1
			POST /a -> 502 #2
			GET /a -> 200 v3 #3`},
		{"4.4 not for safe methods", plain(), says(hour, "200"), `
			GET /a -> 200 v1 #1
			OPTIONS /a -> 200 v2 #2
			GET /a -> 200 v1 #2`},
		{"4.4 Location and Content-Location of the same origin", plain(),
			says(hour, hour, "201 | Location: http://origin.test/a | Content-Location: b?x", hour), `
			GET /a -> 200 v1 #1
			GET /b?x -> 200 v2 #2
			POST /c -> 201 v3 #3
			GET /a -> 200 v4 #4
			GET /b?x -> 200 v5 #5`},
		{"4.4 not of another", plain(), says(hour, "201 | Location: http://other.test/a"), `
			GET /a -> 200 v1 #1
			POST /c -> 201 v2 #2
			GET /a -> 200 v1 #2`},
	}
}

func status() []rule {
	return []rule{
		{"9211 2 Cache-Status is added after those of caches before", plain(),
			says("200 | Cache-Control: max-age=60 | Cache-Status: other; hit"), `
			GET /a -> 200 v1 #1 | Cache-Status: other; hit, edge; fwd=uri-miss; fwd-status=200; stored
			GET /a -> 200 v1 #1 | Cache-Status: other; hit, edge; hit; ttl=60`},
		{"9211 2.2 a bypass is named", plain(), says("200 | Cache-Control: no-store"), `
			GET /a | Range: bytes=0- -> 200 v1 #1 | Cache-Status: edge; fwd=bypass
			GET /a | Cache-Control: no-store -> 200 v2 #2 | Cache-Status: edge; fwd=request
			GET /a -> 200 v3 #3 | Cache-Status: edge; fwd=uri-miss; fwd-status=200`},
		{"9110 7.6.3 requests to the origin have a Via", plain(), says("200"), `
			GET /a | Via: 1.1 x -> 200 v1 #1 | > Via: 1.1 x, 1.1 edge`},
		{"9110 7.6.1 requests lose fields of the connection", plain(), says("200"), `
			GET /a | Connection: X | X: 1 | Y: 1 -> 200 v1 #1 | > X: | > Y: 1`},
	}
}

// TestABodyTravelsWithItsETag: whatever is served has the ETag of its body, also while the origin
// changes it at each request and viewers validate.
func TestABodyTravelsWithItsETag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &origin{says: says(`200 | Cache-Control: max-age=1, stale-while-revalidate=1 | Etag: "v{n}"`)}
		e := open(t, edge.Config{Coalesce: true, StaleWhileRevalidate: true}, o)
		defer e.Close()
		for viewer := range 20 {
			go func() {
				for range 50 {
					time.Sleep(time.Duration(viewer+7) * 11 * time.Millisecond)
					w := ask(t, e, "GET /a")
					if tag := w.Header().Get("Etag"); w.Code != http.StatusOK || tag != `"`+w.Body.String()+`"` {
						t.Errorf("%d %s with ETag %s", w.Code, w.Body, tag)
					}
				}
			}()
		}
		synctest.Wait()
		time.Sleep(time.Minute)
		if n := e.Counts(); n.Requests() != 1000 || n.OriginRequests > 20 {
			t.Errorf("%+v", n)
		}
	})
}
