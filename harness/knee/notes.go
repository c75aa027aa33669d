package knee

import (
	"fmt"
	"slices"
)

// tally counts the windows of one rate.
type tally struct{ held, failed, all int }

// notes tell what does not fit a design that holds up to some rate and fails
// above it.
func (s *search) notes() []string {
	notes := []string{}
	by := map[float64]tally{}
	rates := []float64{}
	for _, w := range s.windows {
		t, known := by[w.RatePerS]
		if !known {
			rates = append(rates, w.RatePerS)
		}
		t.all++
		switch w.Verdict {
		case Held:
			t.held++
		case Missed, Broke:
			t.failed++
		}
		by[w.RatePerS] = t
	}
	slices.Sort(rates)
	for _, rate := range rates {
		if t := by[rate]; t.held > 0 && t.failed > 0 {
			notes = append(notes, fmt.Sprintf("%v/s held in %d of %d windows and failed in %d",
				rate, t.held, t.all, t.failed))
		}
	}
	return append(notes, inversion(rates, by)...)
}

// inversion tells of the highest rate that held in some window although a lower
// one failed in all: the answer is below both.
func inversion(rates []float64, by map[float64]tally) []string {
	lowest := 0.0
	for _, rate := range rates {
		if t := by[rate]; t.held == 0 && t.failed > 0 {
			lowest = rate
			break
		}
	}
	for _, rate := range slices.Backward(rates) {
		if lowest > 0 && rate > lowest && by[rate].held > 0 {
			return []string{fmt.Sprintf("%v/s held in a window although %v/s failed: no single rate "+
				"separates the two, and the answer is below both", rate, lowest)}
		}
	}
	return nil
}
