package calibrate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"
)

// Flushes is what flushes of the log of a Postgres under load took.
type Flushes struct {
	// Count of them took Total, with their CPU time.
	Count int64
	Total time.Duration
	// Trips are times of statements that do nothing, Commits of commits with hardly any log,
	// taken in turn meanwhile.
	Trips, Commits []time.Duration
}

// Add takes in what other flushes took.
func (f *Flushes) Add(o Flushes) {
	f.Count += o.Count
	f.Total += o.Total
	f.Trips = append(f.Trips, o.Trips...)
	f.Commits = append(f.Commits, o.Commits...)
}

// leastFlushes is how many must have been seen for a distribution.
const leastFlushes = 200

// Fit is the mean time and the coefficient of variation of a flush without its CPU time, which is
// given in nanoseconds; false if too few were seen. A commit waits for the log and for cores, an
// empty statement for cores alone, so the variance of a flush is by what theirs differ.
func (f Flushes) Fit(cpuNS float64) (mean time.Duration, cv float64, ok bool) {
	if f.Count < leastFlushes || len(f.Commits) < leastFlushes {
		return 0, 0, false
	}
	mean = time.Duration(float64(f.Total)/float64(f.Count) - cpuNS)
	if mean <= 0 {
		return 0, 0, false
	}
	return mean, math.Sqrt(max(variance(f.Commits)-variance(f.Trips), 0)) / float64(mean), true
}

func variance(times []time.Duration) float64 {
	sum, squares := 0.0, 0.0
	for _, t := range times {
		sum += float64(t)
		squares += float64(t) * float64(t)
	}
	n := float64(len(times))
	return squares/n - sum/n*sum/n
}

// between is how long the connection that takes times rests: it is to be no load.
const between = 20 * time.Millisecond

// WatchFlushes looks at the flushes of the Postgres at a URL until the context ends.
// track_wal_io_timing must be on: see Settings.
func WatchFlushes(ctx context.Context, url string) (f Flushes, err error) {
	whole := context.WithoutCancel(ctx)
	conn, err := pgx.Connect(whole, url)
	if err != nil {
		return f, fmt.Errorf("connecting to watch flushes: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close(whole)) }()
	before, err := counted(whole, conn)
	if err != nil {
		return f, err
	}
	tick := time.NewTicker(between)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			after, err := counted(whole, conn)
			f.Count, f.Total = after.Count-before.Count, after.Total-before.Total
			return f, err
		case <-tick.C:
		}
		trip, err := timed(whole, conn, nothing, 1)
		if err != nil {
			return f, err
		}
		took, err := timed(whole, conn, commit, 1)
		if err != nil {
			return f, err
		}
		f.Trips, f.Commits = append(f.Trips, trip...), append(f.Commits, took...)
	}
}

// counted reads how many flushes of the log there were, and how long they took.
func counted(ctx context.Context, conn *pgx.Conn) (f Flushes, err error) {
	var version int
	var ms float64
	err = conn.QueryRow(ctx, `SELECT current_setting('server_version_num')::int`).Scan(&version)
	if err == nil {
		sql := `SELECT wal_sync, wal_sync_time FROM pg_stat_wal`
		if version >= 180000 {
			sql = `SELECT sum(fsyncs)::bigint, sum(fsync_time) FROM pg_stat_io WHERE object = 'wal'`
		}
		err = conn.QueryRow(ctx, sql).Scan(&f.Count, &ms)
	}
	if err != nil {
		return f, fmt.Errorf("reading how long flushes took: %w", err)
	}
	f.Total = time.Duration(ms * float64(time.Millisecond))
	return f, nil
}
