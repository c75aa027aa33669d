package textsearch

import (
	"stampede/harness/sut"
	"stampede/systems/textsearch/index"
)

// listedBeforeFlush is disk_segments, whose manifest lists a segment before its file is written.
//
// The idea: the manifest is replaced first, so that the log is never replayed again; then the file
// is written. A process that is killed in between leaves a manifest that names a file which is not
// whole, and a log that the next one skips.
//
// The guarantee: that of disk_segments, until a process is killed at the wrong moment.
//
// It gives up: the order of two steps, and with it changes that were acknowledged.
func listedBeforeFlush() variant {
	return segments(variant{Name: "listed_before_flush",
		Idea:       "disk_segments, whose manifest lists a segment before its file is written",
		Guarantees: "none once a process is killed between the two steps",
		GivesUp:    "the order of two steps, and with it changes that were acknowledged",

		Breaks: []sut.Break{{Invariant: SegmentsWhole, Under: sut.RoleCrash},
			{Invariant: ChangesKept, Under: sut.RoleCrash, Shows: sut.AtTimes}},
	}, func(o *index.Options) { o.Wrong.ListedBeforeFlush = true })
}
