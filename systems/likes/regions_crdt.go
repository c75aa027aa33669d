package likes

// regionsCRDT: two regions that count alone and merge.
//
// Idea: each region has its own keys in Redis and counts likes and unlikes of its
// own users in a PN-counter. A role exchanges the counters and merges them; the
// merge is commutative, associative and idempotent, so that neither order nor
// repetition matters. A region here is a prefix of keys, and the way between
// regions is the role: whoever stops it or cuts it off has parted them.
//
// Guarantee: each region takes writes whatever becomes of the other; once they
// have exchanged their counters, all read the same, exact count.
//
// Gives up: reading the likes of other regions at once. A user has one home,
// because two regions that are apart cannot tell that a like is repeated.
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
