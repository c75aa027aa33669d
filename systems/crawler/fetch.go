package crawler

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"stampede/systems/crawler/web"
)

// client asks for pages through the web's proxy, each on a connection of its own: on one that was
// used before, net/http would repeat a request whose answer is lost.
type client struct {
	params Params
	folder string
	agent  string
	http   *http.Client

	mu        sync.Mutex
	addresses map[string]string // of hosts, as a cache of names
}

// newClient makes a client that says which agent it is. The web's address is in the folder.
func newClient(p Params, folder, agent string) *client {
	c := &client{params: p, folder: folder, agent: agent, addresses: map[string]string{}}
	c.http = &http.Client{
		Transport: &http.Transport{DisableKeepAlives: true, DialContext: c.dial,
			Proxy: func(r *http.Request) (*url.URL, error) {
				if r.URL.Host == nameServer {
					return nil, nil
				}
				return &url.URL{Scheme: "http", Host: "proxy.test"}, nil
			}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c
}

// nameServer is the host that is asked for the addresses of others, not through the proxy.
const nameServer = "names.test"

// errNoWeb: nothing was sent, because the proxy cannot be reached. No host can help it.
var errNoWeb = errors.New("the web cannot be reached")

type dialed struct{}

// dial connects to the web, whatever it is asked for. The connection is noted in the context.
func (c *client) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	at, err := os.ReadFile(filepath.Join(c.folder, web.AddressFile))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoWeb, err)
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, network, string(at))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoWeb, err)
	}
	if to, is := ctx.Value(dialed{}).(*net.Conn); is {
		c.mu.Lock()
		defer c.mu.Unlock()
		*to = conn
	}
	return conn, nil
}

// answer is what came of a request.
type answer struct {
	status    int
	mediaType string
	location  string
	body      []byte
	large     bool
	fresh     bool // the page says for how long it is fresh
	err       error
}

// get asks for a page. When it returns nobody waits for an answer any more: its connection is
// closed.
func (c *client) get(ctx context.Context, address string, most int) (a answer) {
	ctx, cancel := context.WithTimeout(ctx, c.params.FetchTimeout.D())
	defer cancel()
	var conn net.Conn
	ctx = context.WithValue(ctx, dialed{}, &conn)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return answer{err: fmt.Errorf("asking for a page: %w", err)}
	}
	r.Header.Set("User-Agent", c.agent)
	resp, err := c.http.Do(r)
	if err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		if conn != nil {
			_ = conn.Close() // most likely it is by now
		}
		return answer{err: fmt.Errorf("asking for a page: %w", err)}
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	a.status, a.location = resp.StatusCode, resp.Header.Get("Location")
	a.mediaType, _, _ = strings.Cut(strings.ToLower(resp.Header.Get("Content-Type")), ";")
	a.fresh = strings.Contains(resp.Header.Get("Cache-Control"), "max-age=")
	a.body, err = io.ReadAll(io.LimitReader(resp.Body, int64(most)+1))
	if a.large = len(a.body) > most; a.large {
		a.body = a.body[:most]
	} else if err != nil {
		a.err = fmt.Errorf("reading a page: %w", err)
	}
	return a
}

// address is that of a host.
func (c *client) address(ctx context.Context, host string) (string, error) {
	c.mu.Lock()
	ip, known := c.addresses[host]
	c.mu.Unlock()
	if known {
		return ip, nil
	}
	ctx, cancel := context.WithTimeout(ctx, c.params.FetchTimeout.D())
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet,
		"http://"+nameServer+"/ip/"+url.PathEscape(host), nil)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrNoPage, err)
	}
	resp, err := c.http.Do(r)
	if err != nil {
		return "", fmt.Errorf("%w: %w", errNoWeb, err)
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	text, err := io.ReadAll(io.LimitReader(resp.Body, 100))
	switch {
	case err != nil:
		return "", fmt.Errorf("%w: %w", errNoWeb, err)
	case resp.StatusCode == http.StatusNotFound:
		return "", fmt.Errorf("%w: %s", ErrNoPage, host)
	case resp.StatusCode != http.StatusOK:
		return "", fmt.Errorf("%w: it answers %s", errNoWeb, resp.Status)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.addresses[host] = string(text)
	return string(text), nil
}

// close ends what is idle.
func (c *client) close() { c.http.CloseIdleConnections() }
