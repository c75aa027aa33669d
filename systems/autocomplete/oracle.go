package autocomplete

import (
	"cmp"
	"slices"
	"sort"
	"strings"
)

// oracle says what any version of the index is. It keeps the log by phrase and by user, and counts
// anew for each question: it has no windows that it could fail to roll.
type oracle struct {
	params  Params
	log     []LogRow // in order
	phrases []string // in order
	of      map[string][]int
	users   map[uint64][]int
}

func newOracle(p Params, log []LogRow) *oracle {
	o := &oracle{params: p, log: slices.Clone(log), of: map[string][]int{}, users: map[uint64][]int{}}
	slices.SortFunc(o.log, func(a, b LogRow) int { return cmp.Compare(a.Position, b.Position) })
	for i, row := range o.log {
		if o.of[row.Phrase] == nil {
			o.phrases = append(o.phrases, row.Phrase)
		}
		o.of[row.Phrase] = append(o.of[row.Phrase], i)
		o.users[row.User] = append(o.users[row.User], i)
	}
	slices.Sort(o.phrases)
	return o
}

// last is the version of the whole log.
func (o *oracle) last() int64 {
	if len(o.log) == 0 {
		return 0
	}
	return o.log[len(o.log)-1].Position
}

// upTo is how many queries a version has, false if there is no such version.
func (o *oracle) upTo(version int64) (n int, is bool) {
	if version == 0 {
		return 0, true
	}
	i, is := slices.BinarySearchFunc(o.log, version, func(r LogRow, v int64) int {
		return cmp.Compare(r.Position, v)
	})
	return i + 1, is
}

// suggestion counts a phrase in the first n queries of the log, n > 0.
func (o *oracle) suggestion(phrase string, n int) Suggestion {
	p, all := o.params, o.of[phrase]
	all = all[:sort.SearchInts(all, n)]
	after := func(slot int64) int64 {
		i := sort.Search(len(all), func(i int) bool { return o.log[all[i]].Slot > slot })
		return int64(len(all) - i)
	}
	now := o.log[n-1].Slot
	recent := after(now - p.Recent)
	before := after(now-p.Recent-p.Baseline) - recent
	return Suggestion{Phrase: phrase, Score: p.Weight*recent + before,
		// recent / recent slots >= rises * before / baseline slots
		Trending: recent >= p.Least && recent*p.Baseline >= before*p.Rises*p.Recent}
}

// own are the last phrases of a user that fit, the newest first.
func (o *oracle) own(user uint64, prefix string, edits, n int) (list []Suggestion) {
	mine, seen := o.users[user], map[string]bool{}
	for i := sort.SearchInts(mine, n) - 1; i >= 0 && len(seen) < ownMost; i-- {
		phrase := o.log[mine[i]].Phrase
		if !seen[phrase] && nearly(phrase, prefix, edits) {
			s := o.suggestion(phrase, n)
			s.Personal = true
			list = append(list, s)
		}
		seen[phrase] = true
	}
	return list
}

// all are the suggestions of the first n queries in their order, however many.
func (o *oracle) all(user uint64, prefix string, edits, n int) []Suggestion {
	if n == 0 {
		return nil
	}
	list := o.own(user, prefix, edits, n)
	own := len(list)
	phrases := o.phrases
	if edits == 0 {
		phrases = phrases[sort.SearchStrings(phrases, prefix):]
	}
	for _, phrase := range phrases {
		if edits == 0 && !strings.HasPrefix(phrase, prefix) {
			break
		}
		if !nearly(phrase, prefix, edits) ||
			slices.ContainsFunc(list[:own], func(s Suggestion) bool { return s.Phrase == phrase }) {
			continue
		}
		if s := o.suggestion(phrase, n); s.Score > 0 {
			list = append(list, s)
		}
	}
	slices.SortFunc(list[own:], func(a, b Suggestion) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), strings.Compare(a.Phrase, b.Phrase))
	})
	return list
}

// nearly says whether a phrase begins with a text that becomes the prefix by so many changes of a
// character, by the table of distances.
func nearly(phrase, prefix string, edits int) bool {
	if edits == 0 {
		return strings.HasPrefix(phrase, prefix)
	}
	want := []rune(prefix)
	row := make([]int, len(want)+1) // from the part of the phrase so far to each part of the prefix
	for i := range row {
		row[i] = i
	}
	for _, c := range phrase {
		diagonal := row[0]
		row[0]++
		for i, w := range want {
			change := diagonal
			if c != w {
				change++
			}
			diagonal = row[i+1]
			row[i+1] = min(change, row[i]+1, row[i+1]+1)
		}
		if row[len(want)] <= edits {
			return true
		}
	}
	return row[len(want)] <= edits
}

// firsts are the first characters of the phrases in a log, in order.
func firsts(log []LogRow) (list []string) {
	for _, row := range log {
		list = append(list, firstOf(row.Phrase, 1))
	}
	slices.Sort(list)
	return slices.Compact(list)
}
