package flashsale

import (
	"context"
	"fmt"

	"stampede/harness/stores"
	"stampede/harness/sut"
	"stampede/harness/topics"
)

// queueSerialized makes a record in Kafka of each purchase, in the partition of its product. The
// role cashier takes each partition's records in their order and writes what they come to into
// the ledger, many in one transaction, together with how far it has come: nobody contends for a
// unit, and a cashier that was paused, killed or replaced can repeat nothing.
//
// The answer comes back by a second topic, in which each instance of the API reads a partition
// of its own: it carries refusals too, for which there is no row to wait for, and costs Postgres
// nothing (a NOTIFY would take one lock for all commits). It is sent after the commit and may be
// lost; asking again with the same key then finds the order.
func queueSerialized() variant {
	v := unitRows().sells(variant{
		Name: "queue_serialized",
		Idea: "a Kafka queue per product; one consumer processes it and stores offsets with the " +
			"orders",
		Guarantees: "every unit has one owner; a purchase is decided once, in the order of arrival",
		GivesUp: "latency of two topics and a consumer; while the consumer is down, no buyer gets " +
			"an answer",
		Needs: []sut.Service{sut.Kafka},
		Open:  func(ctx context.Context, st *opened) (Shop, error) { return openLine(ctx, st) },
	})
	v.State.Ready = makeTopics
	v.State.Reset = skipQueued
	v.State.Pending = func(ctx context.Context, st *opened) (left int64, what string, err error) {
		queued, err := undecided(ctx, st)
		if err != nil {
			return 0, "", err
		}
		left, what, err = stock{}.held(ctx, st)
		if queued > 0 {
			what = fmt.Sprintf("%d purchases are queued", queued)
		}
		return queued + left, what, err
	}
	v.Roles = append(v.Roles, cashier())
	return v
}

// skipQueued calls all tickets in the topic decided: they are those of the sale before.
func skipQueued(ctx context.Context, st *opened) error {
	next, err := topics.Ends(ctx, st.Kafka, topics.Name(st.Config, ticketsTopic))
	if err != nil {
		return err
	}
	for line, offset := range next {
		_, err := st.DB.Exec(ctx, `INSERT INTO lines (line, next_offset) VALUES ($1, $2)
			ON CONFLICT (line) DO UPDATE SET next_offset = $2`, line, offset)
		if err != nil {
			return stores.Failed("passing over the partition", err)
		}
	}
	return nil
}

// undecided counts the purchases that are queued.
func undecided(ctx context.Context, st *opened) (n int64, err error) {
	written, err := topics.Ends(ctx, st.Kafka, topics.Name(st.Config, ticketsTopic))
	if err != nil {
		return 0, err
	}
	next, err := decided(ctx, st.DB)
	if err != nil {
		return 0, err
	}
	for line, end := range written {
		n += max(0, end-next[line])
	}
	return n, nil
}

// decided is how far each line has been decided: the offset after the last
// ticket that the ledger has dealt with.
func decided(ctx context.Context, db *stores.Postgres) (map[int32]int64, error) {
	type row struct {
		Line int32
		Next int64
	}
	rows, err := stores.Collect[row](ctx, db, `SELECT line, next_offset FROM lines`)
	if err != nil {
		return nil, stores.Failed("asking how far the partitions are decided", err)
	}
	next := map[int32]int64{}
	for _, r := range rows {
		next[r.Line] = r.Next
	}
	return next, nil
}
