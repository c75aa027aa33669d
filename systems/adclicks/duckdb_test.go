//go:build duckdb

package adclicks

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
)

// clicksIn writes clicks to two Parquet files with some in both, and returns them in order and
// where the files are.
func clicksIn(tb testing.TB, r *rand.Rand, n, both int) (list []event, files string) {
	tb.Helper()
	for i := range n {
		campaign, user := fmt.Sprint("campaign-", r.IntN(3)), r.IntN(40)
		click := r.IntN(n)
		list = append(list, event{Offset: int64(i), ID: uint64(i), Click: fmt.Sprint("click-", click),
			Campaign: campaign, Ad: fmt.Sprint(campaign, "/ad-", r.IntN(2)), User: fmt.Sprint("user-", user),
			IP: fmt.Sprint("10.0.0.", user/4), AtMS: int64(click*20 + 1), Cents: r.Int64N(50)})
	}
	dir := tb.TempDir()
	for name, rows := range map[string][]event{"0": list[:n/2+both], "1": list[n/2:]} {
		if err := parquet.WriteFile(filepath.Join(dir, name+".parquet"), rows); err != nil {
			tb.Fatal(err)
		}
	}
	return list, filepath.Join(dir, "*.parquet")
}

// TestDuckDB: DuckDB decides every click as the recount in Go does, and so all windows are equal.
func TestDuckDB(t *testing.T) {
	found := map[string]int{}
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 0))
		list, files := clicksIn(t, r, 600, 100)
		rules := rules{window: 1 + r.Int64N(1000), lateness: r.Int64N(2000), horizon: r.Int64N(6000),
			fraudMost: 1 + r.IntN(4)}
		got, err := duckDB(t.Context(), files, rules)
		if err != nil {
			t.Fatal(err)
		}
		want, _, err := process(rules, list)
		if err != nil || len(got) != len(want) {
			t.Fatalf("seed %d: %d decisions, not %d (%v)", seed, len(got), len(want), err)
		}
		for i := range want {
			found[want[i].Verdict]++
			if !reflect.DeepEqual(got[i], want[i]) {
				t.Fatalf("seed %d: got %+v, want %+v", seed, got[i], want[i])
			}
		}
	}
	if len(found) != 5 {
		t.Errorf("not every verdict happened: %v", found)
	}
}

// BenchmarkRecount decides the same Parquet files in Go and in DuckDB.
func BenchmarkRecount(b *testing.B) {
	_, files := clicksIn(b, rand.New(rand.NewPCG(1, 0)), 100_000, 0)
	rules := rules{window: 1000, lateness: 500, horizon: 3000, fraudMost: 10}
	b.Run("go", func(b *testing.B) {
		for b.Loop() {
			var list []event
			for _, name := range []string{"0", "1"} {
				rows, err := parquet.ReadFile[event](strings.Replace(files, "*", name, 1))
				if err != nil {
					b.Fatal(err)
				}
				list = append(list, rows...)
			}
			decideAll(rules, list)
		}
	})
	b.Run("duckdb", func(b *testing.B) {
		for b.Loop() {
			if _, err := duckDB(b.Context(), files, rules); err != nil {
				b.Fatal(err)
			}
		}
	})
}
