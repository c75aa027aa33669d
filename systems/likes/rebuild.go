package likes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"stampede/harness/stores"

	"github.com/redis/go-redis/v9"
)

// adoptScript makes Redis know of a pair what the ledger knows, if that is newer
// than what Redis does. KEYS and ARGV are those of changeScript, followed by the
// version. It answers with -1 if there is no meta. The counter is the first one,
// which every video has.
const adoptScript = writePair + `
if redis.call('EXISTS', KEYS[1]) == 0 then return -1 end
local known = redis.call('HGET', KEYS[2], ARGV[1])
if version(known) >= tonumber(ARGV[7]) then return 0 end
writePair(KEYS, known, tonumber(ARGV[7]), ARGV[1], ARGV[2] == '1', ARGV[3], ARGV[4], ARGV[5])
return 1`

// adopt tells Redis of a pair.
func (s *store) adopt(ctx context.Context, video uint64, p pair) error {
	ctx, cancel := context.WithTimeout(ctx, s.limit)
	defer cancel()
	where := s.writing(Request{OpID: p.op, Video: video, User: p.user})
	if s.layout.regions <= 1 {
		where.keys[2], where.shard = s.counter(video, 0), 0
	}
	args := append(where.args(p.user, p.liked, p.op), strconv.FormatInt(p.version, 10))
	n, err := s.script.adopt.Run(ctx, s.rdb, where.keys, args...).Int64()
	if err != nil {
		return stores.Failed("telling Redis of a pair", err)
	}
	if n < 0 {
		return ErrNotReady
	}
	return nil
}

// lost lists the videos that have no counters in some region.
func (s *store) lost(ctx context.Context) ([]uint64, error) {
	var list []uint64
	for first := uint64(1); first <= s.videos; first += chunk {
		pipe := s.rdb.Pipeline()
		var found []*redis.IntCmd
		last := min(first+chunk-1, s.videos)
		for video := first; video <= last; video++ {
			found = append(found, pipe.Exists(ctx, s.metas(video)...))
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return nil, stores.Failed("looking for the counters", err)
		}
		for i, n := range found {
			if n.Val() < int64(s.regions()) {
				list = append(list, first+uint64(i))
			}
		}
	}
	return list, nil
}

// rebuild replaces all that Redis has of a video by what the ledger says, in a
// new epoch, and lets users in again.
func (s *store) rebuild(ctx context.Context, video uint64, epoch int64, pairs []pair) error {
	for region := range s.regions() {
		if err := s.clear(ctx, region, video); err != nil {
			return fmt.Errorf("rebuilding video %d: %w", video, err)
		}
	}
	likes := make([]int64, s.regions())
	parts := make([][]any, s.regions()*memberParts)
	for _, p := range pairs {
		if !p.liked {
			continue // a version of this epoch is newer than any before
		}
		region := home(p.user, s.regions())
		likes[region]++
		i := region*memberParts + int(partOf(p.user))
		parts[i] = append(parts[i], p.user, fmt.Sprintf("%d %d", p.version, p.op))
	}
	for i, fields := range parts {
		key := s.members(i/memberParts, video, int64(i%memberParts))
		for some := range slices.Chunk(fields, 2*chunk) {
			if err := s.rdb.HSet(ctx, key, some...).Err(); err != nil {
				return stores.Failed("rebuilding the members", err)
			}
		}
	}
	if err := s.setCounts(ctx, video, likes); err != nil {
		return err
	}
	for region := range s.regions() {
		if err := s.open(ctx, region, video, epoch); err != nil {
			return err
		}
	}
	return nil
}

// clear removes all keys of a video but the sketch of its viewers, the meta
// first.
func (s *store) clear(ctx context.Context, region int, video uint64) error {
	keys := []string{s.meta(region, video), s.pn(region, video)}
	for part := range int64(memberParts) {
		keys = append(keys, s.members(region, video, part))
	}
	for shard := range int64(s.layout.most) {
		keys = append(keys, s.counter(video, shard))
	}
	if err := s.rdb.Del(ctx, keys...).Err(); err != nil {
		return stores.Failed("removing what is left of the counters", err)
	}
	return nil
}

// setCounts sets the counters of a video that has none. All likes go to the
// first shard: the sum is what counts.
func (s *store) setCounts(ctx context.Context, video uint64, likes []int64) error {
	pipe := s.rdb.TxPipeline()
	if s.layout.regions > 1 {
		for region := range likes {
			for r, n := range likes {
				pipe.HSet(ctx, s.pn(region, video), strconv.Itoa(r)+"+", n)
			}
		}
	} else {
		pipe.Set(ctx, s.counter(video, 0), likes[0], 0)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return stores.Failed("setting the counters", err)
	}
	return nil
}

// unequal compares what Redis and the ledger know of a video. It returns the
// pairs of which Redis knows more than the ledger, and those of which the ledger
// knows more and that Redis would have to be told.
func (b *backend) unequal(ctx context.Context, video uint64) (ahead, behind []pair, err error) {
	redis, err := b.store.pairs(ctx, video)
	if err != nil {
		return nil, nil, err
	}
	rows, err := b.ledger.pairs(ctx, video)
	if err != nil {
		return nil, nil, err
	}
	ahead, behind = compared(redis, rows)
	return ahead, behind, nil
}

// compared says of which pairs Redis knows more than the ledger, and the other way round.
func compared(redis, rows []pair) (ahead, behind []pair) {
	known := make(map[uint64]pair, len(rows))
	for _, row := range rows {
		known[row.user] = row
	}
	for _, member := range redis {
		switch row := known[member.user]; {
		case member.version > row.version:
			ahead = append(ahead, member)
		case member.version < row.version:
			behind = append(behind, row)
		}
		delete(known, member.user)
	}
	for _, row := range rows {
		if _, left := known[row.user]; left && row.liked {
			behind = append(behind, row)
		}
	}
	return ahead, behind
}

// ready says whether a video has its counters.
func (s *store) ready(ctx context.Context, video uint64) (bool, error) {
	n, err := s.rdb.Exists(ctx, s.metas(video)...).Result()
	return n == int64(s.regions()), err
}

// notReady tells a video that is being rebuilt from a failure.
func notReady(err error) bool { return errors.Is(err, ErrNotReady) }
