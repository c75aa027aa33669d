package positions

import "stampede/harness/sut"

// keyCached keeps keys in the memory of the API. It is wrong.
//
// The idea: crypto_shred without a lookup for each read: a process that has seen a key uses it.
//
// The guarantee: what is acknowledged is kept.
//
// It gives up: erasures. The key is deleted from its table, but a process that cached it can still
// decrypt what every store holds.
func keyCached() variant {
	d := shredding()
	d.cached = true
	return twoPaths(variant{Name: "key_cached",
		Idea:       "crypto_shred, whose readers keep the keys that they have seen",
		Guarantees: "what is acknowledged is kept",
		GivesUp:    "erasures: a process that cached the key can still read",
		Breaks:     []sut.Break{{Invariant: ErasedForGood, Under: sut.Load}},
	}, d)
}
