package check

import (
	"strconv"
	"strings"
)

func allowed(states []string) string {
	if len(states) == 0 {
		return "nothing"
	}
	return strings.Join(states, " or ")
}

// Term is one part of a sum that must be conserved.
type Term struct {
	Name  string
	Count int64
}

// Conserve requires that the terms add up to total and none is negative. ops
// are the operations that read them.
func Conserve(c *Collector, where string, total int64, ops []uint64, terms ...Term) {
	c.Checked(1)
	sum := int64(0)
	texts := make([]string, 0, len(terms))
	negative := false
	for _, t := range terms {
		sum += t.Count
		negative = negative || t.Count < 0
		texts = append(texts, strconv.FormatInt(t.Count, 10)+" "+t.Name)
	}
	switch text := strings.Join(texts, " + "); {
	case negative:
		c.Violate(ops, "%s: %s: a count is negative", where, text)
	case sum != total:
		c.Violate(ops, "%s: %s = %d, want %d (%+d)", where, text, sum, total, sum-total)
	}
}
