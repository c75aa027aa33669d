package calibrate

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Statement is what pg_stat_statements says of one.
type Statement struct {
	// Text is the normalised text, Calls how often it was executed, MeanNS the mean time of
	// planning and execution.
	Text   string
	Calls  int64
	MeanNS float64
}

// folded is a text in lower case with single blanks.
func folded(text string) string { return strings.ToLower(strings.Join(strings.Fields(text), " ")) }

// Weigh is the mean time of the statements of each cost.
func Weigh(statements []Statement, named map[string][]string) map[string]float64 {
	weights := map[string]float64{}
	for cost, beginnings := range named {
		total, calls := 0.0, int64(0)
		for _, s := range statements {
			text := folded(s.Text)
			if slices.ContainsFunc(beginnings, func(b string) bool { return strings.HasPrefix(text, b) }) {
				total += s.MeanNS * float64(s.Calls)
				calls += s.Calls
			}
		}
		if calls > 0 {
			weights[cost] = total / float64(calls)
		}
	}
	return weights
}

// Split finds the costs of the names that are drawn: together they are what is left of an
// operation's CPU time without those that are known, split in proportion to their weights,
// which are times of one each. One name alone needs no weight.
func Split(
	demandNS float64, drawn, known map[string]float64, finds []string, weights map[string]float64,
) (map[string]float64, error) {
	left := demandNS
	for _, name := range slices.Sorted(maps.Keys(drawn)) {
		if !slices.Contains(finds, name) {
			left -= drawn[name] * known[name]
		}
	}
	finds = slices.DeleteFunc(slices.Clone(finds), func(name string) bool { return drawn[name] == 0 })
	whole := 0.0
	for _, name := range finds {
		weight := weights[name]
		if len(finds) == 1 {
			weight = 1
		}
		if weight <= 0 {
			return nil, fmt.Errorf("no statement was seen whose cost is %q", name)
		}
		whole += drawn[name] * weight
	}
	costs := map[string]float64{}
	for _, name := range finds {
		weight := weights[name]
		if len(finds) == 1 {
			weight = 1
		}
		costs[name] = left * weight / whole
		if costs[name] <= 0 {
			return nil, fmt.Errorf("nothing of the CPU time is left for %s: an operation used %.0f µs, "+
				"and %.0f µs of it are known", strings.Join(finds, ", "), demandNS/1e3,
				(demandNS-left)/1e3)
		}
	}
	return costs, nil
}
