package likes

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"stampede/harness/sim"
	"stampede/harness/stores"
	"stampede/harness/sut"
)

// redisCheckThenSet is wrong: as redis_key, but whether the user likes the video already is looked
// up first, and the like is written and counted by a second call.
func redisCheckThenSet(in ledgers) variant {
	apart := counted{layout: oneKey, ledger: in}
	v := apart.variant()
	v.Name = "redis_check_then_set"
	v.Idea = "looks up whether the user likes the video, then adds the like and increments"
	v.Guarantees = "one like for each user, as long as no user clicks twice at once"
	v.GivesUp = "a correct count: two clicks at once both find no like and both count"
	v.Breaks = []sut.Break{
		{Invariant: OneLike, Under: sut.Load}, {Invariant: StoresAgree, Under: sut.Load},
	}
	v.Model = apart.modelled((*modelCounts).lookedThenWritten)
	v.Open = func(ctx context.Context, st *opened) (Likes, error) {
		c, err := apart.open(ctx, st)
		if err != nil {
			return nil, err
		}
		c.store.apply = lookThenWrite(redis.NewScript(lookScript), redis.NewScript(writeScript))
		return c, nil
	}
	return v
}

// lookScript and writeScript are changeScript in two steps. KEYS and ARGV are those
// of changeScript; for writeScript the member that was known and the epoch follow.
const lookScript = `
local epoch = redis.call('HGET', KEYS[1], 'epoch')
if not epoch then return {'-1', '', ''} end
return {epoch, '', redis.call('HGET', KEYS[2], ARGV[1]) or ''}`

const writeScript = writePair + `
local known = ARGV[7] ~= '' and ARGV[7]
local next = math.max(version(known), tonumber(ARGV[8]) * 4294967296) + 1
local changed = writePair(KEYS, known, next, ARGV[1], ARGV[2] == '1', ARGV[3], ARGV[4], ARGV[5])
return {changed, string.format('%.0f', next), '0'}`

// lookThenWrite applies an interaction as changeScript does, in two calls.
func lookThenWrite(look, write *redis.Script) applying {
	return func(ctx context.Context, to redis.Scripter, keys []string, args []any) ([]any, error) {
		found, err := look.Run(ctx, to, keys, args...).StringSlice()
		switch {
		case err != nil:
			return nil, stores.Failed("looking for a like in Redis", err)
		case len(found) != 3:
			return nil, fmt.Errorf("looking for a like in Redis: unexpected answer %q", found)
		case found[0] == "-1":
			return nil, ErrNotReady
		}
		return write.Run(ctx, to, keys, append(args, found[2], found[0])...).Slice()
	}
}

// lookedThenWritten is its model: what is written follows from what was looked up, whatever has
// been written meanwhile.
func (m *modelCounts) lookedThenWritten(
	p *sim.Process, req Request, likes bool,
) (done applied, err error) {
	who := pairID{req.Video, req.User}
	var known pair
	var epoch int64
	m.script(p, costLook, func() {
		var is bool
		if epoch, is = m.metas.Get(req.Video); !is {
			err = ErrNotReady
		}
		known, _ = m.members.Get(who)
	})
	if err != nil {
		return done, err
	}
	m.script(p, costWrite, func() {
		done = m.write(who, known, pair{req.User, likes, nextVersion(known, epoch), req.OpID},
			m.shard(req.OpID))
	})
	return done, nil
}
