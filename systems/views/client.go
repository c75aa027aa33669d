package views

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

	"stampede/harness/history"
	"stampede/harness/sut"
)

const (
	// defaultConns bounds the connections if the configuration does not.
	defaultConns = 256
	// idleConn is how long an unused connection is kept: shorter than the 5 s
	// after which the most hurried of common servers closes one, because a
	// request on a connection that is being closed has an unknown effect.
	idleConn = 3 * time.Second
	// maxReply and maxAudit bound what is read of an answer, in bytes.
	maxReply = 1 << 20
	maxAudit = 1 << 30
)

// NewTarget makes an instance that speaks the HTTP API at baseURL, such as
// "http://127.0.0.1:8080", whoever wrote the server. It sends every request
// once: a request whose answer is lost has an unknown outcome, and what to do
// about it is for the workload to say.
//
// The parameters of cfg (a *Params or Params) go into the reset; MaxConns and
// Timeout bound connections and operations. The certificate of an https server
// is verified with RootCAs, or else the system's. Nothing is sent until Prepare.
func NewTarget(baseURL string, cfg sut.Config) (sut.Instance, error) {
	p, err := paramsOf(cfg.Params)
	if err != nil {
		return nil, fmt.Errorf("views target: %w", err)
	}
	base, err := parseBase(baseURL)
	if err != nil {
		return nil, fmt.Errorf("views target: %w", err)
	}
	limit, conns := timeout(cfg), cfg.MaxConns
	if conns <= 0 {
		conns = defaultConns
	}
	return &Client{
		base: base.String(), params: p, timeout: limit,
		users:   hostClient(base, cfg.RootCAs, conns, limit, maxReply),
		control: hostClient(base, cfg.RootCAs, 2, controlTimeout, maxAudit),
	}, nil
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

// Client is a Pipeline, and an instance, somewhere else.
type Client struct {
	base    string
	params  Params
	timeout time.Duration
	// users carries operations, control resets and audits, which are larger
	// and slower.
	users, control *fasthttp.HostClient
}

// Prepare asks the server to begin with an empty log.
func (c *Client) Prepare(ctx context.Context) error {
	_, err := c.call(ctx, c.control, controlTimeout, http.MethodPost, routeReset,
		resetOf(c.params), http.StatusNoContent)
	if err != nil {
		return fmt.Errorf("resetting the views at %s: %w", c.base, err)
	}
	return nil
}

// Do performs one operation. See Pipeline for the errors.
func (c *Client) Do(ctx context.Context, op history.Op) (history.Reply, error) {
	return perform(ctx, c, op)
}

// Watch sends a heartbeat.
func (c *Client) Watch(ctx context.Context, h Heartbeat) (Position, error) {
	body, err := c.operate(ctx, http.MethodPost, routeWatch, requestOf(h), http.StatusAccepted)
	if err != nil {
		return Position{}, err
	}
	reply, err := decodeReply[positionReply](body)
	if err != nil {
		return Position{}, err
	}
	at, err := ParsePosition(reply.Position)
	if err != nil {
		return Position{}, fmt.Errorf("%w: %w", errUnknown, err)
	}
	return at, nil
}

// Views reads a count.
func (c *Client) Views(ctx context.Context, video string) (Views, error) {
	body, err := c.operate(ctx, http.MethodGet, "/videos/"+url.PathEscape(video)+"/views", nil,
		http.StatusOK)
	if err != nil {
		return Views{}, err
	}
	views, err := decodeReply[Views](body)
	if err == nil && views.Video != video {
		err = fmt.Errorf("%w: asked for %s, the reply is about %q", errUnknown, video, views.Video)
	}
	return views, err
}

// SetRules puts rules into force.
func (c *Client) SetRules(ctx context.Context, rules Rules) (int64, error) {
	body, err := c.operate(ctx, http.MethodPut, routeRules, rules, http.StatusOK)
	if err != nil {
		return 0, err
	}
	reply, err := decodeReply[versionReply](body)
	return reply.Version, err
}

// Reprocess begins a generation.
func (c *Client) Reprocess(ctx context.Context) (int64, error) {
	body, err := c.operate(ctx, http.MethodPost, routeReprocess, nil, http.StatusAccepted)
	if err != nil {
		return 0, err
	}
	reply, err := decodeReply[generationReply](body)
	return reply.Generation, err
}

// Audit reads the server's final truth. It is checked by the judges.
func (c *Client) Audit(ctx context.Context) (json.RawMessage, error) {
	body, err := c.call(ctx, c.control, controlTimeout, http.MethodGet, routeAudit,
		nil, http.StatusOK)
	if err != nil {
		return nil, fmt.Errorf("reading the audit at %s: %w", c.base, err)
	}
	return body, nil
}

// Quiesced asks the server what is left to do. A server that does not say has
// no background work. It does not wait for connections that operations without an
// answer hold.
func (c *Client) Quiesced(ctx context.Context) (pending string, err error) {
	body, err := c.call(ctx, c.control, c.timeout, http.MethodGet, routePending, nil, http.StatusOK)
	switch {
	case errors.Is(err, errNoRoute):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("asking %s what is pending: %w", c.base, err)
	}
	reply, err := decodeReply[pendingReply](body)
	return reply.Pending, err
}

// Close closes the connections that are not in use.
func (c *Client) Close() error {
	c.users.CloseIdleConnections()
	c.control.CloseIdleConnections()
	return nil
}

func (c *Client) operate(
	ctx context.Context, method, path string, body any, want int,
) ([]byte, error) {
	return c.call(ctx, c.users, c.timeout, method, path, body, want)
}

// call sends one request and returns the body of an answer with the wanted
// status. Its errors wrap sut.ErrRefused only if nothing was sent or the
// answer is a documented refusal.
func (c *Client) call(
	ctx context.Context, host *fasthttp.HostClient, timeout time.Duration,
	method, path string, body any, want int,
) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("not sent: %w: %w", sut.ErrRefused, err)
	}
	req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(req)
	defer fasthttp.ReleaseResponse(resp)
	req.Header.SetMethod(method)
	req.SetRequestURI(c.base + path)
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("encoding a request: %w: %w", sut.ErrRefused, err)
		}
		req.Header.SetContentType("application/json")
		req.SetBodyRaw(text)
	}
	deadline := time.Now().Add(timeout)
	if d, set := ctx.Deadline(); set && d.Before(deadline) {
		deadline = d
	}
	if err := host.DoDeadline(req, resp, deadline); err != nil {
		return nil, sendError(method, path, err)
	}
	if resp.StatusCode() != want {
		return nil, answerError(resp.StatusCode(), resp.Body())
	}
	return bytes.Clone(resp.Body()), nil
}

// sendError tells requests that never left from those whose answer is lost.
func sendError(method, path string, err error) error {
	var dialled *dialError
	if errors.As(err, &dialled) || errors.Is(err, fasthttp.ErrNoFreeConns) {
		return fmt.Errorf("%s %s was not sent: %w: %w", method, path, sut.ErrRefused, err)
	}
	return fmt.Errorf("%s %s has no answer: %w", method, path, err)
}

// answerError returns the error behind an answer. Only a documented code with
// its documented status is believed to have had no effect.
func answerError(status int, body []byte) error {
	var f failure
	if err := json.Unmarshal(body, &f); err == nil {
		for _, p := range problems() {
			if p.code == f.Code && p.status == status {
				return remoteError{p.is, f.Error}
			}
		}
	}
	const shown = 200
	is := errUnknown
	if status == http.StatusNotFound {
		is = errNoRoute
	}
	return fmt.Errorf("%w: answer %d %q", is, status, body[:min(len(body), shown)])
}

// remoteError is a problem with the server's own words, which may say more.
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

func decodeReply[T any](body []byte) (T, error) {
	var v T
	if err := json.Unmarshal(body, &v); err != nil {
		return v, fmt.Errorf("%w: the reply cannot be read: %w", errUnknown, err)
	}
	return v, nil
}
