package main

import (
	"testing"
	"time"
)

func TestEstimateText(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		11 * time.Second: "20 s", 90 * time.Second: "90 s", 101 * time.Second: "2 min",
		5*time.Minute + 20*time.Second: "5 min", 100 * time.Minute: "2 h",
	} {
		if got := estimateText(d); got != want {
			t.Errorf("%s: %q, want %q", d, got, want)
		}
	}
}

func TestEstimateSaysFromWhenToWhen(t *testing.T) {
	t.Parallel()
	e := estimated{least: 75 * time.Second, most: 2 * time.Minute, load: 10 * time.Second,
		repeats: 4, drain: 30 * time.Second}
	want := "about 80 s to 2 min: 4 repeats, each with 10s of load; a drain may take up to 30s more"
	if e.String() != want {
		t.Errorf("%s", e)
	}
}
