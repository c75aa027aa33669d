package sqlbroker

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/harness/sut"
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
func listenNotify() design {
	sql := plainStatements()
	sql.publish = storeSQL + `
SELECT known, stored FROM (
    SELECT EXISTS (SELECT FROM known) AS known, (SELECT count(*) FROM stored) AS stored,
        pg_notify('` + channel + `', (SELECT count(*) FROM stored) || ' ' || $1)) AS told`
	return design{
		name:       "listen_notify",
		idea:       "batched, but waiting consumers are woken by NOTIFY instead of polling",
		guarantees: "what batched guarantees; a lost notification costs a poll",
		givesUp:    "parallel commits of publishers: NOTIFY serializes them",
		sql:        sql,
		notifies:   true,
		work:       effectAndAck,
	}
}

// channel is where publications notify, as "2 orders".
const channel = "stampede_messages"

// hear rings the bell for what is published, on a connection of its own, until the
// returned function is called.
func (b *backend) hear(ctx context.Context) (end func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var hearing sync.WaitGroup
	hearing.Go(func() {
		for {
			err := b.hearOnce(ctx)
			if ctx.Err() != nil {
				return
			}
			b.cfg.Logger.Debug("listening for publications begins anew", "error", err)
			if !sut.Pause(ctx, sut.AfterError) {
				return
			}
		}
	})
	return func() {
		cancel()
		hearing.Wait()
	}
}

func (b *backend) hearOnce(ctx context.Context) error {
	conf := b.db.Pool.Config().ConnConfig
	conf.Tracer = nil // in tests, what is heard is no session's
	conn, err := pgx.ConnectConfig(ctx, conf)
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(closing) // nothing is left to lose
	}()
	if _, err := conn.Exec(ctx, "LISTEN "+channel); err != nil {
		return err
	}
	b.table.bell.ringAll() // of what was published meanwhile nobody was told
	for {
		told, err := conn.WaitForNotification(ctx)
		if err != nil {
			return err
		}
		count, queue, _ := strings.Cut(told.Payload, " ")
		messages, err := strconv.Atoi(count)
		if err != nil {
			return fmt.Errorf("a notification says %q: %w", told.Payload, err)
		}
		b.table.bell.ring(queue, messages)
	}
}
