package adclicks

// windowsInMemory keeps windows in the memory of the consumer.
//
// The idea: an aggregator decides clicks and adds them up in memory. Every flush stores the
// decisions, the windows that have changed and the offset in one transaction of Postgres. Whoever
// takes a partition over reads what the decider must remember from the decisions, and the windows
// that may still change.
//
// The guarantee: everything is decided and counted exactly once, in the order of the log.
//
// It gives up: a row for each click, and the time of a takeover, which grows with the horizon.
func windowsInMemory() variant {
	return streaming(variant{
		Name:       "windows_in_memory",
		Idea:       "windows in the consumer's memory; results and offsets in one transaction",
		Guarantees: "each click is decided exactly once, whatever crashes",
		GivesUp:    "a row for each click, and reading the horizon again at each takeover",
	}, aggregatorRole(nil))
}
