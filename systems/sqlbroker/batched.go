package sqlbroker

// batched: one statement for as many messages as there are.
//
// Idea: a publication, a demand and a settlement are one statement each, whatever
// number of messages they have. A claim takes the first rows that nobody else has
// locked (FOR UPDATE SKIP LOCKED) and marks them in the same statement.
//
// Guarantee: a delivered message is its consumer's until the receipt expires; what
// is acknowledged is gone for good; and nothing is lost, because every change is a
// transaction.
//
// Gives up: latency of the single message, which waits for its batch, and a version
// of the row for each step of its life, which a vacuum has to take away.
func batched() variant {
	return inTable(variant{
		Name:       "batched",
		Idea:       "one statement publishes, claims or acknowledges a batch; claims skip locked rows",
		Guarantees: "a message has one consumer at a time and is gone once acknowledged; none is lost",
		GivesUp:    "three versions of a row for each message, which vacuum must remove",
		Model:      modelled(func(*model) {}),
	}, plain)
}

// plain are the messages of a table that does everything as the table does.
func plain(t *table) messages { return t }
