package likes

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"stampede/harness/stores"
	"stampede/harness/sut"
	"stampede/harness/suttest"
)

// openedStore is a store in miniredis with its videos open.
func openedStore(t *testing.T, how layout) *store {
	t.Helper()
	server := miniredis.RunT(t)
	tellRun(server, func() string { return "first" })
	p := DefaultParams()
	p.Videos, p.HeatPerShard = 2, 10
	st := &opened{Params: p, Config: sut.Config{RedisURL: "redis://" + server.Addr(), Prefix: "t:",
		Timeout: time.Minute}}
	var err error
	st.Redis, err = stores.OpenRedis(t.Context(), st.Config, func(o *redis.Options) {
		counted{layout: func(Params) layout { return how }}.variant().Redis(st, o)
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Redis.Close(); err != nil {
			t.Error(err)
		}
	})
	s := newStore(st, how)
	if err := s.prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// layouts are those of the correct designs.
func layouts() map[string]layout {
	return map[string]layout{
		"one key": {shards: 1, most: 1}, "fixed": {shards: 20, most: 20},
		"adaptive": {shards: 2, most: 100}, "regions": {shards: 1, most: 1, regions: 2},
	}
}

func change(t suttest.TB, s *store, video, user, op uint64, likes bool) applied {
	t.Helper()
	done, err := s.change(context.Background(), Request{op, video, user}, likes)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return done
}

// total is what is counted of a video in all regions together.
func total(t suttest.TB, s *store, video uint64) int64 {
	t.Helper()
	for range s.regions() {
		if s.layout.regions > 1 {
			if err := s.exchange(context.Background(), video); err != nil {
				t.Fatalf("%v", err)
			}
		}
	}
	count, err := s.read(context.Background(), 0, video)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return count.Count
}

// TestChangeFollowsASet: any likes and unlikes count as the members of a set do,
// and the versions of a pair ascend.
func TestChangeFollowsASet(t *testing.T) {
	for name, how := range layouts() {
		t.Run(name, func(t *testing.T) {
			s := openedStore(t, how)
			members, versions, op := map[[2]uint64]bool{}, map[[2]uint64]int64{}, uint64(0)
			rapid.Check(t, func(t *rapid.T) {
				video, user := rapid.Uint64Range(1, 2).Draw(t, "video"), rapid.Uint64Range(1, 9).Draw(t, "user")
				likes := rapid.Bool().Draw(t, "likes")
				op++
				pair := [2]uint64{video, user}
				done := change(t, s, video, user, op, likes)
				if done.changed != (members[pair] != likes) || done.version <= versions[pair] {
					t.Fatalf("%v was %v, likes %v: %+v", pair, members[pair], likes, done)
				}
				members[pair], versions[pair] = likes, done.version
				want := int64(0)
				for pair, likes := range members {
					if likes && pair[0] == video {
						want++
					}
				}
				if got := total(t, s, video); got != want {
					t.Fatalf("video %d has %d likes, want %d", video, got, want)
				}
			})
		})
	}
}

// TestNotReady: without its meta a video takes no writes and tells no count, and
// so does one that does not exist.
func TestNotReady(t *testing.T) {
	for name, how := range layouts() {
		t.Run(name, func(t *testing.T) {
			s := openedStore(t, how)
			for region := range s.regions() {
				if err := s.clear(t.Context(), region, 1); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := s.change(t.Context(), Request{1, 1, 1}, true); !errors.Is(err, ErrNotReady) {
				t.Errorf("a like: %v", err)
			}
			if _, err := s.read(t.Context(), 0, 1); !errors.Is(err, ErrNotReady) {
				t.Errorf("a read: %v", err)
			}
			if err := s.adopt(t.Context(), 1, pair{1, true, 1, 1}); !errors.Is(err, ErrNotReady) {
				t.Errorf("a repair: %v", err)
			}
			if lost, err := s.lost(t.Context()); err != nil || len(lost) != 1 || lost[0] != 1 {
				t.Errorf("lost are %v, %v", lost, err)
			}
			if _, err := s.change(t.Context(), Request{1, 3, 1}, true); !errors.Is(err, ErrUnknownVideo) {
				t.Errorf("a like of nothing: %v", err)
			}
			if _, err := s.read(t.Context(), 0, 3); !errors.Is(err, ErrUnknownVideo) {
				t.Errorf("a read of nothing: %v", err)
			}
		})
	}
}

// TestRebuild: counters are those of the ledger afterwards, and versions of the new
// epoch are higher than any before.
func TestRebuild(t *testing.T) {
	for name, how := range layouts() {
		t.Run(name, func(t *testing.T) {
			s := openedStore(t, how)
			before := change(t, s, 1, 4, 9, true)
			ledger := []pair{{1, true, 5, 1}, {2, true, before.version + 7, 2}, {3, false, 6, 3}}
			if err := s.rebuild(t.Context(), 1, 2, ledger); err != nil {
				t.Fatal(err)
			}
			if got := total(t, s, 1); got != 2 {
				t.Errorf("%d likes, want 2", got)
			}
			if again := change(t, s, 1, 2, 10, true); again.changed ||
				again.version <= before.version+7 || again.version/versionsPerEpoch != 2 {
				t.Errorf("a repeated like after the rebuild: %+v", again)
			}
			if other := change(t, s, 1, 4, 11, true); !other.changed || other.version <= before.version {
				t.Errorf("a like that the ledger did not have: %+v", other)
			}
		})
	}
}

// TestAdoptTakesTheNewer: a pair of the ledger changes Redis if it is newer, once.
func TestAdoptTakesTheNewer(t *testing.T) {
	for name, how := range layouts() {
		t.Run(name, func(t *testing.T) {
			s := openedStore(t, how)
			done := change(t, s, 1, 1, 1, true)
			for _, step := range []struct {
				liked   bool
				version int64
				want    int64
			}{
				{false, done.version - 1, 1}, {false, done.version, 1},
				{false, done.version + 5, 0}, {false, done.version + 5, 0},
				{true, done.version + 6, 1}, {true, done.version + 7, 1},
			} {
				if err := s.adopt(t.Context(), 1, pair{1, step.liked, step.version, 2}); err != nil {
					t.Fatal(err)
				}
				if got := total(t, s, 1); got != step.want {
					t.Errorf("after %+v there are %d likes", step, got)
				}
			}
			if next := change(t, s, 1, 1, 3, true); next.changed || next.version != done.version+8 {
				t.Errorf("the next version is %+v", next)
			}
		})
	}
}

// TestShardsGrow: a hot video gets more counters, up to its most, and no count is
// lost on the way; a reader that knows of fewer finds out.
func TestShardsGrow(t *testing.T) {
	s := openedStore(t, layout{shards: 2, most: 40})
	stale := openedStore(t, layout{shards: 2, most: 40})
	stale.rdb = s.rdb
	s.heat = newHeat(1)
	for n := range uint64(500) {
		change(t, s, 1, n+1, n+1, true)
		// As long ago as makes it hot, whatever the machine.
		s.heat.of[1].since = time.Now().Add(-heatWindow)
		s.heat.of[1].writes = int(n)
	}
	if n := s.known.get(s.meta(0, 1), 0); n != 40 {
		t.Errorf("%d counters, want 40", n)
	}
	if got := total(t, stale, 1); got != 500 {
		t.Errorf("a reader that knew of 2 counters is told %d likes, want 500", got)
	}
	if n := s.known.get(s.meta(0, 2), 2); n != 2 {
		t.Errorf("a video that nobody likes has %d counters", n)
	}
}

// TestShardsShrink: after a rebuild a video has as many counters as at first. Who
// still knows of more must not count where nobody looks.
func TestShardsShrink(t *testing.T) {
	s := openedStore(t, layout{shards: 2, most: 40})
	s.heat = nil
	if err := s.rebuild(t.Context(), 1, 2, nil); err != nil {
		t.Fatal(err)
	}
	for n := range uint64(100) {
		s.known.set(s.meta(0, 1), 40)
		if done := change(t, s, 1, n+1, n+1, true); !done.changed {
			t.Fatalf("like %d changed nothing", n+1)
		}
	}
	if err := s.adopt(t.Context(), 1, pair{200, true, 1 << 40, 200}); err != nil {
		t.Fatal(err)
	}
	if got := total(t, s, 1); got != 101 {
		t.Errorf("%d likes, want 101", got)
	}
}

// TestMergeScriptAgrees: the script raises entries as merge does.
func TestMergeScriptAgrees(t *testing.T) {
	s := openedStore(t, layout{shards: 1, most: 1, regions: 3})
	rapid.Check(t, func(t *rapid.T) {
		mine, theirs := drawPN(t, "mine"), drawPN(t, "theirs")
		mine.epoch, theirs.epoch = 1, 1
		ctx := context.Background()
		fields := mine.args()[1:]
		if err := s.rdb.HSet(ctx, s.pn(0, 1), fields...).Err(); err != nil {
			t.Fatal(err)
		}
		keys := []string{s.meta(0, 1), s.pn(0, 1)}
		if err := s.script.merge.Run(ctx, s.rdb, keys, theirs.args()...).Err(); err != nil {
			t.Fatal(err)
		}
		got, err := s.counterOf(ctx, 0, 1)
		if err != nil || !got.equal(merge(mine, theirs)) {
			t.Fatalf("%+v and %+v became %+v, %v", mine, theirs, got, err)
		}
		theirs.epoch = 2
		if err := s.script.merge.Run(ctx, s.rdb, keys, theirs.args()...).Err(); err != nil {
			t.Fatal(err)
		}
		if after, err := s.counterOf(ctx, 0, 1); err != nil || !after.equal(got) {
			t.Fatalf("a counter of another epoch was merged: %+v, %v", after, err)
		}
	})
}

// TestRunID: an INFO without a run_id is an error.
func TestRunID(t *testing.T) {
	id, err := runID("# Server\r\nredis_version:7.0.15\r\nrun_id:abc\r\n")
	if err != nil || id != "abc" {
		t.Errorf("%q, %v", id, err)
	}
	for _, info := range []string{"", "# Server\r\n", "run_id:\r\n", "xrun_id:abc\r\n"} {
		if id, err := runID(info); err == nil {
			t.Errorf("of %q: %q", info, id)
		}
	}
}
