package calibrate

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// TestFlushOf: delays of a busy machine in one commit of twenty do not change a flush much.
func TestFlushOf(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	commits := make([]time.Duration, flushes)
	for i := range commits {
		flush := math.Exp(math.Log(400e3) + 0.4*r.NormFloat64())
		commits[i] = 50*time.Microsecond + time.Duration(flush)
		if i%20 == 0 {
			commits[i] += 5 * time.Millisecond
		}
	}
	mean, cv := flushOf(commits, 50*time.Microsecond)
	want, spread := 400e3*math.Exp(0.08), math.Sqrt(math.Expm1(0.16))
	if math.Abs(float64(mean)/want-1) > 0.1 || math.Abs(cv/spread-1) > 0.2 {
		t.Errorf("a flush takes %s (%.2f), not %s (%.2f)", mean, cv, time.Duration(want), spread)
	}
}
