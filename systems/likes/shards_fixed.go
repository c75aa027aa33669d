package likes

// shardsFixed: the counter split into a fixed number of keys.
//
// Idea: as redis_key, but each write increments one of N counters, and a read
// sums them up with one MGET.
//
// Guarantee: that of redis_key. Reads see all counters at one moment.
//
// Gives up: cheap reads, for every video, also for those that nobody likes. The
// counters can lie on different servers; on one Redis they only cost.
func shardsFixed(in ledgers) variant {
	v := fixed(in).variant()
	v.Name = "shards_fixed"
	v.Idea = "each write increments one of N counters of the video; a read sums them up"
	v.Guarantees = "an acknowledged like reaches the ledger exactly once, whatever crashes"
	v.GivesUp = "every read of every video reads N counters"
	return v
}

func fixed(in ledgers) counted {
	return counted{ledger: in, layout: func(p Params) layout {
		return layout{shards: p.Shards, most: p.Shards}
	}}
}
