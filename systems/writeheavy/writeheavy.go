// Package writeheavy counts up and down, a great many times a second. Its question: of the ways to
// take a heavy load of writes, to shard, to log first, to batch and to reduce in a tree, which one
// is right when, and is every acknowledged write counted exactly once when nodes die and replies
// are lost?
//
// A client adds a delta to the counter of a key, alone or in a batch of several adds, and sends
// what was not answered again under the same number. Readers ask for the value of a counter.
package writeheavy

import (
	"context"
	"net/http"
	"time"

	"stampede/harness/api"
	"stampede/harness/keys"
	"stampede/harness/sut"
)

// The kinds of operations. An add has the delta as Op.Arg, a read the value as Reply.Value.
const (
	KindAdd   = "add"
	KindBatch = "batch"
	KindRead  = "read"
)

// The classes of adds by which a design may shed load, the most important first.
const (
	ClassHigh   = "high"
	ClassNormal = "normal"
	ClassLow    = "low"
)

// The refusals.
var (
	// ErrRejected: no attempt can add this. See MostDelta.
	ErrRejected = sut.Refusal("rejected", "the delta is 0, or further from it than 1000")
	// ErrShed: the service has no room for another add.
	ErrShed = sut.Refusal("shed", "the service has no room for another add")
)

const (
	// MostDelta is how far a delta may be from 0, which no delta is.
	MostDelta = 1000
	// MostRecords is how many adds a batch may have.
	MostRecords = 500
)

// sound says whether a delta may be added: what the function of the schema says.
func sound(delta int64) bool { return delta != 0 && -MostDelta <= delta && delta <= MostDelta }

// Counters is the domain interface: what clients ask for.
type Counters interface {
	Add(ctx context.Context, req AddRequest) (api.Nothing, error)
	Batch(ctx context.Context, req BatchRequest) (BatchReply, error)
	Read(ctx context.Context, req ReadRequest) (Value, error)
}

// AddRequest asks for an add.
type AddRequest struct {
	ID      uint64 `json:"op_id" op:"id" min:"1" max:"9007199254740991" doc:"the add's number, the same in every attempt"`
	Key     uint64 `json:"key" op:"key,counter-" min:"1" max:"9007199254740991" doc:"the counter"`
	User    uint64 `json:"user" op:"client,user-" min:"1" max:"9007199254740991" doc:"who adds"`
	Delta   int64  `json:"delta" op:"arg" min:"-1000000000" max:"1000000000" doc:"what to add; one that is 0, or beyond 1000 either way, is no add that can be made"`
	Class   string `json:"class" enum:"high,normal,low" doc:"what is shed last and first"`
	Attempt int    `json:"attempt,omitempty" min:"0" max:"100" doc:"how often it was sent before"`
}

// BatchRequest asks for several adds, each for itself.
type BatchRequest struct {
	ID      uint64   `json:"op_id" op:"id" min:"1" max:"9007199254740991"`
	Attempt int64    `json:"attempt" op:"arg" min:"0" max:"100"`
	Records []Record `json:"records" min:"1" max:"500"`
}

// Record is an add of a batch.
type Record struct {
	ID    uint64 `json:"op_id" min:"1" max:"9007199254740991"`
	Key   uint64 `json:"key" min:"1" max:"9007199254740991"`
	User  uint64 `json:"user" min:"1" max:"9007199254740991"`
	Delta int64  `json:"delta" min:"-1000000000" max:"1000000000"`
	Class string `json:"class" enum:"high,normal,low"`
}

// add is the record as an add of its own.
func (r Record) add(attempt int64) AddRequest {
	return AddRequest{ID: r.ID, Key: r.Key, User: r.User, Delta: r.Delta, Class: r.Class,
		Attempt: int(attempt)}
}

// The results of a record.
const (
	ResultOK      = "ok"
	ResultUnknown = "unknown"
)

// BatchReply says what became of each record.
type BatchReply struct {
	Results []Result `json:"results" doc:"in the order of the records"`
}

// Result is what became of a record.
type Result struct {
	ID     uint64 `json:"op_id" min:"1"`
	Result string `json:"result" enum:"ok,rejected,shed,refused,unknown" doc:"after rejected, shed or refused nothing was added"`
}

// ReadRequest asks for the value of a counter.
type ReadRequest struct {
	ID     uint64 `json:"-" query:"op_id" op:"id" default:"" min:"1" max:"9007199254740991"`
	Reader uint64 `json:"-" query:"reader" op:"client,reader-" default:"1" min:"1" max:"9007199254740991"`
	Key    uint64 `json:"-" path:"key" op:"key,counter-" min:"1" max:"9007199254740991"`
}

// Value is the answer.
type Value struct {
	Key   uint64 `json:"key" echo:"key" min:"1" doc:"the one that was asked for"`
	Value int64  `json:"value" op:"value"`
	AsOf  int64  `json:"as_of" doc:"the value has every add up to this position and no other; 0 where it is as of now"`
}

// API is what each operation is as a call, in a history and over HTTP.
func API() *api.Table[Counters] {
	return &api.Table[Counters]{
		System: "writeheavy", Title: "Counters under a heavy load of writes",
		About: "The API of counters to which clients add. stampede serves its own designs over it, and " +
			"judges any\nserver that implements it. An add that is sent again under its number counts once.",
		Kinds: []api.Kind[Counters]{
			api.Op(KindAdd, "POST /v1/adds", Counters.Add, api.About{
				Summary: "Add to a counter.",
				Detail: "What is acknowledged is durable, unless the audit declares how much a node " +
					"that dies may lose.",
				Reply: "It is added or, with as_of, will be.", Refuses: []error{ErrRejected, ErrShed}}),
			api.Op(KindBatch, "POST /v1/batches", Counters.Batch, api.About{
				Summary: "Make several adds, each for itself.", Reply: "What became of each.",
				Refuses: []error{ErrShed}}),
			api.Op(KindRead, "GET /v1/counters/{key}", Counters.Read, api.About{
				Summary: "Read a counter.", Reply: "Its value, 0 before any add.", Refuses: []error{}}),
		},
		Problems: []api.Problem{
			{Status: http.StatusUnprocessableEntity, Is: ErrRejected},
			{Status: http.StatusTooManyRequests, Is: ErrShed},
		},
		MaxBody:    128 << 10,
		Reset:      ResetRequest{},
		ResetMeans: "Begin with no adds.",
		Begin: func(params any) (any, error) {
			p, err := sut.ParamsOf[Params](params)
			return ResetRequest{int64(p.WindowMost)}, err
		},
		PendingMeans: "How many adds are acknowledged and not in the counters.",
		Audit:        Audit{},
	}
}

// ResetRequest asks for a new beginning.
type ResetRequest struct {
	Accepted int64 `json:"accepted" min:"0" doc:"the most that the audit's contract may declare as accepted; a server that loses nothing declares 0"`
}

// Audit is the final truth of the stores, or of a foreign server's audit endpoint.
type Audit struct {
	Contract Contract     `json:"contract"`
	Ops      []OpRow      `json:"ops" doc:"every add that is in a counter"`
	Counters []CounterRow `json:"counters" doc:"one or more rows for each key, which are added up; one of value 0 may be left out"`
	Dead     []DeadRow    `json:"dead" doc:"the dead letters: adds that no attempt can make; one that was acknowledged has to be here, one that was answered rejected may be"`
	Log      []LogRow     `json:"log,omitempty" doc:"every add that was taken in, as often as it is there, of a design with a log"`
	Partials []PartialRow `json:"partials,omitempty" doc:"the partial sums that were applied, of a tree"`
	Batches  []BatchRow   `json:"batches,omitempty" doc:"the batches that were written, where they are noted"`

	Handovers []Handover `json:"handovers,omitempty" doc:"the owners that ranges of keys had, one after the other, of a design that moves them; the first is a shard of map 1"`
	Placed    []Placed   `json:"placed,omitempty" doc:"every add at each shard that has it, of such a design; shards that are no longer owners are kept until the audit"`
	Sides     []Side     `json:"sides,omitempty" doc:"the counters at each shard, of such a design"`
	Turned    int64      `json:"turned_away,omitempty" min:"0" doc:"how many requests came to a shard that was no longer the owner, and were sent on"`

	Decisions []Decision `json:"decisions,omitempty" doc:"what became of each attempt at an add before any work, in order, of a design that sheds and is one process; left out, shed-as-told is not judged"`

	truth *truth
}

// Contract is what a design promises.
type Contract struct {
	Accepted int64 `json:"accepted" min:"0" doc:"how many acknowledged adds a node that dies may lose at most"`
	AsOf     bool  `json:"as_of" doc:"whether reads say up to which position they are, and may lack newer adds; if not, a read has every add that was acknowledged before it was sent"`
	Moves    bool  `json:"moves,omitempty" doc:"whether ranges of keys move between shards under load"`
	Attempts int64 `json:"attempts" min:"0" doc:"how often a dead letter was tried alone, at least; 0 where there are none"`

	Sheds  bool    `json:"sheds,omitempty" doc:"whether adds are refused before any work when too many come; a server may answer 429 without it"`
	Bursts []int64 `json:"bursts,omitempty" doc:"how many adds of each class, the most important first, are taken at most between two that are refused of a more important class, if none of that or of a more important one is taken in between; left out where classes are not told apart"`
	Async  int64   `json:"async_ms,omitempty" min:"0" doc:"for how many milliseconds before the database dies an acknowledged add may not be on its disk; what is lost then is what came last"`
}

// OpRow is an add in a counter.
type OpRow struct {
	ID    uint64 `json:"op_id" min:"1"`
	Key   uint64 `json:"key" min:"1"`
	User  uint64 `json:"user" doc:"0 where it is not kept"`
	Delta int64  `json:"delta"`
	Pos   int64  `json:"pos" doc:"from which position on reads have it; 0 where reads are as of now"`
}

// CounterRow is a counter, or a part of one.
type CounterRow struct {
	Key   uint64 `json:"key" min:"1"`
	Shard int64  `json:"shard" doc:"any number"`
	Value int64  `json:"value"`
}

// DeadRow is a dead letter.
type DeadRow struct {
	ID    uint64 `json:"op_id" min:"1"`
	Key   uint64 `json:"key" min:"1"`
	User  uint64 `json:"user" min:"1"`
	Delta int64  `json:"delta"`
	Tries int64  `json:"tries" min:"1"`
}

// LogRow is an add in the log.
type LogRow struct {
	ID    uint64 `json:"op_id" min:"1"`
	Key   uint64 `json:"key" min:"1"`
	Delta int64  `json:"delta"`
}

// PartialRow is what a node has added up for a key.
type PartialRow struct {
	Node  string `json:"node"`
	Epoch string `json:"epoch"`
	Seq   int64  `json:"seq"`
	Key   uint64 `json:"key" min:"1"`
	Sum   int64  `json:"sum"`
	Pos   int64  `json:"pos"`
}

// BatchRow is a batch that was written.
type BatchRow struct {
	Records int64 `json:"records" min:"0"`
}

// Decision is what became of an attempt at an add before any work.
type Decision struct {
	ID     uint64 `json:"op_id" min:"1"`
	Class  string `json:"class" enum:"high,normal,low"`
	Result string `json:"result" enum:"taken,refused,dropped" doc:"it may begin or wait; it is refused; or it was taken, and is refused while it waits"`
}

// Handover is a change of a range's owner.
type Handover struct {
	Range  int64 `json:"range" min:"0"`
	Epoch  int64 `json:"epoch" min:"2" doc:"the target is the owner of the range for the epoch-th time; the first owner has 1"`
	Source int64 `json:"source" doc:"the map from whose shard it goes"`
	Target int64 `json:"target" doc:"the map to whose shard it goes"`
	Paused int64 `json:"paused_ms" min:"0" doc:"for how long the range took no adds"`
}

// Placed is an add at a shard.
type Placed struct {
	Map   int64  `json:"map"`
	Range int64  `json:"range"`
	ID    uint64 `json:"op_id" min:"1"`
	Key   uint64 `json:"key" min:"1"`
	Delta int64  `json:"delta"`
	Epoch int64  `json:"epoch" min:"1" doc:"the epoch of the range in which its owner took it"`
	In    int64  `json:"in_epoch" min:"0" doc:"the epoch in which this shard owned the range last when it got the add, 0 if it never did"`
	Came  string `json:"came" enum:"owner,twin,copy" doc:"taken as the owner, written to both sides at once, or copied"`
}

// Side is a counter at a shard.
type Side struct {
	Map   int64  `json:"map"`
	Range int64  `json:"range"`
	Key   uint64 `json:"key" min:"1"`
	Value int64  `json:"value"`
}

// Params are the workload's parameters, and what the designs are opened for.
type Params struct {
	Keys    int     `json:"keys" min:"1" max:"10000000" doc:"number of counters"`
	Skew    string  `json:"skew" enum:"uniform,zipf,hot,moving" doc:"how adds are spread over the counters"`
	Users   int     `json:"users" min:"1" max:"100000000" doc:"number of users"`
	Down    float64 `json:"down" min:"0" max:"1" doc:"share of adds that count down"`
	Poison  float64 `json:"poison" min:"0" max:"1" doc:"share of adds that no attempt can make"`
	Batches float64 `json:"batches" min:"0" max:"1" doc:"share of scheduled operations that are batches"`
	Records int     `json:"records" min:"1" max:"500" doc:"adds of a batch"`
	Reads   float64 `json:"reads" min:"0" max:"1" doc:"share of adds after which their counter is read"`
	Readers int     `json:"readers" min:"1" max:"1000000" doc:"number of readers"`
	Resend  float64 `json:"resend" min:"0" max:"1" doc:"share of adds and batches that are sent twice"`
	Retry   int     `json:"retry" min:"0" max:"15" doc:"how often an add or a batch of unknown outcome is sent again"`

	FlushEvery sut.Duration `json:"flush_every" min:"1ms" max:"1m" doc:"how long a batch waits for company, at most"`
	FlushMost  int          `json:"flush_most" min:"1" max:"500" doc:"adds of a batch that the service writes, at most"`
	Queue      int          `json:"queue" min:"1" max:"1000000" doc:"adds that wait in a process of the API, at most"`
	Attempts   int          `json:"attempts" min:"1" max:"20" doc:"attempts to write an add alone before it is a dead letter"`
	Shards     int          `json:"shards" min:"1" max:"1024" doc:"shards of a counter"`
	Compact    sut.Duration `json:"compact_every" min:"1ms" max:"1h" doc:"how often shards are compacted"`
	MapAfter   int          `json:"map_after" min:"1" max:"1000000000" doc:"adds of a process of the API after which map_changed_unmoved doubles the shards, and adds in all after which reshard_online begins to move"`
	MoveEvery  sut.Duration `json:"move_every" min:"1ms" max:"1h" doc:"pause between two steps of reshard_online"`

	ShedLimit  int          `json:"shed_limit" min:"1" max:"10000" doc:"adds that are under way at once, in designs that shed; the first limit of shed_adaptively"`
	ShedQueue  int          `json:"shed_queue" min:"4" max:"1000000" doc:"adds of the most important class that wait for their turn, at most"`
	ShedTarget sut.Duration `json:"shed_target" min:"1ms" max:"10s" doc:"how long an add may take (shed_adaptively), and four times as long as it may wait (shed_by_delay)"`
	ShedRate   int          `json:"shed_rate" min:"1" max:"10000000" doc:"adds a second that shed_by_class admits"`

	Session sut.Duration `json:"session_timeout" min:"1s" max:"24h" doc:"silence after which a materialiser loses its partitions"`

	EdgeWindow   sut.Duration `json:"edge_window" min:"1ms" max:"1m" doc:"window of an edge of the tree (5s in production)"`
	MiddleWindow sut.Duration `json:"middle_window" min:"1ms" max:"1m" doc:"window of the middle (10s in production)"`
	RootWindow   sut.Duration `json:"root_window" min:"1ms" max:"1m" doc:"window of the root (10s in production)"`
	WindowMost   int          `json:"window_most" min:"1" max:"300000" doc:"adds that an edge has in memory, at most; so many may be lost with it"`
}

// DefaultParams are a thousand counters, and a tree fifty times as fast as in production.
func DefaultParams() Params {
	ms := func(n int) sut.Duration { return sut.Duration(time.Duration(n) * time.Millisecond) }
	return Params{Keys: 1000, Skew: keys.SkewZipf, Users: 100_000, Down: 0.2, Poison: 0.005,
		Batches: 0.05, Records: 20, Reads: 0.05, Readers: 4, Resend: 0.03, Retry: 5,
		FlushEvery: ms(5), FlushMost: MostRecords, Queue: 20_000, Attempts: 3, Shards: 16,
		ShedLimit: 8, ShedQueue: 64, ShedTarget: ms(20), ShedRate: 1000,
		Compact: ms(500), MapAfter: 200, MoveEvery: ms(20), Session: ms(6000),
		EdgeWindow: ms(100), MiddleWindow: ms(200), RootWindow: ms(200), WindowMost: 1000}
}
