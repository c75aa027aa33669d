package autocomplete

import (
	"context"

	"stampede/harness/sut"
	"stampede/systems/internal/prefix"
)

// staleTopK counts, and does not order again what it has counted. It is wrong.
//
// The idea: trie_top_k, without the work of making lists anew for each query: a phrase enters the
// lists when it is searched for the first time, and leaves them when it is gone or blocked.
// Counts are kept beside the trie, and shown as they are.
//
// The guarantee: every suggestion has its true score.
//
// It gives up: that the best come first, or at all.
func staleTopK() variant {
	return variant{Name: "stale_top_k",
		Idea:       "trie_top_k, whose lists change when a phrase comes or goes, and not with its count",
		Guarantees: "every suggestion has its true score",
		GivesUp:    "that the best come first, or at all",
		Breaks:     []sut.Break{{Invariant: TopOfVersion, Under: sut.Load}},
		Open: func(_ context.Context, st *opened) (Suggester, error) {
			return inMemory(st, &staleTrie{counts: map[string]prefix.Phrase{}}, byLease), nil
		},
	}
}

// staleTrie has true counts beside old lists.
type staleTrie struct {
	prefix.Trie
	counts map[string]prefix.Phrase
}

// Prepare changes lists for phrases that come and go alone.
func (t *staleTrie) Prepare(list []prefix.Phrase) (publish func()) {
	var comeOrGo []prefix.Phrase
	for _, p := range list {
		if _, is := t.Trie.Get(p.Text); !is || p.Score == 0 {
			comeOrGo = append(comeOrGo, p)
		}
	}
	lists := t.Trie.Prepare(comeOrGo)
	return func() {
		lists()
		for _, p := range list {
			if t.counts[p.Text] = p; p.Score == 0 {
				delete(t.counts, p.Text)
			}
		}
	}
}

// Best shows old lists with new counts.
func (t *staleTrie) Best(q prefix.Typed) []prefix.Phrase {
	list := t.Trie.Best(q)
	for i, p := range list {
		list[i] = t.counts[p.Text]
	}
	return list
}

// Get has the new count.
func (t *staleTrie) Get(phrase string) (prefix.Phrase, bool) {
	p, is := t.counts[phrase]
	return p, is
}
