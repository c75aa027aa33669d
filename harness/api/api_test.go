package api_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"stampede/harness/api"
	"stampede/harness/api/apitest"
	"stampede/harness/history"
	"stampede/harness/sut"
)

// errFull is the only problem that the tests' API has of its own.
var errFull = sut.Refusal("full", "full")

type beginning struct {
	Seats int `json:"seats"`
}

type (
	// seat is a request, taken its answer.
	seat struct {
		Number int64 `json:"number" op:"arg"`
	}
	taken struct {
		Number int64 `json:"number" op:"value"`
	}
	// seats is an API whose only operation takes a seat.
	seats interface {
		Take(context.Context, seat) (taken, error)
	}
)

func problems() api.Problems {
	return api.Documented(api.Problem{Status: http.StatusConflict, Is: errFull})
}

// handler serves an instance.
func handler(inst sut.Instance) http.Handler { return guarded(inst, "") }

// guarded is handler for those who show a token.
func guarded(inst sut.Instance, token string) http.Handler {
	table := api.Table[seats]{System: "seats",
		Kinds: []api.Kind[seats]{api.Op("take", "POST /v1/seats", seats.Take,
			api.About{Status: http.StatusCreated})},
		Problems: []api.Problem{{Status: http.StatusConflict, Is: errFull}}, MaxBody: 1000,
		Begin: func(any) (any, error) { return beginning{3}, nil },
		Token: func(any) string { return token },
		Metrics: func(sut.Instance) func(io.Writer) {
			return func(out io.Writer) {
				_, _ = io.WriteString(out, "# TYPE seats_free gauge\nseats_free 3\n")
			}
		}}
	h, err := table.Handler(inst, sut.Config{Timeout: time.Minute})
	if err != nil {
		panic(err)
	}
	return h
}

func newClient(t *testing.T, url string, cfg sut.Config) *api.Client {
	t.Helper()
	c, err := api.NewClient(url, cfg, problems())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// served serves an instance on a real listener.
func served(t *testing.T, inst sut.Instance) *api.Client {
	t.Helper()
	srv := httptest.NewServer(handler(inst))
	t.Cleanup(srv.Close)
	return newClient(t, srv.URL, sut.Config{Timeout: 5 * time.Second})
}

func take(ctx context.Context, c *api.Client) error {
	body, err := c.Operate(ctx, http.MethodPost, "/v1/seats", seat{1}, http.StatusCreated)
	if err == nil {
		_, err = api.Decode[taken](body)
	}
	return err
}

// TestForeignWords: what another server says of a problem is told in one line.
func TestForeignWords(t *testing.T) {
	inst := &apitest.Scripted{}
	c := served(t, inst)
	inst.OnDo = func(context.Context, history.Op) (history.Reply, error) {
		return history.Reply{}, fmt.Errorf("full\x1b[2J\n::error::x: %w", errFull)
	}
	if got := take(t.Context(), c); !errors.Is(got, errFull) ||
		!strings.Contains(got.Error(), "full\uFFFD[2J ::error::x") {
		t.Errorf("a foreign server's words are %q", got)
	}
	if _, err := c.Ask(t.Context(), "/nowhere"); !errors.Is(err, api.ErrNoRoute) {
		t.Errorf("a route that there is not: %v", err)
	}
	if w := apitest.Serve(handler(inst), "head", "/healthz", ""); w.Code != http.StatusOK {
		t.Errorf("HEAD: %d", w.Code)
	}
	text := apitest.Serve(handler(inst), "get", "/metrics", "").Body.String()
	if !strings.HasSuffix(text, "seats_in_flight 0\n# EOF\n") ||
		!strings.Contains(text, "\nseats_free 3\n") {
		t.Errorf("metrics: %s", text)
	}
}

// TestControl: reset, audit and what is pending.
func TestControl(t *testing.T) {
	prepared := 0
	inst := &apitest.Scripted{Pending: "2 seats", AuditBody: []byte(`{"free":1}`),
		OnPrepare: func() error { prepared++; return nil }}
	c := served(t, inst)
	if err := c.Reset(t.Context(), beginning{3}); err != nil || prepared != 1 {
		t.Errorf("prepared %d times, %v", prepared, err)
	}
	err := c.Reset(t.Context(), beginning{4})
	if !errors.Is(err, api.ErrInUse) || !strings.Contains(err.Error(), "opened for") || prepared != 1 {
		t.Errorf("another beginning gave %v and prepared %d times", err, prepared)
	}
	if audit, err := c.Audit(t.Context()); err != nil || !strings.Contains(string(audit), `"free":1`) {
		t.Errorf("audit %s, %v", audit, err)
	}
	if pending, err := c.Quiesced(t.Context()); err != nil || pending != "2 seats" {
		t.Errorf("pending %q, %v", pending, err)
	}
	if left, err := c.Backlog(t.Context()); !errors.Is(err, api.ErrNoRoute) {
		t.Errorf("who does not count counted %d, %v", left, err)
	}
	c = served(t, counting{inst, 12})
	if left, err := c.Backlog(t.Context()); err != nil || left != 12 {
		t.Errorf("there are %d left, %v", left, err)
	}
	c = served(t, struct{ sut.Instance }{inst})
	if _, err := c.Quiesced(t.Context()); !errors.Is(err, api.ErrNoRoute) {
		t.Errorf("who does not know what is pending: %v", err)
	}
}

// counting counts what is left.
type counting struct {
	*apitest.Scripted

	left int64
}

func (c counting) Backlog(context.Context) (int64, error) { return c.left, nil }

// TestTokens: who does not show the token is refused whatever is asked for, but for
// what everybody may know.
func TestTokens(t *testing.T) {
	inst := &apitest.Scripted{AuditBody: []byte("{}"), OnPrepare: func() error { return nil },
		OnDo: func(context.Context, history.Op) (history.Reply, error) {
			return history.Reply{Value: 1}, nil
		}}
	srv := httptest.NewServer(guarded(inst, "secret"))
	defer srv.Close()
	for token, want := range map[string]error{
		"": api.ErrUnauthorized, "guess": api.ErrUnauthorized, "secret": nil,
	} {
		c := newClient(t, srv.URL, sut.Config{}).WithToken(token)
		_, audit := c.Audit(t.Context())
		_, take := c.Operate(t.Context(), http.MethodPost, "/v1/seats", seat{1}, http.StatusCreated)
		for what, err := range map[string]error{"audit": audit, "operation": take,
			"reset": c.Reset(t.Context(), beginning{3})} {
			if !errors.Is(err, want) {
				t.Errorf("%s with token %q: %v, want %v", what, token, err, want)
			}
		}
	}
	for _, open := range []string{"/healthz", "/metrics"} {
		if w := apitest.Serve(guarded(&apitest.Scripted{}, "secret"), "get", open, ""); w.Code != 200 {
			t.Errorf("%s without a token: %d", open, w.Code)
		}
	}
}

// tooMany is a refusal that ends.
type tooMany struct{ wait time.Duration }

func (e tooMany) Error() string             { return "too many" }
func (e tooMany) Unwrap() error             { return errFull }
func (e tooMany) RetryAfter() time.Duration { return e.wait }

// TestRetryAfter: an answer says when to come again, if the error knows.
func TestRetryAfter(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{errFull, ""}, {tooMany{1500 * time.Millisecond}, "2"}, {tooMany{time.Millisecond}, "1"},
		{fmt.Errorf("wrapped: %w", tooMany{3 * time.Second}), "3"},
	} {
		h := handler(&apitest.Scripted{OnDo: func(context.Context, history.Op) (history.Reply, error) {
			return history.Reply{}, c.err
		}})
		w := apitest.Serve(h, "post", "/v1/seats", `{"number":1}`)
		if got := w.Header().Get("Retry-After"); got != c.want || w.Code != http.StatusConflict {
			t.Errorf("%v: %d, Retry-After %q, want %q", c.err, w.Code, got, c.want)
		}
	}
}

// TestBadTargets: an address that cannot work is refused before anything is
// sent.
func TestBadTargets(t *testing.T) {
	for url, text := range map[string]string{
		"":                           "expected a target such as",
		"127.0.0.1:80":               "pars",
		"http://u:hush@h:x/":         "pars",
		"ftp://u:hush@h":             "expected a target such as",
		"https://u:hush@h":           "without user, query",
		"ftp://host":                 "expected a target such as",
		"http://":                    "expected a target such as",
		"http://h/?a=1":              "without user, query",
		"http://u@h":                 "without user, query",
		"http://127.0.0.1:80/\x7f/x": "pars",
	} {
		_, err := api.NewClient(url, sut.Config{}, problems())
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%q: %v", url, err)
		}
		if err != nil && strings.Contains(err.Error(), "hush") {
			t.Errorf("the password is told: %v", err)
		}
	}
}

// TestTLS: the server is judged as any other where its certificate
// can be verified; otherwise nothing is sent.
func TestTLS(t *testing.T) {
	over := handler(&apitest.Scripted{Pending: "2 seats"})
	requests := atomic.Int64{}
	srv := httptest.NewUnstartedServer(http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			requests.Add(1)
			over.ServeHTTP(w, r)
		}))
	srv.Config.ErrorLog = log.New(io.Discard, "", 0) // the refused handshake below
	srv.StartTLS()
	t.Cleanup(srv.Close)
	cfg := sut.Config{Timeout: 5 * time.Second}
	err := newClient(t, srv.URL, cfg).Reset(t.Context(), beginning{3})
	var unverified *tls.CertificateVerificationError
	if !errors.As(err, &unverified) || !errors.Is(err, sut.ErrRefused) || requests.Load() != 0 {
		t.Errorf("an unknown authority: %v after %d requests", err, requests.Load())
	}
	cfg.RootCAs = x509.NewCertPool()
	cfg.RootCAs.AddCert(srv.Certificate())
	c := newClient(t, srv.URL, cfg)
	if err := c.Reset(t.Context(), beginning{3}); err != nil {
		t.Error(err)
	}
	if pending, err := c.Quiesced(t.Context()); pending != "2 seats" {
		t.Errorf("got %q, %v", pending, err)
	}
	elsewhere := strings.Replace(srv.URL, "127.0.0.1", "localhost", 1)
	err = newClient(t, elsewhere, cfg).Reset(t.Context(), beginning{3})
	if !errors.As(err, &unverified) {
		t.Errorf("a certificate for another name: %v", err)
	}
}

// TestLostAnswers: what may have been executed is unknown and sent once; what
// was never sent is refused.
func TestLostAnswers(t *testing.T) {
	var received atomic.Int64
	answer := func(serve http.HandlerFunc) string {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			received.Add(1)
			_, _ = io.Copy(io.Discard, r.Body)
			serve(w, r)
		}))
		t.Cleanup(srv.Close)
		return srv.URL
	}
	hangUp := func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			_ = conn.Close()
		}
	}
	say := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	for _, c := range []struct {
		name, url string
		received  int64
		refused   bool
	}{
		{"nobody listens", deadURL(t), 0, true},
		{"hangs up", answer(hangUp), 1, false},
		{"never answers", answer(func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
		}), 1, false},
		{"a documented refusal", answer(say(409, `{"code":"full"}`)), 1, true},
		{"a redirect", answer(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		}), 1, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			received.Store(0)
			cfg := sut.Config{Timeout: 300 * time.Millisecond}
			err := take(t.Context(), newClient(t, c.url, cfg))
			if err == nil || errors.Is(err, sut.ErrRefused) != c.refused {
				t.Errorf("got %v, want refused %v", err, c.refused)
			}
			if got := received.Load(); got != c.received {
				t.Errorf("the server received %d requests, want %d", got, c.received)
			}
		})
	}
}

// deadURL is an address on which nobody listens any more.
func deadURL(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return "http://" + l.Addr().String()
}

func TestCancelledBeforeSending(t *testing.T) {
	c := served(t, &apitest.Scripted{OnDo: func(context.Context, history.Op) (history.Reply, error) {
		t.Error("a cancelled operation was sent")
		return history.Reply{}, nil
	}})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := take(ctx, c); !errors.Is(err, sut.ErrRefused) {
		t.Errorf("got %v, want a refusal", err)
	}
}
