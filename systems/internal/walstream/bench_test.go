package walstream_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"

	"stampede/harness/env"
	"stampede/harness/env/envtest"
	"stampede/harness/stores"
	"stampede/harness/sut"
	"stampede/harness/suttest"
	"stampede/systems/internal/walstream"
)

// A round has so many writers for so long, and updates are of so many rows.
const (
	writers = 8
	round   = 2 * time.Second
	rows    = 10_000
)

// way is a way to write, and what reads behind the writers.
type way struct {
	name    string
	logical bool   // wal_level
	sql     string // a transaction; $1 is a number that no other has
	reader  func(ctx context.Context, db *stores.Postgres) error
}

// The transactions.
const (
	insert = `INSERT INTO list VALUES ($1, repeat('x', 64))`
	update = `UPDATE list SET body = repeat('y', 64) WHERE id = $1 % 10000`
	outbox = `WITH change AS (INSERT INTO list VALUES ($1, repeat('x', 64)) RETURNING id, body)
		INSERT INTO outbox SELECT id, body FROM change`
	message = `WITH change AS (INSERT INTO list VALUES ($1, repeat('x', 64)) RETURNING body)
		SELECT pg_logical_emit_message(true, 'list', body) FROM change`
)

func ways() []way {
	return []way{
		{"insert/replica", false, insert, nil},
		{"insert/logical", true, insert, nil},
		{"insert/logical,slot-read", true, insert, follow},
		{"update/replica", false, update, nil},
		{"update/logical", true, update, nil},
		{"update/logical,slot-read", true, update, follow},
		{"outbox/replica,table-read", false, outbox, relay},
		{"outbox/logical,table-read", true, outbox, relay},
		{"outbox/logical,message-read", true, message, follow},
	}
}

// BenchmarkWalLevel measures what wal_level=logical costs those who write, and what a reader of the
// log costs them, as ratios to wal_level=replica in the same run: rows of 64 bytes that are
// inserted or updated, one in a transaction, by eight connections; and an outbox as a table, which
// a relay empties, beside one of messages in the log.
func BenchmarkWalLevel(b *testing.B) {
	servers := map[bool]env.Cluster{}
	for _, logical := range []bool{false, true} {
		level := map[bool]string{false: "replica", true: "logical"}[logical]
		servers[logical] = envtest.StartSpec(b, env.Spec{Services: []sut.Service{sut.Postgres},
			Postgres: map[string]string{"wal_level": level}})
	}
	rates, bytes := map[string][]float64{}, map[string][]float64{}
	for range suttest.BenchRounds {
		for _, w := range ways() {
			rate, size := w.measure(b, servers[w.logical])
			rates[w.name], bytes[w.name] = append(rates[w.name], rate), append(bytes[w.name], size)
		}
	}
	base := ""
	for _, w := range ways() {
		if what, _, _ := strings.Cut(w.name, "/"); !strings.HasPrefix(base, what+"/") {
			base = w.name
		}
		rate, size := suttest.Median(rates[w.name]), suttest.Median(bytes[w.name])
		suttest.Tell(b, w.name, map[string]float64{"tx/s": rate,
			"ratio": rate / suttest.Median(rates[base]), "wal-B/tx": size,
			"wal-ratio": size / suttest.Median(bytes[base])})
	}
}

// measure writes for a round, in an empty place, and returns transactions a second and the bytes
// of the log of each.
func (w way) measure(b *testing.B, server env.Cluster) (rate, size float64) {
	b.Helper()
	must := func(err error) {
		if b.Helper(); err != nil {
			b.Fatal(err)
		}
	}
	space, err := server.Namespace(b.Context(), "bench")
	must(err)
	db, err := stores.OpenPostgres(b.Context(), sut.Config{PostgresURL: space.PostgresURL,
		MaxConns: writers + 2, Timeout: time.Minute}, "bench", nil)
	must(err)
	exec := func(sql string, args ...any) {
		b.Helper()
		_, err := db.Exec(b.Context(), sql, args...)
		must(err)
	}
	exec(`CREATE TABLE list (id bigint PRIMARY KEY, body text NOT NULL) WITH (fillfactor = 50)`)
	exec(`CREATE TABLE outbox (id bigint PRIMARY KEY, body text NOT NULL)`)
	exec(`INSERT INTO list SELECT id, repeat('x', 64) FROM generate_series(0, $1::int - 1) AS id`, rows)
	ctx, stop := context.WithCancel(b.Context())
	var reading sync.WaitGroup
	if w.reader != nil {
		reading.Go(func() {
			if err := w.reader(ctx, db); err != nil && ctx.Err() == nil {
				b.Error(err)
			}
		})
	}
	defer func() {
		stop()
		reading.Wait()
		db.Close()
		must(space.Release(context.WithoutCancel(b.Context())))
	}()
	exec(`CHECKPOINT`)
	at := func() (lsn int64) {
		must(db.Row(b.Context(), `SELECT (pg_current_wal_lsn() - '0/0')::bigint`, nil, &lsn))
		return lsn
	}
	before, began := at(), time.Now()
	var next atomic.Int64
	next.Store(rows)
	var all sync.WaitGroup
	for range writers {
		all.Go(func() {
			for time.Since(began) < round {
				if _, err := db.Exec(b.Context(), w.sql, next.Add(1)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	n := float64(next.Load() - rows)
	return n / time.Since(began).Seconds(), float64(at()-before) / n
}

// follow reads the log from a slot, and confirms what it has read.
func follow(ctx context.Context, db *stores.Postgres) error {
	name, err := walstream.Name(ctx, db)
	for _, sql := range []string{`CREATE PUBLICATION ` + pgx.Identifier{name}.Sanitize() + ` FOR TABLE list`,
		`SELECT pg_create_logical_replication_slot('` + name + `', 'pgoutput')`} {
		if err == nil {
			_, err = db.Exec(ctx, sql)
		}
	}
	if err != nil {
		return err
	}
	log, err := walstream.Follow(ctx, db, name, 0, "messages 'true'")
	if err != nil {
		return err
	}
	defer log.Close(ctx)
	for to := pglogrepl.LSN(0); ; {
		err = log.Receive(ctx, time.Now().Add(20*time.Millisecond), func() bool { return false },
			func(message pglogrepl.Message) error {
				if m, is := message.(*pglogrepl.CommitMessage); is {
					to = m.TransactionEndLSN
				}
				return nil
			})
		if err = errors.Join(err, log.Confirm(ctx, to)); err != nil {
			return err
		}
	}
}

// relay empties the outbox.
func relay(ctx context.Context, db *stores.Postgres) error {
	for {
		_, err := db.Exec(ctx, `DELETE FROM outbox WHERE id IN (SELECT id FROM outbox LIMIT 1000)`)
		if err != nil {
			return err
		}
		if !sut.Pause(ctx, 20*time.Millisecond) {
			return nil
		}
	}
}
