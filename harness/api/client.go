package api

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/valyala/fasthttp"

	"stampede/harness/plain"
	"stampede/harness/sut"
)

const (
	// controlTimeout bounds a reset and an audit, which touch every row.
	controlTimeout = 2 * time.Minute
	// defaultTimeout and defaultConns are what the configuration leaves out.
	defaultTimeout = 5 * time.Second
	defaultConns   = 256
	// idleConn is how long an unused connection is kept: shorter than the 5 s
	// after which the most hurried of common servers closes one, because a
	// request on a connection that is being closed has an unknown effect.
	idleConn = 3 * time.Second
	// maxReply and maxAudit bound what is read of an answer, in bytes.
	maxReply = 1 << 20
	maxAudit = 1 << 30
)

// Client speaks to a server somewhere else, which somebody else may have written,
// and tells what certainly had no effect from what may have had one.
type Client struct {
	base     string
	token    string
	timeout  time.Duration
	problems Problems
	// users carries operations, control resets and audits, which are larger
	// and slower.
	users, control *fasthttp.HostClient
}

// NewClient reads the server's base URL, such as "http://127.0.0.1:8080", and sends
// nothing yet. Every request is sent once: one whose answer is lost has an
// unknown outcome. MaxConns and Timeout of cfg bound connections and operations.
// The certificate of an https server is verified with RootCAs, or else the
// system's. The problems are those that the API documents.
func NewClient(baseURL string, cfg sut.Config, problems Problems) (*Client, error) {
	base, err := parseBase(baseURL)
	if err != nil {
		return nil, err
	}
	limit, conns := cfg.Timeout, cfg.MaxConns
	if limit <= 0 {
		limit = defaultTimeout
	}
	if conns <= 0 {
		conns = defaultConns
	}
	return &Client{
		base: base.String(), timeout: limit, problems: problems,
		users:   hostClient(base, cfg.RootCAs, conns, limit, maxReply),
		control: hostClient(base, cfg.RootCAs, 2, controlTimeout, maxAudit),
	}, nil
}

// WithToken makes all requests show a token, unless it is empty, and returns the
// client.
func (c *Client) WithToken(token string) *Client {
	c.token = token
	return c
}

// Base is the server's base URL.
func (c *Client) Base() string { return c.base }

// Reset asks the server to begin anew, as body says.
func (c *Client) Reset(ctx context.Context, body any) error {
	_, err := c.send(ctx, c.control, controlTimeout, http.MethodPost, routeReset, body,
		http.StatusNoContent)
	if err != nil {
		return fmt.Errorf("resetting %s: %w", c.base, err)
	}
	return nil
}

// Audit reads the server's final truth. It is checked by the judges.
func (c *Client) Audit(ctx context.Context) (json.RawMessage, error) {
	body, err := c.send(ctx, c.control, controlTimeout, http.MethodGet, routeAudit, nil,
		http.StatusOK)
	if err != nil {
		return nil, fmt.Errorf("reading the audit at %s: %w", c.base, err)
	}
	return body, nil
}

// Quiesced asks the server what is left to do; "" is nothing. The error wraps
// ErrNoRoute where the server does not say.
func (c *Client) Quiesced(ctx context.Context) (pending string, err error) {
	reply, err := c.pending(ctx)
	return reply.Pending, err
}

// Backlog asks the server how much is left to do. The error wraps ErrNoRoute where the
// server does not say.
func (c *Client) Backlog(ctx context.Context) (left int64, err error) {
	reply, err := c.pending(ctx)
	switch {
	case err != nil || reply.Pending == "":
		return 0, err
	case reply.Left == nil:
		return 0, fmt.Errorf("%w: %s does not count its pending work", ErrNoRoute, c.base)
	}
	return *reply.Left, nil
}

func (c *Client) pending(ctx context.Context) (pendingReply, error) {
	body, err := c.Ask(ctx, routePending)
	if err != nil {
		return pendingReply{}, fmt.Errorf("asking %s for its pending work: %w", c.base, err)
	}
	return Decode[pendingReply](body)
}

// Close closes the connections that are not in use.
func (c *Client) Close() error {
	c.users.CloseIdleConnections()
	c.control.CloseIdleConnections()
	return nil
}

// Operate sends an operation of a user's, with body as JSON unless it is nil,
// and returns the body of an answer with the wanted status. Its errors wrap
// sut.ErrRefused only if nothing was sent or the answer is a documented refusal.
func (c *Client) Operate(
	ctx context.Context, method, path string, body any, want int,
) ([]byte, error) {
	return c.send(ctx, c.users, c.timeout, method, path, body, want)
}

// Ask reads what is no operation: it does not wait for connections that operations
// without an answer hold. See Operate.
func (c *Client) Ask(ctx context.Context, path string) ([]byte, error) {
	return c.send(ctx, c.control, c.timeout, http.MethodGet, path, nil, http.StatusOK)
}

func parseBase(baseURL string) (*url.URL, error) {
	base, err := url.Parse(baseURL)
	switch {
	case err != nil:
		// The parser's own words repeat the URL, which may hold a password.
		return nil, errors.New("parsing the target's URL: it is not like http://127.0.0.1:8080")
	case base.Scheme != "http" && base.Scheme != "https", base.Host == "":
		return nil, fmt.Errorf("expected a target such as http://127.0.0.1:8080, got %q",
			base.Redacted())
	case base.RawQuery != "" || base.Fragment != "" || base.User != nil:
		return nil, fmt.Errorf("expected a target without user, query and fragment, got %q",
			base.Redacted())
	}
	base.Path = trimSlash(base.Path)
	base.RawPath = ""
	return base, nil
}

func trimSlash(path string) string {
	for len(path) > 0 && path[len(path)-1] == '/' {
		path = path[:len(path)-1]
	}
	return path
}

func hostClient(
	base *url.URL, roots *x509.CertPool, conns int, timeout time.Duration, maxBody int,
) *fasthttp.HostClient {
	secure, dialer := base.Scheme == "https", dial
	if secure {
		dialer = dialTLS(&tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots,
			ServerName: base.Hostname()})
	}
	return &fasthttp.HostClient{
		Addr: fasthttp.AddMissingPort(base.Host, secure), IsTLS: secure,
		Name: "stampede", MaxConns: conns,
		MaxConnWaitTimeout:  timeout,
		MaxIdleConnDuration: idleConn,
		ReadTimeout:         timeout, WriteTimeout: timeout,
		MaxResponseBodySize: maxBody,
		DialTimeout:         dialer,
		// A path goes out as it was escaped: an item's name may have a slash.
		DisablePathNormalizing: true,
		// Not even requests that look idempotent are repeated.
		MaxIdemponentCallAttempts: 1,
		RetryIfErr: func(*fasthttp.Request, int, error) (resetTimeout, retry bool) {
			return false, false
		},
	}
}

// dialError marks a request that was never sent.
type dialError struct{ err error }

func (e *dialError) Error() string { return e.err.Error() }
func (e *dialError) Unwrap() error { return e.err }

func dial(addr string, timeout time.Duration) (net.Conn, error) {
	if timeout <= 0 {
		timeout = defaultTimeout
	}
	conn, err := net.DialTimeout("tcp", addr, timeout)
	if err != nil {
		return nil, &dialError{err}
	}
	return conn, nil
}

// dialTLS connects and shakes hands: until that is done, nothing of a request
// has been sent.
func dialTLS(config *tls.Config) func(string, time.Duration) (net.Conn, error) {
	return func(addr string, timeout time.Duration) (net.Conn, error) {
		if timeout <= 0 {
			timeout = defaultTimeout
		}
		dialer := &net.Dialer{Timeout: timeout}
		conn, err := tls.DialWithDialer(dialer, "tcp", addr, config)
		if err != nil {
			return nil, &dialError{err}
		}
		return conn, nil
	}
}

func (c *Client) send(
	ctx context.Context, host *fasthttp.HostClient, timeout time.Duration,
	method, path string, body any, want int,
) ([]byte, error) {
	got, err := c.exchange(ctx, host, timeout, exchange{method: method, path: path, body: body,
		wants: func(status int) bool { return status == want }, problems: c.problems})
	return got.body, err
}

// exchange is what is sent, which answers are successes, and what is read of their head.
type exchange struct {
	method, path string
	body         any
	head         func(show func(name, text string)) // nil sends no headers
	wants        func(status int) bool
	problems     Problems // in which it may end otherwise
	reads        []string
}

// received is an answer, with those headers that were to be read and are there.
type received struct {
	status int
	head   map[string]string
	body   []byte
}

func (c *Client) exchange(
	ctx context.Context, host *fasthttp.HostClient, timeout time.Duration, x exchange,
) (got received, err error) {
	if err := ctx.Err(); err != nil {
		return got, fmt.Errorf("not sent: %w: %w", sut.ErrRefused, err)
	}
	req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(req)
	defer fasthttp.ReleaseResponse(resp)
	if err := c.fill(req, x); err != nil {
		return got, err
	}
	deadline := time.Now().Add(timeout)
	if d, set := ctx.Deadline(); set && d.Before(deadline) {
		deadline = d
	}
	if err := host.DoDeadline(req, resp, deadline); err != nil {
		return got, sendError(x.method, x.path, err)
	}
	got.status = resp.StatusCode()
	if !x.wants(got.status) {
		return got, x.problems.errorOf(got.status, resp.Body())
	}
	got.body = bytes.Clone(resp.Body())
	for _, name := range x.reads {
		if lines := resp.Header.PeekAll(name); len(lines) > 0 {
			if got.head == nil {
				got.head = map[string]string{}
			}
			got.head[name] = string(bytes.Join(lines, []byte(", ")))
		}
	}
	return got, nil
}

// fill makes a request.
func (c *Client) fill(req *fasthttp.Request, x exchange) error {
	req.Header.SetMethod(x.method)
	req.SetRequestURI(c.base + x.path)
	if c.token != "" {
		req.Header.Set("Authorization", bearer+c.token)
	}
	if x.head != nil {
		x.head(req.Header.Set)
	}
	if x.body == nil {
		return nil
	}
	text, err := json.Marshal(x.body)
	if err != nil {
		return fmt.Errorf("encoding a request: %w: %w", sut.ErrRefused, err)
	}
	req.Header.SetContentType("application/json")
	req.SetBodyRaw(text)
	return nil
}

// sendError tells requests that never left from those whose answer is lost.
func sendError(method, path string, err error) error {
	var dialled *dialError
	if errors.As(err, &dialled) || errors.Is(err, fasthttp.ErrNoFreeConns) {
		return fmt.Errorf("%s %s was not sent: %w: %w", method, path, sut.ErrRefused, err)
	}
	return fmt.Errorf("%s %s has no answer: %w", method, path, err)
}

// errorOf returns the error behind an answer. Only a documented code with
// its documented status is believed to have had no effect.
func (p Problems) errorOf(status int, body []byte) error {
	var f failure
	if err := json.Unmarshal(body, &f); err == nil {
		for _, known := range p {
			if known.code() == f.Code && known.Status == status {
				return remoteError{known.Is, plain.Line(f.Error)}
			}
		}
	}
	const shown = 200
	is := ErrUnknownEffect
	if status == http.StatusNotFound {
		is = ErrNoRoute
	}
	return fmt.Errorf("%w: answer %d %q", is, status, body[:min(len(body), shown)])
}

// remoteError is a problem with the server's own words, which may say more. They are
// foreign: one line, that nothing obeys.
type remoteError struct {
	is   error
	text string
}

func (e remoteError) Error() string {
	if e.text == "" {
		return e.is.Error()
	}
	return e.text
}
func (e remoteError) Unwrap() error { return e.is }

// Decode reads the body of an answer. What cannot be read leaves the outcome
// unknown.
func Decode[T any](body []byte) (T, error) {
	var v T
	if err := json.Unmarshal(body, &v); err != nil {
		return v, fmt.Errorf("%w: the reply cannot be read: %w", ErrUnknownEffect, err)
	}
	return v, nil
}
