package likes

// redisKey: one counter in Redis, and a log behind it.
//
// Idea: one script tells repeated likes apart and increments the video's counter
// in Redis; then the interaction goes to the log in Kafka, from which a worker
// writes it to the ledger, in batches of 100.
//
// Guarantee: an acknowledged interaction is in the log, and what is in the log
// gets into the ledger, once; the counter is rebuilt from there if Redis is lost.
//
// Gives up: a count that agrees with the ledger at every moment, and the writes
// to a video while its counter is being rebuilt. All of a video is in one key, so
// that no second Redis could share its load.
func redisKey(in ledgers) variant {
	v := counted{layout: oneKey, ledger: in}.variant()
	v.Name = "redis_key"
	v.Idea = "a Lua script dedupes and increments one key; a like is acknowledged once it is in " +
		"Kafka, on its way to the ledger"
	v.Guarantees = "an acknowledged like reaches the ledger exactly once, whatever crashes"
	v.GivesUp = "one key takes all writes of a video; the ledger lags behind"
	return v
}

func oneKey(Params) layout { return layout{shards: 1, most: 1} }
