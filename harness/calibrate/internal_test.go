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

// TestFlushesFit: what flushes take is told from what their commits wait for beside it.
func TestFlushesFit(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var all Flushes
	const mean, cv, cpu = 250_000.0, 2.0, 47_000.0
	sigma := math.Sqrt(math.Log1p(cv * cv))
	for range 200 {
		var f Flushes
		for range 100 {
			waits := func() time.Duration { return time.Duration(r.ExpFloat64() * 300_000) }
			flush := mean * math.Exp(sigma*r.NormFloat64()-sigma*sigma/2)
			f.Count, f.Total = f.Count+1, f.Total+time.Duration(flush+cpu)
			f.Trips = append(f.Trips, waits())
			f.Commits = append(f.Commits, waits()+time.Duration(flush+cpu))
		}
		all.Add(f)
	}
	is, varies, ok := all.Fit(cpu)
	if !ok || math.Abs(float64(is)/mean-1) > 0.05 || math.Abs(varies/cv-1) > 0.15 {
		t.Errorf("fitted %v and %.2f, %v", is, varies, ok)
	}
	if _, _, ok := (Flushes{Count: 10, Total: time.Second}).Fit(cpu); ok {
		t.Error("ten flushes are no distribution")
	}
}
