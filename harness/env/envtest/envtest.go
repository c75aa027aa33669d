// Package envtest gives tests real stores. It is imported by tests only.
package envtest

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"stampede/harness/env"
	"stampede/harness/env/admin"
	"stampede/harness/env/containers"
	"stampede/harness/env/external"
	"stampede/harness/env/processes"
	"stampede/harness/sut"
)

// bound is how long stores may take to start or to stop.
const bound = 5 * time.Minute

// grace is how much longer than its context a stop may take.
const grace = 30 * time.Second

// Start starts stores for one test and stops them when it ends. Without a
// backend the test fails: a store-backed test that skips itself proves
// nothing. Tests in a hurry skip under -short.
func Start(t testing.TB, services ...sut.Service) env.Cluster {
	t.Helper()
	return StartSpec(t, env.Spec{Services: services})
}

// StartSpec is Start with settings of its own; RunID and Dir are filled in.
func StartSpec(t testing.TB, spec env.Spec) env.Cluster {
	t.Helper()
	if testing.Short() {
		t.Skip("needs real stores; -short was given")
	}
	spec.RunID, spec.Dir = runID(), t.TempDir()
	spec.Log = t.Logf
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	cluster, err := start(ctx, spec)
	if err != nil {
		t.Fatalf("start stores: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), bound)
		defer cancel()
		if err := cluster.Close(ctx); err != nil {
			t.Errorf("stop stores: %v", err)
		}
	})
	return cluster
}

// runID is unique among the test binaries that run at this time.
func runID() string { return fmt.Sprintf("test%d", os.Getpid()) }

// Backend is the backend that tests run on: STAMPEDE_TEST_BACKEND, which is
// processes when it is not set.
func Backend() string {
	if name := os.Getenv("STAMPEDE_TEST_BACKEND"); name != "" {
		return name
	}
	return env.Processes
}

func start(ctx context.Context, spec env.Spec) (env.Cluster, error) {
	provider, err := choose(ctx, spec)
	if err != nil {
		return nil, err
	}
	return provider.Start(ctx, spec)
}

// Hasty are flags with which Java compiles once, in haste: where cores are few its
// second compiler takes a third of what a broker of half a minute's life uses.
func Hasty() []string { return []string{"-XX:TieredStopAtLevel=1"} }

func choose(ctx context.Context, spec env.Spec) (env.Provider, error) {
	admin.Quiet()
	engine, local := containers.New(), processes.New()
	engine.BrokerFlags, local.BrokerFlags = Hasty(), Hasty()
	provider, _, err := env.Choose(ctx, Backend(), spec, engine, local)
	return provider, err
}

// Provider is the backend of Backend, for tests that start stores through it. It
// fails the test if the backend cannot start what spec asks for.
func Provider(t testing.TB, spec env.Spec) env.Provider {
	t.Helper()
	if testing.Short() {
		t.Skip("needs real stores; -short was given")
	}
	provider, err := choose(t.Context(), spec)
	if err != nil {
		t.Fatalf("choose a backend: %v", err)
	}
	return provider
}

// Shared is a set of stores that all tests of a binary share: those of a lab (stampede lab)
// if the environment has one of this Backend with all of the services, else stores of its own,
// which start at the first use and stop at the end of TestMain:
//
//	var stores = envtest.NewShared(sut.Postgres, sut.Redis)
//
//	func TestMain(m *testing.M) { os.Exit(stores.Run(m)) }
//
//	func TestBuy(t *testing.T) { space := stores.Namespace(t) … }
type Shared struct {
	services []sut.Service
	own      bool
	once     sync.Once
	cluster  env.Cluster
	err      error
}

// NewShared returns stores that are not started yet.
func NewShared(services ...sut.Service) *Shared { return &Shared{services: services} }

// NewOwn is NewShared for tests that break a store, set what its other users notice, or look at
// more than their own namespace: these stores are never a lab's.
func NewOwn(services ...sut.Service) *Shared { return &Shared{services: services, own: true} }

// Run runs the tests and stops the stores; it returns the exit code.
func (s *Shared) Run(m *testing.M) int {
	code := m.Run()
	if s.cluster == nil {
		return code
	}
	if err := stop(s.cluster); err != nil {
		fmt.Fprintln(os.Stderr, "stop stores:", err)
		return max(code, 1)
	}
	return code
}

// stop closes a cluster and waits no longer than the bound. The testing
// package has stopped its own clock by then: what hung would hang for ever,
// and nobody would see where.
func stop(cluster env.Cluster) error {
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- cluster.Close(ctx) }()
	select {
	case err := <-ended:
		return err
	case <-time.After(bound + grace):
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		return fmt.Errorf("they did not stop within %v\n%s", bound+grace, stacks)
	}
}

// Cluster returns the shared stores, started at the first call. A test that
// breaks them, which NewOwn is for, must bring them back before it ends.
func (s *Shared) Cluster(t testing.TB) env.Cluster {
	t.Helper()
	if testing.Short() {
		t.Skip("needs real stores; -short was given")
	}
	s.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), bound)
		defer cancel()
		s.cluster, s.err = s.start(ctx)
	})
	if s.err != nil {
		t.Fatalf("start stores: %v", s.err)
	}
	return s.cluster
}

func (s *Shared) start(ctx context.Context) (env.Cluster, error) {
	spec := env.Spec{Services: s.services, RunID: runID()}
	lab, covered := external.Located(spec, os.Getenv)
	if s.own || !covered || os.Getenv(external.LabVariable) != Backend() {
		return start(ctx, spec)
	}
	admin.Quiet()
	// A lab outlives this process, and so may what a killed process of the same number left.
	lab.RunID += strings.ToLower(rand.Text()[:8])
	lab.AllowNonEmpty = true
	cluster, err := external.New().Start(ctx, lab)
	if err != nil {
		return nil, fmt.Errorf("the lab that the environment names: %w", err)
	}
	return cluster, nil
}

// Namespace makes an empty place in the shared stores, which is dropped when
// the test ends.
func (s *Shared) Namespace(t testing.TB) env.Namespace {
	t.Helper()
	cluster := s.Cluster(t)
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	space, err := cluster.Namespace(ctx, "test")
	if err != nil {
		t.Fatalf("make a namespace: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), bound)
		defer cancel()
		if err := space.Release(ctx); err != nil {
			t.Errorf("drop a namespace: %v", err)
		}
	})
	return space
}

// RedisClient is a client of a Redis without retries; it is closed when the test ends.
func RedisClient(t testing.TB, url string) *redis.Client {
	t.Helper()
	opts, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	opts.MaxRetries = -1
	client := redis.NewClient(opts)
	t.Cleanup(func() { client.Close() })
	return client
}

// Connect connects to a database of Postgres; the connection is closed when the test ends.
func Connect(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}
