package autocomplete

import (
	"context"
	_ "embed" // the scripts
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/twmb/franz-go/pkg/kgo"

	"stampede/harness/design"
	"stampede/harness/stores"
	"stampede/harness/sut"
	"stampede/systems/internal/partitions"
	"stampede/systems/internal/prefix"
	"stampede/systems/internal/rolling"
)

// redisZset keeps a sorted set for each prefix.
//
// The idea: an indexer reads the log and runs a script for each batch, which counts queries by
// slot, moves the windows on, and changes the score of a phrase in the sets of the first eight
// bytes of it. The script also moves the log on: Redis has the index and the offset in one
// append-only file, forgets both together, and is given what it lacks again. Another script reads
// a set, the version and a user's own phrases at one moment. A longer prefix is looked for in the
// set of its first eight bytes, a wrong one in the set of all. APIs have no index; what is
// blocked they know by a lease.
//
// The guarantee: each suggestion is the exact top of one version, which all APIs share and which
// goes back only if Redis loses its memory. No suggestion that begins after a block has the
// phrase.
//
// It gives up: memory, for each phrase eight times and more; suggestions in process; and a wrong
// prefix reads everything.
func redisZset() variant {
	return variant{Name: "redis_zset",
		Idea: "an indexer brings the log to a sorted set in Redis for each prefix, by a script that " +
			"also moves the log on",
		Guarantees: "the exact top of one version, which all APIs share; what Redis loses is read again",
		GivesUp:    "memory for each phrase under eight prefixes; a wrong prefix reads all phrases",
		Needs:      []sut.Service{sut.Redis},
		Roles: []role{indexer(
			func(ctx context.Context, st *opened) (map[int32]int64, error) {
				return partitions.StartsInRedis(ctx, st.Redis, st.Key(keyOffsets))
			},
			func(st *opened) batch { return &toRedis{queries: queries{opened: st}} })},
		State: design.State[Params]{Pending: behind(reachedRedis)},
		Open: func(_ context.Context, st *opened) (Suggester, error) {
			b, stop := byLease(st, func([]string) {})
			return serve(st, sets{st}, b, stop), nil
		},
	}
}

// The fail points of an indexer.
const (
	placeTaken = "taken" // it has read queries, and they are in no index
	placeShown = "shown" // they are in the index, and it does not know
)

// batch is what was read of the log.
type batch = partitions.Shard

// indexer is the role that brings the log to a store.
func indexer(
	starts func(context.Context, *opened) (map[int32]int64, error), open func(*opened) batch,
) role {
	return role{Name: "indexer", Summary: "brings the log to the index",
		Places: []string{placeTaken, placeShown},
		Do: func(ctx context.Context, st *opened) error {
			r := partitions.Reader{Config: st.Config, Topic: topicQueries, Group: groupIndex,
				Session: st.Params.SessionTimeout.D(), Every: st.Params.ReadEvery.D(),
				Start: func(ctx context.Context) (map[int32]int64, error) { return starts(ctx, st) },
				Open:  func(int32) partitions.Shard { return open(st) }}
			return r.Run(ctx)
		}}
}

// behind counts what is not in an index that is in a store.
func behind(
	reached func(context.Context, *opened) (int64, error),
) func(context.Context, *opened) (int64, string, error) {
	return func(ctx context.Context, st *opened) (n int64, what string, err error) {
		version, err := reached(ctx, st)
		if err == nil {
			n, err = logBehind(ctx, st, version)
		}
		return n, fmt.Sprintf("%d queries are not in the index", n), err
	}
}

// queries are what was read of the log.
type queries struct {
	*opened
	list []LogRow
}

// Read takes a query in.
func (q *queries) Read(_ context.Context, r *kgo.Record) error {
	e, err := read(r, q.Params)
	q.list = append(q.list, e)
	return err
}

// toRedis is a batch on its way to Redis.
type toRedis struct{ queries }

// What Redis has: the offset, and keys that begin with another one. Of depth bytes of a phrase
// there are sets, and indexedAtOnce bounds what a script does, for which everybody else waits.
const (
	keyOffsets    = "offsets"
	keyIndex      = "index:"
	depth         = 8
	indexedAtOnce = 200
)

//go:embed redis_zset.lua
var indexLua string

//go:embed redis_zset_read.lua
var readLua string

// Store runs the script.
func (b *toRedis) Store(ctx context.Context, from, _ int64) error {
	ctx, cancel := context.WithTimeout(ctx, stores.Timeout(b.Config))
	defer cancel()
	b.Config.Passed(placeTaken)
	p := b.Params
	for some := range slices.Chunk(b.list, indexedAtOnce) {
		next := some[len(some)-1].Position // which is its offset and one
		args := []any{from, next, p.Weight, p.Recent, p.Baseline, depth, ownMost}
		for _, e := range some {
			args = append(args, e.Slot, e.User, e.Phrase)
		}
		moved, err := redis.NewScript(indexLua).Run(ctx, b.Redis,
			[]string{b.Key(keyOffsets), b.Key(keyIndex)}, args...).Bool()
		if err != nil {
			return stores.Failed("indexing queries", err)
		}
		if !moved {
			return fmt.Errorf("the log is not at offset %d: %w", from, partitions.ErrMoved)
		}
		from = next
	}
	b.Config.Passed(placeShown)
	b.list = b.list[:0]
	return nil
}

// sets is the index.
type sets struct{ *opened }

// suggest reads the set of the prefix, or one that has more than that.
func (s sets) suggest(ctx context.Context, q question) (Suggestions, error) {
	set, last := "under:"+q.Prefix[:min(depth, len(q.Prefix))], q.most-1+ownMost
	for phrase := range q.blocked { // they are still there
		if strings.HasPrefix(phrase, q.Prefix) {
			last++
		}
	}
	if q.Edits > 0 {
		set, last = "all", -1
	} else if len(q.Prefix) > depth {
		last = -1
	}
	found, err := redis.NewScript(readLua).Run(ctx, s.Redis,
		[]string{s.Key(keyOffsets), s.Key(keyIndex)}, set, last, q.user).Slice()
	if err != nil {
		return Suggestions{}, stores.Failed("reading suggestions", err)
	}
	return s.answer(q, found)
}

var errReply = errors.New("unexpected reply of Redis")

// answer reads what the script returns.
func (s sets) answer(q question, found []any) (Suggestions, error) {
	if len(found) != 3 {
		return Suggestions{}, errReply
	}
	text, _ := found[0].(string)
	version, err := strconv.ParseInt(text, 10, 64)
	best, wrong := s.rows(q, found[1])
	own, wrongToo := s.rows(q, found[2])
	return Suggestions{version, merge(own, best, q.most)}, errors.Join(err, wrong, wrongToo)
}

// rows are the phrases that fit, of three values each.
func (s sets) rows(q question, reply any) (list []prefix.Phrase, err error) {
	values, _ := reply.([]any)
	for row := range slices.Chunk(values, 3) {
		if len(row) != 3 {
			return nil, errReply
		}
		phrase, _ := row[0].(string)
		below, _ := row[1].(string)
		lately, _ := row[2].(string)
		score, err := strconv.ParseInt(below, 10, 64)
		recent, wrong := strconv.ParseInt(lately, 10, 64)
		if err := errors.Join(err, wrong); err != nil {
			return nil, fmt.Errorf("%w: %w", errReply, err)
		}
		if !q.Fits(phrase) || q.blocked[phrase] {
			continue
		}
		list = append(list, s.Params.phrase(phrase,
			rolling.Counts{Recent: recent, Before: -score - s.Params.Weight*recent}))
	}
	return list, nil
}

// reachedRedis is how far the log is in Redis.
func reachedRedis(ctx context.Context, st *opened) (int64, error) {
	at, err := partitions.StartsInRedis(ctx, st.Redis, st.Key(keyOffsets))
	return at[0], err
}

func (s sets) reached(ctx context.Context) (int64, error) { return reachedRedis(ctx, s.opened) }

// bytes adds up the sets.
func (s sets) bytes(ctx context.Context) (sum int64, err error) {
	for _, set := range []string{"all", "under:*"} {
		found := s.Redis.Scan(ctx, 0, s.Key(keyIndex)+set, scanned).Iterator()
		for found.Next(ctx) {
			n, err := s.Redis.MemoryUsage(ctx, found.Val()).Result()
			if err != nil {
				return 0, stores.Failed("measuring the index", err)
			}
			sum += n
		}
		err = errors.Join(err, found.Err())
	}
	return sum, stores.Failed("measuring the index", err)
}

// scanned is how many keys Redis looks at at once.
const scanned = 1000
