package views

// updatePerEvent is the naive counter behind the log.
//
// Idea: every view is one transaction that adds 1 to its rows and moves the
// offset on.
//
// Guarantee: as video_key: each view is counted once, and seen at once while
// the counter keeps up.
//
// Gives up: speed. A counter waits for the disk once for every view, so under a
// hot video it falls behind for as long as the video is hot.
func updatePerEvent() design {
	return design{
		name:       "update_per_event",
		idea:       "every view is its own transaction, which adds 1 and advances the offset",
		guarantees: "counts equal the log, and no view waits for a window while the counter keeps up",
		givesUp:    "a transaction for every view: it falls behind on a hot video",
		notApplicable: map[string]string{
			Fresh: "it promises no time: it shows how far such a design falls behind",
		},
		counting: counting{perEvent: true},
	}
}
