// Package topk counts which keys of a stream are the most frequent, in fixed memory and online. Its
// question: which designs find the heavy hitters of each window within their bound, what do they
// need for it, and is an event counted once when workers die?
//
// The API appends batches of events to a Kafka topic. Workers read its partitions, and keep for
// each partition and window of event time a pane: a summary of the keys, their number of uniques
// and how many events there were. They store the panes together with the offset up to which they
// have read. A reader merges the panes of all partitions, and of several windows if it asks about a
// sliding window.
package topk

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"slices"
	"time"

	"stampede/harness/api"
	"stampede/harness/sut"
	"stampede/systems/internal/sketch"
)

// The kinds of operations. A record has the event time as Op.Arg and the number of its events as
// Reply.Value; a top has the window as Op.Arg and the number of counted events as Reply.Value.
const (
	KindRecord = "record"
	KindTop    = "top"
)

// ErrOverloaded is the refusal of a batch that the API has no room for.
var ErrOverloaded = sut.Refusal("overloaded", "the API has no room for another batch")

// Counter is the domain interface: what clients ask for.
type Counter interface {
	Record(ctx context.Context, req RecordRequest) (Recorded, error)
	Top(ctx context.Context, req TopRequest) (Top, error)
}

// RecordRequest has the keys of some events, which happened at one time.
type RecordRequest struct {
	ID   uint64   `json:"op_id" op:"id" min:"1" max:"9223372036854775807" doc:"the batch's number, the same in every attempt"`
	AtMS int64    `json:"at_ms" op:"arg" min:"0" max:"253402300799999" doc:"when the events happened, in Unix milliseconds"`
	Keys []uint64 `json:"keys" min:"1" max:"1000" doc:"a key for each event, from 1 to 9007199254740991; 0 is a bad request, although the schema allows it"`
}

// maxKey is the highest key, which JSON can have everywhere.
const maxKey = 1<<53 - 1

// Check refuses keys that are none.
func (r *RecordRequest) Check() error {
	for i, key := range r.Keys {
		if key == 0 || key > maxKey {
			return fmt.Errorf("keys[%d]: expected a number from 1 to %d", i, maxKey)
		}
	}
	return nil
}

// Recorded is the answer.
type Recorded struct {
	Events int64 `json:"events" op:"value" min:"1"`
}

// TopRequest asks for the most frequent keys of a window, or of several that follow each other.
type TopRequest struct {
	ID     uint64 `json:"-" query:"op_id" op:"id" default:"" min:"1" max:"9223372036854775807"`
	Window int64  `json:"-" query:"window" op:"arg" min:"0" max:"253402300799999" doc:"the last window: the event time divided by the length of a window"`
	Span   int    `json:"-" query:"span" default:"1" min:"1" max:"100" doc:"how many windows, the last one included"`
	K      int    `json:"-" query:"k" default:"10" min:"1" max:"1000" doc:"how many keys at most"`
}

// Top is the answer.
type Top struct {
	Window int64     `json:"window" echo:"arg"`
	Total  int64     `json:"total" op:"value" min:"0" doc:"how many events of these windows were counted so far: the items are of these, and no count is above it"`
	Items  []TopItem `json:"items" doc:"the highest count first, of equal ones the lowest key"`
}

// TopItem is a key with an estimate.
type TopItem struct {
	Key   uint64 `json:"key"`
	Count int64  `json:"count"`
}

// API is what each operation is as a call, in a history and over HTTP.
func API() *api.Table[Counter] {
	return &api.Table[Counter]{
		System: "topk", Title: "Heavy hitters",
		About: "The API of a counter of heavy hitters. stampede serves its own designs over it, and " +
			"judges any\nserver that implements it.",
		Kinds: []api.Kind[Counter]{
			api.Op(KindRecord, "POST /v1/events", Counter.Record, api.About{
				Summary: "Record a batch of events.", Reply: "How many events the batch has.",
				Detail: "The server answers when it is in the log. A batch that is sent again may be counted " +
					"again, or once by a server that knows its op_id. The audit's log has it as often.",
				Status: http.StatusAccepted, Refuses: []error{ErrOverloaded}}),
			api.Op(KindTop, "GET /v1/top", Counter.Top, api.About{
				Summary: "Read the most frequent keys of some windows.",
				Reply:   "What is counted so far.", Refuses: []error{}}),
		},
		Problems: []api.Problem{{Status: http.StatusTooManyRequests, Is: ErrOverloaded}},
		MaxBody:  64 << 10,
		Reset:    ResetRequest{}, ResetMeans: "Begin with an empty log.",
		Begin: func(params any) (any, error) {
			p, err := sut.ParamsOf[Params](params)
			return ResetRequest{p.Window.D().Milliseconds(), p.Span, p.K, p.Error, p.Misses,
				p.probes()}, err
		},
		PendingMeans: "How many batches of the log are not counted.",
		Audit:        Audit{},
	}
}

// ResetRequest asks for a new beginning.
type ResetRequest struct {
	WindowMS int64    `json:"window_ms" min:"1" doc:"the length of a window, in event time"`
	Span     int      `json:"span" min:"1" doc:"of how many windows together the audit has the top, besides that of each alone"`
	K        int      `json:"k" min:"1" doc:"how many keys the audit has of each"`
	Error    float64  `json:"error" min:"0" doc:"how far an estimate may be off at most, as a share of the events"`
	Misses   float64  `json:"misses" min:"0" doc:"of what share of the keys it may be further off"`
	Probes   []uint64 `json:"probes" doc:"keys, at most 1000, of which the audit has an estimate in each window"`
}

// Audit is the final truth of the stores, or of a foreign server's audit endpoint.
type Audit struct {
	Contract Contract   `json:"contract"`
	Cost     Cost       `json:"cost" doc:"shown, not judged"`
	Log      []BatchRow `json:"log" doc:"every batch in the log, as often as it is there"`
	Windows  []PaneRow  `json:"windows" doc:"every window that has events, once"`
	Top      []TopRow   `json:"top" doc:"for each window that has events, the k most frequent keys of it alone, and of the span of windows that end with it, some of which may have no events; the highest count first, of equal ones the lowest key; if the span is 1, these are the same rows and there once"`
	// Estimates are of the keys in the top of a window, and of the probes.
	Estimates []EstimateRow `json:"estimates" doc:"for each window that has events, of the probes and of the keys in the top of it alone, each once; keys that are only in the top of its span need none"`

	truth *truth
}

// Contract is how good the estimates are. An exact design declares zeros.
type Contract struct {
	Under  float64 `json:"under" min:"0" doc:"how far an estimate is too low at most, as a share of the events"`
	Over   float64 `json:"over" min:"0" doc:"how far it is too high at most; under and over add up to the error of the reset at most"`
	Misses float64 `json:"misses" min:"0" doc:"of what share of the keys it may be further off"`
}

// Cost is what the summaries cost.
type Cost struct {
	Events int64 `json:"events" doc:"how many events were added to summaries"`
	AddNS  int64 `json:"add_ns" doc:"how long that took"`
	Bytes  int64 `json:"bytes" doc:"the size of the largest summary of a window and partition"`
}

// BatchRow is a batch in the log.
type BatchRow struct {
	ID     uint64 `json:"op_id" min:"1"`
	AtMS   int64  `json:"at_ms"`
	Events int64  `json:"events"`
	Sum    uint64 `json:"sum" doc:"of the keys"`
}

// PaneRow is a window, over all partitions.
type PaneRow struct {
	Window  int64 `json:"window"`
	Events  int64 `json:"events" doc:"the exact number of events"`
	Uniques int64 `json:"uniques" doc:"how many keys, such as by HyperLogLog; it may be 1 and 4.87 % of them too high or too low"`
	Approx  int64 `json:"approx" doc:"how many events, such as by a Morris counter; it may be 1 and 6.63 % of them too high or too low"`
	Shards  int   `json:"shards" doc:"how many panes were merged; 1 if the server has no partitions"`
}

// TopRow is a key in the top of some windows.
type TopRow struct {
	Window int64  `json:"window" doc:"the last window"`
	Span   int    `json:"span" doc:"1, or that of the reset"`
	Key    uint64 `json:"key"`
	Count  int64  `json:"count"`
}

// EstimateRow is an estimate of a key in one window.
type EstimateRow struct {
	Window  int64  `json:"window"`
	Key     uint64 `json:"key"`
	Count   int64  `json:"count" doc:"of the merged summaries"`
	OnePass int64  `json:"one_pass" doc:"of one summary to which all of the window's log was added; the same as count if the server has no partitions"`
}

// Params are the workload's parameters, and what the designs are opened for.
type Params struct {
	Items     int     `json:"items" min:"1" max:"1000000" doc:"number of keys"`
	Skew      float64 `json:"skew" min:"0" max:"5" doc:"key r is drawn in proportion to 1/r^skew; 0: all alike"`
	Batch     int     `json:"batch" min:"1" max:"1000" doc:"events of a batch"`
	MoveEvery int     `json:"move_every" min:"0" max:"1000000" doc:"windows after which other keys are the most frequent ones; 0: never"`
	Late      float64 `json:"late" min:"0" max:"1" doc:"share of batches of the window before"`
	Reads     float64 `json:"reads" min:"0" max:"1" doc:"share of batches after which the top is read"`
	Resend    float64 `json:"resend" min:"0" max:"1" doc:"share of batches that are sent twice"`

	Window  sut.Duration `json:"window" min:"1ms" max:"24h" doc:"length of a window, in event time"`
	Batches int          `json:"window_batches" min:"1" max:"10000000" doc:"batches in a window"`
	Span    int          `json:"span" min:"1" max:"100" doc:"windows of a sliding window"`
	K       int          `json:"k" min:"1" max:"1000" doc:"keys in a top"`
	Error   float64      `json:"error" min:"0.0001" max:"0.5" doc:"how far an estimate may be off, as a share of the events; the size of the sketches follows from it"`
	Misses  float64      `json:"misses" min:"0.0001" max:"0.5" doc:"of what share of the keys an estimate may be further off"`
	Probes  int          `json:"probes" min:"1" max:"1000" doc:"keys whose estimates are judged in each window, beside the top"`

	FlushEvery     sut.Duration `json:"flush_every" min:"1ms" max:"1m" doc:"how often workers store their panes"`
	SessionTimeout sut.Duration `json:"session_timeout" min:"1s" max:"24h" doc:"silence after which a worker loses its partitions"`
}

// DefaultParams are a thousand keys with a skew as the web has it.
func DefaultParams() Params {
	return Params{Items: 1000, Skew: 1.1, Batch: 100, Late: 0.05, Reads: 0.05, Resend: 0.02,
		Window: sut.Duration(time.Minute), Batches: 100, Span: 3, K: 10, Error: 0.005, Misses: 0.01,
		Probes: 40, FlushEvery: sut.Duration(200 * time.Millisecond),
		SessionTimeout: sut.Duration(6 * time.Second)}
}

// windowOf is the window of a time.
func (p Params) windowOf(atMS int64) int64 { return atMS / max(1, p.Window.D().Milliseconds()) }

// probes are the first keys, and others evenly among all.
func (p Params) probes() []uint64 {
	list := make([]uint64, min(p.Probes, p.Items))
	for i := range list {
		list[i] = uint64(i + 1)
		if i%2 == 1 {
			list[i] = max(list[i], uint64(i*p.Items/p.Probes+1))
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// slots is how many counters an error needs.
func (p Params) slots() int { return max(p.K, int(math.Ceil(1/p.Error))) }

// topOf are the rows of the most frequent keys.
func topOf(s sketch.Sketch, k int) []TopItem {
	list := []TopItem{}
	for _, it := range s.Top(k) {
		list = append(list, TopItem{it.Key, int64(it.Count)})
	}
	return list
}
