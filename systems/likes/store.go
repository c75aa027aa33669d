package likes

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"stampede/harness/stores"
)

const (
	// memberParts is over how many keys the members of a video are spread, so
	// that no key holds all of a viral one. It never changes: members do not
	// move when counters are added.
	memberParts = 16
	// versionsPerEpoch is how many versions a pair may have in one life of the
	// counters. An epoch and a version together stay below 2^53, which is what
	// Lua counts to.
	versionsPerEpoch = 1 << 32
	// chunk bounds the fields or keys of one command.
	chunk = 1000
)

// layout is how a design counts in Redis.
type layout struct {
	// shards is over how many counters the likes of a video are spread at
	// first, growing to most as the video gets hot.
	shards, most int
	// regions, if more than one, each have keys of their own and a PN-counter, in which
	// a region counts in the entry of its number, or in another one.
	regions int
	entry   func(region int) int
}

// applying runs a script of the form of changeScript, or what does the same.
type applying func(
	ctx context.Context, to redis.Scripter, keys []string, args []any,
) (answer []any, err error)

// store is a design's part in Redis. Its keys are, after the prefix and, where
// there are regions, the region ("r0:"):
//
//	life                which life of Redis the counters are of: its run_id
//	buffers             sorted set: the servers that have not logged all that they
//	                    counted in an earlier life, and until when that is said
//	meta:VIDEO          hash: epoch, and shards, the number of counters. Without
//	                    it the video is being rebuilt, and nobody may write
//	members:VIDEO:PART  hash of user to "VERSION OP", of those who like the video,
//	                    and "-VERSION OP", of those who do not any more
//	likes:VIDEO:SHARD   a counter, without regions
//	pn:VIDEO            hash: the likes ("0+") and unlikes ("0-") of each region
//	viewers:VIDEO       HyperLogLog of who has seen it
type store struct {
	rdb *redis.Client
	// call carries the scripts of users: rdb or a pipeline of it; apply runs them.
	call   redis.Scripter
	apply  applying
	prefix string
	limit  time.Duration
	layout layout
	videos uint64
	known  shardCounts
	heat   *heat // nil where shards do not grow
	script scripts
}

// scripts are hashed once, here, and sent by their hash.
type scripts struct{ change, merge, adopt, grow, tell *redis.Script }

func newScripts() scripts {
	return scripts{
		change: redis.NewScript(changeScript), merge: redis.NewScript(mergeScript),
		adopt: redis.NewScript(adoptScript), grow: redis.NewScript(growScript),
		tell: redis.NewScript(tellScript),
	}
}

func newStore(st *opened, how layout) *store {
	s := &store{
		rdb: st.Redis, call: st.Redis, prefix: st.Config.Prefix, limit: stores.Timeout(st.Config),
		layout: how, videos: uint64(st.Params.Videos), script: newScripts(),
		known: shardCounts{of: map[string]int64{}, reads: map[uint64][]any{}},
	}
	s.apply = func(
		ctx context.Context, to redis.Scripter, keys []string, args []any,
	) ([]any, error) {
		return s.script.change.Run(ctx, to, keys, args...).Slice()
	}
	if how.most > how.shards {
		s.heat = newHeat(st.Params.HeatPerShard)
	}
	return s
}

func (s *store) regions() int { return max(s.layout.regions, 1) }

// key names a key of a video in a region.
func (s *store) key(region int, kind string, video uint64, more ...int64) string {
	var b strings.Builder
	b.WriteString(s.prefix)
	if s.layout.regions > 1 {
		fmt.Fprintf(&b, "r%d:", region)
	}
	b.WriteString(kind)
	b.WriteString(strconv.FormatUint(video, 10))
	for _, n := range more {
		b.WriteByte(':')
		b.WriteString(strconv.FormatInt(n, 10))
	}
	return b.String()
}

func (s *store) meta(region int, video uint64) string { return s.key(region, "meta:", video) }
func (s *store) pn(region int, video uint64) string   { return s.key(region, "pn:", video) }

// metas are those of a video in all regions.
func (s *store) metas(video uint64) []string {
	keys := make([]string, s.regions())
	for region := range keys {
		keys[region] = s.meta(region, video)
	}
	return keys
}

func (s *store) members(region int, video uint64, part int64) string {
	return s.key(region, "members:", video, part)
}

func (s *store) counter(video uint64, shard int64) string {
	return s.key(0, "likes:", video, shard)
}

// spread scatters numbers that follow each other: the finaliser of SplitMix64
// (Steele, Lea and Flood, 2014).
func spread(n uint64) uint64 {
	n = (n ^ n>>30) * 0xbf58476d1ce4e5b9
	n = (n ^ n>>27) * 0x94d049bb133111eb
	return n ^ n>>31
}

func partOf(user uint64) int64 { return int64(spread(user) % memberParts) }

// place is where an interaction of a user with a video is written: the keys, the
// fields of the region's counter, empty where there is one key for each counter, and
// the number of the counter.
type place struct {
	keys     []string
	up, down string
	shard    int64
}

// args are the first ones of all scripts that write.
func (p place) args(user uint64, likes bool, op uint64) []any {
	return []any{user, likes, op, p.up, p.down, p.shard}
}

func (s *store) writing(req Request) place {
	region := home(req.User, s.regions())
	keys := []string{s.meta(region, req.Video), s.members(region, req.Video, partOf(req.User))}
	if s.layout.regions > 1 {
		entry := region
		if s.layout.entry != nil {
			entry = s.layout.entry(region)
		}
		r := strconv.Itoa(entry)
		return place{append(keys, s.pn(region, req.Video)), r + "+", r + "-", 0}
	}
	shards := s.known.get(keys[0], int64(s.layout.shards))
	shard := int64(spread(req.OpID) % uint64(shards))
	return place{keys: append(keys, s.counter(req.Video, shard)), shard: shard}
}

// writePair writes, within a script, what is known of a pair: the member known
// (false if none), the new version next, the user, whether they like, the
// operation and the counter's fields. It returns 1 if the count changed.
const writePair = `
local function liked(known) return known and string.sub(known, 1, 1) ~= '-' end
local function version(known) return tonumber(string.match(known or '0', '^-?(%d+)')) end
local function count(key, likes, up, down)
    if up == '' then redis.call('INCRBY', key, likes and 1 or -1)
    else redis.call('HINCRBY', key, likes and up or down, 1) end
end
local function writePair(keys, known, next, user, likes, op, up, down)
    local changed = 0
    if (liked(known) or false) ~= likes then
        changed = 1
        count(keys[3], likes, up, down)
    end
    redis.call('HSET', keys[2], user, string.format('%s%.0f %s', likes and '' or '-', next, op))
    return changed
end
`

// changeScript tells repeated interactions apart and counts, in one step. KEYS
// are meta, members and counter; ARGV user, 1 to like, operation, fields of the
// counter, its number. The version is one more than the last, and more than any of
// an earlier epoch. It answers with 1 if the count changed, the version and the
// number of shards; or with -1 if there is no meta. If the counter is beyond the
// number of shards, which is smaller after a rebuild, readers would not find it:
// nothing is done, and the answer is -2.
const changeScript = writePair + `
local meta = redis.call('HMGET', KEYS[1], 'epoch', 'shards')
if not meta[1] then return {-1, '0', '0'} end
if tonumber(ARGV[6]) >= tonumber(meta[2]) then return {-2, '0', meta[2]} end
local known = redis.call('HGET', KEYS[2], ARGV[1])
local next = math.max(version(known), tonumber(meta[1]) * 4294967296) + 1
local changed = writePair(KEYS, known, next, ARGV[1], ARGV[2] == '1', ARGV[3], ARGV[4], ARGV[5])
return {changed, string.format('%.0f', next), meta[2]}`

// applied is what became of an interaction in Redis.
type applied struct {
	changed bool
	version int64
}

// change applies an interaction. The outcome of an error that does not wrap
// sut.ErrRefused is unknown.
func (s *store) change(ctx context.Context, req Request, likes bool) (applied, error) {
	if req.Video == 0 || req.Video > s.videos {
		return applied{}, ErrUnknownVideo
	}
	ctx, cancel := context.WithTimeout(ctx, s.limit)
	defer cancel()
	for {
		done, beyond, err := s.try(ctx, req, likes)
		if err != nil || !beyond {
			return done, err
		}
	}
}

// try is one try at change. It reports true, and has done nothing, if it took a
// counter that the video does not have any more; it has learnt how many there are.
func (s *store) try(ctx context.Context, req Request, likes bool) (applied, bool, error) {
	where := s.writing(req)
	args := where.args(req.User, likes, req.OpID)
	answer, err := s.apply(ctx, s.call, where.keys, args)
	if err != nil {
		return applied{}, false, stores.Failed("counting in Redis", err)
	}
	return s.decode(ctx, req, where.keys[0], answer)
}

func (s *store) decode(
	ctx context.Context, req Request, meta string, answer []any,
) (done applied, beyond bool, err error) {
	if len(answer) != 3 {
		return done, false, fmt.Errorf("counting in Redis: unexpected answer %v", answer)
	}
	status, _ := answer[0].(int64)
	if status == -1 {
		return done, false, ErrNotReady
	}
	version, err := strconv.ParseInt(fmt.Sprint(answer[1]), 10, 64)
	if err != nil {
		return done, false, fmt.Errorf("counting in Redis: the version: %w", err)
	}
	shards, err := strconv.ParseInt(fmt.Sprint(answer[2]), 10, 64)
	if err != nil {
		return done, false, fmt.Errorf("counting in Redis: the shards: %w", err)
	}
	if shards > 0 {
		s.known.set(meta, shards)
		s.warm(ctx, req.Video, meta, shards)
	}
	return applied{changed: status == 1, version: version}, status == -2, nil
}

// shardCounts remembers the number of shards by the key of their meta. A writer
// may use one that was smaller, because all counters are summed up; a reader may not.
type shardCounts struct {
	mu sync.RWMutex
	of map[string]int64
	// reads are the commands that read all counters of a video.
	reads map[uint64][]any
}

func (c *shardCounts) get(meta string, otherwise int64) int64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return cmp.Or(c.of[meta], otherwise)
}

func (c *shardCounts) set(meta string, shards int64) {
	if c.get(meta, 0) == shards {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.of[meta] = shards
}

// command is the MGET of so many counters of a video, whose keys key names. They are
// named once: of a thousand, that takes longer than Redis needs for all of them.
func (c *shardCounts) command(
	video uint64, shards int64, key func(video uint64, shard int64) string,
) []any {
	c.mu.RLock()
	args := c.reads[video]
	c.mu.RUnlock()
	if int64(len(args)) == 1+shards {
		return args
	}
	args = []any{"mget"}
	for n := range shards {
		args = append(args, key(video, n))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reads[video] = args
	return args
}

// read sums up the counters of a video in a region and estimates its viewers.
func (s *store) read(ctx context.Context, region int, video uint64) (Count, error) {
	if video == 0 || video > s.videos {
		return Count{}, ErrUnknownVideo
	}
	ctx, cancel := context.WithTimeout(ctx, s.limit)
	defer cancel()
	if s.layout.regions > 1 {
		return s.readPN(ctx, region, video)
	}
	meta := s.meta(region, video)
	shards := s.known.get(meta, int64(s.layout.shards))
	for {
		count, found, err := s.sum(ctx, video, shards)
		if err != nil || found <= shards {
			return count, err
		}
		// The meta was read in the same transaction: there were more counters
		// than were summed up, and what is in them is missing.
		s.known.set(meta, found)
		shards = found
	}
}

// sum reads a video's meta and so many of its counters at one moment, and
// returns how many counters there are.
func (s *store) sum(ctx context.Context, video uint64, shards int64) (Count, int64, error) {
	pipe := s.rdb.TxPipeline()
	meta := pipe.HMGet(ctx, s.meta(0, video), "epoch", "shards")
	counters := redis.NewSliceCmd(ctx, s.known.command(video, shards, s.counter)...)
	_ = pipe.Process(ctx, counters) // it is queued
	viewers := pipe.PFCount(ctx, s.key(0, "viewers:", video))
	if _, err := pipe.Exec(ctx); err != nil {
		return Count{}, 0, stores.Failed("reading the counters", err)
	}
	fields := meta.Val()
	if len(fields) != 2 || fields[0] == nil {
		return Count{}, 0, ErrNotReady
	}
	found, err := strconv.ParseInt(fmt.Sprint(fields[1]), 10, 64)
	count := Count{Video: video, Viewers: viewers.Val()}
	for _, value := range counters.Val() {
		if text, present := value.(string); present && err == nil {
			var n int64
			n, err = strconv.ParseInt(text, 10, 64)
			count.Count += n
		}
	}
	if err != nil {
		return Count{}, 0, fmt.Errorf("reading the counters: %w", err)
	}
	return count, found, nil
}

// view adds a viewer.
func (s *store) view(ctx context.Context, req Request) error {
	if req.Video == 0 || req.Video > s.videos {
		return ErrUnknownVideo
	}
	ctx, cancel := context.WithTimeout(ctx, s.limit)
	defer cancel()
	key := s.key(home(req.User, s.regions()), "viewers:", req.Video)
	if err := s.rdb.PFAdd(ctx, key, req.User).Err(); err != nil {
		return stores.Failed("adding a viewer", err)
	}
	return nil
}

// prepare opens all videos in their first epoch. That one is open already is an
// error.
func (s *store) prepare(ctx context.Context) error {
	for region := range s.regions() {
		for video := uint64(1); video <= s.videos; video++ {
			there, err := s.rdb.Exists(ctx, s.meta(region, video)).Result()
			if err != nil {
				return stores.Failed("looking for counters", err)
			}
			if there > 0 {
				return fmt.Errorf("video %d has counters in Redis already under prefix %q",
					video, s.prefix)
			}
			if err := s.open(ctx, region, video, 1); err != nil {
				return err
			}
		}
	}
	return nil
}

// open lets users in, with as many counters as at first.
func (s *store) open(ctx context.Context, region int, video uint64, epoch int64) error {
	err := s.rdb.HSet(ctx, s.meta(region, video), "epoch", epoch, "shards", s.layout.shards).Err()
	if err != nil {
		return stores.Failed("opening the counters", err)
	}
	return nil
}

// audit fills in what the counting store says of a video.
func (s *store) audit(ctx context.Context, v *VideoAudit) error {
	for region := range s.regions() {
		count, err := s.read(ctx, region, v.Video)
		if err != nil && !notReady(err) {
			return err
		}
		v.Counts, v.Viewers = append(v.Counts, count.Count), count.Viewers
	}
	v.Shards = s.known.get(s.meta(0, v.Video), int64(s.layout.shards))
	pairs, err := s.pairs(ctx, v.Video)
	if err != nil {
		return err
	}
	v.Members = Packed{}
	for _, p := range pairs {
		if p.liked {
			v.Members = append(v.Members, p.user)
		}
	}
	slices.Sort(v.Members)
	return nil
}

// pairs lists all that Redis knows of a video, in no order.
func (s *store) pairs(ctx context.Context, video uint64) ([]pair, error) {
	var list []pair
	for region := range s.regions() {
		for part := range int64(memberParts) {
			fields, err := s.rdb.HGetAll(ctx, s.members(region, video, part)).Result()
			if err != nil {
				return nil, stores.Failed("reading the members", err)
			}
			for user, text := range fields {
				p, err := parseMember(user, text)
				if err != nil {
					return nil, fmt.Errorf("reading the members of video %d: %w", video, err)
				}
				list = append(list, p)
			}
		}
	}
	return list, nil
}

// parseMember reads a field of the members.
func parseMember(user, text string) (pair, error) {
	var p pair
	signed, op, found := strings.Cut(text, " ")
	version, err := strconv.ParseInt(signed, 10, 64)
	if err == nil {
		p.op, err = strconv.ParseUint(op, 10, 64)
	}
	if err == nil {
		p.user, err = strconv.ParseUint(user, 10, 64)
	}
	if err != nil || !found || version == 0 {
		return pair{}, fmt.Errorf("the member %q has %q", user, text)
	}
	p.liked, p.version = version > 0, max(version, -version)
	return p, nil
}
