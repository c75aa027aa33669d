package sqlbroker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/harness/sut"
	"stampede/harness/suttest"
)

const (
	benchRound   = 2 * time.Second
	benchWorkers = 8
	benchBatch   = 100
)

// station is a design without roles, of which all messages are ready at once.
type station struct {
	*lab
	next atomic.Uint64
}

func openStation(b *testing.B, name string, conns int) (*station, sut.Config) {
	b.Helper()
	p := DefaultParams()
	p.Queues, p.Worked = 1, 1
	p.Visibility, p.Keep = sut.Duration(time.Hour), 0
	// Where nobody is behind, a short turn leaves claims little that is dead to step over. By
	// default it is longer, so that the ring has room for who is.
	p.RotateEvery = sut.Duration(400 * time.Millisecond)
	cfg := configOf(b, p)
	cfg.MaxConns, cfg.Timeout = conns, time.Minute
	l := openLab(b, name, cfg, nil)
	if l.ring != nil {
		l.ring.asked = time.Time{} // time passes
	}
	return &station{lab: l}, cfg
}

// turn publishes, receives and acknowledges a batch.
func (s *station) turn(ctx context.Context, batch int) (int, error) {
	r := Recipe{Messages: batch, Bytes: 100}
	p := Publication{OpID: s.next.Add(1), Messages: r.messages(1)}
	if _, err := s.messages.Publish(ctx, labQueue, p); err != nil {
		return 0, err
	}
	got, err := s.messages.Receive(ctx, labQueue, Demand{Most: batch})
	if err != nil || len(got) == 0 {
		return 0, err
	}
	_, err = s.messages.Settle(ctx, labQueue, KindAck, Settlement{Receipts: receiptsOf(got)})
	return len(got), err
}

// round measures messages per second through the broker, with so many workers. Turns
// begin for as long as d, and all are counted when the last has ended.
func (s *station) round(b *testing.B, workers, batch int, d time.Duration) float64 {
	b.Helper()
	var done atomic.Int64
	var all sync.WaitGroup
	begin := time.Now()
	for range workers {
		all.Go(func() {
			for time.Since(begin) < d {
				n, err := s.turn(b.Context(), batch)
				if err != nil {
					b.Error(err)
					return
				}
				done.Add(int64(n))
			}
		})
	}
	all.Wait()
	return float64(done.Load()) / time.Since(begin).Seconds()
}

// BenchmarkBatched compares batched with row_at_a_time at batches of 100. The aim is
// 10 times as many messages.
func BenchmarkBatched(b *testing.B) {
	batched, _ := openStation(b, "batched", benchWorkers)
	rows, _ := openStation(b, "row_at_a_time", benchWorkers)
	suttest.Compare(b, "row_at_a_time", 10,
		func() float64 { return batched.round(b, benchWorkers, benchBatch, benchRound) },
		func() float64 { return rows.round(b, benchWorkers, benchBatch, benchRound) })
}

// gridRounds of gridRound each are what a cell of the grid is the middle of.
const (
	gridRounds = 3
	gridRound  = 300 * time.Millisecond
	gridConns  = 16
)

// BenchmarkWorkers is a grid: every right variant, with batches of 1, 10 and 100, and 1
// to 64 workers that publish, receive and acknowledge over 16 connections. The ratios
// are to row_at_a_time with a batch of 1 and as many workers, in the same run and in
// turns.
func BenchmarkWorkers(b *testing.B) {
	for _, workers := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			grid := measureGrid(b, workers)
			base := suttest.Median(grid[cell{"row_at_a_time", 1}])
			for _, name := range rightNames() {
				for _, batch := range gridBatches() {
					is := suttest.Median(grid[cell{name, batch}])
					suttest.Tell(b, fmt.Sprintf("%s/batch=%d", name, batch),
						map[string]float64{"msgs/s": is, "ratio": is / base})
				}
			}
		})
	}
}

// cell is a place in the grid.
type cell struct {
	variant string
	batch   int
}

func gridBatches() []int { return []int{1, 10, 100} }

// measureGrid measures all variants in turns.
func measureGrid(b *testing.B, workers int) map[cell][]float64 {
	b.Helper()
	grid, stations := map[cell][]float64{}, map[string]*station{}
	for range gridRounds {
		for _, name := range rightNames() {
			if stations[name] == nil {
				stations[name], _ = openStation(b, name, gridConns)
			}
			s := stations[name]
			for _, batch := range gridBatches() {
				must(b, s.empty(b.Context(), "TRUNCATE"))
				at := cell{name, batch}
				grid[at] = append(grid[at], s.round(b, workers, batch, gridRound))
			}
		}
	}
	return grid
}

// BenchmarkPgbench has pgbench run the statements of batched, as many at once, with
// the same batches. The aim is 80 % of what pgbench does.
func BenchmarkPgbench(b *testing.B) {
	peer := suttest.Tool(b, "pgbench", "/usr/lib/postgresql/*/bin/pgbench")
	ours, _ := openStation(b, "batched", benchWorkers)
	_, cfg := openStation(b, "batched", benchWorkers)
	script := filepath.Join(b.TempDir(), "turn.sql")
	must(b, os.WriteFile(script, []byte(pgbenchScript(benchBatch)), 0o600))
	suttest.Compare(b, "pgbench", 0.8,
		func() float64 { return ours.round(b, benchWorkers, benchBatch, benchRound) },
		func() float64 {
			out := suttest.Output(b, nil, peer, "-n", "-M", "prepared", "-f", script,
				"-c", strconv.Itoa(benchWorkers), "-j", "2",
				"-T", strconv.Itoa(int(benchRound.Seconds())), cfg.PostgresURL)
			return suttest.Figure(b, out, `tps = ([0-9.]+)`) * benchBatch
		})
}

// BenchmarkLongTransaction compares a design while somebody holds an old snapshot with
// itself without. The aim is 90 % for partitioned.
func BenchmarkLongTransaction(b *testing.B) {
	for _, name := range []string{"partitioned", "batched"} {
		b.Run(name, func(b *testing.B) {
			without, _ := openStation(b, name, benchWorkers)
			with, cfg := openStation(b, name, benchWorkers)
			holder, err := pgx.Connect(b.Context(), cfg.PostgresURL)
			must(b, err)
			for _, sql := range []string{`BEGIN ISOLATION LEVEL REPEATABLE READ`,
				`SELECT txid_current_snapshot()`} {
				_, err := holder.Exec(b.Context(), sql)
				must(b, err)
			}
			stop := collecting(b, without, with)
			suttest.Compare(b, "without", 0.9,
				func() float64 { return with.round(b, 2, 10, benchRound) },
				func() float64 { return without.round(b, 2, 10, benchRound) })
			stop()
			must(b, holder.Close(b.Context()))
		})
	}
}

// collecting collects what is acknowledged until the returned function is called.
func collecting(b *testing.B, stations ...*station) (stop func()) {
	ctx, cancel := context.WithCancel(b.Context())
	var all sync.WaitGroup
	for _, s := range stations {
		all.Go(func() {
			for sut.Pause(ctx, 100*time.Millisecond) {
				if err := s.messages.collect(ctx); err != nil && !errors.Is(err, context.Canceled) &&
					!strings.Contains(err.Error(), "canceled") {
					b.Error(err)
					return
				}
			}
		})
	}
	return func() {
		cancel()
		all.Wait()
	}
}

// pgbenchScript is what batched sends for a batch, as pgbench reads it: its own
// statements, but for a last step that puts the receipts into variables.
func pgbenchScript(batch int) string {
	line := func(sql string, values ...string) string {
		for i := len(values) - 1; i >= 0; i-- {
			sql = strings.ReplaceAll(sql, fmt.Sprintf("$%d", i+1), values[i])
		}
		return strings.Join(strings.Fields(unpartitioned.Replace(sql)), " ")
	}
	fill := func(value string) string {
		return fmt.Sprintf("array_fill(%s, ARRAY[%d])", value, batch)
	}
	publish := line(publishSQL, "'queue-1'", "(:client_id::bigint * 1000000000 + :n::bigint)",
		fill("'"+strings.Repeat("x", 100)+"'::text"), fill("0::bigint"), fill("0"), fill("0::bigint"),
		"0")
	claim := strings.Replace(line(claimSQL, "'queue-1'", fmt.Sprint(batch)), "UPDATE messages",
		", got AS (UPDATE messages", 1) + `) SELECT coalesce(array_agg(slot), '{}') AS slots,
		coalesce(array_agg(id), '{}') AS ids, coalesce(array_agg(receipt), '{}') AS uuids FROM got \gset`
	ack := line(ackSQL, ":slots", ":ids", ":uuids", "'queue-1'")
	return `\set n random(1, 1000000000)` + "\n" + publish + ";\n" +
		strings.Join(strings.Fields(claim), " ") + "\n" + ack + ";\n"
}

// BenchmarkClaimCost claims messages out of a queue that has more and more of them.
func BenchmarkClaimCost(b *testing.B) {
	suttest.ClaimCost(b, []string{"batched", "partitioned"},
		func(b *testing.B, variant string) suttest.Backlog {
			s, _ := openStation(b, variant, benchWorkers)
			return suttest.Backlog{
				Fill: func(n int) error { return s.fill(b.Context(), n) },
				Claim: func() error {
					got, err := s.messages.Receive(b.Context(), labQueue, Demand{Most: suttest.ClaimBatch})
					if err == nil && len(got) != suttest.ClaimBatch {
						err = fmt.Errorf("%d messages", len(got))
					}
					return err
				},
			}
		})
}
