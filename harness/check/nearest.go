package check

import "strings"

// Nearest returns the known name that name was probably meant to be, or "".
// It accepts one edit for each three characters, at least one; and what three
// characters or more begin, if it is one name only.
func Nearest(name string, known []string) string {
	best, bestDistance := "", max(1, len(name)/3)+1
	for _, candidate := range known {
		d := editDistance(normal(name), normal(candidate))
		if d < bestDistance {
			best, bestDistance = candidate, d
		}
	}
	if best == "" {
		return begun(normal(name), known)
	}
	return best
}

// begun returns the only known name that begins with name, or "".
func begun(name string, known []string) (only string) {
	for _, candidate := range known {
		switch {
		case len(name) < 3 || !strings.HasPrefix(normal(candidate), name):
		case only != "" && only != candidate:
			return ""
		default:
			only = candidate
		}
	}
	return only
}

// normal makes names that differ in case and separators only equal.
func normal(name string) string {
	return strings.NewReplacer("-", "_", " ", "_").Replace(strings.ToLower(name))
}

// editDistance is the optimal string alignment distance: insertions,
// deletions, substitutions and swaps of neighbours cost one each (Damerau
// 1964; the restricted form that never edits a substring twice).
func editDistance(a, b string) int {
	x, y := []rune(a), []rune(b)
	before, prev := make([]int, len(y)+1), make([]int, len(y)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := range x {
		row := make([]int, len(y)+1)
		row[0] = i + 1
		for j := range y {
			cost := 1
			if x[i] == y[j] {
				cost = 0
			}
			row[j+1] = min(prev[j+1]+1, row[j]+1, prev[j]+cost)
			if i > 0 && j > 0 && x[i] == y[j-1] && x[i-1] == y[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, prev = prev, row
	}
	return prev[len(y)]
}
