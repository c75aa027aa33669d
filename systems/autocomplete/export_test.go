package autocomplete

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"

	"stampede/harness/stores"
	"stampede/harness/sut"
	"stampede/systems/internal/known"
	"stampede/systems/internal/prefix"
)

// Mutants are designs with a planted error each.
func Mutants() map[string]sut.Variant {
	of := func(v variant) sut.Variant { return systemOf(v).Variants[0] }
	planted := func(v variant, plant func(st *opened, s *service)) sut.Variant {
		open := v.Open
		v.Open = func(ctx context.Context, st *opened) (Suggester, error) {
			s, err := open(ctx, st)
			if err == nil {
				plant(st, s.(*service))
			}
			return s, err
		}
		return of(v)
	}
	answers := func(change func(q question, s *Suggestions)) func(*opened, *service) {
		return func(_ *opened, s *service) { s.index = changed{s.index, change} }
	}
	still := trieTopK()
	open := still.Open
	still.Open = func(ctx context.Context, st *opened) (Suggester, error) {
		st.Params.Recent = 1 << 40
		return open(ctx, st)
	}
	return map[string]sut.Variant{
		"trie": of(trieTopK()), "segments": of(fstSegments()), "sets": of(redisZset()),
		"tables": of(postgresPrefix()),
		"M90":    of(cachedBlocks()),
		"a block waits for nobody": planted(trieTopK(), func(st *opened, s *service) {
			s.blocks = hasty{s.blocks, st}
		}),
		"a block is not stored": planted(trieTopK(), func(_ *opened, s *service) {
			s.blocks = forgetful{s.blocks}
		}),
		"windows do not roll": of(still),
		"the best come before one's own": planted(fstSegments(), answers(
			func(_ question, s *Suggestions) { slices.Reverse(s.Phrases) })),
		"equal ones in any order": planted(postgresPrefix(), answers(
			func(_ question, s *Suggestions) {
				slices.SortStableFunc(s.Phrases, func(a, b Suggestion) int {
					if a.Personal || b.Personal || a.Score != b.Score {
						return 0
					}
					return -prefix.Better(&prefix.Phrase{Text: a.Phrase}, &prefix.Phrase{Text: b.Phrase})
				})
			})),
		"a wrong prefix finds too much": planted(redisZset(), answers(
			func(q question, s *Suggestions) {
				if q.Edits > 0 && len(s.Phrases) < q.most {
					s.Phrases = append(s.Phrases, Suggestion{Phrase: "zebra"})
				}
			})),
		"a version of later": planted(redisZset(), answers(
			func(_ question, s *Suggestions) { s.Version++ })),
	}
}

// changed changes answers.
type changed struct {
	index
	change func(q question, s *Suggestions)
}

func (c changed) suggest(ctx context.Context, q question) (Suggestions, error) {
	s, err := c.index.suggest(ctx, q)
	if err == nil {
		c.change(q, &s)
	}
	return s, err
}

// hasty answers once a block is stored.
type hasty struct {
	blocks
	st *opened
}

func (h hasty) block(ctx context.Context, req BlockRequest) error {
	_, err := known.Add(ctx, h.st.DB, req.ID, req.Phrase)
	return stores.Failed("blocking", err)
}

// forgetful stores nothing of every third block.
type forgetful struct{ blocks }

func (f forgetful) block(ctx context.Context, req BlockRequest) error {
	if req.ID>>idBits%3 == 0 {
		return nil
	}
	return f.blocks.block(ctx, req)
}

// Index is an index of phrases in memory: it finds what completes a prefix, and takes in changes.
type Index struct {
	Find   func(prefix.Typed) []prefix.Phrase
	Change func([]prefix.Phrase)
}

// Indexes make those of designs whose APIs have one in their memory, of phrases in their order. A
// transducer takes no changes in: it is built anew.
func Indexes() map[string]func(list []prefix.Phrase) Index {
	ranked := func(r ranking) func([]prefix.Phrase) Index {
		return func(list []prefix.Phrase) Index {
			change := func(list []prefix.Phrase) { r.Prepare(list)() }
			change(list)
			return Index{r.Best, change}
		}
	}
	return map[string]func([]prefix.Phrase) Index{
		"trie_top_k": ranked(new(prefix.Trie)), "linear_scan": ranked(&scan{at: map[string]int{}}),
		"fst_segments": func(list []prefix.Phrase) Index {
			var s *prefix.Segment
			build := func([]prefix.Phrase) {
				raw, head, err := prefix.Build(list)
				if err == nil {
					s, err = prefix.Open(raw, head)
				}
				if err != nil {
					panic(err)
				}
			}
			build(nil)
			return Index{func(q prefix.Typed) []prefix.Phrase { return s.Best(q, nil) }, build}
		},
	}
}

// Phrases are n phrases of one to four words out of fifty thousand that somebody might have, most
// of them of the commoner ones, with the scores of a skewed crowd, in the order of bytes.
func Phrases(n int) []prefix.Phrase {
	r := rand.New(rand.NewPCG(1, 1))
	syllables := strings.Fields("ba be bra ca che co da de di fa fi fla ga go gri ha he ho in is ja " +
		"ka ke la le lo ma mi mo na ne no pa pe pla ra re ri sa se sto ta te tri un va we win n r s t")
	words := make([]string, 50_000)
	for i := range words {
		for range 1 + r.IntN(4) {
			words[i] += syllables[r.IntN(len(syllables))]
		}
	}
	seen := make(map[string]bool, n)
	list := make([]prefix.Phrase, 0, n)
	for len(list) < n {
		text := ""
		for range 1 + r.IntN(4) {
			common := r.Float64()
			text += " " + words[int(common*common*common*float64(len(words)))]
		}
		if text = text[1:]; !seen[text] {
			seen[text] = true
			list = append(list, prefix.Phrase{Text: text, Score: int64(n/(1+r.IntN(n))) + 1})
		}
	}
	slices.SortFunc(list, func(a, b prefix.Phrase) int { return strings.Compare(a.Text, b.Text) })
	return list
}

// maxRight is the longest shortest prefix that is typed without an error.
const maxRight = 5

// Prefixes are so many that are typed before phrases, of a shortest and a longest length. Those
// that may be wrong are: their third character is another one.
func Prefixes(list []prefix.Phrase, n, shortest, longest int) (typed []string) {
	for i := 0; len(typed) < n; i++ {
		text := []rune(firstOf(list[i*7919%len(list)].Text, shortest+i%(longest+1-shortest)))
		if len(text) < shortest {
			continue
		}
		if shortest > maxRight {
			text[2] = 'x'
		}
		typed = append(typed, string(text))
	}
	return typed
}
