package sim_test

import (
	"math"
	"strings"
	"testing"

	"stampede/harness/sim"
)

// TestBottleneckPools: a pool is named where nothing behind it has a queue.
func TestBottleneckPools(t *testing.T) {
	s := sim.New(1)
	defer s.Close()
	pool := sim.NewPool(s, "postgres.connections", 2)
	for range 10 {
		s.Go(func(p *sim.Process) {
			p.Do(pool.Get(), s.Delay(ms))
			pool.Put()
		})
	}
	if err := s.Run(t.Context(), math.MaxInt64); err != nil {
		t.Fatal(err)
	}
	want := "most waits were for one of the 2 postgres connections"
	if got := s.Bottleneck(); !strings.HasPrefix(got, want) {
		t.Errorf("the bottleneck is %q, not %q", got, want)
	}
}
