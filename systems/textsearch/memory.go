package textsearch

import "stampede/systems/textsearch/index"

// memory keeps the whole index in memory.
//
// The idea: that of disk_segments without segments. A change is flushed to a log, and goes to an
// index in memory, which a process that begins makes anew of the whole log.
//
// The guarantee: that of disk_segments.
//
// It gives up: memory in proportion to the corpus, and time at each start.
func memory() variant {
	return segments(variant{Name: "memory",
		Idea:       "a log on disk, and an index in memory that each start makes anew of it",
		Guarantees: "each answer is exact and of the newest generation; kill -9 loses nothing",
		GivesUp:    "memory in proportion to the corpus, and the time in which a start reads the log",

		Places: []string{index.PlaceLogged}, NotApplicable: noSegments(),
	}, inMemory)
}

// inMemory has an index make no segments.
func inMemory(o *index.Options) { o.NoSegments = true }
