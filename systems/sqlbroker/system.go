package sqlbroker

import (
	"context"
	_ "embed"
	"fmt"
	"maps"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/harness/design"
	"stampede/harness/history"
	"stampede/harness/stores"
	"stampede/harness/sut"
)

// What package design opens for this system.
type (
	variant = design.Variant[Broker, Params]
	role    = design.Role[Params]
	opened  = design.Stores[Params]
)

// schema makes the tables of queues, publications and effects.
//
//go:embed schema.sql
var schema string

// messagesSchema makes those of messages; partitions goes where a table can be divided.
//
//go:embed messages.sql
var messagesSchema string

// System returns the SQL broker with all its designs.
func System() sut.System { return systemOf(designs()...) }

func designs() []variant {
	return []variant{rowAtATime(), batched(), partitioned(), listenNotify(), riverPeer(),
		unfencedDelete(), ackBeforeEffect(), claimWithoutMarking(), asyncCommit()}
}

func systemOf(designs ...variant) sut.System {
	return design.System[Broker, Params]{
		Name:     "sqlbroker",
		Question: "how far does a table go as a message broker, and what do its consumers see?",
		API:      API(),
		Defaults: DefaultParams,
		Workload: newWorkload,
		State: design.State[Params]{Schema: schema, Seed: createQueues,
			Empty: []string{"published", "dead_letters", "effects"}, Audit: audit},
		Designs:    designs,
		Costs:      assumedCosts,
		Invariants: Invariants,
		// Receives show how operations compete. The role's consumers have queues of their own,
		// about which effects-once is: see needCompetition.
		Races: &sut.Races{Kinds: []string{KindReceive}, Idle: receivedNothing, Least: 10,
			Invariants: []string{VisibilityKept}},
		Unseen: map[string]string{
			EffectsOnce: "what a server's own consumers store is not visible",
			WorkedOff:   "what a server's own consumers store is not visible",
		},
	}.Sut()
}

// receivedNothing says that a receive waited in vain.
func receivedNothing(reply history.Reply) bool { return reply.Value == 0 }

// createQueues makes the queues that there are before the first operation.
func createQueues(ctx context.Context, tx pgx.Tx, p Params) error {
	for n := range p.Queues {
		args := append(p.settings().args(QueueName(n+1)), false, nil)
		if _, err := tx.Exec(ctx, createSQL, args...); err != nil {
			return err
		}
	}
	return nil
}

// messages are where a design keeps its messages and what it does with them. The table has all
// of it; a design that does something in its own way embeds the table and does that itself.
type messages interface {
	Broker
	// work stores the effects of a batch and acknowledges it. What it returns errIndigestible
	// for has had no effect.
	work(ctx context.Context, queue string, batch []Delivery) error
	// sweep and collect do what is due for the sweeper and the collector.
	sweep(ctx context.Context) error
	collect(ctx context.Context) error
	// looks are the statements of a gauge and of a scrape.
	looks() (gauge, metrics string)
	base() *table
}

// opener returns the messages over opened stores, the same each time.
type opener func(*opened) (messages, error)

// inTable is a design whose messages are in a table as messages.sql has it.
func inTable(v variant, build func(*table) messages) variant {
	v.State.Schema = messagesSchema
	return built(v, func(t *table) (messages, error) { return build(t), nil })
}

// built is a design whose messages are what build makes of a table.
func built(v variant, build func(*table) (messages, error)) variant {
	of := func(st *opened) (messages, error) {
		return design.Keep(st, func() (messages, error) { return build(newTable(st)) })
	}
	// A plan that is made once does not know its LIMIT, and takes it for a tenth of the
	// table; nor how many messages will be kept, when it is made while there is none. It
	// would read all of them for each batch.
	settings := map[string]string{"plan_cache_mode": "force_custom_plan"}
	maps.Copy(settings, v.Settings)
	v.Settings = settings
	v.Open = func(_ context.Context, st *opened) (Broker, error) {
		m, err := of(st)
		if err != nil {
			return nil, err
		}
		return newLimited(m), nil
	}
	v.Roles = []role{consumer(of), sweeper(of), collector(of), reporter()}
	v.State.Pending, v.State.Gauge = pending(of), gauge(of)
	return v
}

// stepped is what a role does again and again.
func stepped(
	of opener, every func(Params) sut.Duration, step func(messages, context.Context) error,
) func(context.Context, *opened) (time.Duration, error) {
	return func(ctx context.Context, st *opened) (time.Duration, error) {
		m, err := of(st)
		if err == nil {
			err = step(m, ctx)
		}
		return every(st.Params).D(), err
	}
}

// overdueSQL counts by queue what should have died of age: see overdue. By messages_age.
// Parameter: for how long, in microseconds.
const overdueSQL = `
SELECT m.queue, count(*) FROM messages m JOIN queues q USING (queue)
WHERE m.state IN ('ready', 'delayed')
    AND m.created_at < statement_timestamp() - (SELECT min(retention) FROM queues) * interval '1 us'
    AND statement_timestamp() - $1::bigint * interval '1 us' > greatest(
        m.created_at + q.retention * interval '1 us', ` + waitsSince + `, q.retention_at)
GROUP BY m.queue ORDER BY m.queue`

// pending counts what the roles have still to do: messages that consumers have not worked off,
// those that are not yet due, and those that the sweeper has left waiting although they are too
// old. Some may be counted twice.
func pending(of opener) func(context.Context, *opened) (int64, string, error) {
	return func(ctx context.Context, st *opened) (left int64, what string, err error) {
		m, err := of(st)
		if err != nil {
			return 0, "", err
		}
		list, err := m.List(ctx)
		if err != nil {
			return 0, "", err
		}
		left, what = st.Params.waiting(list)
		old, err := stores.Collect[struct {
			Queue    string
			Messages int64
		}](ctx, st.DB, overdueSQL, (st.Params.SweepEvery.D() + agePending).Microseconds())
		for _, q := range old {
			if left += q.Messages; what == "" {
				what = fmt.Sprintf("%s has %d messages older than its retention", q.Queue, q.Messages)
			}
		}
		return left, what, err
	}
}

// waiting counts the messages that are to be waited for, and says which queue has some.
func (p Params) waiting(list []QueueInfo) (left int64, what string) {
	for _, q := range list {
		n := q.Delayed + q.Picked
		if p.worked(q.Queue) {
			n += q.Ready
		}
		if left += n; n > 0 && what == "" {
			what = fmt.Sprintf("%s has %d messages ready, %d delayed and %d with consumers",
				q.Queue, q.Ready, q.Delayed, q.Picked)
		}
	}
	return left, what
}

// breaksUnder lists invariants that are broken under a trigger.
func breaksUnder(under sut.Trigger, invariants ...string) []sut.Break {
	list := make([]sut.Break, len(invariants))
	for i, name := range invariants {
		list[i] = sut.Break{Invariant: name, Under: under}
	}
	return list
}
