package likes

import (
	"context"
	"testing"

	"stampede/harness/api"
	"stampede/harness/history"
)

// still answers at once.
type still struct{}

func (still) Change(_ context.Context, _ Request, likes bool) (Change, error) {
	return Change{likes}, nil
}
func (still) View(context.Context, Request) (api.Nothing, error) { return api.Nothing{}, nil }
func (still) Count(context.Context, CountRequest) (Count, error) {
	return Count{Video: 7, Count: 9}, nil
}

// BenchmarkDo is what the table adds to a call in process.
func BenchmarkDo(b *testing.B) {
	table := API()
	for _, kind := range []string{KindLike, KindCount} {
		b.Run(kind, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, err := table.Do(b.Context(), still{}, history.Op{ID: 256, Kind: kind,
					Key: "video-7", Client: "user-42"})
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
