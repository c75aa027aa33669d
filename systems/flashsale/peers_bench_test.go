package flashsale_test

import (
	"bytes"
	"context"
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

	"github.com/redis/go-redis/v9"

	"stampede/harness/history"
	"stampede/harness/sut"
	"stampede/systems/flashsale"
)

// The benchmarks compare with a peer that does the same work on the same
// store in the same run, in turns; what they report is the median of the
// rounds. One iteration is the whole comparison.
const (
	benchRounds = 3
	benchRound  = 3 * time.Second
	benchConns  = 32
)

// BenchmarkUnitClaim sells units by units_skip_locked, and lets pgbench run
// the same statement over as many connections. The aim is 0.8 of it.
func BenchmarkUnitClaim(b *testing.B) {
	pgbench := tool(b, "pgbench", "/usr/lib/postgresql/*/bin/pgbench")
	sale := openSale(b, "units_skip_locked", benchConns)
	script := pgbenchScript(b)
	compare(b, "pgbench", 0.8, sale.buy(b, benchConns), func() float64 {
		out := run(b, pgbench, "-n", "-M", "prepared", "-c", strconv.Itoa(benchConns), "-j", "2",
			"-T", strconv.Itoa(int(benchRound.Seconds())), "-D", "item=item-1", "-f", script,
			sale.cfg.PostgresURL)
		return number(b, out, `tps = ([0-9.]+)`)
	})
}

// BenchmarkUnitClaimGrouped sells units by units_grouped and, as its peer, by
// units_skip_locked, to as many buyers at once over as many connections. The aim
// is 3 times as many.
func BenchmarkUnitClaimGrouped(b *testing.B) {
	grouped := openSale(b, "units_grouped", benchConns)
	single := openSale(b, "units_skip_locked", benchConns)
	const buyers = 512
	compare(b, "single", 3, grouped.buy(b, buyers), single.buy(b, buyers))
}

// BenchmarkRedisLua admits buyers by redis_lua_pipelined, eight for each of
// its peer's connections; it opens fewer itself. Its peer, redis-benchmark,
// runs the same script unpipelined. The aim is 1.2 times as many.
func BenchmarkRedisLua(b *testing.B) {
	peer := tool(b, "redis-benchmark", "/usr/bin/redis-benchmark")
	sale := openSale(b, "redis_lua_pipelined", benchConns)
	opts, err := redis.ParseURL(sale.cfg.RedisURL)
	if err != nil {
		b.Fatal(err)
	}
	client := redis.NewClient(opts)
	defer client.Close()
	sha, err := client.ScriptLoad(b.Context(), flashsale.TakeTokenLua).Result()
	if err != nil {
		b.Fatal(err)
	}
	host, port, _ := strings.Cut(opts.Addr, ":")
	key := func(name string) string { return sale.cfg.Prefix + "peer:" + name }
	for _, stock := range []string{key("stock"), sale.cfg.Prefix + "stock:item-1"} {
		if err := client.Set(b.Context(), stock, 1<<40, 0).Err(); err != nil {
			b.Fatal(err)
		}
	}
	compare(b, "redis-benchmark", 1.2, sale.spread(b, benchConns*8, sale.in.Admit), func() float64 {
		out := run(b, peer, "-h", host, "-p", port, "-n", "200000", "-c", strconv.Itoa(benchConns),
			"-r", "1000000000", "--dbnum", strconv.Itoa(opts.DB), "--csv",
			"EVALSHA", sha, "4", key("stock"), key("tokens"), key("deadlines"), key("doubtful"),
			"buyer-__rand_int__", "1", "0")
		return number(b, out, `(?m)^"EVALSHA[^"]*","([0-9.]+)"`)
	})
}

// sale is an opened variant with more units than a benchmark can sell.
type sale struct {
	inst sut.Instance
	in   *flashsale.Inside
	cfg  sut.Config
	next atomic.Uint64
}

func openSale(b *testing.B, variant string, conns int) *sale {
	b.Helper()
	p := flashsale.DefaultParams()
	p.Units = 400_000
	space := stores.Namespace(b)
	s := &sale{cfg: sut.Config{
		PostgresURL: space.PostgresURL, RedisURL: space.RedisURL, Prefix: space.Prefix,
		Params: &p, MaxConns: conns, Timeout: 10 * time.Second,
	}}
	open := openVariant(b, variant, s.cfg)
	s.inst, s.in = open.inst, open.Inside
	return s
}

// buy returns a round in which so many buyers at once buy one unit each, one
// after the other.
func (s *sale) buy(b *testing.B, atOnce int) func() float64 {
	return s.spread(b, atOnce, func(ctx context.Context, id uint64) error {
		_, err := s.inst.Do(ctx, history.Op{
			ID: id, Kind: flashsale.KindBuy, Key: "item-1", Client: "b" + strconv.FormatUint(id, 10)})
		return err
	})
}

// spread returns a round of calls from so many goroutines; it measures calls
// per second.
func (s *sale) spread(
	b *testing.B, atOnce int, call func(context.Context, uint64) error,
) func() float64 {
	return func() float64 {
		var done atomic.Int64
		var first atomic.Pointer[error]
		begin := time.Now()
		var all sync.WaitGroup
		for range atOnce {
			all.Go(func() {
				for time.Since(begin) < benchRound {
					if err := call(b.Context(), s.next.Add(1)); err != nil {
						first.CompareAndSwap(nil, &err)
						return
					}
					done.Add(1)
				}
			})
		}
		all.Wait()
		if err := first.Load(); err != nil {
			b.Fatalf("a call of the benchmark failed: %v", *err)
		}
		return float64(done.Load()) / time.Since(begin).Seconds()
	}
}

// compare runs ours and the peer in turns and reports both, their ratio, the
// aim for it, and whether it was met.
func compare(b *testing.B, peerName string, aim float64, ours, peer func() float64) {
	b.Helper()
	for b.Loop() {
		var mine, theirs []float64
		for range benchRounds {
			mine, theirs = append(mine, ours()), append(theirs, peer())
		}
		b.ReportMetric(median(mine), "ours/s")
		b.ReportMetric(median(theirs), peerName+"/s")
		ratio := median(mine) / median(theirs)
		b.ReportMetric(ratio, "ratio")
		b.ReportMetric(aim, "aim")
		b.ReportMetric(met(ratio >= aim), "met")
	}
}

// met is 1 where an aim was met. Missing one fails nothing: the machine decides.
func met(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

func median(xs []float64) float64 {
	slices.Sort(xs)
	return xs[len(xs)/2]
}

// pgbenchScript is the statement with pgbench's variables as parameters. It
// numbers every occurrence on its own, so each says its type.
func pgbenchScript(b *testing.B) string {
	b.Helper()
	sql := strings.NewReplacer(
		"$1", ":item::text", "$2", ":op::bigint", "$3", ":op::text",
	).Replace(flashsale.ClaimSQL())
	script := `\set op random(1, 4611686018427387904)` + "\n" + strings.TrimSpace(sql) + ";\n"
	path := filepath.Join(b.TempDir(), "claim.sql")
	if err := os.WriteFile(path, []byte(script), 0o644); err != nil {
		b.Fatal(err)
	}
	return path
}

// tool finds a peer on PATH or where distributions put it.
func tool(b *testing.B, name, elsewhere string) string {
	b.Helper()
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	found, err := filepath.Glob(elsewhere)
	if err != nil || len(found) == 0 {
		b.Fatalf("%s is not installed", name)
	}
	return found[len(found)-1]
}

func run(b *testing.B, name string, args ...string) string {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(),
		"PGOPTIONS=-c plan_cache_mode=force_generic_plan -c enable_seqscan=off")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		b.Fatalf("%s: %v\n%s\n%s", name, err, out, stderr.String())
	}
	return string(out)
}

func number(b *testing.B, text, pattern string) float64 {
	b.Helper()
	match := regexp.MustCompile(pattern).FindStringSubmatch(text)
	if match == nil {
		b.Fatalf("no %s in:\n%s", pattern, text)
	}
	n, err := strconv.ParseFloat(match[1], 64)
	if err != nil {
		b.Fatal(err)
	}
	return n
}
