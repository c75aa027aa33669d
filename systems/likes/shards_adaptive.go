package likes

import "context"

// shardsAdaptive: as many counters as a video is hot, and an answer before the
// log has it.
//
// Idea: a video starts with few counters and gets more when its writes a second
// exceed what they should take, measured by the server. No data moves: writers
// begin to use the new keys, and readers find their number in the video's meta.
// A like is acknowledged as soon as Redis has it, and waits in a bounded buffer
// for the log; when the buffer is full, likes are refused before they count.
//
// Guarantee: the count is that of Redis; what is in the log gets into the ledger,
// once. What a server that dies had in its buffer is still in Redis, from where
// the repairer logs it.
//
// Gives up: likes in the buffer, if Redis is lost together with the server. Redis
// remembers the last interaction of each user and video: of a server that dies alone,
// those before it that were in the buffer, too, are missing from the list of events.
func shardsAdaptive() design {
	return design{
		name: "shards_adaptive",
		idea: "counters are added to a video as it gets hot, without moving data; Redis acknowledges " +
			"likes, which are logged later",
		guarantees: "a like that is in Redis or in the log reaches the ledger exactly once",
		givesUp: "a bounded number of acknowledged likes if a server and Redis are lost together; if " +
			"only a server is lost, the record of likes that were repeated or taken back since",
		layout: func(p Params) layout {
			return layout{shards: p.FirstShards, most: p.MaxShards}
		},
		buffer: func(p Params) int { return p.Buffer },
		likes:  func(b *backend) (Likes, error) { return buffering{&counting{b}}, nil },
	}
}

// buffering is a counting that acknowledges before the log has the interaction.
type buffering struct{ *counting }

// Like counts a like.
func (c buffering) Like(ctx context.Context, req Request) (Change, error) {
	return c.change(ctx, req, true)
}

// Unlike takes one back.
func (c buffering) Unlike(ctx context.Context, req Request) (Change, error) {
	return c.change(ctx, req, false)
}

// change takes a place in the buffer, counts, and leaves the rest for later.
func (c buffering) change(ctx context.Context, req Request, likes bool) (Change, error) {
	life := c.store.life.number()
	if !c.log.reserve(life) {
		return Change{}, ErrOverloaded
	}
	done, err := c.store.change(ctx, req, likes)
	if err != nil {
		c.log.release(life)
		return Change{}, err
	}
	c.log.buffer(eventOf(req, likes, done), life)
	return Change{done.changed}, nil
}
