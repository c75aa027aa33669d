package autocomplete

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"stampede/systems/internal/prefix"
	"stampede/systems/internal/rolling"
)

// read reads a record of the log.
func read(r *kgo.Record, p Params) (row LogRow, err error) {
	if err = json.Unmarshal(r.Value, &row); err != nil {
		return row, fmt.Errorf("reading a query: %w", err)
	}
	row.Position, row.Slot = r.Offset+1, r.Timestamp.UnixMilli()/p.SlotMS
	return row, nil
}

// phrase is a phrase with what its counts make of it. Trending compares the rate of recent queries
// with that of the baseline.
func (p Params) phrase(text string, c rolling.Counts) prefix.Phrase {
	return prefix.Phrase{Text: text, Score: p.Weight*c.Recent + c.Before,
		Trending: c.Recent >= p.Least && c.Recent*p.Baseline >= p.Rises*c.Before*p.Recent}
}

// ownMost is how many phrases of a user are kept.
const ownMost = 10

// tally is the log up to a position, as counts and users' last phrases. It says what has changed.
type tally struct {
	params  Params
	version int64
	counter *rolling.Counter
	own     map[uint64][]string // the newest first
	users   map[uint64]bool     // that have searched since the last changes
}

func newTally(p Params) *tally {
	w := rolling.Windows{Recent: p.Recent, Baseline: p.Baseline}
	return &tally{params: p, counter: rolling.New(w), own: map[uint64][]string{},
		users: map[uint64]bool{}}
}

// add counts a query.
func (t *tally) add(e LogRow) {
	t.counter.Add(e.Slot, e.Phrase)
	t.version = e.Position
	next := append(make([]string, 0, ownMost), e.Phrase)
	for _, p := range t.own[e.User] {
		if p != e.Phrase && len(next) < ownMost {
			next = append(next, p)
		}
	}
	t.own[e.User], t.users[e.User] = next, true
}

// phrases are some of the phrases, in order; the score of one that is gone is 0.
func (t *tally) phrases(texts []string) []prefix.Phrase {
	list := make([]prefix.Phrase, len(texts))
	for i, text := range texts {
		list[i] = t.params.phrase(text, t.counter.Counts()[text])
	}
	slices.SortFunc(list, func(a, b prefix.Phrase) int { return cmp.Compare(a.Text, b.Text) })
	return list
}

// changes are the phrases that have changed since the last call, and the last phrases of users who
// have searched since.
func (t *tally) changes() (list []prefix.Phrase, users map[uint64][]string) {
	users = make(map[uint64][]string, len(t.users))
	for user := range t.users {
		users[user] = t.own[user]
	}
	clear(t.users)
	return t.phrases(t.counter.Changed()), users
}

// merge puts a user's own phrases before the best ones, which may repeat them.
func merge(own, best []prefix.Phrase, atMost int) []Suggestion {
	list := make([]Suggestion, 0, atMost)
	for _, p := range own {
		list = append(list, Suggestion{p.Text, p.Score, p.Trending, true})
	}
	for _, p := range best {
		if !slices.ContainsFunc(own, func(o prefix.Phrase) bool { return o.Text == p.Text }) {
			list = append(list, Suggestion{p.Text, p.Score, p.Trending, false})
		}
	}
	return list[:min(atMost, len(list))]
}
