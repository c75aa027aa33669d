package views

// compositeKey spreads the hot video.
//
// Idea: the key is video and session, so a video's events go through all
// partitions. Each counts in rows of its own, and a merge stage adds the
// partitions up for the readers, as sums, so that merging twice does no harm.
//
// Guarantee: as video_key. The rules that span partitions, one view for each
// user and so many for each address, are kept in Redis by all filters together.
//
// Gives up: a reader sees a count one merge later, and every video costs a row
// for each partition that it came through.
func compositeKey() design {
	return design{
		name: "composite_key",
		idea: "events are partitioned by video and session, each partition counts in its own rows, and " +
			"a merge stage adds them up",
		guarantees: "as video_key, with a hot video spread over all consumers",
		givesUp:    "counts are visible one merge later, and a video has a row for each partition",
		composite:  true,
	}
}
