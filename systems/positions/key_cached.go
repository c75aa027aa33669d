package positions

import "stampede/harness/sut"

// keyCached keeps keys in the memory of the API. It is wrong.
//
// The idea: crypto_shred without a lookup for each read: a process that has seen a key uses it.
//
// The guarantee: what is acknowledged is kept.
//
// It gives up: erasures. The key is gone from its table, and whoever has seen it still opens what
// every store has.
func keyCached() variant {
	d := shredding()
	d.cached = true
	return twoPaths(variant{Name: "key_cached",
		Idea:       "crypto_shred, whose readers keep the keys that they have seen",
		Guarantees: "what is acknowledged is kept",
		GivesUp:    "erasures: who has seen the key goes on reading",
		Breaks:     []sut.Break{{Invariant: ErasedForGood, Under: sut.Load}},
	}, d)
}
