package sqlbroker_test

import (
	"fmt"
	"testing"

	"stampede/harness/suttest"
	"stampede/systems/sqlbroker"
)

// BenchmarkClaimCost claims messages out of a queue that has more and more of them.
func BenchmarkClaimCost(b *testing.B) {
	suttest.ClaimCost(b, []string{"batched", "partitioned"},
		func(b *testing.B, variant string) suttest.Backlog {
			s, _ := openStation(b, variant, benchWorkers)
			return suttest.Backlog{
				Fill: func(n int) error { return s.Fill(b.Context(), labQueue, n) },
				Claim: func() error {
					got, err := s.Receive(b.Context(), labQueue,
						sqlbroker.Demand{Most: suttest.ClaimBatch})
					if err == nil && len(got) != suttest.ClaimBatch {
						err = fmt.Errorf("%d messages", len(got))
					}
					return err
				},
			}
		})
}
