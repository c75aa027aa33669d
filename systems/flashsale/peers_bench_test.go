package flashsale_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"stampede/harness/history"
	"stampede/harness/sut"
	"stampede/harness/suttest"
	"stampede/systems/flashsale"
)

const (
	benchRound = 3 * time.Second
	benchConns = 32
)

// BenchmarkUnitClaim sells units by units_skip_locked, and lets pgbench run
// the same statement over as many connections. The aim is 0.8 of it.
func BenchmarkUnitClaim(b *testing.B) {
	pgbench := suttest.Tool(b, "pgbench", "/usr/lib/postgresql/*/bin/pgbench")
	sale := openSale(b, "units_skip_locked", benchConns)
	script := pgbenchScript(b)
	suttest.Compare(b, "pgbench", 0.8, sale.buy(b, benchConns), func() float64 {
		out := suttest.Output(b, []string{"PGOPTIONS=-c plan_cache_mode=force_generic_plan -c " +
			"enable_seqscan=off"}, pgbench, "-n", "-M", "prepared", "-c", strconv.Itoa(benchConns),
			"-j", "2", "-T", strconv.Itoa(int(benchRound.Seconds())), "-D", "item=item-1", "-f", script,
			sale.cfg.PostgresURL)
		return suttest.Figure(b, out, `tps = ([0-9.]+)`)
	})
}

// BenchmarkUnitClaimGrouped sells units by units_grouped and, as its peer, by
// units_skip_locked, to as many buyers at once over as many connections. The aim
// is 3 times as many.
func BenchmarkUnitClaimGrouped(b *testing.B) {
	grouped := openSale(b, "units_grouped", benchConns)
	single := openSale(b, "units_skip_locked", benchConns)
	const buyers = 512
	suttest.Compare(b, "single", 3, grouped.buy(b, buyers), single.buy(b, buyers))
}

// BenchmarkRedisLua admits buyers by redis_lua_pipelined, eight for each of
// its peer's connections; it opens fewer itself. Its peer, redis-benchmark,
// runs the same script unpipelined. The aim is 1.2 times as many.
func BenchmarkRedisLua(b *testing.B) {
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
	key := func(name string) string { return sale.cfg.Prefix + "peer:" + name }
	for _, stock := range []string{key("stock"), sale.cfg.Prefix + "stock:item-1"} {
		if err := client.Set(b.Context(), stock, 1<<40, 0).Err(); err != nil {
			b.Fatal(err)
		}
	}
	suttest.Compare(b, "redis-benchmark", 1.2, sale.spread(b, benchConns*8, sale.in.Admit),
		suttest.RedisBenchmark(b, opts.Addr, opts.DB, benchConns, "EVALSHA", sha, "4", key("stock"),
			key("tokens"), key("deadlines"), key("doubtful"), "buyer-__rand_int__", "1", "0"))
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
	s := &sale{cfg: config(b, &p)}
	s.cfg.MaxConns, s.cfg.Timeout = conns, 10*time.Second
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
