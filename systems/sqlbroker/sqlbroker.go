// Package sqlbroker is the system in which a table of a relational database is a
// message broker. Its question: how far does a table go as a queue, and which
// designs lose, double or reorder messages on the way?
//
// Publishers put messages into queues. A consumer that receives one has it alone
// until its visibility timeout: it gets a receipt, works, and acknowledges with the
// receipt. Whoever dies or sleeps meanwhile loses the message to somebody else, and
// the receipt with it. A message that was delivered too often goes to the dead
// letters.
package sqlbroker

import (
	"context"
	"fmt"
	"time"

	"stampede/harness/sut"
)

// The operation kinds. Op.Key is the queue.
const (
	// KindPublish publishes the messages of Op.Body, a Publication as JSON. Op.ID is
	// their identity: published again, they are not stored again, and others with it are
	// refused. Reply.Value is how many were new.
	KindPublish = "publish"
	// KindReceive receives some messages for Op.Client; Op.Body is a Demand as JSON.
	// Reply.Value is how many there were, Reply.Body a []Delivery as JSON.
	KindReceive = "receive"
	// KindAck acknowledges, KindExtend keeps for longer, and KindRelease gives back
	// what was received with the receipts in Op.Body, a Settlement as JSON. Reply.Value
	// is how many receipts were good, Reply.Body a Settled as JSON. Where none is, it
	// is refused.
	KindAck     = "ack"
	KindExtend  = "extend"
	KindRelease = "release"
	// KindCreate makes the queue or changes its settings, a QueueSettings in Op.Body.
	KindCreate = "create"
	// KindPurge deletes what is in the queue. Reply.Value is how many there were.
	KindPurge = "purge"
	// KindRedrive puts dead letters back into the queue. Reply.Value is how many.
	KindRedrive = "redrive"
	// KindList lists the queues; Reply.Body is a []QueueInfo as JSON.
	KindList = "list"
)

// The reasons of a refusal; each wraps sut.ErrRefused.
var (
	// ErrUnknownQueue: there is no such queue.
	ErrUnknownQueue = sut.Refusal("unknown_queue", "unknown queue")
	// ErrTaken: other messages, or messages of another queue, were published with that OpID.
	ErrTaken = sut.Refusal("op_id_taken", "op_id taken")
	// ErrStaleReceipt: none of the receipts is good any more.
	ErrStaleReceipt = sut.Refusal("stale_receipt", "stale receipt")
	// ErrForbidden: the token that was shown is not one for that.
	ErrForbidden = sut.Refusal("forbidden", "forbidden")
	// ErrRateLimited: the queue's rate is used up; see RateError.
	ErrRateLimited = sut.Refusal("rate_limited", "rate limited")
)

// RateError is an ErrRateLimited that knows when it ends.
type RateError struct{ Wait time.Duration }

// Error says when to come again.
func (e *RateError) Error() string { return fmt.Sprintf("rate limited for %v", e.Wait) }

// Unwrap makes it an ErrRateLimited.
func (e *RateError) Unwrap() error { return ErrRateLimited }

// RetryAfter is how long from now another request will be let in.
func (e *RateError) RetryAfter() time.Duration { return e.Wait }

// Broker is what publishers and consumers call: what every variant, the HTTP client
// and the HTTP handler have in common.
type Broker interface {
	// Publish stores all messages or none, and returns how many were new. Its error is ErrTaken
	// if the identity is that of another publication.
	Publish(ctx context.Context, queue string, p Publication) (int, error)
	// Receive delivers messages in the order of their priorities, then of their
	// publication. If there is none it waits for one as long as the demand says.
	Receive(ctx context.Context, queue string, d Demand) ([]Delivery, error)
	// Settle acknowledges, extends or releases. Its error is ErrStaleReceipt if no
	// receipt is good.
	Settle(ctx context.Context, queue string, how string, s Settlement) (Settled, error)
	Administration
}

// Administration is what operators call.
type Administration interface {
	// Create makes a queue, or changes the settings of one.
	Create(ctx context.Context, queue string, s QueueSettings) error
	// Purge deletes all messages of a queue but the dead letters.
	Purge(ctx context.Context, queue string) (int, error)
	// Redrive puts dead letters of a queue back into it, as if never delivered.
	Redrive(ctx context.Context, queue string) (int, error)
	// List lists the queues with what is in them.
	List(ctx context.Context) ([]QueueInfo, error)
}

// Publication is messages that are published together.
type Publication struct {
	// OpID is their identity, the same in every attempt and unlike that of any other
	// publication to any queue; theirs is OpID and their index from 0.
	OpID     uint64    `json:"op_id"`
	Messages []Message `json:"messages,omitempty"`
	// Make says what the messages are where they are not written down.
	Make *Recipe `json:"make,omitempty"`
}

// Message is one message.
type Message struct {
	Body string `json:"body"`
	// Group is what the message must keep its place in: of a group, one message at a
	// time is delivered, in the order of publication. 0 is none.
	Group uint64 `json:"group,omitempty"`
	// Priority puts messages before those with a lower one.
	Priority int `json:"priority,omitempty"`
	// DelayMS is how long it cannot be received, in milliseconds.
	DelayMS int64 `json:"delay_ms,omitempty"`
}

// Demand is what a consumer asks for.
type Demand struct {
	// OpID is the demand's identity.
	OpID uint64 `json:"op_id,omitempty"`
	// Consumer is who asks.
	Consumer string `json:"consumer,omitempty"`
	// Most is how many messages at most.
	Most int `json:"n"`
	// WaitMS is how long to wait for a first one, in milliseconds.
	WaitMS int64 `json:"wait_ms,omitempty"`
}

// Delivery is a message in the hands of a consumer.
type Delivery struct {
	OpID     uint64 `json:"op_id"`
	Index    int    `json:"index"`
	Body     string `json:"body"`
	Group    uint64 `json:"group,omitempty"`
	Priority int    `json:"priority,omitempty"`
	// Receipt is good until the message is settled or may be delivered again.
	Receipt string `json:"receipt"`
	// Receives is how often the message has been delivered, this time included.
	Receives int `json:"receives"`
	// ReceivedNS and VisibleNS are when it was delivered and until when it is not
	// delivered again, in Unix nanoseconds of the store's clock.
	ReceivedNS int64 `json:"received_at_ns"`
	VisibleNS  int64 `json:"visible_at_ns"`

	// consumer names the worker of the role who has it.
	consumer string
}

// Settlement is receipts and what is to be done with them.
type Settlement struct {
	OpID     uint64   `json:"op_id"`
	Receipts []string `json:"receipts"`
	// ByMS is, for an extension, for how long from now, in milliseconds. It never
	// makes a time shorter.
	ByMS int64 `json:"by_ms,omitempty"`
}

// Settled says what became of receipts.
type Settled struct {
	// Done are the receipts that were good. An acknowledgement that is repeated is
	// good again while the broker remembers it.
	Done []string `json:"done"`
	// Stale are the others: nothing was done for them.
	Stale []string `json:"stale,omitempty"`
	// VisibleNS is, after an extension, until when the earliest of the messages is
	// not delivered again, in Unix nanoseconds of the store's clock.
	VisibleNS int64 `json:"visible_at_ns,omitempty"`
}

// QueueSettings are what each queue has of its own.
type QueueSettings struct {
	// VisibilityMS is for how long a delivered message is its consumer's.
	VisibilityMS int64 `json:"visibility_ms"`
	// MaxReceives is deliveries after which a message becomes a dead letter.
	MaxReceives int `json:"max_receives"`
	// RetentionMS is after how long a message becomes a dead letter although nobody
	// has received it that often.
	RetentionMS int64 `json:"retention_ms"`
	// RatePerS is how many messages and demands a second each server lets through,
	// 0 for no limit.
	RatePerS int `json:"rate_per_s,omitempty"`
	// Token is what requests about the queue must show over HTTP. It is never told; empty
	// leaves the one that there is.
	Token string `json:"token,omitempty"`
}

// QueueInfo is a queue with what is in it.
type QueueInfo struct {
	Queue string `json:"queue"`
	QueueSettings
	// Ready can be received now; Delayed cannot yet; Picked are in the hands of
	// consumers; Dead are the dead letters.
	Ready   int64 `json:"ready"`
	Delayed int64 `json:"delayed"`
	Picked  int64 `json:"picked"`
	Dead    int64 `json:"dead"`
}

// The states of a message in an Audit.
const (
	StateReady   = "ready"
	StateDelayed = "delayed"
	StatePicked  = "picked"
	StateAcked   = "acked"
)

// Why a message is a dead letter.
const (
	DeadReceives  = "receives"  // it was delivered as often as it may be
	DeadRetention = "retention" // it was older than the queue keeps messages
)

// Audit is the final truth of the stores, or of a foreign server's audit endpoint.
// All times are Unix nanoseconds of the store's clock.
type Audit struct {
	Queues []QueueAudit `json:"queues"`
	// Messages are those in the queues, and those acknowledged that are not yet
	// collected.
	Messages []MessageAudit `json:"messages"`
	Dead     []DeadAudit    `json:"dead"`
	// Effects are what consumers have stored.
	Effects []EffectAudit `json:"effects"`
}

// QueueAudit is one queue.
type QueueAudit struct {
	Queue        string `json:"queue"`
	VisibilityNS int64  `json:"visibility_ns"`
	MaxReceives  int    `json:"max_receives"`
	RetentionNS  int64  `json:"retention_ns"`
	// RetentionAgeNS is for how long RetentionNS has been what it is; 0 if that is not known,
	// or nothing is in the queue.
	RetentionAgeNS int64 `json:"retention_age_ns,omitempty"`
}

// MessageAudit is one message.
type MessageAudit struct {
	OpID     uint64 `json:"op_id"`
	Index    int    `json:"index"`
	Queue    string `json:"queue"`
	Group    uint64 `json:"group,omitempty"`
	State    string `json:"state"`
	Receives int    `json:"receives"`
	// Redrives is how often it has come back from the dead letters.
	Redrives int `json:"redrives,omitempty"`
	// AckedNS is when it was acknowledged, if it was.
	AckedNS int64 `json:"acked_at_ns,omitempty"`
	// AgeNS is how old it is.
	AgeNS int64 `json:"age_ns,omitempty"`
	// WaitsNS is for how long it has been ready or delayed: since its publication, or since it
	// came back from a consumer; 0 if it is neither, or that is not known.
	WaitsNS int64 `json:"waits_ns,omitempty"`
}

// DeadAudit is one dead letter.
type DeadAudit struct {
	OpID     uint64 `json:"op_id"`
	Index    int    `json:"index"`
	Queue    string `json:"queue"`
	Receives int    `json:"receives"`
	Redrives int    `json:"redrives,omitempty"`
	Reason   string `json:"reason"`
	// AgeNS is how old the message was when it died.
	AgeNS int64 `json:"age_ns"`
}

// EffectAudit is what a consumer has stored of a delivery.
type EffectAudit struct {
	OpID     uint64 `json:"op_id"`
	Index    int    `json:"index"`
	Queue    string `json:"queue"`
	Group    uint64 `json:"group,omitempty"`
	Receives int    `json:"receives"`
	// Consumer is who processed it, one batch at a time.
	Consumer string `json:"consumer,omitempty"`
	// ReceivedNS and VisibleNS are those of the delivery, StoredNS is when the effect
	// was.
	ReceivedNS int64 `json:"received_at_ns"`
	VisibleNS  int64 `json:"visible_at_ns"`
	StoredNS   int64 `json:"stored_at_ns"`
}
