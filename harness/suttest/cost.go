package suttest

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"
)

// What a claim costs is the median of claimsEach of them, of ClaimBatch each, after
// firstClaims whose statements are planned and whose pages are read for the first time:
// as many as fewestPending are enough for.
const (
	firstClaims   = 10
	claimsEach    = 80
	fewestPending = 1000
	// ClaimBatch is how much one claim takes.
	ClaimBatch = 10
)

// Backlog is what waits to be claimed in one variant.
type Backlog struct {
	// Fill adds n that wait, and lets the store come to rest.
	Fill func(n int) error
	// Claim takes ClaimBatch of them.
	Claim func() error
}

// ClaimCost benchmarks claims from backlogs of 1,000 up to STAMPEDE_PENDING (ten
// million take minutes and 4 GB; a million if it is not set), ten times as many each
// time, for each variant. The aim is that the cost does not grow: at no size is it twice
// that of a smaller one, whichever was the cheapest. So one that was measured high, as the
// first may be, hides nothing; less than twice is noise. That costs fall is no growth.
func ClaimCost(b *testing.B, variants []string, open func(b *testing.B, variant string) Backlog) {
	b.Helper()
	most := mostPending(b)
	for _, name := range variants {
		log, costs := open(b, name), []float64{}
		for pending, left := fewestPending, 0; pending <= most; pending *= 10 {
			if err := log.Fill(pending - left); err != nil {
				b.Fatalf("filling %s: %v", name, err)
			}
			cost := log.cost(b)
			left = pending - (firstClaims+claimsEach)*ClaimBatch
			costs = append(costs, cost)
			ratio := cost / slices.Min(costs)
			Tell(b, fmt.Sprintf("%s/pending=%d", name, pending), map[string]float64{"µs/claim": cost,
				"ratio": ratio, "aim": 2, "met": Met(ratio < 2)})
		}
	}
}

// cost is the median of some claims, in microseconds.
func (l Backlog) cost(b *testing.B) float64 {
	b.Helper()
	var costs []float64
	for i := range firstClaims + claimsEach {
		begin := time.Now()
		if err := l.Claim(); err != nil {
			b.Fatal(err)
		}
		if i >= firstClaims {
			costs = append(costs, float64(time.Since(begin).Nanoseconds())/1e3)
		}
	}
	slices.Sort(costs)
	return costs[len(costs)/2]
}

// mostPending is STAMPEDE_PENDING.
func mostPending(b *testing.B) int {
	b.Helper()
	text := os.Getenv("STAMPEDE_PENDING")
	if text == "" {
		return 1_000_000
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < fewestPending {
		b.Fatalf("STAMPEDE_PENDING: expected a number of %d or more, got %q", fewestPending, text)
	}
	return n
}
