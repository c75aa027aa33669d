package generators

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"stampede/harness/load"
	"stampede/harness/plain"
)

const (
	// silence is how long a generator may say nothing before it counts as lost, and how long it
	// waits itself for a coordinator that does not answer.
	silence = 15 * time.Second
	// beginIn is the time from the order to begin to the zero of the run's clock, in which the
	// order reaches everybody.
	beginIn = 500 * time.Millisecond
	// doneBound is how long the coordinator may take to read a history that has come.
	doneBound = 10 * time.Minute
	// lookEvery is how often silent generators are looked for.
	lookEvery = 250 * time.Millisecond
)

// Coordinator is a run's end of its generators.
type Coordinator struct {
	settings Settings
	listener net.Listener
	server   *http.Server
	token    string
	// epoch is the zero of the coordinator's clock, which has a monotonic reading.
	epoch time.Time

	mu      sync.Mutex
	members []*member
	begun   bool
	base    time.Time
	stop    bool
	failure error // why there will be no answer
	changed chan struct{}
}

// Settings say what a coordinator is for.
type Settings struct {
	// Count is how many generators there are, Operations the digest of what they offer.
	Count      int
	Operations string
	// Host is the address of this machine at which they reach it; "" is loopback.
	Host string
	// Folder is where what they record goes.
	Folder string
	// Targets are the base URLs of the API's servers.
	Targets []string
	// Logf takes what is worth a line.
	Logf func(format string, args ...any)
}

// member is one generator.
type member struct {
	load.Part
	hello    *Hello // nil before it has joined
	ready    bool
	status   Status
	heard    time.Time
	asking   int       // how many of its requests are being answered
	recorded *Recorded // nil before it has delivered

	upload sync.Mutex // guards its file
}

// name is a generator for people.
func (m *member) name() string {
	if m.hello == nil {
		return m.String()
	}
	return m.String() + " on " + plain.Text(m.hello.Host)
}

// Coordinate begins to answer generators.
func Coordinate(s Settings) (*Coordinator, error) {
	host := s.Host
	if host == "" {
		host = "127.0.0.1"
	}
	if err := os.MkdirAll(s.Folder, 0o755); err != nil {
		return nil, fmt.Errorf("making the folder of the generators: %w", err)
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return nil, fmt.Errorf("listening for generators: %w", err)
	}
	c := &Coordinator{settings: s, listener: listener, token: newToken(), epoch: time.Now(),
		changed: make(chan struct{})}
	for i := range s.Count {
		c.members = append(c.members, &member{Part: load.Part{Index: i, Of: s.Count}})
	}
	c.server = &http.Server{Handler: c.routes(), ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout: time.Minute, WriteTimeout: doneBound, MaxHeaderBytes: 64 << 10}
	go func() { _ = c.server.Serve(listener) }() // which ends with Close
	return c, nil
}

// URL is where it answers, Token what it asks for.
func (c *Coordinator) URL() string { return "http://" + c.listener.Addr().String() }

// Token is the secret that lets a generator in.
func (c *Coordinator) Token() string { return c.token }

// Close ends it. What was collected stays.
func (c *Coordinator) Close() error { return c.server.Close() }

// update changes what is known, under the lock, and tells those who wait.
func (c *Coordinator) update(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
	close(c.changed)
	c.changed = make(chan struct{})
}

// Lose notes that a generator has ended, by its index. After it has delivered that is as it should
// be.
func (c *Coordinator) Lose(index int, why string) {
	c.update(func() {
		if c.members[index].recorded == nil {
			c.failLocked(&LostError{c.members[index].name(), why})
		}
	})
}

// LostError says which generator was lost and why.
type LostError struct{ Name, Why string }

// Error names the generator.
func (e *LostError) Error() string { return fmt.Sprintf("%s was lost: %s", e.Name, e.Why) }

// failLocked keeps the first reason why there is no answer, and ends the load of the others.
func (c *Coordinator) failLocked(err error) {
	if c.failure == nil {
		c.failure = err
	}
	c.stop = true
}

// Ready waits until every generator is ready to begin. An error names those that are not.
func (c *Coordinator) Ready(ctx context.Context) error {
	err := c.await(ctx, func() bool {
		return !slices.ContainsFunc(c.members, func(m *member) bool { return !m.ready })
	})
	if err == nil || !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	var names []string
	indices := c.Missing()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, index := range indices {
		names = append(names, c.members[index].name())
	}
	return fmt.Errorf("%s did not begin in time: %w", strings.Join(names, ", "), err)
}

// Missing are the indices of those that have not yet said that they are ready.
func (c *Coordinator) Missing() (indices []int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.members {
		if !m.ready {
			indices = append(indices, m.Index)
		}
	}
	return indices
}

// Begin tells all that are ready when the load begins, waits until then, and returns that moment,
// which is the zero of the run's clock.
func (c *Coordinator) Begin() time.Time {
	base := time.Now().Add(beginIn)
	c.update(func() { c.begun, c.base = true, base })
	time.Sleep(time.Until(base))
	return base
}

// Collect waits until every generator has delivered, or one is lost. When soft is cancelled the
// load ends early, and what was recorded is still collected.
func (c *Coordinator) Collect(soft, hard context.Context) ([]*Recorded, error) {
	defer context.AfterFunc(soft, func() { c.update(func() { c.stop = true }) })()
	err := c.await(hard, func() bool {
		return !slices.ContainsFunc(c.members, func(m *member) bool { return m.recorded == nil })
	})
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	list := make([]*Recorded, len(c.members))
	for i, m := range c.members {
		list[i] = m.recorded
	}
	return list, nil
}

// await waits until something holds, and looks for generators that have fallen silent.
func (c *Coordinator) await(ctx context.Context, holds func() bool) error {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		c.mu.Lock()
		c.silentLocked(time.Now())
		failed, done, changed := c.failure, holds(), c.changed
		c.mu.Unlock()
		switch {
		case failed != nil:
			return failed
		case done:
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-changed:
		case <-look.C:
		}
	}
}

// silentLocked finds a generator that has joined and says nothing any more.
func (c *Coordinator) silentLocked(now time.Time) {
	for _, m := range c.members {
		if m.hello != nil && m.recorded == nil && m.asking == 0 && now.Sub(m.heard) > silence {
			c.failLocked(&LostError{m.name(), fmt.Sprintf("it has said nothing for %s", silence)})
		}
	}
}

// Snapshot is the load of all generators at this moment. Percentiles are those of the slowest.
func (c *Coordinator) Snapshot() (all load.Snapshot) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all.Phase = load.Over
	for _, m := range c.members {
		s := m.status.Load
		all.Load.Add(s.Load)
		all.FollowUps += s.FollowUps
		all.InFlight, all.Waiting = all.InFlight+s.InFlight, all.Waiting+s.Waiting
		all.Offered, all.Achieved = all.Offered+s.Offered, all.Achieved+s.Achieved
		all.P99, all.P99Recent = max(all.P99, s.P99), max(all.P99Recent, s.P99Recent)
		all.Elapsed = max(all.Elapsed, s.Elapsed)
		if phaseOrder(s.Phase) < phaseOrder(all.Phase) {
			all.Phase = s.Phase
		}
	}
	return all
}

// phaseOrder is the place of a phase in time.
func phaseOrder(p load.Phase) int {
	return slices.Index([]load.Phase{load.Waiting, load.Loading, load.Draining, load.Over}, p)
}

// HistoryFile is where the history of a generator is, once it has delivered.
func (c *Coordinator) HistoryFile(index int) string {
	return filepath.Join(c.settings.Folder, fmt.Sprintf("generator-%d.history", index+1))
}
