package edge_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"go.uber.org/goleak"

	"stampede/harness/edge"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errDown = errors.New("the origin is down")

// origin answers with what it says, one text for each request; the last is repeated. A text is
// "STATUS | Name: value | …"; the body is v and the request's number, which also stands for {n},
// and {now-5} is an HTTP date. Fields that begin with "@" are what the origin does:
// @delay (a duration, before the answer), @trickle (one before the body), @down, @short, @torn,
// @size, @unsized, @decoded.
type origin struct {
	says []string

	mu   sync.Mutex
	n    int
	last *http.Request
}

func (o *origin) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.n
}

func (o *origin) RoundTrip(r *http.Request) (*http.Response, error) {
	o.mu.Lock()
	o.n++
	n := o.n
	o.last = r
	o.mu.Unlock()
	head, fields, _ := strings.Cut(o.says[min(n, len(o.says))-1], "|")
	h, does := parseFields(strings.ReplaceAll(fields, "{n}", strconv.Itoa(n)))
	if delay, err := time.ParseDuration(does["@delay"]); err == nil {
		select {
		case <-time.After(delay):
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	if _, down := does["@down"]; down {
		return nil, errDown
	}
	status, err := strconv.Atoi(strings.TrimSpace(head))
	if err != nil {
		return nil, err
	}
	return reply(r, status, h, n, does), nil
}

func reply(
	r *http.Request, status int, h http.Header, n int, does map[string]string,
) *http.Response {
	text := fmt.Sprintf("v%d", n)
	if size, err := strconv.Atoi(does["@size"]); err == nil {
		text = strings.Repeat("x", size)
	}
	if status == http.StatusNotModified || status == http.StatusNoContent {
		text = ""
	}
	res := &http.Response{StatusCode: status, Header: h, ContentLength: int64(len(text)),
		Body: io.NopCloser(strings.NewReader(text)), Request: r}
	if _, short := does["@short"]; short {
		res.ContentLength += 5
	}
	if _, unsized := does["@unsized"]; unsized {
		res.ContentLength = -1
	}
	_, res.Uncompressed = does["@decoded"]
	if pause, err := time.ParseDuration(does["@trickle"]); err == nil {
		res.Body = io.NopCloser(&trickle{r.Context(), pause, res.Body})
	}
	if _, torn := does["@torn"]; torn {
		res.ContentLength = -1
		res.Body = io.NopCloser(io.MultiReader(strings.NewReader(text),
			iotest.ErrReader(io.ErrUnexpectedEOF)))
	}
	return res
}

// trickle is a body that begins after a pause.
type trickle struct {
	ctx   context.Context
	pause time.Duration
	io.Reader
}

func (b *trickle) Read(p []byte) (int, error) {
	select {
	case <-time.After(b.pause):
		b.pause = 0
		return b.Reader.Read(p)
	case <-b.ctx.Done():
		return 0, b.ctx.Err()
	}
}

var relativeDate = regexp.MustCompile(`\{now([+-]\d+)?\}`)

// parseFields reads "Name: value | Name: value"; names that begin with "@" are apart.
func parseFields(text string) (http.Header, map[string]string) {
	h, does := http.Header{}, map[string]string{}
	for field := range strings.SplitSeq(text, "|") {
		name, value, _ := strings.Cut(strings.TrimSpace(field), ":")
		value = relativeDate.ReplaceAllStringFunc(strings.TrimSpace(value), func(m string) string {
			seconds, _ := strconv.Atoi(relativeDate.FindStringSubmatch(m)[1])
			at := time.Now().Add(time.Duration(seconds) * time.Second)
			return at.UTC().Format(http.TimeFormat)
		})
		switch {
		case strings.HasPrefix(name, "@"):
			does[name] = value
		case name != "":
			h.Add(name, value)
		}
	}
	return h, does
}

// open makes an edge before an origin.
func open(t *testing.T, cfg edge.Config, o http.RoundTripper) *edge.Edge {
	t.Helper()
	cfg.Transport = o
	e, err := edge.New(&url.URL{Scheme: "http", Host: "origin.test"}, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// ask sends "METHOD /uri | Name: value | …", with @body as its body.
func ask(t *testing.T, e http.Handler, text string) *httptest.ResponseRecorder {
	t.Helper()
	head, fields, _ := strings.Cut(text, "|")
	method, uri, _ := strings.Cut(strings.TrimSpace(head), " ")
	h, does := parseFields(fields)
	r := httptest.NewRequestWithContext(t.Context(), method, uri, strings.NewReader(does["@body"]))
	r.Header = h
	w := httptest.NewRecorder()
	e.ServeHTTP(w, r)
	return w
}
