package suttest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"testing"
	"time"

	"go.uber.org/goleak"

	"stampede/harness/history"
	"stampede/harness/sut"
)

// lifecycle checks an instance from Open to the second Close.
func (s Suite) lifecycle(t testing.TB, v sut.Variant) {
	cfg := s.config(t, v)
	before := goleak.IgnoreCurrent()
	inst, err := v.Open(t.Context(), cfg)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	if err := inst.Prepare(t.Context()); err != nil {
		t.Fatalf("prepare on empty stores (Open must not change them): %v", err)
	}
	if err := inst.Prepare(t.Context()); err == nil {
		t.Error("a second Prepare did not notice that the stores are not empty")
	}
	s.auditTwice(t, inst)
	s.cancelled(t, inst)
	s.unknownKind(t, inst)
	s.auditTwice(t, inst)
	for _, attempt := range []string{"first", "second"} {
		s.within(t, attempt+" Close", func() {
			if err := inst.Close(); err != nil {
				t.Errorf("%s Close: %v", attempt, err)
			}
		})
	}
	if _, err := inst.Do(t.Context(), s.firstOp(t)); err == nil {
		t.Error("an operation succeeded after Close")
	}
	goleak.VerifyNone(t, before)
}

// firstOp is the workload's first operation.
func (s Suite) firstOp(t testing.TB) history.Op {
	t.Helper()
	w, err := s.System.Workload(s.Seed, s.Params)
	if err != nil {
		t.Fatalf("workload: %v", err)
	}
	return w.Op(0)
}

// auditTwice checks that an audit is a function of the stores. What operations
// began that nobody waits for any more may go on for a while.
func (s Suite) auditTwice(t testing.TB, inst sut.Instance) {
	t.Helper()
	first := audit(t, inst)
	second := audit(t, inst)
	for end := time.Now().Add(s.Patience); !bytes.Equal(first, second); {
		if time.Now().After(end) {
			t.Fatalf("two audits of the same stores differ:\n%s\n%s", first, second)
		}
		sut.Pause(t.Context(), 20*time.Millisecond)
		first, second = second, audit(t, inst)
	}
	if _, err := s.Summary(first); err != nil {
		t.Errorf("the audit cannot be summed up: %v", err)
	}
}

func audit(t testing.TB, inst sut.Instance) json.RawMessage {
	t.Helper()
	raw, err := inst.Audit(t.Context())
	if err != nil {
		t.Fatalf("audit: %v", err)
	}
	return raw
}

// cancelled checks that an operation whose context has ended returns an error.
func (s Suite) cancelled(t testing.TB, inst sut.Instance) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.within(t, "an operation with a cancelled context", func() {
		if _, err := inst.Do(ctx, s.firstOp(t)); err == nil {
			t.Error("an operation with a cancelled context succeeded")
		}
	})
}

// unknownKind checks that what cannot be understood is refused.
func (s Suite) unknownKind(t testing.TB, inst sut.Instance) {
	t.Helper()
	op := s.firstOp(t)
	op.Kind = "no-such-kind"
	if _, err := inst.Do(t.Context(), op); !errors.Is(err, sut.ErrRefused) {
		t.Errorf("an operation of unknown kind returned %v, which is not sut.ErrRefused", err)
	}
}

// nowhere is an address at which nobody listens: port 1 of the loopback.
func nowhere(cfg sut.Config) sut.Config {
	cfg.PostgresURL = "postgres://nobody@127.0.0.1:1/none"
	cfg.ReplicaURL = cfg.PostgresURL
	cfg.RedisURL = "redis://127.0.0.1:1/0"
	cfg.KafkaBrokers, cfg.Kafka = []string{"127.0.0.1:1"}, sut.DefaultKafka()
	return cfg
}

// unreachable checks that Open fails on dead stores, leaving nothing behind,
// and that roles survive them.
func (s Suite) unreachable(t testing.TB, v sut.Variant) {
	before := goleak.IgnoreCurrent()
	cfg := nowhere(sut.Config{
		Prefix: "nowhere:", Params: s.Params, MaxConns: maxConns, Timeout: opTimeout,
		Folder: folderOf(t, v)})
	s.within(t, "Open on dead stores", func() {
		if inst, err := v.Open(t.Context(), cfg); err == nil {
			_ = inst.Close()
			t.Error("Open succeeded without stores")
		}
	})
	for _, role := range v.Roles {
		s.survives(t, role, cfg)
	}
	goleak.VerifyNone(t, before)
}

// survives lets a role fail at least twice, as its log says, and stops it.
func (s Suite) survives(t testing.TB, role sut.Role, cfg sut.Config) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	log := &warnings{seen: make(chan struct{}, 1024)}
	cfg.Logger = slog.New(log)
	result := make(chan error, 1)
	go func() { result <- role.Run(ctx, cfg) }()
	s.within(t, "waiting for role "+role.Name+" to complain twice", func() {
		for range 2 {
			select {
			case <-log.seen:
			case err := <-result:
				t.Errorf("role %s gave up without its stores: %v", role.Name, err)
				result <- err
				return
			}
		}
	})
	cancel()
	s.within(t, "stopping role "+role.Name, func() {
		if err := <-result; err != nil {
			t.Errorf("role %s returned %v after it was cancelled", role.Name, err)
		}
	})
}

// warnings counts log records of level Warn and above.
type warnings struct{ seen chan struct{} }

// Enabled says whether the level is counted.
func (w *warnings) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn
}

// Handle counts a record; beyond the channel's room nobody cares.
func (w *warnings) Handle(context.Context, slog.Record) error {
	select {
	case w.seen <- struct{}{}:
	default:
	}
	return nil
}

// WithAttrs returns w.
func (w *warnings) WithAttrs([]slog.Attr) slog.Handler { return w }

// WithGroup returns w.
func (w *warnings) WithGroup(string) slog.Handler { return w }

// roles checks that all roles start beside an instance, work, and stop when
// they are told to.
func (s Suite) roles(t testing.TB, v sut.Variant) {
	cfg := s.config(t, v)
	before := goleak.IgnoreCurrent()
	inst := open(t, v, cfg)
	stop := s.start(t, v, cfg)
	if _, err := inst.Do(t.Context(), s.firstOp(t)); err != nil {
		t.Fatalf("the first operation: %v", err)
	}
	s.settle(t, inst)
	stop()
	// An instance may connect at its first operation, so it ends too.
	if err := inst.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	goleak.VerifyNone(t, before)
}
