package flashsale

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"stampede/harness/stores"
	"stampede/harness/sut"
	"stampede/harness/topics"
)

const (
	// ticketsMax bounds the tickets that one transaction decides.
	ticketsMax = 500
	// cashierConns is how many lines a cashier decides at once.
	cashierConns = 8
	// cashierSession is how long a cashier may be silent before another one
	// takes its lines.
	cashierSession = 2 * time.Second
	// placeOrdered is after the commit in Postgres, before any buyer has an
	// answer and before the offset is committed in Kafka.
	placeOrdered = "ordered"
)

// cashier is the role that serves the lines. How far a line is decided stands in the ledger, in
// a row that a transaction locks before it decides and moves with what it decides. Of two
// cashiers that serve one line, because one was thought to be dead, the second waits for the
// first and passes over what that has decided. Offsets are committed to Kafka too, but only so
// that a cashier need not read a line from its beginning.
func cashier() role {
	return role{
		Name:    "cashier",
		Summary: "decides the purchases of each product in the order of their arrival",
		Places:  []string{placeOrdered},
		Conns:   cashierConns, Timeout: roleTimeout,
		Do: serveLines,
	}
}

// serveLines serves until ctx is over or Kafka reports an error.
func serveLines(ctx context.Context, st *opened) error {
	client, err := lineClient(st.Config, append(topics.InGroup(
		topics.Name(st.Config, cashierGroup), topics.Name(st.Config, ticketsTopic), cashierSession),
		kgo.AutoCommitMarks(), kgo.AutoCommitInterval(cashierSession/8))...)
	if err != nil {
		return err
	}
	defer client.Close()
	c := &cashiers{st, newBooks(st.DB, unitRows()), client}
	member := topics.NewMember(client, topics.Name(st.Config, cashierGroup))
	for {
		fetches, err := member.Poll(ctx, ticketsMax*lines(st.Params))
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading tickets: %w", err)
		}
		c.serve(ctx, fetches)
		if member.Joined(ctx) {
			st.Config.Worked()
		}
	}
}

// cashiers serve the lines of one consumer.
type cashiers struct {
	*opened
	books  *books
	client *kgo.Client
}

// serve decides what was fetched, each line by a goroutine of its own.
func (c *cashiers) serve(ctx context.Context, fetches kgo.Fetches) {
	var group sync.WaitGroup
	fetches.EachPartition(func(p kgo.FetchTopicPartition) {
		group.Go(func() {
			for rest := p.Records; len(rest) > 0; rest = rest[min(ticketsMax, len(rest)):] {
				if !c.insist(ctx, p.Partition, rest[:min(ticketsMax, len(rest))]) {
					break
				}
			}
		})
	})
	group.Wait()
}

// insist decides tickets of a line until that has succeeded, answers them, and
// lets their offset be committed. It is false if ctx ended first.
func (c *cashiers) insist(ctx context.Context, line int32, records []*kgo.Record) bool {
	for retry := (sut.Retry{}); ; {
		answers, err := c.decide(ctx, line, records)
		if err == nil {
			c.Config.Passed(placeOrdered)
			c.answer(ctx, answers)
			c.client.MarkCommitRecords(records[len(records)-1])
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		c.Config.Warn(fmt.Sprintf("flashsale cashier of partition %d tries again", line), err)
		if !retry.Rest(ctx) {
			return false
		}
	}
}

// answer sends the answers. One that gets lost leaves its buyer in doubt, as
// any lost reply does.
func (c *cashiers) answer(ctx context.Context, replies []receipt) {
	for _, r := range replies {
		rec, err := record(c.Config, answersTopic, r.Desk, r)
		if err != nil {
			c.Config.Warn("flashsale cashier could not answer", err)
			continue
		}
		c.client.Produce(ctx, rec, func(_ *kgo.Record, err error) {
			if err != nil && ctx.Err() == nil {
				c.Config.Warn("flashsale cashier could not answer", err)
			}
		})
	}
	_ = c.client.Flush(ctx) // ctx is over, or each record has told its own error
}

// decide decides the tickets that have not been decided, in one transaction
// with the line's new offset.
func (c *cashiers) decide(
	ctx context.Context, line int32, records []*kgo.Record,
) (replies []receipt, err error) {
	err = c.DB.Transaction(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
		replies, err = c.decideIn(ctx, tx, line, records)
		return err
	})
	if err != nil {
		return nil, stores.Failed("deciding tickets", err)
	}
	return replies, nil
}

// The row of a line is made when it is first decided.
const (
	lockLine = `INSERT INTO lines AS l (line, next_offset) VALUES ($1, 0)
		ON CONFLICT (line) DO UPDATE SET next_offset = l.next_offset RETURNING next_offset`
	moveLine = `UPDATE lines SET next_offset = $2 WHERE line = $1`
)

func (c *cashiers) decideIn(
	ctx context.Context, tx pgx.Tx, line int32, records []*kgo.Record,
) (replies []receipt, err error) {
	var next int64
	if err := tx.QueryRow(ctx, lockLine, line).Scan(&next); err != nil {
		return nil, err
	}
	var waiting []inLine
	for _, r := range records {
		t, err := decodeTicket(r.Value)
		switch {
		case err != nil:
			c.Config.Warn("flashsale cashier passes over a ticket", err)
		case r.Offset < next:
			replies = append(replies, t.to(line, r.Offset, answerDecided, Order{}))
		default:
			waiting = append(waiting, inLine{t, r.Offset})
		}
	}
	for _, group := range groups(waiting) {
		answered, err := c.books.decideGroup(ctx, tx, line, group)
		if err != nil {
			return nil, err
		}
		replies = append(replies, answered...)
	}
	last := records[len(records)-1].Offset + 1
	if last > next {
		_, err = tx.Exec(ctx, moveLine, line, last)
	}
	return replies, err
}

// inLine is a ticket with its offset.
type inLine struct {
	ticket
	offset int64
}

// groups sorts tickets into groups that one statement can decide, each of one
// item. Who came first comes first; but of two requests of one buyer, or with
// one key, the later waits for the next group, since the earlier one decides
// what becomes of it. Equal requests, as from a double click, share an answer.
func groups(tickets []inLine) [][]inLine {
	type place struct {
		item  string
		round int
	}
	index := map[place]int{}
	ops, buyers := map[uint64]turn{}, map[string]turn{}
	var list [][]inLine
	for _, t := range tickets {
		round := max(ops[t.OpID].after(t.BuyRequest), buyers[t.Item+"\x00"+t.Buyer].after(t.BuyRequest))
		ops[t.OpID] = turn{round, t.BuyRequest}
		buyers[t.Item+"\x00"+t.Buyer] = turn{round, t.BuyRequest}
		at := place{t.Item, round}
		i, begun := index[at]
		if !begun {
			i = len(list)
			index[at] = i
			list = append(list, nil)
		}
		list[i] = append(list[i], t)
	}
	return list
}

// turn is the round in which the latest request of a buyer, or with a key, is
// decided, from 1.
type turn struct {
	round int
	req   BuyRequest
}

// after is the first round in which a request that comes later can be decided.
func (t turn) after(req BuyRequest) int {
	if t.round > 0 && t.req == req {
		return t.round
	}
	return t.round + 1
}

// decideGroup decides one of groups. A refusal among the results is a decision;
// any other error undoes the transaction.
func (b *books) decideGroup(
	ctx context.Context, tx pgx.Tx, line int32, group []inLine,
) ([]receipt, error) {
	requests := make([]BuyRequest, len(group))
	for i, t := range group {
		requests[i] = t.BuyRequest
	}
	rows, err := groupRowsOf(ctx, tx, requests)
	if err != nil {
		return nil, err
	}
	replies := make([]receipt, len(group))
	for i, t := range group {
		got := rows.answer(t.BuyRequest, nil)
		status, err := statusOf(got.err)
		if err != nil {
			return nil, err
		}
		replies[i] = t.to(line, t.offset, status, got.claim.Order)
	}
	return replies, nil
}

// statusOf is the status that says what an error of a claim does, or the error.
func statusOf(err error) (string, error) {
	if err == nil {
		return answerOrder, nil
	}
	for status, refusal := range refusals {
		if errors.Is(err, refusal) {
			return status, nil
		}
	}
	return "", err
}
