package fault

import (
	"fmt"
	"net"
	"net/url"
)

// Rewrite returns a store's URL with another host and port, such as those of
// the proxy that stands before it. A URL of several hosts is an error: one
// proxy cannot stand for them.
func Rewrite(raw, addr string) (string, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		// The URL may hold a password and is therefore not shown.
		return "", fmt.Errorf("put a proxy before a store: its URL names no host")
	}
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return "", fmt.Errorf("put a proxy before a store: %w", err)
	}
	if query := u.Query(); query.Has("host") || query.Has("port") {
		return "", fmt.Errorf("put a proxy before a store: its URL names the host in a parameter")
	}
	u.Host = addr
	return u.String(), nil
}
