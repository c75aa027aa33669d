package commentary

import (
	"cmp"
	"context"
	_ "embed" // the scripts
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"stampede/harness/design"
	"stampede/harness/stores"
	"stampede/harness/sut"
)

//go:embed publish.lua
var publishLua string

//go:embed begin.lua
var beginLua string

// redisFirst answers once a comment is in Redis, and brings it to Postgres afterwards.
//
// The idea: a script gives a change the next version of its match, puts it into the sorted set of
// the newest thirty comments, and appends it to a list. A writer takes from the list, writes to
// Postgres, and then deletes what it has written. Commentators see their comments: if one is
// missing, they save again. Each run of Redis is a new epoch of each match: after a restart,
// which may have lost something, its versions go on far above all that anybody may have seen.
//
// The guarantee: while Redis keeps what it has, what is acknowledged is kept, and seen at once;
// soon, while it is away.
//
// It gives up: what Redis loses before the writer has written it: with appendfsync everysec, about
// a second of it; and a comment that is saved again after that may be shown twice, for what was
// known is lost too. If Redis is away, nothing is published, and viewers are shown what is written.
func redisFirst() variant {
	return viaRedis(variant{Name: "redis_first",
		Idea: "a comment is answered once it is in Redis, and a writer brings it to Postgres; after " +
			"a restart of Redis versions go on in a new epoch",
		Guarantees: "what is acknowledged is seen at once, and kept while Redis keeps it",
		GivesUp:    "what Redis loses before it is written to Postgres; comments while Redis is away",
		Breaks:     lostByRedis(),
	}, func(ctx context.Context, st *opened, v view) (int64, error) {
		var epoch int64
		err := st.DB.Row(ctx, `SELECT nextval('epochs')`, nil, &epoch)
		return max(v.version, epoch*epochSize), stores.Failed("beginning an epoch", err)
	})
}

// epochSize is how many changes an epoch has room for.
const epochSize = 1_000_000

// lostByRedis is what a design may break that keeps what is new in Redis alone.
func lostByRedis() (list []sut.Break) {
	for _, under := range []sut.Trigger{sut.RedisLoss, sut.PowerLoss} {
		list = append(list, sut.Breaks(under, sut.AtTimes, AckedKept, VersionShown, OneAnswer, SeenInTime,
			PastWhole, Settled)...)
	}
	return list
}

// epoch decides in which version a match begins that Redis does not have, given what Postgres has.
type epoch func(ctx context.Context, st *opened, durable view) (version int64, err error)

// viaRedis completes a design that keeps changes in Redis first.
func viaRedis(v variant, base epoch) variant {
	d := plan{tagged: true, cache: mustAsk, within: copiesPlan().within,
		keep: func(ctx context.Context, st *opened, c *ChangeRow) error {
			return keepInRedis(ctx, st, c, base)
		},
		look: func(s server, ctx context.Context, match uint64, known int64) (view, error) {
			return live(ctx, s.opened, match, known, base)
		}}
	v.Needs, v.Places = []sut.Service{sut.Redis}, []string{placeCommitted}
	v.Roles = []role{writer()}
	v.State = design.State[Params]{
		Schema: `CREATE SEQUENCE epochs;`, Audit: audited(d, inBoth),
		Pending: func(ctx context.Context, st *opened) (n int64, what string, err error) {
			n, err = st.Redis.LLen(ctx, st.Key(unwritten)).Result()
			return n, fmt.Sprintf("%d changes are not in Postgres", n), err
		}}
	v.Open = func(_ context.Context, st *opened) (Commentary, error) { return newServer(st, d), nil }
	return v
}

const (
	// unwritten is the list of changes that are not in Postgres.
	unwritten = "unwritten"
	// liveFor is how long Redis has a match after its last change.
	liveFor = time.Hour
	// begins bounds how often an operation finds that there is no match.
	begins = 3
	// writtenAtOnce bounds what a writer takes.
	writtenAtOnce = 200
)

// keepInRedis adds a change to Redis, once, and gives it its version.
func keepInRedis(ctx context.Context, st *opened, c *ChangeRow, base epoch) error {
	keys := append(liveKeys(st, c.Match), st.Key(unwritten))
	for range begins {
		got, err := script(ctx, st, publishLua, keys, c.ID, c.Match, c.Comment, c.Ball, c.Text, newest,
			liveFor.Milliseconds()).StringSlice()
		switch {
		case err != nil:
			return stores.Failed("keeping a change in Redis", err)
		case got[0] == "no comment":
			return ErrNoComment
		case got[0] != "no match":
			c.Version, err = strconv.ParseInt(got[0], 10, 64)
			return err
		}
		if err := begin(ctx, st, c.Match, got[1], base); err != nil {
			return err
		}
	}
	return ErrUnavailable // it was lost again and again
}

// begin begins an epoch of a match in a run of Redis. In a later run it does nothing, for that may
// have begun a higher epoch meanwhile.
func begin(ctx context.Context, st *opened, match uint64, run string, base epoch) error {
	v, err := kept(ctx, st, match)
	if err == nil {
		v.version, err = base(ctx, st, v)
	}
	if err != nil {
		return err
	}
	return stores.Failed("beginning an epoch", script(ctx, st, beginLua, liveKeys(st, match),
		append([]any{v.version, liveFor.Milliseconds(), newest, run}, v.members()...)...).Err())
}

// liveKeys are where Redis has a live match: its copy, the changes that are known, and the run of
// Redis in which its epoch began.
func liveKeys(st *opened, match uint64) []string {
	keys := copyKeys(st, match)
	return append(keys, keys[0]+":known", keys[0]+":run")
}

// live reads a match in Redis, and while that is away, in Postgres.
func live(
	ctx context.Context, st *opened, match uint64, known int64, base epoch,
) (view, error) {
	for range begins {
		found, err := script(ctx, st, readLua, liveKeys(st, match), known).Slice()
		if err != nil {
			return kept(ctx, st, match)
		}
		v, err := readView(found)
		if err != nil || v.version >= 0 {
			return v, err
		}
		run, _ := found[2].(string)
		if err := begin(ctx, st, match, run, base); err != nil {
			return view{}, err
		}
	}
	return view{}, ErrUnavailable // it was lost again and again
}

// inBoth reads all changes, those that the writer has not taken too.
func inBoth(ctx context.Context, st *opened) ([]ChangeRow, error) {
	waiting, err := st.Redis.LRange(ctx, st.Key(unwritten), 0, -1).Result()
	if err != nil {
		return nil, stores.Failed("reading what is not written", err)
	}
	list, err := changes(ctx, st) // later: what is written meanwhile is in both
	known := map[uint64]bool{}
	for _, c := range list {
		known[c.ID] = true
	}
	for _, text := range waiting {
		c, wrong := readUnwritten(text)
		if err = errors.Join(err, wrong); !known[c.ID] {
			list = append(list, c)
		}
	}
	slices.SortFunc(list, func(a, b ChangeRow) int {
		return cmp.Or(cmp.Compare(a.Match, b.Match), cmp.Compare(a.Version, b.Version))
	})
	return list, err
}

// placeTaken is when the writer has read changes, placeWritten when they are in Postgres, and in
// the list.
const (
	placeTaken   = "taken"
	placeWritten = "written"
)

// writer brings changes to Postgres.
func writer() role {
	return role{Name: "writer", Summary: "brings changes from Redis to Postgres", Single: true,
		Places: []string{placeTaken, placeWritten},
		Step: func(ctx context.Context, st *opened) (time.Duration, error) {
			taken, err := st.Redis.LRange(ctx, st.Key(unwritten), 0, writtenAtOnce-1).Result()
			if err != nil || len(taken) == 0 {
				return st.Params.WriteEvery.D(), err
			}
			st.Config.Passed(placeTaken)
			if err := write(ctx, st, taken); err != nil {
				return 0, err
			}
			st.Config.Passed(placeWritten)
			_, err = st.Redis.Pipelined(ctx, func(p redis.Pipeliner) error {
				for _, text := range taken {
					p.LRem(ctx, st.Key(unwritten), 1, text)
				}
				return nil
			})
			return 0, err
		}}
}

// readUnwritten reads a change as publish.lua appends it.
func readUnwritten(text string) (c ChangeRow, err error) {
	if json.Unmarshal([]byte(text), &c) != nil || max(c.ID, c.Match) > math.MaxInt64 {
		return ChangeRow{}, errMalformed // no store takes such identities
	}
	return c, nil
}

// write writes changes in one transaction. One that is there already changes nothing.
func write(ctx context.Context, st *opened, taken []string) error {
	err := st.DB.Transaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		for _, text := range taken {
			c, err := readUnwritten(text)
			if err == nil {
				_, err = tx.Exec(ctx, `WITH new AS (
						INSERT INTO changes VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (op) DO NOTHING RETURNING op),
					now AS (INSERT INTO matches AS m SELECT $2, $3 FROM new
						ON CONFLICT (id) DO UPDATE SET version = greatest(m.version, excluded.version)
						RETURNING id)
					INSERT INTO comments AS c (match_id, id, version, ball, said) SELECT id, $4, $3, $5, $6 FROM now
					ON CONFLICT (match_id, id) DO UPDATE SET version = excluded.version, said = excluded.said
						WHERE c.version < excluded.version`,
					c.ID, c.Match, c.Version, c.Comment, c.Ball, c.Text)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	return stores.Failed("writing changes", err)
}
