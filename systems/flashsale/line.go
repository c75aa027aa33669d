package flashsale

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"stampede/harness/sut"
	"stampede/harness/topics"
)

// The topics and the group of the line, without the run's prefix.
const (
	ticketsTopic = "tickets" // purchases, a partition for each product
	answersTopic = "answers" // what they came to, a partition for each API instance
	cashierGroup = "cashiers"
)

const (
	// maxLines bounds the partitions of tickets; with more products some share
	// one, and their purchases wait for each other.
	maxLines = 100
	// desks is how many partitions answers have. Instances of the API that share
	// one throw away each other's.
	desks = 16
)

// lines is how many partitions tickets have.
func lines(p Params) int { return min(p.Items, maxLines) }

// lineOf is the partition of an item's tickets, from 0, and whether there is
// such an item.
func lineOf(p Params) map[string]int32 {
	of := make(map[string]int32, p.Items)
	for i, item := range itemKeys(p) {
		of[item] = int32(i % lines(p))
	}
	return of
}

// ticket is a purchase in the line.
type ticket struct {
	BuyRequest
	// From is the instance of the API that waits for the answer, Desk the
	// partition in which it reads answers, and Number which of its requests this
	// is.
	From   string `json:"from"`
	Desk   int32  `json:"desk"`
	Number uint64 `json:"number"`
}

// receipt is the answer to a ticket: what it came to.
type receipt struct {
	From   string `json:"from"`
	Desk   int32  `json:"desk"`
	Number uint64 `json:"number"`
	// Line and Offset say which record was decided.
	Line   int32  `json:"line"`
	Offset int64  `json:"offset"`
	Status string `json:"status"`
	Order  Order  `json:"order"`
}

// The statuses of an answer.
const (
	answerOrder   = "order"
	answerSoldOut = "sold out"
	answerBought  = "bought"
	answerReused  = "reused"
	answerUnknown = "unknown item"
	// answerDecided: the ticket was decided before, and what it came to is not
	// known here any more. The ledger knows.
	answerDecided = "decided"
)

// refusals are the errors that refuse for good, by their status.
var refusals = map[string]error{
	answerSoldOut: ErrSoldOut, answerBought: ErrAlreadyBought, answerReused: errReused,
	answerUnknown: ErrUnknownItem,
}

// result is what an answer means to the buyer.
func (a receipt) result() (Order, error) {
	if a.Status == answerOrder {
		return a.Order, nil
	}
	if err := refusals[a.Status]; err != nil {
		return Order{}, err
	}
	return Order{}, fmt.Errorf("the answer was lost (%s): ask again", a.Status)
}

// to answers a ticket.
func (t ticket) to(line int32, offset int64, status string, order Order) receipt {
	return receipt{From: t.From, Desk: t.Desk, Number: t.Number, Line: line, Offset: offset,
		Status: status, Order: order}
}

// decodeTicket reads a record of tickets. What cannot be read has no effect.
func decodeTicket(data []byte) (t ticket, err error) {
	if err := json.Unmarshal(data, &t); err != nil {
		return ticket{}, fmt.Errorf("reading a ticket: %w", err)
	}
	if t.Desk < 0 || t.Desk >= desks {
		return ticket{}, fmt.Errorf("reading a ticket: there is no desk %d", t.Desk)
	}
	return t, nil
}

func decodeReceipt(data []byte) (a receipt, err error) {
	if err := json.Unmarshal(data, &a); err != nil {
		return receipt{}, fmt.Errorf("reading an answer: %w", err)
	}
	return a, nil
}

// record is a value for a partition of a topic.
func record(cfg sut.Config, topic string, partition int32, value any) (*kgo.Record, error) {
	data, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("encoding a record: %w", err)
	}
	return &kgo.Record{Topic: topics.Name(cfg, topic), Partition: partition, Value: data}, nil
}

// lineClient makes a client that writes to the partition a record names.
func lineClient(cfg sut.Config, more ...kgo.Opt) (*kgo.Client, error) {
	return topics.Open(cfg, append(more, kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
}

// makeTopics makes both topics, and has the broker make what it keeps of groups,
// which would else take the first second of the first sale.
func makeTopics(ctx context.Context, st *opened) error {
	err := topics.Create(ctx, st.Config,
		topics.Topic{Name: ticketsTopic, Partitions: lines(st.Params)},
		topics.Topic{Name: answersTopic, Partitions: desks})
	if err != nil {
		return err
	}
	return topics.Coordinate(ctx, st.Kafka, st.Config, cashierGroup)
}
