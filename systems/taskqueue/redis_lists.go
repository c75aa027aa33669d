package taskqueue

// redisLists keeps ready jobs in lists. It is wrong where Redis forgets.
//
// The idea: a list for each tenant and priority. One script goes round the tenants and moves
// numbers of jobs to the worker's own list (LMOVE), so that they are in one of both at any time,
// and sets their leases in a sorted set. Jobs that wait for their time are in another one.
//
// The guarantee: nothing is lost or done twice, whoever dies, as long as Redis forgets nothing.
//
// It gives up: durability. Redis writes its log to the disk once a second; and to take a job out
// of a worker's list takes a search in it.
func redisLists() variant {
	return inRedis(variant{
		Name:       "redis_lists",
		Idea:       "a list for each tenant and priority; LMOVE to a list of the worker, with a lease",
		Guarantees: "nothing is lost or done twice, as long as Redis forgets nothing",
		GivesUp:    "durability: a power loss takes the last second",
	}, "lists")
}
