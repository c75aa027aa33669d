package sqlbroker_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/harness/sut"
	"stampede/systems/sqlbroker"
)

// The benchmarks compare with a peer that does the same work on the same store in the
// same run, in turns; what they report is the median of the rounds. One iteration is
// the whole comparison.
const (
	benchRounds  = 3
	benchRound   = 2 * time.Second
	benchWorkers = 8
	benchBatch   = 100
)

// station is a design without roles, of which all messages are ready at once.
type station struct {
	*sqlbroker.Lab
	next atomic.Uint64
}

func openStation(b *testing.B, name string, conns int) (*station, sut.Config) {
	b.Helper()
	p := sqlbroker.DefaultParams()
	p.Queues, p.Worked = 1, 1
	p.Visibility, p.Keep = sut.Duration(time.Hour), 0
	// Where nobody is behind, a short turn leaves claims little that is dead to step over. By
	// default it is longer, so that the ring has room for who is.
	p.RotateEvery = sut.Duration(400 * time.Millisecond)
	space := stores.Namespace(b)
	cfg := sut.Config{PostgresURL: space.PostgresURL, Prefix: space.Prefix, Params: p,
		MaxConns: conns, Timeout: time.Minute}
	l, err := sqlbroker.OpenLab(b.Context(), name, cfg, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(l.Close)
	l.Live()
	return &station{Lab: l}, cfg
}

// turn publishes, receives and acknowledges a batch.
func (s *station) turn(ctx context.Context, batch int) (int, error) {
	r := sqlbroker.Recipe{Messages: batch, Bytes: 100}
	p := sqlbroker.Publication{OpID: s.next.Add(1), Messages: sqlbroker.MessagesOf(1, r)}
	if _, err := s.Publish(ctx, labQueue, p); err != nil {
		return 0, err
	}
	got, err := s.Receive(ctx, labQueue, sqlbroker.Demand{Most: batch})
	if err != nil || len(got) == 0 {
		return 0, err
	}
	receipts := make([]string, len(got))
	for i, d := range got {
		receipts[i] = d.Receipt
	}
	_, err = s.Settle(ctx, labQueue, sqlbroker.KindAck, sqlbroker.Settlement{Receipts: receipts})
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

// median is the middle of some rounds.
func median(rounds []float64) float64 {
	slices.Sort(rounds)
	return rounds[len(rounds)/2]
}

// compare runs both in turns and reports their medians, the ratio and the aim.
func compare(b *testing.B, peer string, aim float64, ours, theirs func() float64) {
	b.Helper()
	var mine, other []float64
	for range benchRounds {
		mine, other = append(mine, ours()), append(other, theirs())
	}
	ratio := median(mine) / median(other)
	b.ReportMetric(median(mine), "msgs/s")
	b.ReportMetric(median(other), peer+"-msgs/s")
	b.ReportMetric(ratio, "ratio")
	b.ReportMetric(aim, "aim")
	met := 0.0
	if ratio >= aim {
		met = 1
	}
	b.ReportMetric(met, "met")
}

// BenchmarkBatched compares batched with row_at_a_time at batches of 100. The aim is
// 10 times as many messages.
func BenchmarkBatched(b *testing.B) {
	batched, _ := openStation(b, "batched", benchWorkers)
	rows, _ := openStation(b, "row_at_a_time", benchWorkers)
	for b.Loop() {
		compare(b, "row_at_a_time", 10,
			func() float64 { return batched.round(b, benchWorkers, benchBatch, benchRound) },
			func() float64 { return rows.round(b, benchWorkers, benchBatch, benchRound) })
	}
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
			base := median(grid[cell{"row_at_a_time", 1}])
			for _, v := range right() {
				for _, batch := range gridBatches() {
					b.Run(fmt.Sprintf("%s/batch=%d", v.Name, batch), func(b *testing.B) {
						is := median(grid[cell{v.Name, batch}])
						for b.Loop() {
							b.ReportMetric(0, "ns/op") // it was measured before
						}
						b.ReportMetric(is, "msgs/s")
						b.ReportMetric(is/base, "ratio")
					})
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
		for _, v := range right() {
			if stations[v.Name] == nil {
				stations[v.Name], _ = openStation(b, v.Name, gridConns)
			}
			s := stations[v.Name]
			for _, batch := range gridBatches() {
				if err := s.Truncate(b.Context()); err != nil {
					b.Fatal(err)
				}
				at := cell{v.Name, batch}
				grid[at] = append(grid[at], s.round(b, workers, batch, gridRound))
			}
		}
	}
	return grid
}

// BenchmarkPgbench has pgbench run the statements of batched, as many at once, with
// the same batches. The aim is 80 % of what pgbench does.
func BenchmarkPgbench(b *testing.B) {
	peer, err := exec.LookPath("pgbench")
	if err != nil {
		found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/pgbench")
		if len(found) == 0 {
			b.Fatal("there is no pgbench")
		}
		peer = found[len(found)-1]
	}
	ours, _ := openStation(b, "batched", benchWorkers)
	_, cfg := openStation(b, "batched", benchWorkers)
	script := filepath.Join(b.TempDir(), "turn.sql")
	if err := os.WriteFile(script, []byte(sqlbroker.PgbenchScript(benchBatch)), 0o600); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		compare(b, "pgbench", 0.8,
			func() float64 { return ours.round(b, benchWorkers, benchBatch, benchRound) },
			func() float64 {
				var out, told bytes.Buffer
				cmd := exec.CommandContext(b.Context(), peer, "-n", "-M", "prepared", "-f", script,
					"-c", strconv.Itoa(benchWorkers), "-j", "2",
					"-T", strconv.Itoa(int(benchRound.Seconds())), cfg.PostgresURL)
				cmd.Stdout, cmd.Stderr = &out, &told
				if err := cmd.Run(); err != nil {
					b.Fatalf("pgbench: %v\n%s", err, told.String())
				}
				m := regexp.MustCompile(`tps = ([0-9.]+)`).FindStringSubmatch(out.String())
				if m == nil {
					b.Fatalf("pgbench said\n%s", out.String())
				}
				tps, err := strconv.ParseFloat(m[1], 64)
				if err != nil {
					b.Fatal(err)
				}
				return tps * benchBatch
			})
	}
}

// BenchmarkLongTransaction compares a design while somebody holds an old snapshot with
// itself without. The aim is 90 % for partitioned.
func BenchmarkLongTransaction(b *testing.B) {
	for _, name := range []string{"partitioned", "batched"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				without, _ := openStation(b, name, benchWorkers)
				with, cfg := openStation(b, name, benchWorkers)
				holder, err := pgx.Connect(b.Context(), cfg.PostgresURL)
				if err != nil {
					b.Fatal(err)
				}
				for _, sql := range []string{`BEGIN ISOLATION LEVEL REPEATABLE READ`,
					`SELECT txid_current_snapshot()`} {
					if _, err := holder.Exec(b.Context(), sql); err != nil {
						b.Fatal(err)
					}
				}
				stop := collecting(b, without, with)
				compare(b, "without", 0.9,
					func() float64 { return with.round(b, 2, 10, benchRound) },
					func() float64 { return without.round(b, 2, 10, benchRound) })
				stop()
				if err := holder.Close(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
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
				if err := s.Collect(ctx); err != nil && !errors.Is(err, context.Canceled) &&
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
