package calibrate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/harness/sim"
	"stampede/harness/stats"
)

// Flushes is what flushes of the log of a Postgres under load took.
type Flushes struct {
	// Count of them took Total, with their CPU time.
	Count int64
	Total time.Duration
	// Commits are times of commits with hardly any log, taken meanwhile.
	Commits []time.Duration
}

// Add takes in what other flushes took.
func (f *Flushes) Add(o Flushes) {
	f.Count += o.Count
	f.Total += o.Total
	f.Commits = append(f.Commits, o.Commits...)
}

// Mean is the mean time of a flush without its CPU time, which is given in nanoseconds; 0 if too
// few were seen.
func (f Flushes) Mean(cpuNS float64) time.Duration {
	if f.Count < leastFlushes {
		return 0
	}
	return time.Duration(max(float64(f.Total)/float64(f.Count)-cpuNS, 0))
}

// leastFlushes is how many must have been seen, leastCommits how many commits under one load.
const (
	leastFlushes = 200
	leastCommits = 50
)

// Committing is a load with the times that commits took beside it.
type Committing struct {
	Load
	Took []time.Duration
}

// Bounds of a coefficient of variation, and how often they are halved.
const (
	leastCV, mostCV = 0.2, 4.0
	halvings        = 6
)

// FlushCV finds the coefficient of variation of flushes: with it, under the same loads, one commit
// of twenty takes as long in the simulation as was measured, the median of the loads. A commit
// costs so many nanoseconds of CPU. It is 0 if there is no load with enough commits.
func FlushCV(ctx context.Context, loads []Committing, commitNS float64) (cv float64, err error) {
	loads = slices.DeleteFunc(slices.Clone(loads), func(l Committing) bool {
		return len(l.Took) < leastCommits
	})
	if len(loads) == 0 {
		return 0, nil
	}
	low, high := math.Log(leastCV), math.Log(mostCV)
	for range halvings {
		cv = math.Exp((low + high) / 2)
		var errs []float64
		for _, l := range loads {
			l.Machine.Postgres.FsyncCV = cv
			simulated, err := l.Commits(ctx, commitNS)
			if err != nil {
				return 0, err
			}
			errs = append(errs, math.Log(float64(slow(simulated))/float64(slow(l.Took))))
		}
		if stats.Median(errs) > 0 {
			high = math.Log(cv)
		} else {
			low = math.Log(cv)
		}
	}
	return math.Exp((low + high) / 2), nil
}

// slow is what one of twenty takes.
func slow(times []time.Duration) time.Duration {
	times = slices.Sorted(slices.Values(times))
	return times[len(times)*19/20]
}

// Commits runs the design's model beside a client that commits, and returns what its commits take.
func (l Load) Commits(ctx context.Context, commitNS float64) (times []time.Duration, err error) {
	const name = "calibration"
	l.Costs.Postgres = maps.Clone(l.Costs.Postgres)
	l.Costs.Postgres[name] = sim.Cost{MeanNS: commitNS}
	_, err = l.model(ctx, func(c *sim.Cluster) {
		conns, rows := c.Postgres.OwnConns(name, 1, 0), sim.NewTable[int, int](c.Postgres, name)
		c.Sim.Go(func(p *sim.Process) {
			for {
				p.Do(p.Sim().Delay(between / 4)) // more often: nothing else is disturbed
				at := p.Now()
				conns.Exec(p, name, func() {
					p.Do(rows.Lock(0)) // which nobody else wants
					rows.Set(0, 0)
				})
				times = append(times, p.Now()-at)
			}
		})
	})
	if err == nil && len(times) == 0 {
		err = errors.New("no commit was simulated")
	}
	return times, err
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
		took, err := timed(whole, conn, commit, 1)
		if err != nil {
			return f, err
		}
		f.Commits = append(f.Commits, took...)
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
