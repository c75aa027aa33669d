package likes

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

// closeScript closes all videos if Redis has begun another life. KEYS are the life
// and the metas; ARGV is the run_id.
const closeScript = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return 0 end
for i = 2, #KEYS do redis.call('DEL', KEYS[i]) end
redis.call('SET', KEYS[1], ARGV[1])
return 1`

// connected runs on each new connection, before anything else does. A Redis that
// was started again may have come back older than it was: it would give out
// versions twice, and answer users out of a past that they know to be over. All
// its connections are new ones, so that the first of them closes the videos before
// anybody has asked anything; the repairer rebuilds them from the ledger.
func (s *store) connected(ctx context.Context, conn *redis.Conn) error {
	info, err := conn.Info(ctx, "server").Result()
	if err != nil {
		return failed("asking Redis for its run_id", err)
	}
	run, err := runID(info)
	if err != nil {
		return err
	}
	life := s.prefix + "life"
	switch known, err := conn.Get(ctx, life).Result(); {
	case err != nil && !errors.Is(err, redis.Nil):
		return failed("asking which life of Redis the counters are of", err)
	case known == run:
		return nil
	}
	keys := []string{life}
	for region := range s.regions() {
		for video := uint64(1); video <= s.videos; video++ {
			keys = append(keys, s.meta(region, video))
		}
	}
	if err := conn.Eval(ctx, closeScript, keys, run).Err(); err != nil {
		return failed("closing the videos of another life of Redis", err)
	}
	return nil
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
