package sqlbroker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"unicode/utf8"

	"stampede/harness/api"
	"stampede/harness/design"
	"stampede/harness/history"
	"stampede/harness/sut"
)

// API is what each operation is as a call, in a history and over HTTP.
func API() *api.Table[Broker] {
	return &api.Table[Broker]{
		System: "sqlbroker", Title: "SQL broker",
		About: "The API of a message broker. stampede serves its own designs over it, and judges\n" +
			"any server that implements it: publishing, receiving, acknowledging, extending, releasing,\n" +
			"reset and audit are all it needs.\n\n" +
			"A received message belongs to its consumer for visibility_ms, or until its extension ends.\n" +
			"An expired receipt is refused, even if no other consumer has the message. A message that\n" +
			"was delivered max_receives times, or is older than retention_ms, becomes a dead letter.\n\n" +
			"Clients do not repeat a receive: messages that it may have got are delivered again.\n\n" +
			"A server may require a token: \"Authorization: Bearer TOKEN\". A queue may have its own\n" +
			"token, with which clients publish to it and consume from it. The server's token opens\n" +
			"everything. If only the queue has a token, that one also changes, purges and redrives the\n" +
			"queue. Where a queue's rate is used up, the header Retry-After says after how many seconds\n" +
			"to try again.\n\n" +
			"Times (_ns) are Unix nanoseconds of the store's clock, ages are nanoseconds.",
		Kinds: append(messageKinds(), administrationKinds()...),
		Problems: []api.Problem{{Status: http.StatusNotFound, Is: ErrUnknownQueue},
			{Status: http.StatusConflict, Is: ErrTaken}, {Status: http.StatusConflict, Is: ErrStaleReceipt},
			{Status: http.StatusForbidden, Is: ErrForbidden},
			{Status: http.StatusTooManyRequests, Is: ErrRateLimited}},
		MaxBody: 4 << 20, // a batch of messages
		Reset:   ResetRequest{}, ResetMeans: "Begin with empty queues.",
		Begin: func(params any) (any, error) {
			p, err := sut.ParamsOf[Params](params)
			return ResetRequest{p.Queues, p.settings()}, err
		},
		PendingMeans: "Optional. A server without it is at rest when its list of queues has nothing " +
			"delayed or\npicked. One with consumers of its own needs it.",
		Left: waitingIn, Audit: Audit{},
		Types: map[reflect.Type]map[string]any{reflect.TypeFor[Receipts](): {"type": "array",
			"items": map[string]any{"type": "string", "minLength": 1, "maxLength": maxReceiptBytes}}},
		Token: func(params any) string {
			p, _ := sut.ParamsOf[Params](params) // Begin has read them
			return p.Token
		},
		Permit: func(inst sut.Instance, token string) api.Permit {
			if own := limitedOf(inst); own != nil {
				return permit(own.rates, token != "")
			}
			return nil
		},
		Metrics: func(inst sut.Instance) func(io.Writer) {
			if own := limitedOf(inst); own != nil {
				return own.writeMetrics
			}
			return nil
		},
	}
}

// limitedOf is what users of one of our designs call; nil where it is another's.
func limitedOf(inst sut.Instance) *limited {
	b, _ := design.Opened[Broker](inst)
	own, _ := b.(*limited)
	return own
}

// maxReceiptBytes bounds a receipt.
const maxReceiptBytes = 200

func messageKinds() []api.Kind[Broker] {
	const once = "A publication that is sent again with the same op_id is not stored again. The " +
		"op_id of another\npublication, whatever its queue, is refused."
	published := []error{ErrUnknownQueue, ErrTaken, ErrForbidden, ErrRateLimited}
	return []api.Kind[Broker]{
		api.Also(api.Op(KindPublish, "PUT /v1/messages/{queue}", publish, api.About{
			Summary: "Publish messages.", Detail: "All messages are stored, or none. " + once,
			Reply: "How many messages were new.", Refuses: published}),
			"PUT /v1/message/{queue}", publishOne, api.About{ID: "publishOne",
				Summary: "Publish one message.", Detail: once,
				Reply: "How many messages were new, 1 or 0.", Refuses: published}),
		api.Op(KindReceive, "GET /v1/messages/{queue}", receive, api.About{Summary: "Receive messages.",
			Detail: "The messages belong to the consumer until their receipts expire. They are delivered " +
				"in the\norder of their priorities and then of their publication. Of a group, one message " +
				"at a time is\ndelivered.",
			Reply:   "The delivered messages; the list may be empty.",
			Refuses: []error{ErrUnknownQueue, ErrForbidden, ErrRateLimited}}),
		api.Also(api.Op(KindAck, "POST /v1/messages/{queue}/ack", settles[SettleRequest](KindAck),
			settling("Acknowledge messages.", "The messages are gone for good. A repeated acknowledgement "+
				"is accepted again while the broker\nremembers them, which may be for as long as it likes.")),
			"DELETE /v1/message/{queue}/{receipt}", ackOne, api.About{ID: "ackOne",
				Summary: "Acknowledge one message.",
				Detail:  "The receipt is that of its last delivery, and has not expired.",
				Reply:   "The message is gone for good.", Status: http.StatusNoContent,
				Refuses: []error{ErrStaleReceipt, ErrForbidden}}),
		api.Op(KindExtend, "POST /v1/messages/{queue}/extend", settles[ExtendRequest](KindExtend),
			settling("Keep messages for longer.", "The extension counts from now, also a repeated one; it "+
				"never shortens the time.")),
		api.Op(KindRelease, "POST /v1/messages/{queue}/release", settles[SettleRequest](KindRelease),
			settling("Release messages.", "They can be received again at once, or are dead letters soon.")),
	}
}

func settling(summary, detail string) api.About {
	return api.About{Summary: summary, Detail: detail,
		Reply:   "Which receipts were valid. At least one was. Those of an unknown queue are stale.",
		Refuses: []error{ErrStaleReceipt, ErrForbidden}}
}

func administrationKinds() []api.Kind[Broker] {
	const counted = "How many messages there were."
	ofQueues := []error{ErrUnknownQueue, ErrForbidden}
	return []api.Kind[Broker]{
		api.Op(KindCreate, "PUT "+routeQueue, create, api.About{
			Summary: "Create a queue, or change its settings.", Reply: "The queue has these settings.",
			Refuses: []error{ErrForbidden}}),
		api.Op(KindPurge, "DELETE "+routePurge, countedIn(Broker.Purge), api.About{
			Summary: "Delete all messages of a queue except its dead letters.",
			Detail:  "Messages that consumers have are deleted too: their receipts become invalid.",
			Reply:   counted, Refuses: ofQueues}),
		api.Op(KindRedrive, "POST "+routeRedrive, countedIn(Broker.Redrive), api.About{
			Summary: "Put the dead letters of a queue back into it.",
			Detail:  "They are added at its end, ready, as if published now and never delivered.",
			Reply:   counted, Refuses: ofQueues}),
		api.Op(KindList, "GET "+routeQueues, list, api.About{
			Summary: "List the queues with what is in them.", Reply: "The queues.", Refuses: []error{}}),
	}
}

// The routes of operators.
const (
	routeQueues  = "/v1/queues"
	routeQueue   = "/v1/queues/{queue}"
	routePurge   = "/v1/queues/{queue}/messages"
	routeRedrive = "/v1/queues/{queue}/redrive"
)

// The requests and replies that are not those of Broker.

type (
	// PublishRequest publishes messages, or what Make says where they are not written down.
	PublishRequest struct {
		OpID uint64 `json:"op_id" op:"id" min:"1" max:"9223372036854775807"`
		QueueRequest
		Messages []Message `json:"messages" min:"1" max:"1000"`
	}
	// OneRequest publishes one message.
	OneRequest struct {
		OpID uint64 `json:"op_id" min:"1" max:"9223372036854775807"`
		QueueRequest
		Message
	}
	// Count is a number of messages.
	Count struct {
		Messages int `json:"messages" op:"value" min:"0"`
	}
	// ReceiveRequest is a Demand at a queue.
	ReceiveRequest struct {
		OpID uint64 `json:"-" query:"op_id" op:"id" default:"" min:"1" max:"9223372036854775807"`
		QueueRequest
		Consumer string `json:"-" query:"consumer" op:"client" default:"" doc:"the consumer's name"`
		Most     int    `json:"-" query:"n" default:"1" min:"1" max:"1000" doc:"the most messages to deliver"`
		WaitMS   int64  `json:"-" query:"wait_ms" default:"0" min:"0" max:"20000" doc:"how long to wait for a first message. The wait also ends at the server's own limit"`
	}
	// SettleRequest is a Settlement at a queue.
	SettleRequest struct {
		OpID uint64 `json:"op_id,omitempty" op:"id" min:"0"`
		QueueRequest
		Receipts Receipts `json:"receipts" min:"1" max:"1000"`
		ByMS     int64    `json:"by_ms,omitempty" min:"0" max:"86400000" doc:"for how long from now, at least 1; required in an extension, and without meaning elsewhere"`
	}
	// ExtendRequest is a Settlement that needs its time.
	ExtendRequest struct{ SettleRequest }
	// Receipts are receipts.
	Receipts []string
	// AckOneRequest acknowledges by the path alone.
	AckOneRequest struct {
		OpID uint64 `json:"-" query:"op_id" default:"" min:"1" max:"9223372036854775807"`
		QueueRequest
		Receipt string `json:"-" path:"receipt" min:"1" max:"200" doc:"one delivery of one message"`
	}
	// CreateRequest has the settings of a queue.
	CreateRequest struct {
		QueueRequest
		QueueSettings
	}
	// QueueRequest is about a queue.
	QueueRequest struct {
		Queue string `json:"-" path:"queue" op:"key" min:"1"`
	}
	// ResetRequest asks for so many empty queues with the same settings.
	ResetRequest struct {
		Queues int `json:"queues" min:"1" max:"100" doc:"they are called queue-1 and so on"`
		QueueSettings
	}
)

// AppendBinary appends what a history keeps of a request in the body, a Publication.
func (r *PublishRequest) AppendBinary(body []byte) ([]byte, error) {
	text, err := json.Marshal(Publication{OpID: r.OpID, Messages: r.Messages})
	return append(body, text...), err
}

// UnmarshalBinary reads a Publication and makes its messages if they are not written down.
func (r *PublishRequest) UnmarshalBinary(body []byte) error {
	p, err := publicationOf(history.Op{ID: r.OpID, Kind: KindPublish, Body: body})
	r.Messages = p.Messages
	return err
}

// Check refuses what Postgres cannot store.
func (r *PublishRequest) Check() error {
	errs := []error{r.QueueRequest.Check()}
	for _, m := range r.Messages {
		errs = append(errs, checkText("body", m.Body))
	}
	return errors.Join(errs...)
}

// Check refuses what Postgres cannot store.
func (r *OneRequest) Check() error {
	return errors.Join(r.QueueRequest.Check(), checkText("body", r.Body))
}

// Check refuses what no queue can be called.
func (r *QueueRequest) Check() error { return checkText("queue", r.Queue) }

// Check refuses a token.
func (r *ResetRequest) Check() error {
	if r.Token != "" {
		return errors.New("token: expected none")
	}
	return nil
}

// Check refuses what no queue can be called and what no receipt can be.
func (r *SettleRequest) Check() error {
	errs := []error{r.QueueRequest.Check()}
	for _, receipt := range r.Receipts {
		if receipt == "" || len(receipt) > maxReceiptBytes {
			errs = append(errs, fmt.Errorf("receipts: expected each to have 1 to %d bytes, got %d",
				maxReceiptBytes, len(receipt)))
		}
	}
	return errors.Join(errs...)
}

// Check refuses an extension by nothing as well.
func (r *ExtendRequest) Check() error {
	err := r.SettleRequest.Check()
	if r.ByMS < 1 {
		err = errors.Join(err, fmt.Errorf("by_ms: expected 1 or more, got %d", r.ByMS))
	}
	return err
}

// checkText refuses what Postgres cannot store as text.
func checkText(field, text string) error {
	if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return fmt.Errorf("%s: expected UTF-8 without the character U+0000", field)
	}
	return nil
}

func publish(b Broker, ctx context.Context, req PublishRequest) (Count, error) {
	n, err := b.Publish(ctx, req.Queue, Publication{OpID: req.OpID, Messages: req.Messages})
	return Count{n}, err
}

func publishOne(req OneRequest) PublishRequest {
	return PublishRequest{OpID: req.OpID, QueueRequest: req.QueueRequest,
		Messages: []Message{req.Message}}
}

// Deliveries are what a receive delivers.
type Deliveries []Delivery

// Check refuses more than was asked for.
func (d *Deliveries) Check(request any) error {
	if most := request.(*ReceiveRequest).Most; len(*d) > most {
		return fmt.Errorf("asked for %d messages, the reply has %d", most, len(*d))
	}
	return nil
}

func receive(b Broker, ctx context.Context, req ReceiveRequest) (Deliveries, error) {
	return b.Receive(ctx, req.Queue, Demand{Most: req.Most, WaitMS: req.WaitMS})
}

// settlement is what a settling request asks for.
func (r SettleRequest) settlement() (queue string, s Settlement) {
	return r.Queue, Settlement{Receipts: r.Receipts, ByMS: r.ByMS}
}

// Check refuses an answer that does not say of each receipt what became of it.
func (s *Settled) Check(request any) error {
	_, asked := request.(interface{ settlement() (string, Settlement) }).settlement()
	if len(s.Done) == 0 || len(s.Done)+len(s.Stale) != len(asked.Receipts) {
		return fmt.Errorf("of %d receipts, the reply calls %d good and %d stale", len(asked.Receipts),
			len(s.Done), len(s.Stale))
	}
	return nil
}

func settles[R interface{ settlement() (string, Settlement) }](
	how string,
) func(Broker, context.Context, R) (Settled, error) {
	return func(b Broker, ctx context.Context, req R) (Settled, error) {
		queue, s := req.settlement()
		return b.Settle(ctx, queue, how, s)
	}
}

func ackOne(req AckOneRequest) SettleRequest {
	return SettleRequest{OpID: req.OpID, QueueRequest: req.QueueRequest,
		Receipts: Receipts{req.Receipt}}
}

func create(b Broker, ctx context.Context, req CreateRequest) (api.Nothing, error) {
	return api.Nothing{}, b.Create(ctx, req.Queue, req.QueueSettings)
}

// countedIn is what says how many messages of a queue it touched.
func countedIn(
	do func(Broker, context.Context, string) (int, error),
) func(Broker, context.Context, QueueRequest) (Count, error) {
	return func(b Broker, ctx context.Context, req QueueRequest) (Count, error) {
		n, err := do(b, ctx, req.Queue)
		return Count{n}, err
	}
}

func list(b Broker, ctx context.Context, _ struct{}) ([]QueueInfo, error) { return b.List(ctx) }

// waitingIn says what is left to do at a server that does not say it itself: it is at rest
// when its queues have nothing delayed or picked: it need not have consumers. This is no
// operation: it does not wait for connections that operations without an answer hold.
func waitingIn(
	ctx context.Context, c *api.Client, _ any,
) (left int64, what string, err error) {
	text, err := c.Ask(ctx, routeQueues)
	if err != nil {
		return 0, "", fmt.Errorf("listing the queues at %s: %w", c.Base(), err)
	}
	list, err := api.Decode[[]QueueInfo](text)
	if err != nil {
		return 0, "", err
	}
	left, what = Params{}.waiting(list)
	return left, what, nil
}
