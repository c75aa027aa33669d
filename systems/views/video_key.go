package views

// videoKey is the pipeline as the source draws it.
//
// Idea: the key of an event is its video, so all events of a video go through
// one partition, one filter and one counter, which adds them up in memory and
// stores one sum for each window.
//
// Guarantee: counts equal those of the log. Offsets are stored with the counts
// in one transaction, which only the latest owner of a partition can commit.
//
// Gives up: a hot video is as fast as one consumer. Its partition falls behind
// while the others idle.
func videoKey() variant {
	return pipelined(variant{
		Name: "video_key",
		Idea: "events are partitioned by video; one counter stores the sum of each window, with the " +
			"offsets, in one transaction",
		Guarantees: "counts equal the log whatever crashes, and each row has one writer",
		GivesUp:    "a hot video is limited to one consumer: its partition falls behind",
	}, nil)
}
