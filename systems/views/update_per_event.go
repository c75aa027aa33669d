package views

import "context"

// updatePerEvent is the naive counter behind the log: it waits for the disk once for every view.
func updatePerEvent() variant {
	return pipelined(variant{
		Name:       "update_per_event",
		Idea:       "every view is its own transaction, which adds 1 and advances the offset",
		Guarantees: "counts equal the log, and no view waits for a window while the counter keeps up",
		GivesUp:    "a transaction for every view: it falls behind on a hot video",
		Model:      modelled(eachView, byVideo, false),
		NotApplicable: map[string]string{
			Fresh: "it promises no time: it shows how far such a design falls behind",
		},
	}, eachView)
}

// eachView lets a counter store every view by itself, and tell Kafka after each batch.
func eachView(c *counter) {
	c.added = c.flush
	c.store = func(ctx context.Context, moves []move, sums []sum) error {
		err := c.books.counted(ctx, c.who, moves, sums)
		if err == nil {
			c.cfg.Passed(placeCounted)
		}
		return err
	}
	c.read = func(ctx context.Context, s stand) error {
		return c.commit(ctx, []move{{stand: s, to: s.next}})
	}
}
