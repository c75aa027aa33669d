package deploy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"stampede/harness/check"
	"stampede/harness/sut"
)

// Child is the side of a process that a Crew has started.
type Child struct {
	System  sut.System
	Variant sut.Variant
	// Role is a role of the variant, or API.
	Role string
	// In has the Setup and then the parent's orders: its end is the parent's.
	// Out takes what the child says. Log takes what the variant logs.
	In  io.Reader
	Out io.Writer
	Log io.Writer
}

// Run works until ctx is cancelled or the parent is gone.
func (c Child) Run(ctx context.Context) error {
	in := bufio.NewReaderSize(c.In, maxLine)
	var setup Setup
	if err := readLine(in, &setup); err != nil {
		return fmt.Errorf("reading the configuration from standard input: %w", err)
	}
	cfg, err := setup.config(c.System)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	out := &writer{out: c.Out}
	point := &failPoint{out: out}
	cfg.Logger, cfg.FailPoint = slog.New(slog.NewTextHandler(c.Log, nil)), point.passed
	var steps *heartbeat // of a role
	if c.Role != API {
		steps = newHeartbeat()
		cfg.OnWorked = steps.tick
	}
	served := &served{}
	go func() {
		// Whoever cannot be understood is as good as gone.
		_ = readLines(in, func(order line) error {
			return obey(ctx, order, point, steps, served, out)
		})
		cancel()
	}()
	if err = c.work(ctx, cfg, setup.Listen, served, out); err != nil {
		return errors.Join(err, out.write(line{Word: failed, Error: err.Error()}))
	}
	return nil
}

// served is the instance of a server of the API, once it is open.
type served struct{ inst atomic.Pointer[sut.Instance] }

// pending is the answer to rest.
func (s *served) pending(ctx context.Context, order int) line {
	answer := line{Word: done, Number: order}
	inst := s.inst.Load()
	if inst == nil {
		return answer
	}
	if q, can := (*inst).(sut.Quiescer); can {
		var err error
		if answer.Pending, err = q.Quiesced(ctx); err != nil {
			answer.Error = err.Error()
		}
	}
	return answer
}

// obey does what the parent orders.
func obey(
	ctx context.Context, order line, m *failPoint, steps *heartbeat, s *served, out *writer,
) error {
	switch order.Word {
	case rest:
		// If nobody listens, nobody waits for it.
		go func() { _ = out.write(s.pending(ctx, order.Number)) }()
		return nil
	case labor:
		if steps == nil {
			break
		}
		worked := steps.after()
		go func() {
			select {
			case <-worked:
				// If nobody listens, nobody waits for it.
				_ = out.write(line{Word: done, Number: order.Number})
			case <-ctx.Done():
			}
		}()
		return nil
	case arm:
		m.arm(order.Place, order.Passage)
	case disarm:
		m.arm("", 0)
	}
	return out.write(line{Word: done, Number: order.Number})
}

// work runs the role, or serves the API.
func (c Child) work(
	ctx context.Context, cfg sut.Config, listen string, s *served, out *writer,
) error {
	if c.Role == API {
		return c.serve(ctx, cfg, listen, s, out)
	}
	i := slices.IndexFunc(c.Variant.Roles, func(r sut.Role) bool { return r.Name == c.Role })
	if i < 0 {
		return NoRole(c.Variant, c.Role)
	}
	if err := out.write(line{Word: ready}); err != nil {
		return err
	}
	return RunRole(ctx, c.Variant.Roles[i], cfg)
}

// NoRole says that a variant has no role of a name.
func NoRole(v sut.Variant, name string) error {
	names := []string{API}
	for _, role := range v.Roles {
		names = append(names, role.Name)
	}
	meant := ""
	if best := check.Nearest(name, names); best != "" {
		meant = fmt.Sprintf("; did you mean %q?", best)
	}
	return fmt.Errorf("%s has no role %q; it has %s%s", v.Name, name, strings.Join(names, ", "), meant)
}

// serve serves the API.
func (c Child) serve(
	ctx context.Context, cfg sut.Config, listen string, s *served, out *writer,
) (err error) {
	inst, err := c.Variant.Open(ctx, cfg)
	if err != nil {
		return fmt.Errorf("opening %s: %w", c.Variant.Name, err)
	}
	defer func() { err = errors.Join(err, inst.Close()) }()
	s.inst.Store(&inst)
	handler, err := c.System.Handler(inst, cfg)
	if err != nil {
		return fmt.Errorf("making the handler: %w", err)
	}
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	defer listener.Close()
	if err := out.write(line{Word: ready}); err != nil {
		return err
	}
	return Serve(ctx, listener, handler)
}

// Serve serves HTTP until ctx is cancelled and then lets requests finish, for
// ten seconds at most.
func Serve(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("serving: %w", err)
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := server.Shutdown(drain); err != nil {
		return fmt.Errorf("shutting down: %w", errors.Join(err, server.Close()))
	}
	return nil
}

// failPoint ends the process at a place, once it is armed.
type failPoint struct {
	out *writer

	mu    sync.Mutex
	place string // "" when it is not armed
	left  int
	order int
}

// arm makes the passage-th passage from now of a place the last; "" disarms.
func (m *failPoint) arm(place string, passage int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.place, m.left, m.order = place, passage, passage
}

// passed counts a passage. At the last one it says so and ends the process, as
// if the power had failed there: no other passage gets through meanwhile, and
// nothing is flushed or closed.
func (m *failPoint) passed(place string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.place == "" || m.place != place {
		return
	}
	if m.left--; m.left > 0 {
		return
	}
	// If nobody listens, nobody will be told that it fired.
	_ = m.out.write(line{Word: reached, Place: place, Passage: m.order})
	_ = syscall.Kill(syscall.Getpid(), syscall.SIGKILL) // it may always kill itself
	select {}                                           // until the signal is delivered
}

// dialVia dials other addresses in the place of some.
func dialVia(via map[string]string) func(context.Context, string, string) (net.Conn, error) {
	var dialer net.Dialer
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if other, ok := via[address]; ok {
			address = other
		}
		return dialer.DialContext(ctx, network, address)
	}
}
