package writeheavy

import (
	"context"
	"errors"
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
	return map[string]sut.Variant{
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

// twice is a script that runs twice: the reply to the first time was lost.
func twice(lua string) string {
	return "local function sent()\n" + lua + "\nend\nsent()\nreturn sent()"
}

var errDied = errors.New("the process died")

// dying writes batches, but some of them are in the memory of a process that dies.
func dying(ctx context.Context, st *opened, list []counted) error {
	if list[0].ID>>idBits%8 == 0 {
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
