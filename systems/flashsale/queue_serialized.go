package flashsale

import "context"

// queueSerialized: buyers stand in a line, one for each product, and one
// cashier serves it.
//
// Idea: a purchase is a record in Kafka, in the partition of its product. A
// consumer, the role cashier, takes each partition's records in their order and
// writes what they come to into the ledger, many in one transaction, together
// with how far it has come. Nobody contends for a unit: who came first has it.
//
// Guarantee: every unit has one owner, and each record is decided once however
// often it is delivered: the row that says how far a partition is decided is
// locked by whoever decides and moves in the same transaction, so that a
// consumer which was paused, killed or replaced can repeat nothing. A purchase
// whose buyer has left is decided all the same.
//
// The answer comes back by a second topic, in which each instance of the API
// reads a partition of its own: it carries refusals too, for which there is no
// row to wait for, costs Postgres nothing (a NOTIFY would take one lock for all
// commits), and is batched like the requests. It is sent after the commit and
// may be lost: the buyer's outcome is then unknown, and asking again with the
// same key resolves it.
//
// Gives up: latency, since two logs and a consumer stand between the request and
// its answer; and while no cashier works nobody is served, until the line is
// full and refuses.
func queueSerialized() design {
	return design{
		name: "queue_serialized",
		idea: "a Kafka queue per product; one consumer processes it and stores offsets with the " +
			"orders",
		guarantees: "every unit has one owner; a purchase is decided once, in the order of arrival",
		givesUp: "latency of two topics and a consumer; while the consumer is down, no buyer gets " +
			"an answer",
		stock:  unitRows(),
		queued: true,
		open: func(ctx context.Context, b *backend) (Shop, error) {
			return openLine(ctx, b)
		},
	}
}
