package containers

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go/log"
)

// engineBound is how long an engine gets to answer. One on this machine
// answers in milliseconds, and in seconds where the machine is busy.
const engineBound = 20 * time.Second

// engine is a container engine that answers.
type engine struct {
	*client.Client
	host    string
	version string
}

// connect finds an engine that answers: at DOCKER_HOST, at docker's current
// context, at the usual socket, or at the user's own.
func connect(ctx context.Context) (*engine, error) {
	var failures []string
	for _, host := range hosts(ctx) {
		e, err := connectTo(ctx, host)
		if err == nil {
			return e, nil
		}
		failures = append(failures, err.Error())
	}
	return nil, fmt.Errorf("no container engine answers (%s)", strings.Join(failures, "; "))
}

// hosts lists where an engine may be. What the user named is the only one.
func hosts(ctx context.Context) []string {
	if named := os.Getenv("DOCKER_HOST"); named != "" {
		return []string{named}
	}
	var list []string
	if current := contextHost(ctx); current != "" {
		list = append(list, current)
	}
	usual := "unix:///var/run/docker.sock"
	if len(list) == 0 || list[0] != usual {
		list = append(list, usual)
	}
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		list = append(list, "unix://"+filepath.Join(dir, "docker.sock"))
	}
	return list
}

// contextHost asks the docker program, if there is one, for its context.
func contextHost(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, engineBound)
	defer cancel()
	const format = "{{.Endpoints.docker.Host}}"
	out, err := exec.CommandContext(ctx, "docker", "context", "inspect", "-f", format).Output()
	if err != nil {
		return "" // no such program, or one without contexts
	}
	return strings.TrimSpace(string(out))
}

func connectTo(ctx context.Context, host string) (*engine, error) {
	ctx, cancel := context.WithTimeout(ctx, engineBound)
	defer cancel()
	c, err := client.New(client.FromEnv, client.WithHost(host))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", shown(host), err)
	}
	version, err := c.ServerVersion(ctx, client.ServerVersionOptions{})
	if err != nil {
		_ = c.Close() // it never reached anything
		return nil, unanswered(host, err)
	}
	return &engine{Client: c, host: host, version: version.Version}, nil
}

// unanswered says why nothing came back from a host, in a few words. The
// client's own error repeats the address, which may hold a password.
func unanswered(host string, err error) error {
	switch {
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("%s: permission denied; is the user in group docker?", shown(host))
	case client.IsErrConnectionFailed(err):
		return fmt.Errorf("nothing answers at %s", shown(host))
	default:
		return errors.New(strings.ReplaceAll(err.Error(), host, shown(host)))
	}
}

// shown is an engine's address without what may be a secret in it.
func shown(host string) string {
	u, err := url.Parse(host)
	if err != nil {
		return "(unreadable DOCKER_HOST)"
	}
	return u.Redacted()
}

// local says whether the engine is reached by a socket of this machine.
func (e *engine) local() bool { return strings.HasPrefix(e.host, "unix://") }

// The variables that testcontainers reads, once in a process.
const (
	hostVariable     = "DOCKER_HOST"
	overrideVariable = "TESTCONTAINERS_HOST_OVERRIDE"
	reaperVariable   = "TESTCONTAINERS_RYUK_DISABLED"
)

// settle tells testcontainers, which takes its settings from the process's
// environment, what it would find out wrongly. What the user has set stays,
// but for a reaper that would take what is to be kept.
func (e *engine) settle(ctx context.Context, keep bool) error {
	settings := map[string]string{hostVariable: e.host}
	// It takes any machine with this file for a container and then waits for
	// the stores at the gateway's address, where nothing is.
	if _, err := os.Stat("/.dockerenv"); err == nil && e.local() {
		settings[overrideVariable] = "127.0.0.1"
	}
	// Its reaper removes what a killed process leaves behind, from an image
	// that may be unobtainable. We remove by label in any case.
	if os.Getenv(reaperVariable) == "" && !e.obtainable(ctx, reaperImage) {
		settings[reaperVariable] = "true"
	}
	if keep {
		if err := os.Setenv(reaperVariable, "true"); err != nil {
			return fmt.Errorf("set %s: %w", reaperVariable, err)
		}
	}
	for name, value := range settings {
		if os.Getenv(name) != "" {
			continue
		}
		if err := os.Setenv(name, value); err != nil {
			return fmt.Errorf("set %s: %w", name, err)
		}
	}
	// Its banner and its progress belong in no output of ours.
	log.SetDefault(log.NewNoopLogger())
	return nil
}
