package check

// nearest returns the known word closest to word, or "" if none is close: at
// most two edits away and at most half the letters.
func nearest(word string, known []string) string {
	best, least := "", 3
	for _, k := range known {
		if d := distance(word, k); d < least && 2*d <= max(len(word), len(k)) {
			best, least = k, d
		}
	}
	return best
}

// distance is the number of edits between two words, by the algorithm of
// Wagner and Fischer with one row, where an edit is an insertion, a deletion
// or a replacement of a byte (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replace := diagonal
			if a[i] != b[j] {
				replace++
			}
			diagonal = row[j+1]
			row[j+1] = min(replace, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
