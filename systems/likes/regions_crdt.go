package likes

// regionsCRDT: two regions that count alone and merge. The merge is commutative, associative and
// idempotent, so that neither order nor repetition matters. A region here is a prefix of keys,
// and the way between regions is the role: whoever stops it or cuts it off has parted them. A
// user has one home, because two regions that are apart cannot tell that a like is repeated.
func regionsCRDT(in ledgers) variant {
	v := inRegions(counted{ledger: in, layout: func(Params) layout {
		return layout{shards: 1, most: 1, regions: 2}
	}})
	v.Name = "regions_crdt"
	v.Idea = "two regions count their own users in PN-counters, which a role merges"
	v.Guarantees = "regions accept writes while disconnected, and agree on the exact count after " +
		"merging"
	v.GivesUp = "a region sees the other's likes late; a user has one home region"
	return v
}
