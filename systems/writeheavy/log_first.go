package writeheavy

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"stampede/harness/design"
	"stampede/harness/stores"
	"stampede/harness/sut"
	"stampede/harness/topics"
	"stampede/systems/internal/partitions"
)

// The topic of adds, and the group that reads it.
const (
	topicAdds     = "adds"
	materialisers = "materialisers"
)

// The fail points of a materialiser.
const (
	placeRead   = "read"   // adds are read, and not written
	placeStored = "stored" // adds and the offset are written
)

// logFirst acknowledges what is in the log, and counts later.
//
// The idea: an add goes to a partition of Kafka by its counter. Materialisers write what they have
// read to Postgres, adds and the offset of the partition in one transaction. What the tables would
// refuse becomes a dead letter. A read says up to which position of its partition it is.
//
// The guarantee: what is acknowledged is in the log, and is counted once, whatever crashes. A read
// has every add up to its position and no other.
//
// It gives up: reads as of now. A hot counter is a hot partition, and an add that cannot be made is
// acknowledged and found out later.
func logFirst() variant {
	return variant{Name: "log_first",
		Idea:       "adds are in Kafka; materialisers write them with the offset in one transaction",
		Guarantees: "what is in the log is counted once, and a read is exactly as of a position",
		GivesUp:    "reads as of now; an add that cannot be made is found out after it was acknowledged",
		Needs:      []sut.Service{sut.Kafka},
		Open: func(_ context.Context, st *opened) (Counters, error) {
			return service{watermarked{st}, logged{st}.add, MostRecords}, nil
		},
		Roles: []role{{Name: "materialiser", Summary: "writes what is in the log to the counters",
			Places: []string{placeRead, placeStored}, Do: materialise}},
		State: design.State[Params]{
			Ready: func(ctx context.Context, st *opened) error {
				return partitions.Prepare(ctx, st.Config, st.DB, st.Kafka, topicAdds, materialisers)
			},
			Found: func(ctx context.Context, st *opened) (string, error) {
				return partitions.Found(ctx, st.Config, st.Kafka, topicAdds, "adds in the log")
			},
			Pending: func(ctx context.Context, st *opened) (int64, string, error) {
				starts, err := partitions.Starts(ctx, st.DB)
				if err != nil {
					return 0, "", err
				}
				left, err := partitions.Behind(ctx, st.Kafka, topics.Name(st.Config, topicAdds), starts)
				return left, fmt.Sprintf("%d adds of the log are not counted", left), err
			},
			Audit: audited(Contract{AsOf: true, Attempts: 1}, readLog),
		},
		Model: modelled(func(m *countersModel) { m.logs() }),
	}
}

// logged is an API that writes to the log.
type logged struct{ *opened }

// add waits until the add is in the log.
func (l logged) add(ctx context.Context, req AddRequest) error {
	value, err := json.Marshal(req)
	if err != nil {
		return fmt.Errorf("encoding an add: %w", err)
	}
	return partitions.Append(ctx, l.Config, l.Kafka, &kgo.Record{Value: value,
		Topic: topics.Name(l.Config, topicAdds), Key: binary.BigEndian.AppendUint64(nil, req.Key)},
		ErrShed)
}

// materialise counts the partitions that a process has.
func materialise(ctx context.Context, st *opened) error {
	r := &partitions.Reader{Config: st.Config, Topic: topicAdds, Group: materialisers,
		Session: st.Params.Session.D(), Every: st.Params.FlushEvery.D(),
		Start: func(ctx context.Context) (map[int32]int64, error) {
			return partitions.Starts(ctx, st.DB)
		},
		Open: func(id int32) partitions.Shard { return &share{opened: st, id: id} }}
	return r.Run(ctx)
}

// share is a partition in the hands of a materialiser.
type share struct {
	*opened
	id         int32
	adds, dead []counted
}

// Read takes an add in.
func (s *share) Read(_ context.Context, r *kgo.Record) error {
	c := counted{shard: int(s.id), pos: r.Offset + 1}
	if err := json.Unmarshal(r.Value, &c.AddRequest); err != nil {
		return fmt.Errorf("decoding an add: %w", err)
	}
	if sound(c.Delta) {
		s.adds = append(s.adds, c)
	} else {
		s.dead = append(s.dead, c)
	}
	return nil
}

// Store writes what was read. Of an add that is in the log twice the first one counts.
func (s *share) Store(ctx context.Context, from, to int64) error {
	s.Config.Passed(placeRead)
	err := s.DB.Transaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if err := partitions.MoveOn(ctx, tx, s.id, from, to); err != nil {
			return err
		}
		for _, c := range s.dead {
			if _, err := tx.Exec(ctx, sqlBury, c.ID, c.Key, c.User, c.Delta, 1); err != nil {
				return err
			}
		}
		return apply(ctx, tx, 1, s.adds)
	})
	if err != nil {
		return stores.Failed("storing adds", err)
	}
	s.Config.Passed(placeStored)
	s.adds, s.dead = nil, nil
	return nil
}

// readLog adds what is in the log to an audit.
func readLog(ctx context.Context, st *opened, _ pgx.Tx, a *Audit) error {
	a.Log = []LogRow{}
	return partitions.Each(ctx, st.Config, st.Kafka, topicAdds, func(r *kgo.Record) error {
		var req AddRequest
		if err := json.Unmarshal(r.Value, &req); err != nil {
			return fmt.Errorf("decoding an add: %w", err)
		}
		a.Log = append(a.Log, LogRow{req.ID, req.Key, req.Delta})
		return nil
	})
}
