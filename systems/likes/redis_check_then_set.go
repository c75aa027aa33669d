package likes

import "stampede/harness/sut"

// redisCheckThenSet: looks for the like, then counts it. Wrong.
//
// Idea: as redis_key, but whether the user likes the video already is looked up
// first, and the like is written and counted by a second call.
//
// Guarantee: one like for each user, as long as no user clicks twice at once.
//
// Gives up: the count. Two clicks at once both find no like, and both count.
func redisCheckThenSet() design {
	d := redisKey()
	d.name = "redis_check_then_set"
	d.idea = "looks up whether the user likes the video, then adds the like and increments"
	d.guarantees = "one like for each user, as long as no user clicks twice at once"
	d.givesUp = "a correct count: two clicks at once both find no like and both count"
	d.layout = func(Params) layout { return layout{shards: 1, most: 1, apart: true} }
	d.breaks = []sut.Break{
		{Invariant: OneLike, Under: sut.Load}, {Invariant: StoresAgree, Under: sut.Load},
	}
	return d
}
