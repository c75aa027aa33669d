package likes

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"stampede/harness/stores"
)

// closeScript closes all videos if Redis has begun another life. KEYS are the life
// and the metas; ARGV is the run_id.
const closeScript = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return 0 end
for i = 2, #KEYS do redis.call('DEL', KEYS[i]) end
redis.call('SET', KEYS[1], ARGV[1])
return 1`

// connected runs on each new connection, before anything else does, and returns the run_id
// of its server. A Redis that was started again may have come back older than it was: it
// would give out versions twice, and answer users out of a past that they know to be over.
// All its connections are new ones, so that the first of them closes the videos before
// anybody has asked anything; the repairer rebuilds them from the ledger.
func (s *store) connected(ctx context.Context, conn *redis.Conn) (run string, err error) {
	info, err := conn.Info(ctx, "server").Result()
	if err != nil {
		return "", stores.Failed("asking Redis for its run_id", err)
	}
	if run, err = runID(info); err != nil {
		return "", err
	}
	life := s.prefix + "life"
	switch known, err := conn.Get(ctx, life).Result(); {
	case err != nil && !errors.Is(err, redis.Nil):
		return "", stores.Failed("asking which life of Redis the counters are of", err)
	case known == run:
		return run, nil
	}
	keys := []string{life}
	for video := uint64(1); video <= s.videos; video++ {
		keys = append(keys, s.metas(video)...)
	}
	if err := conn.Eval(ctx, closeScript, keys, run).Err(); err != nil {
		return "", stores.Failed("closing the videos of another life of Redis", err)
	}
	return run, nil
}

// runID finds what INFO says of the life of a server.
func runID(info string) (string, error) {
	for line := range strings.Lines(info) {
		if id, found := strings.CutPrefix(strings.TrimSpace(line), "run_id:"); found && id != "" {
			return id, nil
		}
	}
	return "", fmt.Errorf("the answer of Redis to INFO has no run_id")
}

// tellFor is how long it is believed that a server has something in its buffer.
const tellFor = 3 * time.Second

// tellScript says until when, on the clock of Redis, a server has not logged what it
// counted in an earlier life, and how many such servers there are. KEYS are the buffers;
// ARGV the server, "" if none tells anything, and for how many milliseconds.
const tellScript = `
local now = redis.call('TIME')
now = now[1] * 1000 + math.floor(now[2] / 1000)
if ARGV[1] ~= '' then redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[1]) end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
return redis.call('ZCARD', KEYS[1])`

// buffers notes that a server, if one is given, has something in its buffer, and counts
// those that have.
func (s *store) buffers(
	ctx context.Context, rdb *redis.Client, limit time.Duration, server string,
) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	n, err := s.script.tell.Run(ctx, rdb, []string{s.prefix + "buffers"}, server,
		tellFor.Milliseconds()).Int64()
	if err != nil {
		return 0, stores.Failed("asking for the buffers of servers", err)
	}
	return n, nil
}
