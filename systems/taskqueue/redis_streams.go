package taskqueue

// redisStreams keeps ready jobs in streams. It is wrong where Redis forgets.
//
// The idea: a stream for each tenant and priority, read by one group. What a worker has read is
// pending until it acknowledges it, when the entry is deleted too, so that no stream is trimmed
// under what is pending. When a job was read and not renewed for a lease it gets another entry.
// The leases are in a sorted set: the idle time of a pending entry cannot be renewed for its
// reader alone, and one who was taken for dead would keep it.
//
// The guarantee: that of redis_lists.
//
// It gives up: durability, as redis_lists does; an entry takes more memory than a number in a
// list.
func redisStreams() variant {
	return inRedis(variant{
		Name:       "redis_streams",
		Idea:       "a stream for each tenant and priority; what is read is pending until it is done",
		Guarantees: "nothing is lost or done twice, as long as Redis forgets nothing",
		GivesUp:    "durability: a power loss takes the last second",
	}, "streams")
}
