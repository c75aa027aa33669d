package recentsearches

import (
	"context"
	_ "embed" // the script
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
	"github.com/twmb/franz-go/pkg/kgo"

	"stampede/harness/design"
	"stampede/harness/stores"
	"stampede/harness/sut"
	"stampede/harness/topics"
	"stampede/systems/internal/partitions"
)

// The topic of changes, its groups of readers, and the hashes in Redis of where two of these are.
const (
	topicChanges = "searches"
	groupStore   = "store"
	offsetsLists = "lists-offsets"
	offsetsTerms = "terms-offsets"
	hashTerms    = "terms" // how often each term was searched for
)

// searchLog puts a log in front of both stores.
//
// The idea: a change is acknowledged once it is in Kafka, in the partition of its user; its
// offset is its version. Three groups read the log: one writes the history, one changes the
// lists, one counts terms for whoever recommends. Each keeps its offsets where its results are,
// and so in one transaction. Redis has lists and offsets in one append-only file: it forgets both
// together, and they are read again.
//
// The guarantee: what is acknowledged comes to the history, to the lists and to the counts once, in
// order, whoever dies and whatever Redis forgets.
//
// It gives up: that a change is seen at once, in the history too. Lists have no TTL: who adds to a
// list that has expired does not know what was in it. The log must be kept, because lists are made
// of it.
func searchLog() variant {
	v := variant{Name: "search_log",
		Idea: "changes go to Kafka, and three groups bring them to the history, to the lists and to " +
			"counts of terms",
		Guarantees: "what is acknowledged comes to all three once and in order, whatever Redis forgets",
		GivesUp:    "that a change is seen at once, a TTL of lists, and a log that forgets",
		Needs:      []sut.Service{sut.Kafka, sut.Redis},
		Places:     []string{placeCommitted},
		Open: func(_ context.Context, st *opened) (Recents, error) {
			return logged{st}, nil
		},
		Roles: []role{
			logReader("store", "writes the log to the history", groupStore, startsInPostgres,
				func(st *opened, id int32) partitions.Shard { return &toStore{batch{st, id, nil}} }),
			logReader("lists", "brings the log to the lists", "lists", startsIn(offsetsLists),
				func(st *opened, id int32) partitions.Shard { return &toRedis{batch{st, id, nil}, fold()} }),
			logReader("terms", "counts the terms of the log", "terms", startsIn(offsetsTerms),
				func(st *opened, id int32) partitions.Shard { return &toRedis{batch{st, id, nil}, count()} }),
		},
	}
	v.State = design.State[Params]{
		Ready: func(ctx context.Context, st *opened) error {
			return partitions.Prepare(ctx, st.Config, st.DB, st.Kafka, topicChanges, groupStore)
		},
		Found: func(ctx context.Context, st *opened) (string, error) {
			return partitions.Found(ctx, st.Config, st.Kafka, topicChanges, "changes in the log")
		},
		Pending: logBehind,
		Audit:   auditLog,
	}
	return v
}

// auditLog reads the log and the counts beside what every design has.
func auditLog(ctx context.Context, st *opened) (any, error) {
	a, err := audit(ctx, st, logged{st}.look)
	if err != nil {
		return nil, err
	}
	a.Log, a.Counts = []ChangeRow{}, []CountRow{}
	b := batch{opened: st}
	err = partitions.Each(ctx, st.Config, st.Kafka, topicChanges, func(r *kgo.Record) error {
		return b.Read(ctx, r)
	})
	a.Log = append(a.Log, b.read...)
	found, wrong := st.Redis.HGetAll(ctx, st.Key(hashTerms)).Result()
	for _, term := range slices.Sorted(maps.Keys(found)) {
		n, malformed := strconv.ParseInt(found[term], 10, 64)
		a.Counts = append(a.Counts, CountRow{term, n})
		wrong = errors.Join(wrong, malformed)
	}
	return a, stores.Failed("reading the log and the counts", errors.Join(err, wrong))
}

// starting says where each partition is.
type starting = func(context.Context) (map[int32]int64, error)

// startsInPostgres is where partitions are by the table progress.
func startsInPostgres(st *opened) starting {
	return func(ctx context.Context) (map[int32]int64, error) {
		return partitions.Starts(ctx, st.DB)
	}
}

// startsIn is where partitions are by a hash in Redis.
func startsIn(hash string) func(*opened) starting {
	return func(st *opened) starting {
		return func(ctx context.Context) (map[int32]int64, error) {
			return partitions.StartsInRedis(ctx, st.Redis, st.Key(hash))
		}
	}
}

// logReader is a role that reads the log.
func logReader(
	name, summary, group string, starts func(*opened) starting,
	open func(*opened, int32) partitions.Shard,
) role {
	return role{Name: name, Summary: summary, Places: []string{placeTaken, placeShown},
		Do: func(ctx context.Context, st *opened) error {
			reader := partitions.Reader{Config: st.Config, Topic: topicChanges, Group: group,
				Session: st.Params.SessionTimeout.D(), Every: st.Params.RelayEvery.D(), Start: starts(st),
				Open: func(id int32) partitions.Shard { return open(st, id) }}
			return reader.Run(ctx)
		}}
}

// logBehind counts what the groups have still to read.
func logBehind(ctx context.Context, st *opened) (sum int64, what string, err error) {
	places := []string{"history", "lists", "counts"}
	for i, starts := range []func(*opened) starting{startsInPostgres, startsIn(offsetsLists),
		startsIn(offsetsTerms)} {
		at, err := starts(st)(ctx)
		var n int64
		if err == nil {
			n, err = partitions.Behind(ctx, st.Kafka, topics.Name(st.Config, topicChanges), at)
		}
		if err != nil {
			return 0, "", err
		}
		sum += n
		what += fmt.Sprintf("%d changes are not in the %s; ", n, places[i])
	}
	return sum, what, nil
}

// logged is an API before a log.
type logged struct{ *opened }

// Search appends to the log.
func (s logged) Search(ctx context.Context, req SearchRequest) (Kept, error) {
	return s.send(ctx, ChangeRow{ID: req.ID, User: req.User, Term: req.Term}, nil)
}

// Forget appends to the log.
func (s logged) Forget(ctx context.Context, req ForgetRequest) (Kept, error) {
	return s.send(ctx, ChangeRow{ID: req.ID, User: req.User, Term: req.Term, Forgotten: true},
		nil)
}

// send appends a change, whose version is its place then. Tests change its record.
func (s logged) send(
	ctx context.Context, c ChangeRow, change func(*kgo.Record),
) (Kept, error) {
	value, err := json.Marshal(c)
	if err != nil {
		return Kept{}, err
	}
	record := &kgo.Record{Topic: topics.Name(s.Config, topicChanges), Value: value,
		Key: binary.BigEndian.AppendUint64(nil, c.User)}
	if change != nil {
		change(record)
	}
	if err := partitions.Append(ctx, s.Config, s.Kafka, record, ErrOverloaded); err != nil {
		return Kept{}, err
	}
	s.Config.Passed(placeCommitted)
	return Kept{record.Offset + 1, s.Params.within()}, nil
}

// look reads a list in Redis. A user without one has not searched.
func (s logged) look(ctx context.Context, _ *opened, user uint64) (List, error) {
	text, err := s.Redis.Get(ctx, listKey(s.opened, user)).Result()
	if errors.Is(err, redis.Nil) {
		return List{Terms: []string{}}, nil
	}
	if err != nil {
		return List{}, stores.Failed("reading a list", err)
	}
	return readList(text)
}

// Recent reads the list.
func (s logged) Recent(ctx context.Context, req UserRequest) (List, error) {
	return s.look(ctx, s.opened, req.User)
}

// Login reads the list, which is always in Redis.
func (s logged) Login(ctx context.Context, req LoginRequest) (List, error) {
	return s.look(ctx, s.opened, req.User)
}

// History reads what the log has brought so far.
func (s logged) History(ctx context.Context, req HistoryRequest) (History, error) {
	return past(ctx, s.opened, req)
}

// batch is what was read of a partition.
type batch struct {
	*opened
	id   int32
	read []ChangeRow
}

// Read takes a change in.
func (b *batch) Read(_ context.Context, r *kgo.Record) error {
	var c ChangeRow
	if err := json.Unmarshal(r.Value, &c); err != nil {
		return fmt.Errorf("reading a change: %w", err)
	}
	c.Version = r.Offset + 1
	b.read = append(b.read, c)
	return nil
}

// toStore is a partition on its way to the history.
type toStore struct{ batch }

// Store writes changes.
func (b *toStore) Store(ctx context.Context, from, to int64) error {
	b.Config.Passed(placeTaken)
	err := b.DB.Transaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if err := partitions.MoveOn(ctx, tx, b.id, from, to); err != nil {
			return err
		}
		_, err := tx.CopyFrom(ctx, pgx.Identifier{"changes"},
			[]string{"user_id", "version", "op", "term", "forgotten"},
			pgx.CopyFromSlice(len(b.read), func(i int) ([]any, error) {
				c := b.read[i]
				return []any{c.User, c.Version, c.ID, c.Term, c.Forgotten}, nil
			}))
		return err
	})
	if err != nil {
		return stores.Failed("writing the history", err)
	}
	b.Config.Passed(placeShown)
	b.read = b.read[:0]
	return nil
}

//go:embed fold.lua
var foldLua string

//go:embed count.lua
var countLua string

// folding is a script that moves a partition on, and what it does to keys with which arguments.
type folding struct {
	script  *redis.Script
	offsets string
	part    func(st *opened, c ChangeRow) (key string, args []any)
}

// fold changes lists.
func fold() folding {
	return folding{redis.NewScript(foldLua), offsetsLists,
		func(st *opened, c ChangeRow) (string, []any) {
			return listKey(st, c.User), []any{c.Version, c.Term, c.Forgotten, most}
		}}
}

// count counts the terms of searches.
func count() folding {
	return folding{redis.NewScript(countLua), offsetsTerms,
		func(st *opened, c ChangeRow) (string, []any) {
			return st.Key(hashTerms), []any{c.Term, !c.Forgotten}
		}}
}

// toRedis is a partition on its way to lists or counts.
type toRedis struct {
	batch
	folding
}

// foldedAtOnce bounds what a script does, for which everybody else waits.
const foldedAtOnce = 500

// Store runs the script.
func (b *toRedis) Store(ctx context.Context, from, to int64) error {
	ctx, cancel := context.WithTimeout(ctx, stores.Timeout(b.Config))
	defer cancel()
	b.Config.Passed(placeTaken)
	at := from
	for some := range slices.Chunk(b.read, foldedAtOnce) {
		next := some[len(some)-1].Version // which is its offset and one
		if err := b.move(ctx, at, next, some); err != nil {
			return err
		}
		at = next
	}
	if at != to {
		if err := b.move(ctx, at, to, nil); err != nil {
			return err
		}
	}
	b.Config.Passed(placeShown)
	b.read = b.read[:0]
	return nil
}

func (b *toRedis) move(ctx context.Context, from, to int64, list []ChangeRow) error {
	names, args := []string{b.Key(b.offsets)}, []any{b.id, from, to}
	for _, c := range list {
		key, more := b.part(b.opened, c)
		names, args = append(names, key), append(args, more...)
	}
	moved, err := b.script.Run(ctx, b.Redis, names, args...).Int()
	if err == nil && moved == 0 {
		err = fmt.Errorf("partition %d is not at offset %d: %w", b.id, from, partitions.ErrMoved)
	}
	return stores.Failed("changing what is shown", err)
}
