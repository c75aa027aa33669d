package reservation

// exclusionRanges lets Postgres keep stays apart.
//
// The idea: an exclusion constraint on the ranges of nights of live holds. The nights of all
// places lie behind each other on one line of numbers, so that one range says which place and
// which nights, and needs no extension.
//
// The guarantee: two live holds of one place never overlap, whatever the code before it does.
//
// It gives up: speed. A GiST index is searched for each hold, and guests that want the same wait
// for each other in it. ON CONFLICT lets them wait before they insert; without it both insert
// first, and each waits for the other until Postgres finds the deadlock, a second later.
func exclusionRanges() variant {
	return inPostgres(variant{
		Name:       "exclusion_ranges",
		Idea:       "EXCLUDE USING gist on the range of nights of live holds",
		Guarantees: "live holds of one place never overlap, whatever the code before it does",
		GivesUp:    "speed: holds search a GiST index; stays are refused that no single place has free",
		State: state{Seed: seedPlaces, Schema: placesSchema + `ALTER TABLE holds ADD CONSTRAINT stays_apart
			EXCLUDE USING gist (int8range((resource::bigint * 1000 + unit) * 2000 + first,
				(resource::bigint * 1000 + unit) * 2000 + first + nights) WITH &&)
			WHERE (state IN ('held', 'confirmed'));`},
	}, rows{}, rowNights)
}
