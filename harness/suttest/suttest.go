// Package suttest is the conformance suite of systems under test: what every
// variant of every system must do whatever it is about. It is imported by
// tests only.
package suttest

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"testing"
	"time"

	"stampede/harness/deploy"
	"stampede/harness/env"
	"stampede/harness/sut"
)

// Suite says what to exercise and on what.
type Suite struct {
	System sut.System
	// Params are small parameters of the system: few objects, many who want
	// them, everything that takes time scaled to milliseconds.
	Params any
	// Space makes an empty place in real stores, which is dropped when the
	// test ends.
	Space func(testing.TB) env.Namespace
	// Seed is the workload's.
	Seed uint64
	// Ops is how many operations are scheduled in the hammer. They must be enough to
	// exercise the invariants. The comparison of variants has fewer.
	Ops int
	// Over is the time over which the hammer's operations are due. It is 0 where nothing has to
	// pass meanwhile, such as windows of the clock: all are due at once.
	Over time.Duration
	// Undecided lists invariants that the hammer need not decide, with the
	// reason.
	Undecided map[string]string
	// Summary condenses an audit to what must be the same for all variants
	// that have performed the same operations one after the other: no names
	// that a variant is free to choose.
	Summary func(audit json.RawMessage) (string, error)
	// AlikeParams are the parameters of the comparison of variants, where those of the hammer let
	// them differ: if designs may refuse for reasons of their own, or something is soon over.
	AlikeParams any
	// Servers names the roles without which no operation is answered, if any.
	// They run in the comparison of variants too, where no other role does.
	Servers []string
	// Patience is how long anything that must happen may take. Zero means a
	// minute, which is for busy machines and not what is expected.
	Patience time.Duration
}

const (
	// inFlight is how many operations the hammer executes at once; maxConns,
	// fewer, makes them wait for connections too.
	inFlight = 64
	maxConns = 24
	// watchEvery is how often a gauge is asked in the hammer.
	watchEvery = 5 * time.Millisecond
	// opTimeout bounds an operation on a service. On a busy machine it must
	// not be what ends one.
	opTimeout       = 5 * time.Second
	defaultPatience = time.Minute
)

// Exercise runs the suite, each variant in a place of its own.
func Exercise(t *testing.T, s Suite) {
	if s.Patience == 0 {
		s.Patience = defaultPatience
	}
	t.Run("statements", func(t *testing.T) { s.statements(t) })
	for _, v := range s.System.Variants {
		t.Run(v.Name, func(t *testing.T) {
			t.Run("lifecycle", func(t *testing.T) { s.lifecycle(t, v) })
			t.Run("unreachable", func(t *testing.T) { s.unreachable(t, v) })
			t.Run("roles", func(t *testing.T) { s.roles(t, v) })
			t.Run("hammer", func(t *testing.T) { s.hammer(t, v) })
		})
	}
	t.Run("alike", func(t *testing.T) { s.alike(t) })
}

// config is an empty place for a variant with the suite's parameters.
func (s Suite) config(t testing.TB, v sut.Variant) sut.Config {
	space := s.Space(t)
	kafka := sut.DefaultKafka()
	kafka.Linger = 0 // who performs one operation after the other waits for no company
	return sut.Config{
		PostgresURL: space.PostgresURL, ReplicaURL: replicaOf(space), RedisURL: space.RedisURL,
		KafkaBrokers: space.KafkaBrokers, Kafka: kafka, Prefix: space.Prefix,
		Params: s.Params, MaxConns: maxConns, Timeout: opTimeout,
		Logger: slog.New(slog.NewTextHandler(t.Output(), nil)), Folder: folderOf(t, v),
	}
}

// replicaOf is the database's replica: where there is none, one that is never behind, itself.
func replicaOf(space env.Namespace) string { return cmp.Or(space.ReplicaURL, space.PostgresURL) }

// folderOf is an empty folder of a variant that keeps files.
func folderOf(t testing.TB, v sut.Variant) string {
	if v.KeepsFiles {
		return t.TempDir()
	}
	return ""
}

// open opens and prepares a variant; it is closed when the test ends.
func open(t testing.TB, v sut.Variant, cfg sut.Config) sut.Instance {
	t.Helper()
	inst, err := v.Open(t.Context(), cfg)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() {
		if err := inst.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	if err := inst.Prepare(t.Context()); err != nil {
		t.Fatalf("prepare: %v", err)
	}
	return inst
}

// within fails the test if f does not return in time.
func (s Suite) within(t testing.TB, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(s.Patience):
		t.Fatalf("%s did not return within %v", what, s.Patience)
	}
}

// start runs a variant's roles until the returned function is called, which
// waits for them and reports what they returned.
func (s Suite) start(t testing.TB, v sut.Variant, cfg sut.Config) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), s.Patience)
	defer cancel()
	crew, err := deploy.Start(ctx, deploy.Plan{Variant: v, Config: cfg}, struct{ sut.Instance }{})
	if err != nil {
		t.Fatal(err)
	}
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		s.within(t, "stopping the roles", func() {
			if err := crew.Stop(); err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(stop)
	return stop
}

// startServers is start for the roles that operations need.
func (s Suite) startServers(t testing.TB, v sut.Variant, cfg sut.Config) (stop func()) {
	v.Roles = slices.DeleteFunc(slices.Clone(v.Roles), func(r sut.Role) bool {
		return !slices.Contains(s.Servers, r.Name)
	})
	return s.start(t, v, cfg)
}
