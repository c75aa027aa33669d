package views

// videoKey is the pipeline as the source draws it: all events of a video go through one
// partition, one filter and one counter. Only the latest owner of a partition can commit.
func videoKey() variant {
	return pipelined(variant{
		Name: "video_key",
		Idea: "events are partitioned by video; one counter stores the sum of each window, with the " +
			"offsets, in one transaction",
		Guarantees: "counts equal the log whatever crashes, and each row has one writer",
		GivesUp:    "a hot video is limited to one consumer: its partition falls behind",
		Model:      modelled(nil, byVideo, false),
	}, nil)
}
