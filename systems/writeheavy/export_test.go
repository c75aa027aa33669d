package writeheavy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"stampede/harness/sut"
	"stampede/systems/internal/shed"
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
	moved := func(how resharding, settles, compares bool) sut.Variant {
		how.settles, how.compares = settles, compares
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
		"moving": moved(lost, true, true),
		"M205":   moved(copying, true, false), "M206": moved(adding, true, false),
		"M207": moved(unnoted, true, false), "M209": moved(lost, false, false),
		"M210": moved(oneWay, true, false), "M211": moved(unfenced, true, false),
		"clocks agree": made(lastWriteWins(0)), "M208": made(lastWriteWins(50)),
		"sheds": made(shedAtDepth()), "M212": made(answering(shedsAfter)),
		"M213": made(answering(silently)), "M214": made(highFirst()),
		"async": made(rowAsyncCommit()), "M222": made(writtenBehind()),
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

// lastWriteWins is reshard_online whose twin gets values, and not adds: the value of a counter
// after an add, with the time at which the owner's process made it, of which the latest wins. The
// clock of every other process is so many milliseconds ahead.
func lastWriteWins(ahead int) variant {
	clock := fmt.Sprintf(`clock_timestamp() + ($3::bigint >> 10) %% 2 * interval '%d ms'`, ahead)
	how := twoSides()
	how.compares = ahead == 0
	how.count = strings.NewReplacer(
		"counters (key, map, shard, value) SELECT key, $1, $2, delta FROM fresh",
		"counters (key, map, shard, value, stamp) SELECT key, $1, $2, delta, "+clock+" FROM fresh",
		"excluded.value)", "excluded.value, stamp = "+clock+` RETURNING value, stamp),
			written AS (INSERT INTO writes SELECT $3, value, stamp FROM counted)`).Replace(sqlCount)
	fresh, _, _ := strings.Cut(sqlTwin, "INSERT INTO counters")
	how.twin = strings.Replace(fresh, "RETURNING key, delta", "RETURNING op_id, key", 1) + `
		INSERT INTO counters (key, map, shard, value, stamp)
		SELECT DISTINCT ON (key) key, $1, $2, value, stamp FROM fresh JOIN writes USING (op_id)
		ORDER BY key, stamp DESC
		ON CONFLICT (key, map, shard) DO UPDATE SET value = excluded.value, stamp = excluded.stamp
		WHERE counters.stamp < excluded.stamp`
	how.copy = how.twin
	v := reshardedBy(how)
	v.State.Schema += `ALTER TABLE counters ADD COLUMN stamp timestamptz;
		CREATE TABLE writes (op_id bigint PRIMARY KEY, value bigint, stamp timestamptz);`
	return v
}

// highFirst is shed_at_depth whose shortest queue is that of the most important class.
func highFirst() variant {
	return shedding(shedAtDepth(), none, func(p Params) *shed.Gate {
		return shed.Depth(p.ShedLimit, p.ShedQueue/4, p.ShedQueue/2, p.ShedQueue)
	})
}

type adder = func(context.Context, AddRequest) error

// answering is shed_at_depth with another way to add, made of that behind the admission and of that
// without.
func answering(way func(gated, row adder) adder) variant {
	v := shedAtDepth()
	open := v.Open
	v.Open = func(ctx context.Context, st *opened) (Counters, error) {
		c, err := open(ctx, st)
		s, _ := c.(service)
		s.add = way(s.add, rows{st}.add)
		return s, err
	}
	return v
}

// shedsAfter asks for admission when the work is done.
func shedsAfter(gated, row adder) adder {
	return func(ctx context.Context, req AddRequest) error {
		return errors.Join(row(ctx, req), gated(ctx, req))
	}
}

// silently tells nobody that an add is shed.
func silently(gated, _ adder) adder {
	return func(ctx context.Context, req AddRequest) error {
		if err := gated(ctx, req); !errors.Is(err, ErrShed) {
			return err
		}
		return nil
	}
}

// writtenBehind is row_async_commit that writes by itself: what is acknowledged is in the memory of
// one of two writers, of which one is slow, and which forget what they have when the database dies.
func writtenBehind() variant {
	v := rowAsyncCommit()
	v.Settings = nil
	v.Open = func(_ context.Context, st *opened) (Counters, error) {
		b := &behind{}
		for i := range b.queues {
			b.queues[i] = make(chan AddRequest, 10_000)
			b.done.Go(func() {
				for req := range b.queues[i] {
					sut.Pause(context.Background(), time.Duration(i)*20*time.Millisecond)
					if (rows{st}).add(context.Background(), req) != nil {
						for ; len(b.queues[i]) > 0; <-b.queues[i] {
						}
					}
				}
			})
		}
		b.service = service{now{st}, func(_ context.Context, req AddRequest) error {
			if sound(req.Delta) {
				b.queues[req.ID>>idBits%2] <- req
				return nil
			}
			return ErrRejected
		}, 1}
		return b, nil
	}
	return v
}

type behind struct {
	service
	queues [2]chan AddRequest
	done   sync.WaitGroup
}

func (b *behind) Close() error {
	close(b.queues[0])
	close(b.queues[1])
	b.done.Wait()
	return nil
}

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

// Batching is a batcher whose batches are written by a function. It returns how an add joins, and
// its Close.
func Batching(p Params, write func(context.Context) error) (
	join func(context.Context) error, end func() error,
) {
	b := newBatcher(p, func(ctx context.Context, batch []*waiting) { tell(batch, write(ctx)) })
	return func(ctx context.Context) error { return b.join(ctx, AddRequest{}) }, b.Close
}
