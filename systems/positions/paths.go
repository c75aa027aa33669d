package positions

import (
	"context"
	_ "embed" // the script
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
	"github.com/twmb/franz-go/pkg/kgo"

	"stampede/harness/api"
	"stampede/harness/design"
	"stampede/harness/stores"
	"stampede/harness/sut"
	"stampede/harness/topics"
	"stampede/systems/internal/partitions"
)

// The topic of pings, its two groups of readers, and the hashes in Redis of the newest positions
// and of their reader's offsets.
const (
	topicPings    = "pings"
	groupHistory  = "history"
	groupNewest   = "newest"
	hashNewest    = "newest"
	hashNewestOff = "newest-offsets"
)

// The fail points of the paths, and of an archiver.
const (
	placeCollected = "collected" // pings are read, and nothing is stored
	placeKept      = "kept"      // they are in the history and the archive
	placeShown     = "shown"     // the newest positions are where riders look
)

// plan is what a design with two paths does of its own.
type plan struct {
	// seal makes of a position what the log, the history and the archive have, open the reverse.
	seal func(key []byte, p ping) (ping, error)
	open func(key []byte, p ping) (Point, error)
	// insert is the statement that adds pings to the history.
	insert string
	// erase does what there is to do when a driver's key is gone; nil is nothing.
	erase func(ctx context.Context, st *opened, driver uint64) error
	// rewinds: the newest position is the one that came last.
	rewinds bool
	// cached: who reads uses a key that it has seen before.
	cached bool
}

// insertAll adds pings to the history. One that is there already is left.
const insertAll = `INSERT INTO pings
	SELECT driver, seq, op, body, true
	FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bytea[]) AS p (driver, seq, op, body)
	ON CONFLICT (driver, seq) DO NOTHING`

// twoPaths completes a design by the log and its two readers. The hot path shows the newest
// positions in Redis, with its offsets there, so that they are lost together and read again. The
// cold path writes all of them to the history and to the archive, with its offsets in that
// transaction.
func twoPaths(v variant, d plan) variant {
	v.Needs = []sut.Service{sut.Kafka, sut.Redis}
	v.Open = func(_ context.Context, st *opened) (Tracker, error) {
		return &paths{opened: st, plan: d, keys: map[uint64][]byte{}}, nil
	}
	v.Roles = []role{
		{Name: "history", Summary: "writes what is in the log to the history and the archive",
			Places: []string{placeCollected, placeKept},
			Do: func(ctx context.Context, st *opened) error {
				return reader(st, groupHistory, historyStarts(st), func(id int32) partitions.Shard {
					return &cold{opened: st, plan: d, id: id}
				}).Run(ctx)
			}},
		{Name: "newest", Summary: "shows riders the newest positions of the log",
			Places: []string{placeShown},
			Do: func(ctx context.Context, st *opened) error {
				return reader(st, groupNewest, newestStarts(st), func(id int32) partitions.Shard {
					return &hot{opened: st, plan: d, id: id, read: map[uint64]ping{}}
				}).Run(ctx)
			}},
	}
	v.State = design.State[Params]{
		Ready: func(ctx context.Context, st *opened) error {
			return partitions.Prepare(ctx, st.Config, st.DB, st.Kafka, topicPings, groupHistory)
		},
		Found: func(ctx context.Context, st *opened) (string, error) {
			return partitions.Found(ctx, st.Config, st.Kafka, topicPings, "pings in the log")
		},
		Pending: behind,
		Audit: func(ctx context.Context, st *opened) (any, error) {
			return audit(ctx, st, oldSide, d.open)
		},
	}
	return v
}

// reader is a reader of the log.
func reader(
	st *opened, group string, start func(context.Context) (map[int32]int64, error),
	open func(int32) partitions.Shard,
) *partitions.Reader {
	return &partitions.Reader{Config: st.Config, Topic: topicPings, Group: group,
		Session: st.Params.SessionTimeout.D(), Every: st.Params.FlushEvery.D(), Start: start, Open: open}
}

// historyStarts is how far the history is.
func historyStarts(st *opened) func(context.Context) (map[int32]int64, error) {
	return func(ctx context.Context) (map[int32]int64, error) { return partitions.Starts(ctx, st.DB) }
}

// newestStarts is how far the newest positions are.
func newestStarts(st *opened) func(context.Context) (map[int32]int64, error) {
	return func(ctx context.Context) (map[int32]int64, error) {
		return partitions.StartsInRedis(ctx, st.Redis, st.Key(hashNewestOff))
	}
}

// behind counts what one of the paths has still to read.
func behind(ctx context.Context, st *opened) (int64, string, error) {
	left := map[string]int64{}
	for path, starts := range map[string]func(context.Context) (map[int32]int64, error){
		"history": historyStarts(st), "newest": newestStarts(st)} {
		at, err := starts(ctx)
		if err == nil {
			left[path], err = partitions.Behind(ctx, st.Kafka, topics.Name(st.Config, topicPings), at)
		}
		if err != nil {
			return 0, "", err
		}
	}
	return left["history"] + left["newest"], fmt.Sprintf("%d pings are not in the history, and %d "+
		"not among the newest positions", left["history"], left["newest"]), nil
}

// paths is an API before a log.
type paths struct {
	*opened
	plan
	mu   sync.Mutex
	keys map[uint64][]byte
}

// cachedKey is a driver's key as of the first time that this process fetched it.
func (a *paths) cachedKey(ctx context.Context, driver uint64) ([]byte, error) {
	a.mu.Lock()
	key := a.keys[driver]
	a.mu.Unlock()
	if key != nil {
		return key, nil
	}
	key, err := keyOf(ctx, a.DB, driver)
	if err == nil {
		a.mu.Lock()
		a.keys[driver] = key
		a.mu.Unlock()
	}
	return key, err
}

// key is a driver's key for a read.
func (a *paths) key(ctx context.Context, driver uint64) ([]byte, error) {
	if a.cached {
		return a.cachedKey(ctx, driver)
	}
	return keyOf(ctx, a.DB, driver)
}

// Ping appends a position to the log. The key may be cached: nobody can open what is sealed with
// the deleted key of an erased driver.
func (a *paths) Ping(ctx context.Context, req PingRequest) (Pinged, error) {
	key, err := a.cachedKey(ctx, req.Driver)
	if err != nil {
		return Pinged{}, err
	}
	p, err := a.seal(key, ping{Driver: req.Driver, Seq: req.Seq, Op: req.ID,
		Body: plain(req.Lat, req.Lon)})
	if err != nil {
		return Pinged{}, err
	}
	err = partitions.Append(ctx, a.Config, a.Kafka, &kgo.Record{Value: appendPing(nil, p),
		Topic: topics.Name(a.Config, topicPings),
		Key:   binary.BigEndian.AppendUint64(nil, req.Driver)}, ErrOverloaded)
	return Pinged{req.Seq}, err
}

// Latest reads the newest position from Redis.
func (a *paths) Latest(ctx context.Context, req DriverRequest) (Point, error) {
	key, err := a.key(ctx, req.Driver)
	if err != nil {
		return Point{}, err
	}
	text, err := a.Redis.HGet(ctx, a.Key(hashNewest), strconv.FormatUint(req.Driver, 10)).Result()
	if errors.Is(err, redis.Nil) {
		return Point{}, nil
	}
	if err != nil {
		return Point{}, stores.Failed("reading the newest position", err)
	}
	p, err := newest(req.Driver, text)
	if err != nil {
		return Point{}, err
	}
	return a.open(key, p)
}

// newest reads a position of Redis.
func newest(driver uint64, text string) (ping, error) {
	seq, body, _ := strings.Cut(text, ":")
	n, err := strconv.ParseInt(seq, 10, 64)
	if err != nil {
		return ping{}, errMalformed
	}
	return ping{Driver: driver, Seq: n, Body: []byte(body)}, nil
}

// Track reads the history.
func (a *paths) Track(ctx context.Context, req TrackRequest) (list Track, err error) {
	key, err := a.key(ctx, req.Driver)
	if err != nil {
		return Track{}, err
	}
	err = a.DB.With(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		list, err = tracked(ctx, conn, "pings", req, func(p ping) (Point, error) {
			return a.open(key, p)
		})
		return err
	})
	return list, stores.Failed("reading a track", err)
}

// Erase forgets a driver's key.
func (a *paths) Erase(ctx context.Context, req DriverRequest) (api.Nothing, error) {
	n, err := a.DB.Exec(ctx, `UPDATE drivers SET key = NULL WHERE driver = $1`, req.Driver)
	if err == nil && n == 0 {
		return api.Nothing{}, ErrUnknownDriver
	}
	if err == nil && a.erase != nil {
		if err := a.erase(ctx, a.opened, req.Driver); err != nil {
			return api.Nothing{}, stores.Unknown("erasing a driver", err)
		}
	}
	return api.Nothing{}, stores.Failed("erasing a driver", err)
}

// cold is a partition on its way to the history.
type cold struct {
	*opened
	plan
	id   int32
	read []ping
}

// Read takes a ping in.
func (c *cold) Read(_ context.Context, r *kgo.Record) error {
	p, _, err := readPing(r.Value)
	c.read = append(c.read, p)
	return err
}

// Store writes pings to the history and, as one object, to the archive.
func (c *cold) Store(ctx context.Context, from, to int64) error {
	var drivers, seqs, ops []int64
	var bodies [][]byte
	for _, p := range c.read {
		drivers, seqs = append(drivers, int64(p.Driver)), append(seqs, p.Seq)
		ops, bodies = append(ops, int64(p.Op)), append(bodies, p.Body)
	}
	c.Config.Passed(placeCollected)
	err := c.DB.Transaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if err := partitions.MoveOn(ctx, tx, c.id, from, to); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, c.insert, drivers, seqs, ops, bodies); err != nil {
			return err
		}
		return archive(ctx, tx, fmt.Sprintf("%d/%d-%d", c.id, from, to), c.read)
	})
	if err != nil {
		return stores.Failed("writing the history", err)
	}
	c.Config.Passed(placeKept)
	c.read = c.read[:0]
	return nil
}

// hot is a partition on its way to the riders: of each driver the position to show.
type hot struct {
	*opened
	plan
	id   int32
	read map[uint64]ping
}

// Read takes a ping in, unless there is a newer one.
func (h *hot) Read(_ context.Context, r *kgo.Record) error {
	p, _, err := readPing(r.Value)
	if was, known := h.read[p.Driver]; err == nil && (!known || h.rewinds || was.Seq < p.Seq) {
		h.read[p.Driver] = p
	}
	return err
}

//go:embed newest.lua
var lua string

// Store shows the positions.
func (h *hot) Store(ctx context.Context, from, to int64) error {
	ctx, cancel := context.WithTimeout(ctx, stores.Timeout(h.Config))
	defer cancel()
	args := []any{h.id, from, to, h.rewinds}
	for _, driver := range slices.Sorted(maps.Keys(h.read)) {
		p := h.read[driver]
		args = append(args, driver, append(fmt.Appendf(nil, "%d:", p.Seq), p.Body...))
	}
	moved, err := redis.NewScript(lua).Run(ctx, h.Redis,
		[]string{h.Key(hashNewestOff), h.Key(hashNewest)}, args...).Int()
	if err == nil && moved == 0 {
		err = fmt.Errorf("partition %d is not at offset %d: %w", h.id, from, partitions.ErrMoved)
	}
	if err != nil {
		return stores.Failed("showing newer positions", err)
	}
	h.Config.Passed(placeShown)
	clear(h.read)
	return nil
}
