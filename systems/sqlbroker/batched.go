package sqlbroker

// batched has one statement for as many messages as there are. A claim takes the first rows that
// nobody else has locked (FOR UPDATE SKIP LOCKED) and marks them. A message waits for its batch.
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
