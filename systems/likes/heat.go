package likes

import (
	"context"
	"sync"
	"time"
)

// heatWindow is the time over which the writes to a video are counted.
const heatWindow = 500 * time.Millisecond

// heat measures how many writes a second each video takes, as far as they pass
// through this server, and says when it needs more counters.
type heat struct {
	perShard float64
	mu       sync.Mutex
	of       map[uint64]*hotness
}

type hotness struct {
	since  time.Time
	writes int
}

func newHeat(perShard int) *heat {
	return &heat{perShard: float64(perShard), of: map[uint64]*hotness{}}
}

// write counts a write to a video with so many counters and returns how many it
// should have, 0 while there is nothing to change.
func (h *heat) write(video uint64, shards int64, now time.Time) int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	v := h.of[video]
	if v == nil {
		v = &hotness{since: now}
		h.of[video] = v
	}
	v.writes++
	took := now.Sub(v.since)
	if took < heatWindow {
		return 0
	}
	want := int64(float64(v.writes)/took.Seconds()/h.perShard) + 1
	v.since, v.writes = now, 0
	if want <= shards {
		return 0
	}
	return want
}

// growScript gives a video more counters. No data moves: writers begin to use
// them when they hear of it, and readers find their number in the meta.
const growScript = `
local shards = redis.call('HGET', KEYS[1], 'shards')
if not shards or tonumber(shards) >= tonumber(ARGV[1]) then return 0 end
redis.call('HSET', KEYS[1], 'shards', ARGV[1])
return 1`

// warm measures a write and gives the video more counters if it is hot. That it
// could not is no failure of the write: the next window tries again.
func (s *store) warm(ctx context.Context, video uint64, meta string, shards int64) {
	if s.heat == nil {
		return
	}
	want := min(s.heat.write(video, shards, time.Now()), int64(s.layout.most))
	if want <= shards {
		return
	}
	if n, err := s.script.grow.Run(ctx, s.rdb, []string{meta}, want).Int64(); err == nil && n == 1 {
		s.known.set(meta, want)
	}
}
