package likes

import "stampede/harness/sut"

// regionsMax is wrong: as regions_crdt, but a region has one number of likes and one of unlikes
// for everybody's, not for its own users', and merging takes the larger.
func regionsMax(in ledgers) variant {
	v := inRegions(counted{ledger: in, layout: func(Params) layout {
		return layout{shards: 1, most: 1, regions: 2, entry: func(int) int { return 0 }}
	}})
	v.Name = "regions_max"
	v.Idea = "two regions keep one number each and exchange the larger one"
	v.Guarantees = "the regions agree after an exchange"
	v.GivesUp = "a correct count: likes that both regions count at the same time are not added up"
	v.Breaks = []sut.Break{{Invariant: StoresAgree, Under: sut.Load}}
	return v
}
