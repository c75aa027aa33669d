package writeheavy

import (
	"context"
	"errors"
	"strings"
	"time"

	"stampede/harness/sut"
)

// Mutants are designs with a planted error each, and what they are compared with.
func Mutants() map[string]sut.Variant {
	made := func(v variant) sut.Variant {
		v.Breaks, v.NotApplicable = nil, nil
		return systemOf(v).Variants[0]
	}
	queued := func(
		write func(context.Context, *opened, []counted) error, early, once bool,
	) sut.Variant {
		v := queueAndBatch()
		if early {
			v = batchAckedEarly()
		}
		open := v.Open
		v.Open = func(ctx context.Context, st *opened) (Counters, error) {
			if _, err := openQueue(st, write); err != nil {
				return nil, err
			}
			return open(ctx, st) // finds it
		}
		if !once {
			v.State.Schema = `ALTER TABLE ops DROP CONSTRAINT ops_pkey;`
		}
		return made(v)
	}
	compacted := func(sql ...string) sut.Variant {
		v := shardAndFlush()
		v.Roles = []role{compactor(sql...)}
		return made(v)
	}
	middle := func(popped bool) sut.Variant {
		v := reduceTree()
		n, right := 0, v.Roles[0].Step
		v.Roles[0].Step = func(ctx context.Context, st *opened) (time.Duration, error) {
			if n++; n%4 > 0 {
				return right(ctx, st)
			}
			if popped {
				list, taken, err := look(ctx, st, inboxMiddle)
				if err = errors.Join(err, move(ctx, st, inboxMiddle, taken, len(list))); err != nil {
					return 0, err
				}
			}
			return 0, errDied
		}
		return made(v)
	}
	moved := func(how resharding, whole bool) sut.Variant {
		how.whole = whole
		return made(reshardedBy(how))
	}
	copying, lost, unfenced, oneWay := twoSides(), twoSides(), twoSides(), twoSides()
	copying.copy = sqlCopySums
	adding := copying
	adding.copy = strings.Replace(sqlCopySums, "value = ", "value = counters.value + ", 1)
	// The second write of every fourth add fails.
	lost.count = strings.Replace(sqlCount, "coalesce(twin, 0)",
		"CASE WHEN ($3::bigint >> 10) % 4 = 0 THEN 0 ELSE coalesce(twin, 0) END", 1)
	unnoted := lost
	unnoted.count = strings.Replace(lost.count, "WHERE twin IS NOT NULL", "WHERE false", 1)
	// Every other add comes from a process with the old map.
	unfenced.count = strings.Replace(sqlCount, "AND state = 'owner' FOR SHARE OF places", "", 1)
	unfenced.count = strings.ReplaceAll(unfenced.count, "$1",
		"CASE WHEN ($3::bigint >> 10) % 2 = 0 THEN 1 ELSE $1::int END")
	oneWay.back = false
	return map[string]sut.Variant{
		"moving": moved(lost, true),
		"M205":   moved(copying, false), "M206": moved(adding, false), "M207": moved(unnoted, false),
		"M209": moved(lost, false), "M210": moved(oneWay, false), "M211": moved(unfenced, false),
		"queue": queued(committed, false, true),
		// A resent add, and one whose attempt was repeated, has no number by which it is known.
		"M203": queued(committed, false, false),
		// Adds of a batch that failed are written, and written again with a half of it.
		"M204":  queued(oneByOne, false, false),
		"dying": queued(dying, false, true), "M201": queued(dying, true, true),
		// The middle dies at times, with what it took out of its inbox.
		"middle": middle(false), "popped": middle(true),
		"shards": compacted(sqlCompact), "M200": made(mapChangedUnmoved()),
		"M221": compacted(`INSERT INTO counters (key, map, shard, value)
				SELECT $1, 1, -1, sum(value)::bigint FROM counters WHERE key = $1 AND map = 1 AND shard >= 0
				ON CONFLICT (key, map, shard) DO UPDATE SET value = counters.value + excluded.value`,
			`UPDATE counters SET value = 0 WHERE key = $1 AND map = 1 AND shard >= 0
				AND pg_sleep(0.02) IS NOT NULL`),
		"resent": made(treeOf(reduceTree(), twice(luaOnce+luaTake))),
		"M202":   made(treeOf(reduceTree(), twice(luaTake))),
	}
}

// sqlCopySums copies the counters of the old place as they are, and not add by add.
const sqlCopySums = `WITH old AS MATERIALIZED (
		SELECT key, value FROM counters WHERE map = 1 AND shard = $2 AND pg_sleep(0.002) IS NOT NULL),
	fresh AS (
		INSERT INTO placed (map, range, op_id, key, usr, delta, epoch, in_epoch, came)
		SELECT $1, $2, op_id, key, usr, delta, epoch, 0, $8
		FROM unnest($3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::int[])
			AS list (op_id, key, usr, delta, epoch) ORDER BY op_id ON CONFLICT DO NOTHING)
	INSERT INTO counters (key, map, shard, value) SELECT key, $1, $2, value FROM old ORDER BY key
	ON CONFLICT (key, map, shard) DO UPDATE SET value = excluded.value`

// twice is a script that runs twice: the reply to the first time was lost.
func twice(lua string) string {
	return "local function sent()\n" + lua + "\nend\nsent()\nreturn sent()"
}

var errDied = errors.New("the process died")

// dying writes batches, but some of them are in the memory of a process that dies.
func dying(ctx context.Context, st *opened, list []counted) error {
	if list[0].ID>>idBits%40 == 0 {
		return errDied
	}
	return committed(ctx, st, list)
}

// oneByOne commits each add for itself.
func oneByOne(ctx context.Context, st *opened, list []counted) error {
	for i := range list {
		if err := committed(ctx, st, list[i:i+1]); err != nil {
			return err
		}
	}
	return nil
}

// Decode reads a partial sum and writes it.
func Decode(text string) (string, error) {
	p, err := partialOf(text)
	if err != nil {
		return "", err
	}
	for _, s := range p.sums {
		if _, err := membersOf(s.members); err != nil {
			return "", err
		}
	}
	return p.String(), nil
}
