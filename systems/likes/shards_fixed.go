package likes

// shardsFixed splits the counter into a fixed number of keys, which a read gets at one moment. They
// could lie on different servers; on one Redis they only cost.
func shardsFixed(in ledgers) variant {
	v := fixed(in).variant()
	v.Name = "shards_fixed"
	v.Idea = "each write increments one of N counters of the video; a read sums them up"
	v.Guarantees = "an acknowledged like reaches the ledger exactly once, whatever crashes"
	v.GivesUp = "every read of every video reads N counters"
	v.Model = fixed(in).modelled((*modelCounts).changed)
	return v
}

func fixed(in ledgers) counted {
	return counted{ledger: in, layout: func(p Params) layout {
		return layout{shards: p.Shards, most: p.Shards}
	}}
}
