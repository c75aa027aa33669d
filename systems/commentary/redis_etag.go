package commentary

import "stampede/harness/sut"

// redisETag keeps the newest comments of each match in Redis, and tells who has them that they are
// the same.
//
// The idea: Redis has a copy of each match, a sorted set of the newest thirty comments and the
// version that they are of. A change that is committed in Postgres is put into the copy if that is
// of the version before; else the copy goes. A copy is used for a second, say, and then read anew
// from Postgres, whatever has happened: so a process that dies before it has put a change, and a
// Redis that comes back with an older copy, are mended by themselves. The version is the ETag:
// a viewer who has it is answered 304 after one look at a number.
//
// The guarantee: what is acknowledged is kept, and seen within the time for which a copy is used;
// mostly at once.
//
// It gives up: a promise of at once; one read of Postgres a second for each match that is looked
// at.
func redisETag() variant {
	return inPostgres(variant{Name: "redis_etag",
		Idea: "Redis has a copy of each match for a second at a time, and its version is the ETag: who " +
			"has it is answered 304",
		Guarantees: "what is acknowledged is kept, and seen when the copy is read anew at the latest",
		GivesUp:    "that every change is seen at once; a read of Postgres for each match and second",
		Needs:      []sut.Service{sut.Redis},
		State:      copiesPending(),
	}, copiesPlan())
}

// copiesPlan reads copies.
func copiesPlan() plan {
	return plan{look: server.copied, then: put, tagged: true, cache: mustAsk,
		within: func(p Params) int64 { return p.CopyFor.D().Milliseconds() }}
}
