package checkout

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"stampede/harness/stores"
	"stampede/harness/topics"
)

// The topic and the group of the checkout, without the run's prefix.
const (
	checkoutTopic = "checkouts"
	workerGroup   = "workers"
)

// partitions bounds the topic. A product's partition follows from the hash of its name. Products
// that share one wait for each other.
func partitions(p Params) int { return min(p.Products, 100) }

// makeTopic makes the topic, and has the broker make what it keeps of groups.
func makeTopic(ctx context.Context, st *opened) error {
	err := topics.Create(ctx, st.Config,
		topics.Topic{Name: checkoutTopic, Partitions: partitions(st.Params)})
	if err != nil {
		return err
	}
	return topics.Coordinate(ctx, st.Kafka, st.Config, workerGroup)
}

// attempt is one that is sent to the checkout, with its idempotency key.
type attempt struct {
	ID      uint64 `json:"op_id"`
	Key     string `json:"key"`
	User    string `json:"user"`
	Product uint64 `json:"product"`
	Seq     int64  `json:"seq"`
}

// placeSent is where attempts are in the queue, and not marked as admitted.
const placeSent = "sent"

// selectNext are those whose turn it is, by product and place: as many as a batch and the room
// allow. They are locked, so that a worker that is faster waits for the admitter's commit.
const selectNext = `SELECT a.op_id, a.key, a.user_id, a.product, a.seq FROM room AS r, LATERAL (
		SELECT * FROM attempts AS w WHERE w.product = r.product AND w.state = 'waiting' ORDER BY w.seq
		LIMIT greatest(0, least($1::bigint, $2::bigint - (SELECT count(*) FROM attempts AS i
			WHERE i.product = r.product AND i.state = 'admitted'))) FOR UPDATE) AS a
	ORDER BY a.product, a.seq`

// admit marks attempts as admitted, numbers them, and moves the rooms on.
const admit = `WITH next AS (
		SELECT op_id, product, seq, row_number() OVER (PARTITION BY product ORDER BY seq) AS n
		FROM unnest($1::bigint[], $2::int[], $3::bigint[]) AS u (op_id, product, seq)),
	moved AS (UPDATE room AS r SET admitted = r.admitted + m.n, admitted_to = greatest(r.admitted_to, m.seq)
		FROM (SELECT product, max(n) AS n, max(seq) AS seq FROM next GROUP BY product) AS m
		WHERE r.product = m.product RETURNING r.product, r.admitted - m.n AS before)
	UPDATE attempts AS a SET state = 'admitted', admit_seq = moved.before + next.n
	FROM next JOIN moved USING (product) WHERE a.op_id = next.op_id`

// admitter is the role that admits attempts in the order of their places: it writes them to the
// queue, and then marks them, in one transaction. If that fails they wait on, and what is in the
// queue of them means nothing: they are sent again. The statement next says whose turn it is.
func admitter(
	most func(Params) (batch, room int), next string, admitted func(context.Context, *opened) error,
) role {
	return role{Name: "admitter", Summary: "admits attempts in the order in which they came",
		Single: true, Places: []string{placeSent}, Conns: 2,
		Step: func(ctx context.Context, st *opened) (time.Duration, error) {
			batch, room := most(st.Params)
			n, err := admitNext(ctx, st, next, batch, room)
			if err == nil {
				err = admitted(ctx, st)
			}
			if n >= batch && batch > st.Params.Batch {
				return 0, err // nobody is to be held back
			}
			return st.Params.AdmitEvery.D(), err
		}}
}

func admitNext(
	ctx context.Context, st *opened, sql string, batch, room int,
) (n int, err error) {
	err = st.DB.Transaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		next, err := stores.CollectOn[attempt](ctx, tx, sql, batch, room)
		if n = len(next); err != nil || n == 0 {
			return err
		}
		if err := send(ctx, st, next); err != nil {
			return err
		}
		st.Config.Passed(placeSent)
		ids, products, seqs := make([]uint64, n), make([]uint64, n), make([]int64, n)
		for i, v := range next {
			ids[i], products[i], seqs[i] = v.ID, v.Product, v.Seq
		}
		_, err = tx.Exec(ctx, admit, ids, products, seqs)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("admitting attempts: %w", err)
	}
	return n, nil
}

// send writes attempts to the queue, each to its product's partition, and waits for that.
func send(ctx context.Context, st *opened, list []attempt) error {
	records := make([]*kgo.Record, len(list))
	for i, v := range list {
		data, err := json.Marshal(v)
		if err != nil {
			return fmt.Errorf("encoding an attempt: %w", err)
		}
		records[i] = &kgo.Record{Topic: topics.Name(st.Config, checkoutTopic), Value: data,
			Key: []byte(productKey(v.Product))}
	}
	if err := st.Kafka.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return fmt.Errorf("writing to the queue: %w", err)
	}
	return nil
}

// queueSession is how long a worker may be silent before another one takes its partitions.
const queueSession = 2 * time.Second

// reader is a member of the group of workers.
func reader(st *opened) (*kgo.Client, *topics.Member, error) {
	group := topics.Name(st.Config, workerGroup)
	client, err := topics.Open(st.Config, append(
		topics.InGroup(group, topics.Name(st.Config, checkoutTopic), queueSession),
		kgo.BlockRebalanceOnPoll(), kgo.DisableAutoCommit())...)
	if err != nil {
		return nil, nil, err
	}
	return client, topics.NewMember(client, group), nil
}

// sequence is the order in which a worker decides and commits offsets.
type sequence func(st *opened, decide, commit func() error) error

// decideThenCommit commits offsets when everything is decided: after a crash it is read again.
func decideThenCommit(_ *opened, decide, commit func() error) error {
	if err := decide(); err != nil {
		return err
	}
	return commit()
}

// decider decides attempts to one product, in their order.
type decider func(ctx context.Context, st *opened, product uint64, list []attempt) error

// worker is the role that decides: it reads attempts in the order in which they were admitted and
// makes orders of those for which there is a unit.
func worker(in sequence, decide decider, places ...string) role {
	return role{Name: "worker", Summary: "takes admitted attempts through the checkout in order",
		Places: places, Conns: 4,
		Do: func(ctx context.Context, st *opened) error {
			client, member, err := reader(st)
			if err != nil {
				return err
			}
			defer client.CloseAllowingRebalance()
			for ctx.Err() == nil {
				fetches, err := member.Poll(ctx, workerBatch)
				if err == nil && fetches.NumRecords() > 0 {
					err = in(st, func() error { return decideAll(ctx, st, fetches, decide) },
						func() error { return client.CommitRecords(ctx, fetches.Records()...) })
				}
				client.AllowRebalance()
				switch {
				case ctx.Err() != nil:
					return nil
				case err != nil:
					return fmt.Errorf("working through the queue: %w", err)
				case member.Joined(ctx):
					st.Config.Worked()
				}
			}
			return nil
		}}
}

// workerBatch is how many attempts a worker has in hand.
const workerBatch = 100

// decideAll decides what was fetched, product by product.
func decideAll(ctx context.Context, st *opened, fetches kgo.Fetches, decide decider) error {
	byProduct, order := map[uint64][]attempt{}, []uint64{}
	for _, r := range fetches.Records() {
		var v attempt
		if err := json.Unmarshal(r.Value, &v); err != nil {
			st.Config.Warn("passing over what is no attempt", err)
			continue
		}
		if byProduct[v.Product] == nil {
			order = append(order, v.Product)
		}
		byProduct[v.Product] = append(byProduct[v.Product], v)
	}
	for _, product := range order {
		if err := decide(ctx, st, product, byProduct[product]); err != nil {
			return err
		}
	}
	return nil
}

// decideInOrder gives the units that are left to the first of some attempts, and refuses others.
func decideInOrder(ctx context.Context, st *opened, product uint64, list []attempt) error {
	return decideAmong(ctx, st, product, list, func(attempt) bool { return true })
}

// decideAmong is decideInOrder where some may have no unit, in one transaction. An attempt that is
// decided already, or whose admission came to nothing, is passed over: so each may be read twice.
//
// Attempts are locked whatever their state: a worker may read what the admitter has not committed,
// and a condition in the statement would find that they still wait, and wait for nobody.
func decideAmong(
	ctx context.Context, st *opened, product uint64, list []attempt, may func(attempt) bool,
) error {
	keys := make([]string, len(list))
	for i, v := range list {
		keys[i] = v.Key
	}
	err := st.DB.Transaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var left int
		err := tx.QueryRow(ctx, `SELECT available FROM inventory WHERE product = $1 FOR UPDATE`,
			product).Scan(&left)
		if err != nil {
			return err
		}
		open := map[string]bool{}
		err = stores.Each(ctx, tx, `SELECT key, state FROM attempts WHERE key = ANY($1) FOR UPDATE`,
			[]any{keys}, func(row pgx.CollectableRow) error {
				var key, state string
				err := row.Scan(&key, &state)
				open[key] = state == admitted
				return err
			})
		if err != nil {
			return err
		}
		var sold, turnedAway []string
		for _, v := range list {
			switch {
			case !open[v.Key]:
			case len(sold) < left && may(v):
				sold = append(sold, v.Key)
			default:
				turnedAway = append(turnedAway, v.Key)
			}
			delete(open, v.Key)
		}
		return conclude(ctx, tx, product, sold, turnedAway)
	})
	if err == nil {
		st.Config.Passed(placeOrdered)
	}
	return stores.Failed("deciding attempts", err)
}

// conclude writes what attempts came to.
func conclude(ctx context.Context, tx pgx.Tx, product uint64, sold, turnedAway []string) error {
	if len(sold) > 0 {
		_, err := tx.Exec(ctx, `UPDATE inventory SET available = available - $2, version = version + 1
			WHERE product = $1`, product, len(sold))
		if err == nil {
			_, err = tx.Exec(ctx, `WITH begun AS (UPDATE attempts SET state = 'pending'
					WHERE key = ANY($1) RETURNING key, op_id, user_id, product)
				INSERT INTO orders (key, op_id, user_id, product) SELECT * FROM begun`, sold)
		}
		if err != nil {
			return err
		}
	}
	if len(turnedAway) == 0 {
		return nil
	}
	_, err := tx.Exec(ctx, `UPDATE attempts SET state = 'refused' WHERE key = ANY($1)`, turnedAway)
	return err
}
