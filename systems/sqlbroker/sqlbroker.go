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
	"errors"
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

// The names of the roles.
const (
	RoleConsumer  = "consumer"
	RoleSweeper   = "sweeper"
	RoleCollector = "collector"
	RoleReporter  = "reporter"
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
	Body     string `json:"body" max:"65536"`
	Group    uint64 `json:"group,omitempty" min:"0" max:"9223372036854775807" doc:"of a group of this queue, one message at a time is delivered, in the order of publication, whatever the priorities and delays: a delayed one holds back those after it. 0 is none"`
	Priority int    `json:"priority,omitempty" min:"-2147483648" max:"2147483647" doc:"messages with a higher one come first, except within a group"`
	DelayMS  int64  `json:"delay_ms,omitempty" min:"0" max:"86400000" doc:"for how long the message cannot be received"`
}

// Demand is what a consumer asks for.
type Demand struct {
	// Most is how many messages at most.
	Most int `json:"n"`
	// WaitMS is how long to wait for a first one, in milliseconds.
	WaitMS int64 `json:"wait_ms,omitempty"`
}

// Delivery is a message in the hands of a consumer.
type Delivery struct {
	OpID     uint64 `json:"op_id" min:"1" max:"9223372036854775807"`
	Index    int    `json:"index" min:"0" doc:"the message's index in its publication"`
	Body     string `json:"body"`
	Group    uint64 `json:"group,omitempty" min:"0"`
	Priority int    `json:"priority,omitempty"`
	// Receipt is good until the message is settled or may be delivered again.
	Receipt  string `json:"receipt" min:"1" max:"200" doc:"one delivery of one message"`
	Receives int    `json:"receives" min:"1" doc:"how often it has been delivered, this time included"`
	// These are in Unix nanoseconds of the store's clock.
	ReceivedNS int64 `json:"received_at_ns" doc:"when it was delivered"`
	VisibleNS  int64 `json:"visible_at_ns" doc:"until when the message is not delivered again"`

	// consumer names the worker of the role who has it.
	consumer string
}

// Settlement is receipts and what is to be done with them.
type Settlement struct {
	Receipts []string `json:"receipts"`
	// ByMS is, for an extension, for how long from now, in milliseconds. It never
	// makes a time shorter.
	ByMS int64 `json:"by_ms,omitempty"`
}

// Settled says what became of receipts.
type Settled struct {
	// An acknowledgement that is repeated is good again while the broker remembers it.
	Done  Receipts `json:"done" op:"value" doc:"the valid receipts"`
	Stale Receipts `json:"stale,omitempty" example:"" doc:"the other receipts, for which nothing was done"`
	// VisibleNS is in Unix nanoseconds of the store's clock.
	VisibleNS int64 `json:"visible_at_ns,omitempty" doc:"after an extension, until when the earliest message is not delivered again"`
}

// QueueSettings are what each queue has of its own.
type QueueSettings struct {
	VisibilityMS int64 `json:"visibility_ms" min:"1" max:"86400000" doc:"for how long a delivered message belongs to its consumer"`
	MaxReceives  int   `json:"max_receives" min:"1" max:"1000" doc:"how often a message is delivered before it becomes a dead letter, which it does when the last delivery is released or times out, at once or a little later"`
	RetentionMS  int64 `json:"retention_ms" min:"1" max:"2147483647000" doc:"the age at which a message that is not with a consumer becomes a dead letter"`
	RatePerS     int   `json:"rate_per_s,omitempty" min:"0" max:"1000000" doc:"messages and receives a second, together, that a server admits; 0 is no limit"`
	// Token is never told.
	Token string `json:"token,omitempty" min:"16" max:"200" doc:"the token that requests about the queue must carry from now on, at the latest after a second. Choose it long and random; only its hash is kept. If left out, the token is not changed. Neither a reset nor an answer has it"`
}

// QueueInfo is a queue with what is in it.
type QueueInfo struct {
	Queue string `json:"queue"`
	QueueSettings
	// Ready can be received now; Delayed cannot yet; Picked are in the hands of
	// consumers; Dead are the dead letters.
	Ready   int64 `json:"ready" min:"0"`
	Delayed int64 `json:"delayed" min:"0"`
	Picked  int64 `json:"picked" min:"0"`
	Dead    int64 `json:"dead" min:"0"`
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
	Queues   []QueueAudit   `json:"queues"`
	Messages []MessageAudit `json:"messages" doc:"the messages in the queues, and the acknowledged ones that are still stored"`
	Dead     []DeadAudit    `json:"dead"`
	Effects  []EffectAudit  `json:"effects" doc:"the effects that the server's own consumers have stored; empty if it has no consumers"`
}

// Check makes sure that everything is there, and that deliveries end after they begin.
func (a *Audit) Check() error {
	if a.Queues == nil || a.Messages == nil || a.Dead == nil || a.Effects == nil {
		return errors.New("queues, messages, dead or effects is missing")
	}
	for i, e := range a.Effects {
		if e.VisibleNS < e.ReceivedNS {
			return fmt.Errorf("effects[%d]: expected a delivery that ends after it begins, got %+v", i, e)
		}
	}
	return nil
}

// QueueAudit is one queue.
type QueueAudit struct {
	Queue          string `json:"queue" min:"1"`
	VisibilityNS   int64  `json:"visibility_ns" min:"1"`
	MaxReceives    int    `json:"max_receives" min:"1"`
	RetentionNS    int64  `json:"retention_ns" min:"1"`
	RetentionAgeNS int64  `json:"retention_age_ns,omitempty" doc:"for how long retention_ns has had its value; 0 if no message is ready, delayed or picked. Without it no message of the queue is judged to be too old"`
}

// MessageAudit is one message.
type MessageAudit struct {
	OpID     uint64 `json:"op_id"`
	Index    int    `json:"index" min:"0"`
	Queue    string `json:"queue"`
	Group    uint64 `json:"group,omitempty" min:"0"`
	State    string `json:"state" enum:"ready,delayed,picked,acked"`
	Receives int    `json:"receives" min:"0" doc:"how often it has been delivered"`
	Redrives int    `json:"redrives,omitempty" min:"0" doc:"how often it has come back from the dead letters"`
	AckedNS  int64  `json:"acked_at_ns,omitempty"`
	AgeNS    int64  `json:"age_ns,omitempty" doc:"how old it is: since its publication, or since it came back from the dead letters"`
	WaitsNS  int64  `json:"waits_ns,omitempty" doc:"for how long the message has been ready or delayed: since its publication, or since it came back from a consumer. Without it the message is not judged to be too old"`
}

// DeadAudit is one dead letter.
type DeadAudit struct {
	OpID     uint64 `json:"op_id"`
	Index    int    `json:"index"`
	Queue    string `json:"queue"`
	Receives int    `json:"receives"`
	Redrives int    `json:"redrives,omitempty"`
	Reason   string `json:"reason" enum:"receives,retention" doc:"where both are true, either"`
	AgeNS    int64  `json:"age_ns" doc:"the message's age, as in age_ns of messages, when it became a dead letter"`
}

// EffectAudit is what a consumer has stored of a delivery.
type EffectAudit struct {
	OpID     uint64 `json:"op_id"`
	Index    int    `json:"index"`
	Queue    string `json:"queue"`
	Group    uint64 `json:"group,omitempty"`
	Receives int    `json:"receives"`
	Consumer string `json:"consumer,omitempty" doc:"the consumer that processed it, one batch at a time"`
	// ReceivedNS and VisibleNS are those of the delivery, StoredNS is when the effect
	// was.
	ReceivedNS int64 `json:"received_at_ns" min:"1"`
	VisibleNS  int64 `json:"visible_at_ns"`
	StoredNS   int64 `json:"stored_at_ns"`
}
