package sqlbroker

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"stampede/harness/sim"
	"stampede/systems/internal/queue"
)

// listenNotify: whoever waits for a message is told when there may be one.
//
// Idea: a publication notifies all servers by NOTIFY, in its own transaction, of how many
// messages which queue has got. Each server has one connection that LISTENs and wakes as
// many of its consumers that wait for that queue as can receive so many. Behind it they
// poll, rarely.
//
// Guarantee: that of batched. A notification is no message: who misses one, because
// the connection was being made again, polls. So does whoever would have had a message
// where one that was told took another, which nobody tells of, being given back.
//
// Gives up: the lock by which Postgres puts the commits of all transactions that
// notify into one order.
func listenNotify() variant {
	return inTable(variant{
		Name:       "listen_notify",
		Idea:       "batched, but waiting consumers are woken by NOTIFY instead of polling",
		Guarantees: "what batched guarantees; a lost notification costs a poll",
		GivesUp:    "parallel commits of publishers: NOTIFY serializes them",
		Model: modelled(func(m *model) {
			m.channel, m.pollEvery = sim.NewChannel[notice](m.Postgres), m.pollEvery*pollRarely
		}),
	}, func(t *table) messages {
		t.sql.publish = notifySQL
		t.waiters, t.pollEvery = queue.NewWaiters(), t.pollEvery*pollRarely
		return &notified{table: t}
	})
}

const (
	// channel is where publications notify, as "2 orders".
	channel = "stampede_messages"
	// pollRarely is how many times less often those look who are told.
	pollRarely = 10
	// notifySQL is publishSQL that tells how many messages the queue has got.
	notifySQL = storeSQL + `
SELECT known, stored FROM (
    SELECT EXISTS (SELECT FROM known) AS known, (SELECT count(*) FROM stored) AS stored,
        pg_notify('` + channel + `', (SELECT count(*) FROM stored) || ' ' || $1)) AS told`
)

// notified listens from the first demand on: who receives nothing needs no connection for it.
type notified struct {
	*table
	once     sync.Once
	listener *queue.Listener
}

// Receive claims messages and waits for a first one, or to be told of one, if there is none.
func (n *notified) Receive(ctx context.Context, name string, d Demand) ([]Delivery, error) {
	n.once.Do(func() {
		// Of what was published before it listens nobody is told.
		n.listener = queue.Listen(n.Config, n.DB, channel, n.waiters.WakeAll, n.heard)
	})
	return n.table.Receive(ctx, name, d)
}

func (n *notified) heard(payload string) error {
	count, name, _ := strings.Cut(payload, " ")
	published, err := strconv.Atoi(count)
	if err != nil {
		return fmt.Errorf("a notification says %q: %w", payload, err)
	}
	n.waiters.Wake(name, published)
	return nil
}

// Close ends the listening.
func (n *notified) Close() error {
	n.once.Do(func() {}) // nobody begins any more
	n.listener.Close()
	return nil
}
