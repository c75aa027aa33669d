package autocomplete_test

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"stampede/harness/api"
	"stampede/harness/history"
	"stampede/harness/suttest"
	"stampede/systems/autocomplete"
)

const ms = time.Millisecond

type evidence = suttest.Evidence[autocomplete.Params, autocomplete.Audit]

// book is the smallest correct service: a list of all that was searched for, and of what is
// blocked.
type book struct {
	api     *api.Table[autocomplete.Suggester]
	params  autocomplete.Params
	now     func() time.Duration
	log     []autocomplete.LogRow
	blocked []autocomplete.BlockRow
}

func newBook(p autocomplete.Params, now func() time.Duration) *book {
	return &book{autocomplete.API(), p, now, []autocomplete.LogRow{}, []autocomplete.BlockRow{}}
}

// bookIn is a book that knows what time it is in a world.
func bookIn(w *suttest.World, p *autocomplete.Params) *book {
	return newBook(*p, func() time.Duration { return w.Now })
}

// Do performs an operation.
func (b *book) Do(op history.Op, answer func(history.Reply, error)) {
	answer(b.api.Do(context.Background(), b, op))
}

// Query writes a query down.
func (b *book) Query(
	_ context.Context, req autocomplete.QueryRequest,
) (autocomplete.Kept, error) {
	at := slices.IndexFunc(b.log, func(r autocomplete.LogRow) bool { return r.ID == req.ID })
	if at < 0 {
		at = len(b.log)
		b.log = append(b.log, autocomplete.LogRow{ID: req.ID, User: req.User, Phrase: req.Phrase,
			Position: int64(at) + 1, Slot: b.now().Milliseconds() / b.params.SlotMS})
	}
	return autocomplete.Kept{Position: int64(at) + 1}, nil
}

// Block writes a block down.
func (b *book) Block(_ context.Context, req autocomplete.BlockRequest) (api.Nothing, error) {
	row := autocomplete.BlockRow(req)
	if !slices.Contains(b.blocked, row) {
		b.blocked = append(b.blocked, row)
	}
	return api.Nothing{}, nil
}

// Suggest reads the whole book, from its end.
func (b *book) Suggest(
	_ context.Context, req autocomplete.SuggestRequest,
) (autocomplete.Suggestions, error) {
	out := autocomplete.Suggestions{Version: int64(len(b.log)), Phrases: []autocomplete.Suggestion{}}
	p := b.params
	recent, before := map[string]int64{}, map[string]int64{}
	seen, own := map[string]bool{}, []string{}
	for _, row := range slices.Backward(b.log) {
		age := b.log[len(b.log)-1].Slot - row.Slot
		switch {
		case age < p.Recent:
			recent[row.Phrase]++
		case age < p.Recent+p.Baseline:
			before[row.Phrase]++
		}
		if row.User == req.User && !seen[row.Phrase] && len(own) < 10 {
			seen[row.Phrase], own = true, append(own, row.Phrase)
		}
	}
	add := func(phrase string, personal bool) {
		gone := slices.ContainsFunc(b.blocked, func(r autocomplete.BlockRow) bool {
			return r.Phrase == phrase
		})
		score := p.Weight*recent[phrase] + before[phrase]
		if gone || !begins(phrase, req.Prefix, req.Edits) || score == 0 && !personal {
			return
		}
		out.Phrases = append(out.Phrases, autocomplete.Suggestion{Phrase: phrase, Score: score,
			Personal: personal, Trending: recent[phrase] >= p.Least &&
				recent[phrase]*p.Baseline >= p.Rises*before[phrase]*p.Recent})
	}
	for _, phrase := range own {
		add(phrase, true)
	}
	mine := len(out.Phrases)
	for _, row := range b.log {
		if !slices.ContainsFunc(out.Phrases, func(s autocomplete.Suggestion) bool {
			return s.Phrase == row.Phrase
		}) {
			add(row.Phrase, false)
		}
	}
	slices.SortFunc(out.Phrases[mine:], func(x, y autocomplete.Suggestion) int {
		return cmp.Or(cmp.Compare(y.Score, x.Score), strings.Compare(x.Phrase, y.Phrase))
	})
	out.Phrases = out.Phrases[:min(req.Most, len(out.Phrases))]
	return out, nil
}

// begins tries all ways to change a prefix into the beginning of a phrase.
func begins(phrase, prefix string, edits int) bool {
	if prefix == "" || strings.HasPrefix(phrase, prefix) {
		return true
	}
	p, rest := []rune(phrase), []rune(prefix)
	if len(p) > 0 && p[0] == rest[0] && begins(string(p[1:]), string(rest[1:]), edits) {
		return true
	}
	return edits > 0 && (begins(phrase, string(rest[1:]), edits-1) ||
		len(p) > 0 && (begins(string(p[1:]), prefix, edits-1) ||
			begins(string(p[1:]), string(rest[1:]), edits-1)))
}

// Audit copies the book.
func (b *book) Audit() autocomplete.Audit {
	a := autocomplete.Audit{Log: slices.Clone(b.log), Blocked: slices.Clone(b.blocked),
		Lists: []autocomplete.ListRow{}}
	seen := map[string]bool{}
	for _, row := range b.log {
		first := string([]rune(row.Phrase)[:1])
		if !seen[first] {
			l, _ := b.Suggest(context.Background(), autocomplete.SuggestRequest{Prefix: first, Most: 10})
			a.Lists = append(a.Lists, autocomplete.ListRow{Prefix: first, Version: l.Version,
				Phrases: l.Phrases})
		}
		seen[first] = true
	}
	return a
}

// crowd is of ordinary size; its windows are short, so that they roll.
func crowd() *autocomplete.Params {
	p := autocomplete.DefaultParams()
	p.Phrases, p.Users, p.Regulars, p.Typed, p.Mistyped, p.Blocks = 100, 100, 5, 0.3, 0.3, 0.1
	p.SlotMS, p.Recent, p.Baseline, p.Least = 100, 6, 8, 3
	p.News, p.NewsEvery = 0.15, 50
	return &p
}

// anyCrowd is one of any kind.
func anyCrowd(d suttest.Draw) *autocomplete.Params {
	p := crowd()
	p.Users = d.Int("users", 1, 30)
	p.Regulars = d.Int("regulars", 1, 5)
	p.Phrases = d.Int("phrases", 10, 3000)
	p.Typed, p.Mistyped = d.Share("typed"), d.Share("mistyped")
	p.Blocks, p.News = d.Share("blocks"), d.Share("news")
	p.SlotMS = int64(d.Int("slot", 10, 1000))
	p.Recent = int64(d.Int("recent", 1, 20))
	p.Baseline = int64(d.Int("baseline", 1, 20))
	p.Weight = int64(d.Int("weight", 1, 10))
	return p
}
