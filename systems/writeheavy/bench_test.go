package writeheavy_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	clients "stampede/harness/stores"
	"stampede/harness/sut"
	"stampede/harness/suttest"
	"stampede/systems/writeheavy"
)

// benchWriters write at once.
const benchWriters = 8

func must(b testing.TB, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// perSecond is how many records a second writers write, each so many at a time, until done says
// that all are written. Write returns how many it wrote.
func perSecond(
	b *testing.B, round time.Duration, at int,
	write func(ctx context.Context, from uint64) (int, error), done func(),
) float64 {
	b.Helper()
	var next atomic.Uint64
	var written atomic.Int64
	var all sync.WaitGroup
	began := time.Now()
	for range benchWriters {
		all.Go(func() {
			for time.Since(began) < round {
				n, err := write(b.Context(), next.Add(uint64(at))-uint64(at))
				if err != nil {
					b.Error(err)
					return
				}
				written.Add(int64(n))
			}
		})
	}
	all.Wait()
	done()
	return float64(written.Load()) / time.Since(began).Seconds()
}

// inTurns measures each way of writing suttest.BenchRounds times, in turns, and reports its median
// and the ratio to the first.
func inTurns(b *testing.B, names []string, unit string, measure func(name string) float64) {
	b.Helper()
	rounds := map[string][]float64{}
	for range suttest.BenchRounds {
		for _, name := range names {
			rounds[name] = append(rounds[name], measure(name))
		}
	}
	base := suttest.Median(rounds[names[0]])
	for _, name := range names {
		is := suttest.Median(rounds[name])
		suttest.Tell(b, name, map[string]float64{unit: is, "ratio": is / base})
	}
}

// BenchmarkPatterns compares the designs that do not shed: eight clients send batches of 500 adds
// to a thousand counters. The time ends when every add is counted. The aim is 100,000 adds a second
// of the best one.
func BenchmarkPatterns(b *testing.B) {
	names := []string{"row_at_a_time", "shard_and_flush", "log_first", "queue_and_batch",
		"reduce_tree"}
	by := map[string]sut.Variant{}
	for _, v := range writeheavy.System().Variants {
		by[v.Name] = v
	}
	inTurns(b, names, "adds/s", func(name string) float64 { return patternRound(b, by[name]) })
}

func patternRound(b *testing.B, v sut.Variant) float64 {
	b.Helper()
	space := stores.Namespace(b)
	p := writeheavy.DefaultParams()
	p.WindowMost, p.FlushEvery = 300_000, sut.Duration(50*ms)
	cfg := sut.Config{PostgresURL: space.PostgresURL, RedisURL: space.RedisURL,
		KafkaBrokers: space.KafkaBrokers, Kafka: sut.DefaultKafka(), Prefix: space.Prefix, Params: &p,
		MaxConns: 2 * benchWriters, Timeout: time.Minute}
	inst, err := v.Open(b.Context(), cfg)
	must(b, err)
	must(b, inst.Prepare(b.Context()))
	ctx, stop := context.WithCancel(b.Context())
	var roles sync.WaitGroup
	for _, role := range v.Roles {
		roles.Go(func() { _ = role.Run(ctx, cfg) })
	}
	defer func() {
		stop()
		roles.Wait()
		_ = inst.Close()
	}()
	api := writeheavy.API()
	send := func(ctx context.Context, from uint64) (int, error) {
		draw := rand.New(rand.NewPCG(from, 0))
		req := writeheavy.BatchRequest{ID: from + 1<<40}
		for i := range uint64(writeheavy.MostRecords) {
			req.Records = append(req.Records, writeheavy.Record{ID: from + i + 1,
				Key: draw.Uint64N(1000) + 1, User: draw.Uint64N(100_000) + 1, Delta: 1,
				Class: writeheavy.ClassNormal})
		}
		answer, err := inst.Do(ctx, api.Op(writeheavy.KindBatch, req))
		if err != nil {
			return 0, err
		}
		var reply writeheavy.BatchReply
		err = json.Unmarshal(answer.Body, &reply)
		made := 0
		for _, r := range reply.Results {
			if r.Result == writeheavy.ResultOK {
				made++
			}
		}
		return made, err
	}
	return perSecond(b, 4*time.Second, writeheavy.MostRecords, send, func() {
		for {
			busy, err := inst.(interface {
				Quiesced(context.Context) (string, error)
			}).Quiesced(b.Context())
			must(b, err)
			if busy == "" {
				return
			}
			time.Sleep(time.Millisecond)
		}
	})
}

// tuning is a way to write rows to Postgres, and what it promises.
type tuning struct {
	name     string
	settings map[string]string
	at       int // rows of a transaction
	copied   bool
}

// BenchmarkTuning compares ways to write rows of 24 bytes with a primary key to Postgres. All but
// those with synchronous_commit=off promise that what is committed is on the disk; that one may
// lose the last transactions, of three times wal_writer_delay (600 ms), if Postgres dies, and never
// some in between. Larger batches and COPY promise the same for all of a batch or nothing.
func BenchmarkTuning(b *testing.B) {
	delay := func(us string) map[string]string {
		return map[string]string{"commit_delay": us, "commit_siblings": "5"}
	}
	list := []tuning{
		{"row", nil, 1, false},
		{"row/commit_delay=10us", delay("10"), 1, false},
		{"row/commit_delay=50us", delay("50"), 1, false},
		{"row/commit_delay=1000us", delay("1000"), 1, false},
		{"row/synchronous_commit=off", map[string]string{"synchronous_commit": "off"}, 1, false},
		{"batch=10", nil, 10, false}, {"batch=100", nil, 100, false},
		{"batch=500", nil, 500, false}, {"batch=5000", nil, 5000, false},
		{"copy=500", nil, 500, true}, {"copy=5000", nil, 5000, true},
	}
	var names []string
	by := map[string]tuning{}
	for _, way := range list {
		names, by[way.name] = append(names, way.name), way
	}
	inTurns(b, names, "rows/s", func(name string) float64 { return tuningRound(b, by[name]) })
}

func tuningRound(b *testing.B, way tuning) float64 {
	b.Helper()
	pool, done := poolFor(b, way.settings)
	defer done()
	_, err := pool.Exec(b.Context(), `CREATE TABLE rows (id bigint PRIMARY KEY, key bigint, delta bigint)`)
	must(b, err)
	return perSecond(b, 1500*ms, way.at, func(ctx context.Context, from uint64) (int, error) {
		key := int64(from) % 1000
		if way.copied {
			_, err := pool.CopyFrom(ctx, pgx.Identifier{"rows"}, []string{"id", "key", "delta"},
				pgx.CopyFromSlice(way.at, func(i int) ([]any, error) {
					return []any{int64(from) + int64(i), key, int64(1)}, nil
				}))
			return way.at, err
		}
		ids, on := make([]int64, way.at), make([]int64, way.at)
		for i := range ids {
			ids[i], on[i] = int64(from)+int64(i), key
		}
		_, err := pool.Exec(ctx, `INSERT INTO rows SELECT *, 1 FROM unnest($1::bigint[], $2::bigint[])`,
			ids, on)
		return way.at, err
	}, func() {})
}

// poolFor connects to an empty place. All connections are made when it returns.
func poolFor(b *testing.B, settings map[string]string) (pool *pgxpool.Pool, done func()) {
	b.Helper()
	cfg := sut.Config{PostgresURL: stores.Namespace(b).PostgresURL, MaxConns: benchWriters,
		Timeout: time.Minute}
	db, err := clients.OpenPostgres(b.Context(), cfg, "bench", settings)
	must(b, err)
	return db.Pool, db.Close
}

// The trees hold treeRows rows of treeBytes, written in random order, treeBatch in a transaction.
const (
	treeRows  = 1_000_000
	treeBytes = 100
	treeBatch = 500
	treeReads = 20_000
	treeCache = 256 << 20 // as that of Postgres: all of it
)

// tree is what BenchmarkTrees needs of a store. Written counts the bytes written to disk, lookedAt
// the blocks that reads requested.
type tree interface {
	put(b *testing.B, keys []uint64, values [][]byte)
	get(b *testing.B, key uint64)
	settled(b *testing.B)
	written(b *testing.B) float64
	lookedAt(b *testing.B) float64
	onDisk(b *testing.B) float64
}

// BenchmarkTrees compares an LSM tree, pebble, with the B-tree of Postgres, a table and its primary
// key: a million rows of 100 random bytes under random keys in transactions of 500, each on the
// disk when it ends, a tenth of them written again; then reads of random rows. Both have a cache
// for all of it. Amplification is in bytes written, the log among them, and in bytes on disk, of
// those of keys and values; a read's is the blocks that it looked at, cached or not, of 8 KiB in
// Postgres and 4 KiB in pebble. Rates are not alike: Postgres is another process, and looks for the
// old row.
func BenchmarkTrees(b *testing.B) {
	for _, name := range []string{"btree", "lsm"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				var t tree
				if name == "lsm" {
					t = openLSM(b)
				} else {
					t = openBTree(b)
				}
				grow(b, t)
			}
		})
	}
}

// grow writes and reads a tree, and reports what that took.
func grow(b *testing.B, t tree) {
	b.Helper()
	draw := rand.New(rand.NewPCG(1, 1))
	t.settled(b)
	before, began := t.written(b), time.Now()
	rows := 0
	for ; rows < treeRows*11/10; rows += treeBatch {
		list, values := make([]uint64, treeBatch), make([][]byte, treeBatch)
		for i := range list {
			list[i], values[i] = scattered(uint64(rows+i)%treeRows), make([]byte, treeBytes)
			for k := range values[i] {
				values[i][k] = byte(draw.Uint32())
			}
		}
		t.put(b, list, values)
	}
	b.ReportMetric(float64(rows)/time.Since(began).Seconds(), "rows/s")
	t.settled(b)
	const user = 8 + treeBytes
	b.ReportMetric((t.written(b)-before)/float64(rows*user), "write-amp")
	b.ReportMetric(t.onDisk(b)/float64(treeRows*user), "space-amp")
	looked, began := t.lookedAt(b), time.Now()
	for range treeReads {
		t.get(b, scattered(draw.Uint64N(treeRows)))
	}
	b.ReportMetric(treeReads/time.Since(began).Seconds(), "reads/s")
	b.ReportMetric((t.lookedAt(b)-looked)/treeReads, "blocks/read")
	b.ReportMetric(0, "ns/op")
}

// scattered makes a random key of a number: another one for each.
func scattered(n uint64) uint64 { return n * 0x9e3779b97f4a7c15 >> 1 }

type bTree struct{ *pgxpool.Pool }

func openBTree(b *testing.B) tree {
	b.Helper()
	pool, done := poolFor(b, nil)
	b.Cleanup(done)
	t := bTree{pool}
	_, err := t.Exec(b.Context(), `CREATE TABLE rows (key bigint PRIMARY KEY, value bytea NOT NULL)`)
	must(b, err)
	return t
}

func (t bTree) put(b *testing.B, keys []uint64, values [][]byte) {
	b.Helper()
	_, err := t.Exec(b.Context(), `INSERT INTO rows SELECT * FROM unnest($1::bigint[], $2::bytea[])
		ON CONFLICT (key) DO UPDATE SET value = excluded.value`, keys, values)
	must(b, err)
}

func (t bTree) get(b *testing.B, key uint64) {
	b.Helper()
	var value []byte
	must(b, t.QueryRow(b.Context(), `SELECT value FROM rows WHERE key = $1`, key).Scan(&value))
}

func (t bTree) settled(b *testing.B) {
	b.Helper()
	for _, sql := range []string{`VACUUM rows`, `CHECKPOINT`} {
		_, err := t.Exec(b.Context(), sql)
		must(b, err)
	}
	t.told(b, t.written)
}

// told waits until a counter of Postgres has not changed for a second: backends report their
// statistics when they end, the checkpointer some time after a checkpoint.
func (t bTree) told(b *testing.B, count func(*testing.B) float64) (is float64) {
	b.Helper()
	t.Reset()
	for same := 0; same < 10; same++ {
		if now := count(b); now != is {
			is, same = now, 0
		}
		time.Sleep(100 * time.Millisecond)
	}
	return is
}

// written is the size of the log and of the pages that any process wrote. Postgres 17 moved the
// counters of pages; the older ones also count a page when a table grows by it: subtracted here.
func (t bTree) written(b *testing.B) (bytes float64) {
	b.Helper()
	var version int
	must(b, t.QueryRow(b.Context(), `SELECT current_setting('server_version_num')::int`).Scan(&version))
	pages := `SELECT buffers_checkpoint + buffers_clean + buffers_backend -
		pg_total_relation_size('rows') / 8192 FROM pg_stat_bgwriter`
	if version >= 170000 {
		pages = `SELECT sum(writes) FROM pg_stat_io WHERE object = 'relation'`
	}
	must(b, t.QueryRow(b.Context(), `SELECT 8192.0::float8 * (`+pages+`) +
		pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::float8`).Scan(&bytes))
	return bytes
}

func (t bTree) lookedAt(b *testing.B) float64 {
	b.Helper()
	return t.told(b, func(b *testing.B) (blocks float64) {
		b.Helper()
		must(b, t.QueryRow(b.Context(), `SELECT (heap_blks_read + heap_blks_hit + idx_blks_read +
			idx_blks_hit)::float8 FROM pg_statio_user_tables WHERE relname = 'rows'`).Scan(&blocks))
		return blocks
	})
}

func (t bTree) onDisk(b *testing.B) (bytes float64) {
	b.Helper()
	must(b, t.QueryRow(b.Context(), `SELECT pg_total_relation_size('rows')::float8`).Scan(&bytes))
	return bytes
}

type lsm struct {
	*pebble.DB
	cache *pebble.Cache
}

func openLSM(b *testing.B) tree {
	b.Helper()
	cache := pebble.NewCache(treeCache)
	db, err := pebble.Open(b.TempDir(), &pebble.Options{Cache: cache, Logger: silent{b}})
	must(b, err)
	b.Cleanup(func() {
		_ = db.Close()
		cache.Unref()
	})
	return lsm{db, cache}
}

// silent logs nothing but what ends the store.
type silent struct{ b *testing.B }

func (silent) Infof(string, ...any)                {}
func (s silent) Errorf(format string, args ...any) { s.b.Errorf(format, args...) }
func (s silent) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

func keyOf(key uint64) []byte { return binary.BigEndian.AppendUint64(nil, key) }

func (t lsm) put(b *testing.B, keys []uint64, values [][]byte) {
	b.Helper()
	batch := t.NewBatch()
	for i, key := range keys {
		must(b, batch.Set(keyOf(key), values[i], nil))
	}
	must(b, batch.Commit(pebble.Sync))
}

func (t lsm) get(b *testing.B, key uint64) {
	b.Helper()
	_, closer, err := t.Get(keyOf(key))
	must(b, err)
	must(b, closer.Close())
}

// settled waits until there is nothing to compact and nothing to delete.
func (t lsm) settled(b *testing.B) {
	b.Helper()
	must(b, t.Flush())
	for quiet := 0; quiet < 100; {
		quiet++
		if m := t.Metrics(); m.Compact.NumInProgress > 0 || m.Table.ZombieCount > 0 ||
			m.Table.ObsoleteCount > 0 {
			quiet = 0
		}
		time.Sleep(time.Millisecond)
	}
}

func (t lsm) written(*testing.B) (bytes float64) {
	m := t.Metrics()
	bytes = float64(m.WAL.BytesWritten)
	for _, level := range m.Levels {
		bytes += float64(level.TableBytesFlushed + level.TableBytesCompacted)
	}
	return bytes
}

func (t lsm) lookedAt(*testing.B) float64 {
	m := t.Metrics()
	return float64(m.BlockCache.Hits + m.BlockCache.Misses)
}

func (t lsm) onDisk(*testing.B) float64 { return float64(t.Metrics().DiskSpaceUsage()) }
