package textsearch

import (
	"stampede/harness/sut"
	"stampede/systems/textsearch/index"
)

// mergeForgetsDeletes is disk_segments, whose merges do not look at what was changed meanwhile.
//
// The idea: a merge reads its segments, writes what is alive in them, and is listed in their place.
// A document that was deleted while it worked is alive in the output: it comes back, under a
// generation in which it is deleted. Tantivy had this (quickwit-oss/tantivy#96).
//
// The guarantee: none for what is deleted or replaced while a merge is at work.
//
// It gives up: the second look at the end of a merge, at the changes of the meantime.
func mergeForgetsDeletes() variant {
	return segments(variant{Name: "merge_forgets_deletes",
		Idea:       "disk_segments, whose merges do not apply what was deleted while they were at work",
		Guarantees: "none for what is deleted or replaced during a merge",
		GivesUp:    "the second look at the end of a merge, and with it that what is gone stays gone",

		Breaks: []sut.Break{{Invariant: GoneForGood, Under: sut.Load}},
	}, func(o *index.Options) { o.Wrong.MergeForgetsDeletes = true })
}
