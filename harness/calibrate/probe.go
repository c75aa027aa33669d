package calibrate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/harness/sim"
)

// Probe is what was measured of an idle machine and its Postgres.
type Probe struct {
	// RoundTrip is the median time of a statement that does nothing, ServerNS and ClientNS the
	// CPU time that each took at both ends.
	RoundTrip          time.Duration
	ServerNS, ClientNS float64
	// Flush is the mean time of a commit with hardly any log, but for its round trip and
	// FlushNS, what CPU time it takes postgres more, which is a part of what a statement that
	// commits costs; FlushCV is the coefficient of variation. See flushOf.
	Flush   time.Duration
	FlushNS float64
	FlushCV float64
}

// How often is asked: enough for the CPU times, which the kernel counts in hundredths of a second.
const (
	pings   = 5000
	flushes = 1500
)

// The statements that are timed: one that does nothing, and a commit with hardly any log.
const (
	nothing = `SELECT 1`
	commit  = `SELECT pg_logical_emit_message(true, 'stampede', 'flush')`
)

// Ask measures round trips and flushes of the Postgres at a URL, on one connection. CPU is the
// CPU time of its processes so far.
func Ask(
	ctx context.Context, url string, cpu func(context.Context) (time.Duration, error),
) (p Probe, err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return p, fmt.Errorf("connecting to measure round trips: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	if _, err := timed(ctx, conn, nothing, pings/10); err != nil { // warm
		return p, err
	}
	trips, server, client, err := spent(ctx, conn, nothing, pings, cpu)
	if err != nil {
		return p, err
	}
	p.RoundTrip, p.ServerNS, p.ClientNS = median(trips), server, client
	commits, server, _, err := spent(ctx, conn, commit, flushes, cpu)
	if err != nil {
		return p, err
	}
	p.FlushNS = max(server-p.ServerNS, 0)
	p.Flush, p.FlushCV = flushOf(commits, p.RoundTrip+time.Duration(p.FlushNS))
	return p, nil
}

// spent runs a statement again and again, and returns the nanoseconds of CPU that each took at
// both ends.
func spent(
	ctx context.Context, conn *pgx.Conn, sql string, n int,
	cpu func(context.Context) (time.Duration, error),
) (times []time.Duration, server, client float64, err error) {
	before, err := cpu(ctx)
	if err != nil {
		return nil, 0, 0, fmt.Errorf("asking for the CPU time of postgres: %w", err)
	}
	own := ownTime()
	if times, err = timed(ctx, conn, sql, n); err != nil {
		return nil, 0, 0, err
	}
	own = ownTime() - own
	after, err := cpu(ctx)
	if err != nil {
		return nil, 0, 0, fmt.Errorf("asking for the CPU time of postgres: %w", err)
	}
	return times, float64(after-before) / float64(n), float64(own) / float64(n), nil
}

// timed runs a statement again and again.
func timed(ctx context.Context, conn *pgx.Conn, sql string, n int) ([]time.Duration, error) {
	times := make([]time.Duration, n)
	for i := range times {
		start := time.Now()
		if _, err := conn.Exec(ctx, sql); err != nil {
			return nil, fmt.Errorf("measuring round trips: %w", err)
		}
		times[i] = time.Since(start)
	}
	return times, nil
}

func median(times []time.Duration) time.Duration {
	times = slices.Clone(times)
	slices.Sort(times)
	return times[len(times)/2]
}

// flushOf is the mean time and the coefficient of variation of what commits took beyond a round
// trip and CPU time: those of the lognormal distribution with the same quartiles. What waited for
// a core because somebody else had it is in the tail, and stalls stand for that.
func flushOf(commits []time.Duration, trip time.Duration) (mean time.Duration, cv float64) {
	times := slices.Clone(commits)
	slices.Sort(times)
	at := func(share float64) float64 {
		return math.Log(float64(max(times[int(share*float64(len(times)))]-trip, time.Microsecond)))
	}
	sigma := (at(0.75) - at(0.25)) / quartiles
	return time.Duration(math.Exp(at(0.5) + sigma*sigma/2)), math.Sqrt(math.Expm1(sigma * sigma))
}

// quartiles is how many standard deviations of a normal distribution its quartiles are apart.
const quartiles = 1.349

// ownTime is the CPU time of this process.
func ownTime() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage) // cannot fail for this process
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// shortestStall is what a thread that only reads the clock must miss for it to have been
// stopped: interrupts are shorter.
const shortestStall = 200 * time.Microsecond

// Stalls measures for how long a thread on each core stands still, though it never waits:
// another program or another guest of the host has the core then.
func Stalls(ctx context.Context, span time.Duration) sim.Stalls {
	cores := runtime.NumCPU()
	gaps := make(chan []time.Duration, cores)
	for range cores {
		go func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			gaps <- missing(ctx, span)
		}()
	}
	var all []time.Duration
	for range cores {
		all = append(all, <-gaps...)
	}
	return stallsOf(all, time.Duration(cores)*span)
}

// missing reads the clock and returns what is missing from it.
func missing(ctx context.Context, span time.Duration) (gaps []time.Duration) {
	begin := time.Now()
	for last := begin; last.Sub(begin) < span && ctx.Err() == nil; {
		now := time.Now()
		if gap := now.Sub(last); gap > shortestStall {
			gaps = append(gaps, gap)
		}
		last = now
	}
	return gaps
}

// mostStalled is the largest share of a machine that is worth simulating without.
const mostStalled = 0.5

// stallsOf describes stalls in so much time of cores.
func stallsOf(gaps []time.Duration, span time.Duration) sim.Stalls {
	none := sim.DefaultMachine().Stalls
	if len(gaps) == 0 {
		return none
	}
	sum, squares := 0.0, 0.0
	for _, g := range gaps {
		sum += float64(g)
		squares += float64(g) * float64(g)
	}
	n := float64(len(gaps))
	mean := sum / n
	cv := math.Sqrt(max(squares/n-mean*mean, 0)) / mean
	return sim.Stalls{Share: math.Round(1e4*min(sum/float64(span), mostStalled)) / 1e4, // of a percent
		Length: sim.Duration(time.Duration(mean).Round(time.Microsecond)), CV: math.Round(100*cv) / 100}
}

// Statements are what pg_stat_statements has counted of all databases, and forgets.
func Statements(ctx context.Context, url string) (all []Statement, err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, fmt.Errorf("connecting to read statistics: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	rows, err := conn.Query(ctx, `SELECT query, calls,
		1e6 * (total_exec_time + total_plan_time) / greatest(calls, 1) FROM pg_stat_statements`)
	if err == nil {
		all, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Statement])
	}
	if err == nil {
		_, err = conn.Exec(ctx, `SELECT pg_stat_statements_reset()`)
	}
	if err != nil {
		return nil, fmt.Errorf("reading pg_stat_statements: %w", err)
	}
	return all, nil
}

// Install makes pg_stat_statements available in the database of a URL.
func Install(ctx context.Context, url string) (err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return fmt.Errorf("connecting to install pg_stat_statements: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	if _, err := conn.Exec(ctx, `CREATE EXTENSION pg_stat_statements`); err != nil {
		return fmt.Errorf("installing pg_stat_statements, which Postgres's contrib modules have: %w",
			err)
	}
	return nil
}

// Settings are what Postgres is started with for a calibration, and for nothing else: counting
// statements takes time.
func Settings() map[string]string {
	return map[string]string{"shared_preload_libraries": "pg_stat_statements",
		"pg_stat_statements.track_planning": "on", "track_wal_io_timing": "on"}
}
