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
		name: "update_per_event",
		idea: "every view is a transaction of its own that adds 1 and moves the offset on",
		guarantees: "counts equal those of the log, and no view waits for a window while the " +
			"counter keeps up",
		givesUp: "a transaction for every view: a hot video leaves it behind",
		notApplicable: map[string]string{
			Fresh: "it promises no time: how far it falls behind is what it is here to show",
		},
		counting: counting{perEvent: true},
	}
}
