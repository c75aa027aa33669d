package autocomplete

import (
	"context"

	"stampede/systems/internal/prefix"
)

// trieTopK has the answer at each prefix.
//
// The idea: a radix trie in the memory of each API, in which every node has the ten best phrases
// below it. A suggestion is a walk along the prefix. The trie is never changed where it can be
// seen: a batch of the log copies the nodes on the way to what has changed, makes the lists of the
// copies from those of their children, lowest first, and then puts the new root in the place of
// the old one. A phrase that is blocked is taken out in the same way.
//
// The guarantee: each suggestion is the exact top of one version, and waits for no change. No
// suggestion that begins after a block has the phrase; suggestions ask no store.
//
// It gives up: memory, in each API, for a list at each branch; the time in which an API that begins
// reads the log; suggestions, while Postgres cannot say for longer than a lease what is blocked.
func trieTopK() variant {
	return variant{Name: "trie_top_k",
		Idea: "a radix trie in each API, read from the log, with the ten best phrases at every node; " +
			"changes are made in copies, and seen at once",
		Guarantees: "the exact top of one version, in process; blocked phrases are gone at once",
		GivesUp: "memory for a list at each branch, the time to read the log, and suggestions while " +
			"Postgres is away for longer than a lease",
		Open: func(_ context.Context, st *opened) (Suggester, error) {
			return inMemory(st, new(prefix.Trie), byLease), nil
		},
	}
}
