package commentary_test

import (
	"context"
	"encoding/json"
	"strconv"
	"testing"
	"time"

	"stampede/harness/env"
	"stampede/harness/env/envtest"
	"stampede/harness/history"
	"stampede/harness/sut"
	"stampede/systems/commentary"
)

// TestReplica: a replica that is held, frozen or dead keeps no viewer from a change for longer than
// was promised; who trusts one that is held shows what was there before.
func TestReplica(t *testing.T) {
	cluster := envtest.Start(t, sut.Postgres, sut.Replica)
	replica := cluster.Component(sut.Replica).(env.Breakable)
	held := cluster.Component(sut.Replica).(env.Replicating)
	at := func(t *testing.T, design string) *watched {
		space, err := cluster.Namespace(t.Context(), design)
		if err != nil {
			t.Fatal(err)
		}
		p := commentary.DefaultParams()
		v, _ := commentary.System().Variant(design)
		inst, err := v.Open(t.Context(), sut.Config{PostgresURL: space.PostgresURL,
			ReplicaURL: space.ReplicaURL, Prefix: space.Prefix, Params: &p, MaxConns: 4,
			Timeout: 5 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = inst.Close() })
		if err := inst.Prepare(t.Context()); err != nil {
			t.Fatal(err)
		}
		w := &watched{inst: inst}
		w.publish(t)
		w.sees(t)
		return w
	}
	t.Run("trusted", func(t *testing.T) {
		w := at(t, "replica_trusted")
		mustDo(t, held.Hold(t.Context()))
		w.publish(t)
		if shown := w.shown(t); shown != w.version-1 {
			t.Errorf("a replica that is held has version %d of %d", shown, w.version)
		}
		_, err := held.GoOn(t.Context())
		mustDo(t, err)
		w.sees(t)
	})
	t.Run("beat", func(t *testing.T) {
		w := at(t, "replica_beat")
		for _, broken := range []struct {
			begin func(context.Context) error
			end   func(context.Context) error
		}{
			{held.Hold, func(ctx context.Context) error { _, err := held.GoOn(ctx); return err }},
			{func(ctx context.Context) error { _, err := replica.Pause(ctx); return err }, replica.Resume},
			{func(ctx context.Context) error { _, err := replica.Kill(ctx); return err },
				func(ctx context.Context) error { return replica.Start(ctx, false) }},
		} {
			mustDo(t, broken.begin(t.Context()))
			w.publish(t)
			w.sees(t) // although the replica does not have it
			mustDo(t, broken.end(t.Context()))
			w.publish(t)
			w.sees(t)
		}
	})
}

// watched is a match that somebody watches.
type watched struct {
	inst    sut.Instance
	ops     uint64
	version int64
}

func (w *watched) do(t *testing.T, kind string, request any) history.Reply {
	t.Helper()
	reply, err := w.inst.Do(t.Context(), commentary.API().Op(kind, request))
	if err != nil {
		t.Fatalf("%s: %v", kind, err)
	}
	return reply
}

// publish keeps a comment.
func (w *watched) publish(t *testing.T) {
	t.Helper()
	w.ops++
	w.version = w.do(t, commentary.KindPublish, commentary.PublishRequest{ID: w.ops, Match: 1,
		Ball: strconv.FormatUint(w.ops, 10), Text: "one run"}).Value
}

// shown is the version that a viewer is shown who has none.
func (w *watched) shown(t *testing.T) int64 {
	t.Helper()
	w.ops++
	var l commentary.Latest
	body := w.do(t, commentary.KindLatest, commentary.LatestRequest{ID: w.ops, Match: 1}).Body
	if err := json.Unmarshal(body, &l); err != nil {
		t.Fatal(err)
	}
	return l.Version
}

// sees looks until the last comment is shown.
func (w *watched) sees(t *testing.T) {
	t.Helper()
	for w.shown(t) != w.version {
		if !sut.Pause(t.Context(), 10*time.Millisecond) {
			t.Fatal(t.Context().Err())
		}
	}
}

func mustDo(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
