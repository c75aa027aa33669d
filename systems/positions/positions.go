// Package positions stores the positions of drivers: the newest one for riders, and the history for
// analysts. Its question: which designs have both a hot and a cold path, and can erase a driver
// everywhere?
//
// A driver pings every few seconds, and some pings arrive late, after newer ones. A rider asks for
// the newest position, an analyst for the track. A driver who leaves is erased: from then on none
// of the driver's positions may be readable in any store, log or archive.
package positions

import (
	"context"
	"net/http"
	"time"

	"stampede/harness/api"
	"stampede/harness/sut"
	"stampede/systems/internal/sketch"
)

// The kinds of operations. A ping has its number as Op.Arg and as Reply.Value; a latest has that of
// the position which it shows, 0 for none; a track has how many positions it shows.
const (
	KindPing   = "ping"
	KindLatest = "latest"
	KindTrack  = "track"
	KindErase  = "erase"
)

// The reasons of a refusal; each wraps sut.ErrRefused.
var (
	// ErrErased: the driver was erased.
	ErrErased = sut.Refusal("erased", "the driver was erased")
	// ErrUnknownDriver: nobody of that number has signed up.
	ErrUnknownDriver = sut.Refusal("unknown_driver", "unknown driver")
	// ErrOverloaded: the API has no room for another ping.
	ErrOverloaded = sut.Refusal("overloaded", "the API has no room for another ping")
)

// Tracker is the domain interface: what clients ask for.
type Tracker interface {
	Ping(ctx context.Context, req PingRequest) (Pinged, error)
	Latest(ctx context.Context, req DriverRequest) (Point, error)
	Track(ctx context.Context, req TrackRequest) (Track, error)
	Erase(ctx context.Context, req DriverRequest) (api.Nothing, error)
}

// PingRequest says where a driver is.
type PingRequest struct {
	ID     uint64 `json:"op_id" op:"id" min:"1" max:"9223372036854775807" doc:"the ping's identity, the same in every attempt"`
	Driver uint64 `json:"driver" op:"key,driver-" min:"1" max:"1000000"`
	Seq    int64  `json:"seq" op:"arg" min:"1" max:"9007199254740991" doc:"rises with each of the driver's pings, in the order in which they were made and with gaps; each has its own, and they may come in another order"`
	Lat    int64  `json:"lat_e7" min:"-900000000" max:"900000000" doc:"degrees, times ten million"`
	Lon    int64  `json:"lon_e7" min:"-1800000000" max:"1800000000"`
}

// DriverRequest is about a driver.
type DriverRequest struct {
	ID     uint64 `json:"-" query:"op_id" op:"id" default:"" min:"1" max:"9223372036854775807"`
	Driver uint64 `json:"-" path:"driver" op:"key,driver-" min:"1" max:"1000000"`
}

// TrackRequest asks for the newest positions of a driver in the history.
type TrackRequest struct {
	ID     uint64 `json:"-" query:"op_id" op:"id" default:"" min:"1" max:"9223372036854775807"`
	Driver uint64 `json:"-" path:"driver" op:"key,driver-" min:"1" max:"1000000"`
	Most   int    `json:"-" query:"most" default:"20" min:"1" max:"1000" doc:"how many at most"`
}

// Pinged is the answer to a ping that will be in the history.
type Pinged struct {
	Seq int64 `json:"seq" op:"value" min:"1" doc:"that of the ping"`
}

// Point is a position.
type Point struct {
	Seq int64 `json:"seq" op:"value" min:"0" doc:"of the ping; 0 if none is known"`
	Lat int64 `json:"lat_e7"`
	Lon int64 `json:"lon_e7"`
}

// Track is some positions of a driver.
type Track struct {
	Found  int     `json:"found" op:"value" min:"0" doc:"how many points there are, at most as many as were asked for"`
	Points []Point `json:"points" doc:"the newest first"`
}

// API is what each operation is as a call, in a history and over HTTP.
func API() *api.Table[Tracker] {
	return &api.Table[Tracker]{
		System: "positions", Title: "Positions",
		About: "The API of a service that knows where drivers are and were. stampede serves its own " +
			"designs over\nit, and judges any server that implements it.\n\nWhat was acknowledged is " +
			"shown, as the newest position and in tracks, within the time\nthat a scenario grants " +
			"(fresh_within, 5 s unless it is set).",
		Kinds: []api.Kind[Tracker]{
			api.Op(KindPing, "POST /v1/pings", Tracker.Ping, api.About{
				Summary: "Say where a driver is.", Detail: "A ping that is sent again is kept once.",
				Reply: "It will be in the history.", Status: http.StatusAccepted,
				Refuses: []error{ErrErased, ErrUnknownDriver, ErrOverloaded}}),
			api.Op(KindLatest, "GET /v1/drivers/{driver}/latest", Tracker.Latest, api.About{
				Summary: "Read the newest position of a driver.", Refuses: []error{ErrErased, ErrUnknownDriver},
				Reply: "It, or an older one, but none older than one that was shown before."}),
			api.Op(KindTrack, "GET /v1/drivers/{driver}/track", Tracker.Track, api.About{
				Summary: "Read where a driver was.",
				Reply:   "What is in the history so far: nothing that was read before is missing.",
				Refuses: []error{ErrErased, ErrUnknownDriver}}),
			api.Op(KindErase, "DELETE /v1/drivers/{driver}", Tracker.Erase, api.About{
				Summary: "Erase a driver.", Detail: "Once it is answered, no position of the driver can " +
					"be read any more, wherever it was. Only a reset ends that.",
				Reply: "The driver is erased, now or earlier.", Refuses: []error{ErrUnknownDriver}}),
		},
		Problems: []api.Problem{{Status: http.StatusGone, Is: ErrErased},
			{Status: http.StatusNotFound, Is: ErrUnknownDriver},
			{Status: http.StatusTooManyRequests, Is: ErrOverloaded}},
		MaxBody: 4 << 10,
		Reset:   ResetRequest{}, ResetMeans: "Begin with drivers of whom nothing is known.",
		Begin: func(params any) (any, error) {
			p, err := sut.ParamsOf[Params](params)
			return ResetRequest{p.Drivers}, err
		},
		PendingMeans: "How many pings are not in the history, the newest positions and the archive.",
		Audit:        Audit{},
	}
}

// ResetRequest asks for a new beginning.
type ResetRequest struct {
	Drivers int `json:"drivers" min:"1" doc:"they are numbered from 1; there are 100000 at most"`
}

// Audit is what can be read in the end: of the stores with all that the design still has, or of a
// foreign server's audit endpoint.
type Audit struct {
	History []PingRow   `json:"history" doc:"every position in the history"`
	Newest  []NewestRow `json:"newest" doc:"the newest position of each driver, where riders look"`
	// Places are where positions are beside these two.
	Places []string  `json:"places" doc:"where else positions are, such as log and archive"`
	Copies []CopyRow `json:"copies" doc:"of each of these places and each driver, how many positions can be read; none without a row"`
	// Partial are places that have some of the positions only.
	Partial []string `json:"partial_places,omitempty" doc:"which of these places have some of the positions only, such as dead letters"`

	seen *seen
}

// PingRow is a position that can be read.
type PingRow struct {
	ID     uint64 `json:"op_id" min:"1"`
	Driver uint64 `json:"driver" min:"1"`
	Seq    int64  `json:"seq" min:"1"`
	Lat    int64  `json:"lat_e7"`
	Lon    int64  `json:"lon_e7"`
}

// NewestRow is the position that riders are shown.
type NewestRow struct {
	Driver uint64 `json:"driver" min:"1"`
	Seq    int64  `json:"seq" min:"1"`
	Lat    int64  `json:"lat_e7"`
	Lon    int64  `json:"lon_e7"`
}

// CopyRow is how much of a driver a place has.
type CopyRow struct {
	Place    string `json:"place" min:"1"`
	Driver   uint64 `json:"driver" min:"1"`
	Readable int64  `json:"readable" min:"0" doc:"positions that differ in seq"`
}

// Params are the workload's parameters, and what the designs are opened for.
type Params struct {
	Drivers int     `json:"drivers" min:"2" max:"100000" doc:"they ping in turn"`
	Late    float64 `json:"late" min:"0" max:"1" doc:"share of pairs of pings of which the second comes first; after as many pings two come at once"`
	Reads   float64 `json:"reads" min:"0" max:"1" doc:"share of pings after which riders ask where the driver is"`
	Tracks  float64 `json:"tracks" min:"0" max:"1" doc:"share of pings after which the track is read"`
	Erase   float64 `json:"erase" min:"0" max:"1" doc:"share of pings after which the driver is erased, while others look and the driver pings"`
	Resend  float64 `json:"resend" min:"0" max:"1" doc:"share of pings that are sent twice"`
	Retry   int     `json:"retry" min:"0" max:"20" doc:"how often an erasure without an answer is asked for again"`

	MoveAfter int          `json:"move_after" min:"1" max:"10000000" doc:"positions in the history before it migrates"`
	Follow    sut.Duration `json:"follow" min:"0s" max:"1h" doc:"how long changes are applied before the cut-over"`

	FlushEvery     sut.Duration `json:"flush_every" min:"1ms" max:"1m" doc:"how often the paths store what they have read, and the archive takes what is new"`
	FreshWithin    sut.Duration `json:"fresh_within" min:"1ms" max:"1h" doc:"how long after its answer a ping may be missing in what is shown"`
	SessionTimeout sut.Duration `json:"session_timeout" min:"1s" max:"24h" doc:"silence after which a reader of the log loses its partitions"`
}

// DefaultParams are a hundred drivers, of whom some leave.
func DefaultParams() Params {
	return Params{Drivers: 100, Late: 0.1, Reads: 0.2, Tracks: 0.05, Erase: 0.01, Resend: 0.02,
		Retry: 10, MoveAfter: 50, Follow: sut.Duration(200 * time.Millisecond),
		FlushEvery:     sut.Duration(200 * time.Millisecond),
		FreshWithin:    sut.Duration(5 * time.Second),
		SessionTimeout: sut.Duration(6 * time.Second)}
}

// whereabouts is where a driver is at a ping. So judges know each position by its number.
func whereabouts(driver uint64, seq int64) Point {
	h := sketch.Hash(driver ^ sketch.Hash(uint64(seq)))
	return Point{Seq: seq, Lat: int64(h%1_800_000_001) - 900_000_000,
		Lon: int64(h>>32%3_600_000_001) - 1_800_000_000}
}
