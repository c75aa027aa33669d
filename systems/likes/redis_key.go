package likes

// redisKey has one counter in Redis, and a log behind it; the counter is rebuilt from the ledger if
// Redis is lost, and nobody can write to the video meanwhile. All of a video is in one key, so
// that no second Redis could share its load.
func redisKey(in ledgers) variant {
	v := counted{layout: oneKey, ledger: in}.variant()
	v.Name = "redis_key"
	v.Idea = "a Lua script dedupes and increments one key; a like is acknowledged once it is in " +
		"Kafka, on its way to the ledger"
	v.Guarantees = "an acknowledged like reaches the ledger exactly once, whatever crashes"
	v.GivesUp = "one key takes all writes of a video; the ledger lags behind"
	v.Model = counted{layout: oneKey}.modelled((*modelCounts).changed)
	return v
}

func oneKey(Params) layout { return layout{shards: 1, most: 1} }
