package crawler

import (
	"context"
	"crypto/rand"
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

	"stampede/harness/sut"
	"stampede/systems/crawler/links"
	"stampede/systems/crawler/web"
)

// client asks for pages through the web's proxy, each on a connection of its own: on one that was
// used before, net/http would repeat a request whose answer is lost.
type client struct {
	*opened
	agent string
	http  *http.Client

	mu        sync.Mutex
	addresses map[string]string // of hosts, as a cache of names
}

// newClient makes a client with a User-Agent of its own. The web's address is in the folder.
func newClient(st *opened) *client {
	c := &client{opened: st, agent: web.Agent + "/1.0 (" + rand.Text()[:10] + ")",
		addresses: map[string]string{}}
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
	at, err := os.ReadFile(filepath.Join(c.Config.Folder, web.AddressFile))
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
	ctx, cancel := context.WithTimeout(ctx, c.Params.FetchTimeout.D())
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
	a := c.get(ctx, "http://"+nameServer+"/ip/"+url.PathEscape(host), 100)
	switch {
	case a.err != nil:
		return "", fmt.Errorf("%w: %w", errNoWeb, a.err)
	case a.status == http.StatusNotFound:
		return "", fmt.Errorf("%w: %s", ErrNoPage, host)
	case a.status != http.StatusOK:
		return "", fmt.Errorf("%w: it answers %d", errNoWeb, a.status)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.addresses[host] = string(a.body)
	return string(a.body), nil
}

// find is a page by its address. It waits for a web that cannot be asked, as long as ctx lasts.
func (c *client) find(ctx context.Context, address string) (found, error) {
	u, err := links.Normal(nil, address, sessions())
	if err != nil {
		return found{}, fmt.Errorf("%w: %w", ErrNoPage, err)
	}
	if c.Params.Filtered(u.Host + u.EscapedPath()) {
		return found{}, fmt.Errorf("%w: it is beyond the limits", ErrNoPage)
	}
	ip, err := c.address(ctx, u.Host)
	for errors.Is(err, errNoWeb) && sut.Pause(ctx, idle) {
		ip, err = c.address(ctx, u.Host)
	}
	return found{URL: u.String(), Host: u.Host, IP: ip}, err
}
