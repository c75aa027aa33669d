// Package admin talks to a started store as its administrator: is it ready,
// what is it, is it still the one that was started, and make an empty place
// in it. Every backend uses it, so a store is judged the same way on each.
package admin

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"stampede/harness/env"
)

// Bounds of one question to a store. A paused store accepts connections and
// never answers, so nothing here may wait without one. A store on a busy machine
// to which all clients connect again may take seconds to answer the first one.
const (
	readyTimeout = 10 * time.Second
	giveUp       = 2 * time.Second // where no answer is needed
	adminTimeout = 30 * time.Second
)

// Store is a store's administrator. Its methods open a connection of their
// own each, because a store that is killed on purpose takes pools with it.
type Store interface {
	// Ready returns nil when the store answers its own protocol.
	Ready(ctx context.Context) error
	// ReadyAt asks at another address, host:port, such as a proxy's.
	ReadyAt(ctx context.Context, addr string) error
	// Identity changes whenever the store is started anew.
	Identity(ctx context.Context) (string, error)
	// Info reports kind, version and the settings that decide numbers, those
	// named in also included. Source and Flush are left to the backend.
	Info(ctx context.Context, also []string) (env.Info, error)
}

// settingName is what a configuration key may look like in either store.
var settingName = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9_.-]*$`)

// checkSettings refuses names and values that could not be one line of a
// configuration file.
func checkSettings(store string, settings map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		if !settingName.MatchString(name) {
			return fmt.Errorf("stores.%s: %q is not the name of a setting", store, name)
		}
		if strings.ContainsAny(settings[name], "\n\r\x00") {
			return fmt.Errorf("stores.%s.%s: a value must be one line", store, name)
		}
	}
	return nil
}

// Hidden is what Redact puts in the place of a password, as url.URL.Redacted
// does.
const Hidden = "xxxxx"

// Redact returns a URL without its password, for logs and records. A URL
// that cannot be parsed, or a connection string of another form, is not shown at
// all.
func Redact(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme == "" && strings.ContainsAny(raw, "=@") {
		return "(unreadable URL)"
	}
	query := u.Query()
	for name := range query {
		if strings.Contains(strings.ToLower(name), "pass") {
			query.Set(name, Hidden)
		}
	}
	u.RawQuery = query.Encode()
	return u.Redacted()
}
