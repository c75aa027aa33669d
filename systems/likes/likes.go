// Package likes is the system in which one object suddenly takes everybody's
// likes. Its question: how does one viral video take the write load, and is the
// count right at the end?
//
// A user likes a video once and may take it back. The count is read all the
// time. Who likes what is kept in Postgres; in front of it, Redis counts and
// tells repeated likes apart, and a log in Kafka carries every interaction from
// one to the other (write-behind).
package likes

import (
	"context"
	"net/http"
	"strconv"

	"stampede/harness/api"
	"stampede/harness/sut"
)

// The operation kinds.
const (
	// KindLike makes Op.Client like Op.Key. Reply.Value is 1 if that changed
	// anything and 0 if the user liked the video already.
	KindLike = "like"
	// KindUnlike takes a like back. Reply.Value is 1 if there was one.
	KindUnlike = "unlike"
	// KindCount reads the likes of Op.Key for Op.Client. Reply.Value is the
	// number, Reply.Body a Count as JSON.
	KindCount = "count"
	// KindView says that Op.Client sees Op.Key. Viewers are estimated.
	KindView = "view"
)

// The reasons of a refusal; each wraps sut.ErrRefused.
var (
	// ErrUnknownVideo: there is no such video.
	ErrUnknownVideo = sut.Refusal("unknown_video", "unknown video")
	// ErrNotReady: the counters of the video are being rebuilt.
	ErrNotReady = sut.Refusal("not_ready", "counters not ready")
	// ErrOverloaded: what waits to be logged has filled the buffer.
	ErrOverloaded = sut.Refusal("overloaded", "overloaded")
)

// Likes is the domain interface: what every variant, the HTTP client and the
// HTTP handler have in common.
type Likes interface {
	// Change lets a user like a video, or not any more.
	Change(ctx context.Context, req Request, likes bool) (Change, error)
	Count(ctx context.Context, req CountRequest) (Count, error)
	View(ctx context.Context, req Request) (api.Nothing, error)
}

func like(l Likes, ctx context.Context, req Request) (Change, error) {
	return l.Change(ctx, req, true)
}

func unlike(l Likes, ctx context.Context, req Request) (Change, error) {
	return l.Change(ctx, req, false)
}

// Request is one user's interaction with one video.
type Request struct {
	OpID  uint64 `json:"op_id" op:"id" min:"1" max:"9223372036854775807" doc:"the interaction's identity, the same in every attempt. A repeated one may get the first answer again and do nothing, or be done again like a new one; logged has it once"`
	Video uint64 `json:"video_id" op:"key,video-" min:"1" max:"9223372036854775807"`
	User  uint64 `json:"user_id" op:"client,user-" min:"1" max:"9223372036854775807"`
}

// CountRequest asks for the likes of a video.
type CountRequest struct {
	Video uint64 `json:"-" path:"video" op:"key,video-" min:"1" max:"9223372036854775807"`
	User  uint64 `json:"-" query:"user_id" default:"1" op:"client,user-" min:"1" max:"9223372036854775807" doc:"the user who asks; where there are regions, the user's home answers"`
}

// Change says whether an interaction changed who likes the video.
type Change struct {
	Changed bool `json:"changed" op:"value"`
}

// Count is what a reader is told of a video.
type Count struct {
	Video   uint64 `json:"video_id" echo:"key" min:"1" max:"9223372036854775807"`
	Count   int64  `json:"count" op:"value"`
	Viewers int64  `json:"viewers" min:"0" doc:"about how many users have seen the video"`
	Approx  bool   `json:"approx" doc:"true if the count may be as old as contract.staleness_ns of the audit"`
}

// API is what each operation is as a call, in a history and over HTTP.
func API() *api.Table[Likes] {
	return &api.Table[Likes]{
		System: "likes", Title: "Likes",
		About: "The API of a service that counts who likes a video. stampede serves its own designs " +
			"over it,\nand judges any server that implements it: liking, taking back, counting, viewing, " +
			"reset and\naudit are all it needs.",
		Kinds: []api.Kind[Likes]{
			api.Op(KindLike, "POST /v1/likes", like, api.About{Summary: "Like a video.",
				Detail: "A user likes a video once; liking it again changes nothing.",
				Reply:  "Whether it changed who likes the video."}),
			api.Op(KindUnlike, "DELETE /v1/likes", unlike, api.About{
				Summary: "Take a like back.", Detail: "Taking back what is not there changes nothing.",
				Reply: "Whether it changed who likes the video."}),
			api.Op(KindCount, "GET /v1/likes/{video}", Likes.Count, api.About{
				Summary: "Read how many users like a video.", Reply: "The count."}),
			api.Op(KindView, "POST /v1/views", Likes.View, api.About{
				Summary: "Say that a user sees a video.",
				Detail:  "Viewers are estimated; a repeated view adds nothing.", Reply: "It is counted."}),
		},
		Problems: []api.Problem{{Status: http.StatusNotFound, Is: ErrUnknownVideo},
			{Status: http.StatusServiceUnavailable, Is: ErrNotReady},
			{Status: http.StatusTooManyRequests, Is: ErrOverloaded}},
		MaxBody: 16 << 10,
		Reset:   ResetRequest{}, ResetMeans: "Begin with videos that nobody likes.",
		Begin: func(params any) (any, error) {
			p, err := sut.ParamsOf[Params](params)
			return ResetRequest{Videos: p.Videos}, err
		},
		PendingMeans: "Optional. A server that does not have it is taken to be at rest.",
		Audit:        Audit{}, Types: packedSchemas(),
	}
}

// ResetRequest asks for a new beginning: so many videos, numbered from 1, that nobody likes.
type ResetRequest struct {
	Videos int `json:"videos" min:"1" doc:"they are numbered from 1"`
}

// How an acknowledged interaction is kept, in a Contract.
const (
	AckLedger = "ledger" // it is in the ledger
	AckLog    = "log"    // it is in the log
	AckBuffer = "buffer" // it is in Redis and waits in memory for the log
)

// Contract is what a design promises of its acknowledgements and its reads.
type Contract struct {
	Ack string `json:"ack" enum:"ledger,log,buffer" doc:"where an interaction is when it is acknowledged"`
	// LossBound holds if Redis is lost together with a server. If it is not, only those of the
	// interactions are lost that the same user has followed with another one, which are
	// missing from Audit.Logged.
	LossBound int64 `json:"loss_bound" min:"0" doc:"acknowledged interactions that the death of a server may lose"`
	// What allows more than ten seconds is not judged.
	StalenessNS int64 `json:"staleness_ns" min:"0" max:"10000000000" doc:"how old a count may be, in nanoseconds"`
	// Regions are counted from 0; in the others a user's likes may be seen at any later time.
	Regions int `json:"regions" min:"1" max:"16" doc:"a user is at home in region user_id modulo regions"`
}

// Audit is the final truth of the stores, or of a foreign server's audit
// endpoint.
type Audit struct {
	Contract Contract     `json:"contract"`
	Videos   []VideoAudit `json:"videos"`
	Logged   Packed       `json:"logged" doc:"the op_id of every like and unlike that is durable, packed: the numbers in ascending order, each as its difference to the one before (the first as it is), as an unsigned LEB128 varint, and all of that in base64 with padding. Nothing is the empty text. The README has an example"`
	// Log is the topic, absent if the design has none.
	Log []PartitionAudit `json:"log,omitempty" doc:"the log that carries interactions to the ledger, its partitions from 0; left out if there is none. Of a server that is judged by its URL it is not needed"`
}

// VideoAudit is one video at the end.
type VideoAudit struct {
	Video   uint64  `json:"video_id" min:"1" max:"9223372036854775807"`
	Shards  int64   `json:"shards" doc:"counters of the video in a region; 1 if it is not split"`
	Counts  []int64 `json:"counts" doc:"what readers are told, one for each region"`
	Members Packed  `json:"members" doc:"the users who like the video according to the counting store, packed as logged is"`
	Ledger  Packed  `json:"ledger" doc:"the users who like the video according to the durable store, packed as logged is; with one store the same as members"`
	Viewers int64   `json:"viewers" doc:"about how many users have seen it"`
}

// PartitionAudit is one partition of the log.
type PartitionAudit struct {
	Partition int32        `json:"partition" min:"0"`
	Committed int64        `json:"committed" min:"0" doc:"the offset from which the ledger's worker would go on"`
	First     int64        `json:"first" min:"0" doc:"the offset of the first record"`
	Records   PackedEvents `json:"records" doc:"the records in the order of their offsets, without a gap: five unsigned LEB128 varints each, op_id, video_id, user_id, 1 for a like and 0 for an unlike, and the version from 1, of which the highest of a user and a video is true; all of that in base64 with padding"`
}

// Params are the workload's parameters.
type Params struct {
	Videos    int    `json:"videos" min:"1" max:"10000" doc:"number of videos"`
	Users     int    `json:"users" min:"0" doc:"distinct users; 0 means one for each scheduled like"`
	VideoSkew string `json:"video_skew" enum:"uniform,zipf,hot,moving" doc:"which video is liked"`

	ClickTwice  float64      `json:"click_twice" min:"0" max:"1" doc:"share of users that send their like twice at once, as two interactions"`
	Unlike      float64      `json:"unlike" min:"0" max:"1" doc:"share of likes that are taken back"`
	Relike      float64      `json:"relike" min:"0" max:"1" doc:"share of those that like again afterwards"`
	Think       sut.Duration `json:"think" min:"0s" max:"1h" doc:"longest time between a user's interactions"`
	Reads       float64      `json:"reads" min:"0" max:"16" doc:"reads of the count for each scheduled like"`
	Views       float64      `json:"views" min:"0" max:"1" doc:"views for each scheduled like"`
	Resend      float64      `json:"resend" min:"0" max:"1" doc:"share of interactions that are sent twice with the same identity, at once or after the answer"`
	RetryOnLost int          `json:"retry_on_lost" min:"0" max:"15" doc:"how often an interaction of unknown outcome is repeated, with the same identity"`

	Shards       int          `json:"shards" min:"1" max:"1000" doc:"counters of a video, in designs with a fixed number"`
	FirstShards  int          `json:"first_shards" min:"1" max:"1000" doc:"initial counters of a video, in designs that adapt it"`
	MaxShards    int          `json:"max_shards" min:"1" max:"1000" doc:"most counters of a video, in designs that adapt it"`
	HeatPerShard int          `json:"heat_per_shard" min:"1" max:"1000000000" doc:"writes per second and counter above which a video gets more counters"`
	ReadTTL      sut.Duration `json:"read_ttl" min:"0s" max:"1h" doc:"how long a server keeps a count that it has read; 0 reads each time"`
	EarlyBeta    float64      `json:"early_beta" min:"0" max:"100" doc:"eagerness of early recomputation, 1 as in the literature; 0 waits for the expiry"`
	Buffer       int          `json:"buffer" min:"1" max:"1000000" doc:"interactions that a server may acknowledge before they are logged"`
	RepairEvery  sut.Duration `json:"repair_every" min:"1ms" max:"1h" doc:"how often counters are compared with the ledger"`
	MergeEvery   sut.Duration `json:"merge_every" min:"1ms" max:"1h" doc:"how often regions exchange their counters"`
}

// The names of videos and users in a history, as the tags of Request have them.
const (
	videoPrefix = "video-"
	userPrefix  = "user-"
)

// VideoKey names a video, from 1: "video-1".
func VideoKey(n uint64) string { return videoPrefix + strconv.FormatUint(n, 10) }

// UserName names a user, from 1: "user-1".
func UserName(n uint64) string { return userPrefix + strconv.FormatUint(n, 10) }

// home is the region of a user, from 0.
func home(user uint64, regions int) int { return int(user % uint64(max(regions, 1))) }
