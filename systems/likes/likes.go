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
	"fmt"
	"strconv"
	"strings"

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
	Like(ctx context.Context, req Request) (Change, error)
	Unlike(ctx context.Context, req Request) (Change, error)
	Count(ctx context.Context, req Request) (Count, error)
	View(ctx context.Context, req Request) error
}

// Request is one user's interaction with one video.
type Request struct {
	// OpID is the interaction's identity, the same in every attempt.
	OpID  uint64 `json:"op_id"`
	Video uint64 `json:"video_id"`
	User  uint64 `json:"user_id"`
}

// Change says whether an interaction changed who likes the video.
type Change struct {
	Changed bool `json:"changed"`
}

// Count is what a reader is told of a video.
type Count struct {
	Video uint64 `json:"video_id"`
	Count int64  `json:"count"`
	// Viewers is about how many users have seen the video.
	Viewers int64 `json:"viewers"`
	// Approx is true if the count may be as old as Contract.StalenessNS.
	Approx bool `json:"approx"`
}

// How an acknowledged interaction is kept, in a Contract.
const (
	AckLedger = "ledger" // it is in the ledger
	AckLog    = "log"    // it is in the log
	AckBuffer = "buffer" // it is in Redis and waits in memory for the log
)

// Contract is what a design promises of its acknowledgements and its reads.
type Contract struct {
	// Ack is where an interaction is when it is acknowledged.
	Ack string `json:"ack"`
	// LossBound is how many acknowledged interactions the death of a server may
	// lose, if Redis is lost with it. If it is not, only those of them that the same
	// user has followed with another one, which are missing from Audit.Logged.
	LossBound int64 `json:"loss_bound"`
	// StalenessNS is how old a count may be, in nanoseconds.
	StalenessNS int64 `json:"staleness_ns"`
	// Regions is how many regions there are. Users are at home in region
	// user_id modulo Regions, counted from 0; in the others their likes may be
	// seen at any later time.
	Regions int `json:"regions"`
}

// Audit is the final truth of the stores, or of a foreign server's audit
// endpoint.
type Audit struct {
	Contract Contract     `json:"contract"`
	Videos   []VideoAudit `json:"videos"`
	// Logged are the identities of all interactions in the ledger.
	Logged Packed `json:"logged"`
	// Log is the topic, absent if the design has none.
	Log []PartitionAudit `json:"log,omitempty"`
}

// VideoAudit is one video at the end.
type VideoAudit struct {
	Video uint64 `json:"video_id"`
	// Shards is how many counters it has in each region.
	Shards int64 `json:"shards"`
	// Counts are what readers are told, one for each region.
	Counts []int64 `json:"counts"`
	// Members are the users of whom the counting store says that they like the
	// video; Ledger those of whom the ledger says so.
	Members Packed `json:"members"`
	Ledger  Packed `json:"ledger"`
	// Viewers is the estimate of who has seen it.
	Viewers int64 `json:"viewers"`
}

// PartitionAudit is one partition of the log.
type PartitionAudit struct {
	Partition int32 `json:"partition"`
	// Committed is the offset from which the ledger's worker would go on.
	Committed int64 `json:"committed"`
	// First is the offset of the first record.
	First int64 `json:"first"`
	// Records are the records in the order of their offsets.
	Records PackedEvents `json:"records"`
}

// Params are the workload's parameters.
type Params struct {
	Videos    int    `json:"videos" doc:"number of videos"`
	Users     int    `json:"users" doc:"distinct users; 0 means one for each scheduled like"`
	VideoSkew string `json:"video_skew" doc:"which video is liked: uniform, zipf, hot or moving"`

	ClickTwice  float64      `json:"click_twice" doc:"share of users that send their like twice at once, as two interactions"`
	Unlike      float64      `json:"unlike" doc:"share of likes that are taken back"`
	Relike      float64      `json:"relike" doc:"share of those that like again afterwards"`
	Think       sut.Duration `json:"think" doc:"longest time between a user's interactions"`
	Reads       float64      `json:"reads" doc:"reads of the count for each scheduled like"`
	Views       float64      `json:"views" doc:"views for each scheduled like"`
	Resend      float64      `json:"resend" doc:"share of interactions that are sent twice with the same identity, at once or after the answer"`
	RetryOnLost int          `json:"retry_on_lost" doc:"how often an interaction of unknown outcome is repeated, with the same identity"`

	Shards       int          `json:"shards" doc:"counters of a video, in designs with a fixed number"`
	FirstShards  int          `json:"first_shards" doc:"initial counters of a video, in designs that adapt it"`
	MaxShards    int          `json:"max_shards" doc:"most counters of a video, in designs that adapt it"`
	HeatPerShard int          `json:"heat_per_shard" doc:"writes per second and counter above which a video gets more counters"`
	ReadTTL      sut.Duration `json:"read_ttl" doc:"how long a server keeps a count that it has read; 0 reads each time"`
	EarlyBeta    float64      `json:"early_beta" doc:"eagerness of early recomputation, 1 as in the literature; 0 waits for the expiry"`
	Buffer       int          `json:"buffer" doc:"interactions that a server may acknowledge before they are logged"`
	RepairEvery  sut.Duration `json:"repair_every" doc:"how often counters are compared with the ledger"`
	MergeEvery   sut.Duration `json:"merge_every" doc:"how often regions exchange their counters"`
}

// The names of videos and users in a history.
const (
	videoPrefix = "video-"
	userPrefix  = "user-"
)

// VideoKey names a video, from 1: "video-1".
func VideoKey(n uint64) string { return videoPrefix + strconv.FormatUint(n, 10) }

// UserName names a user, from 1: "user-1".
func UserName(n uint64) string { return userPrefix + strconv.FormatUint(n, 10) }

// number reads what VideoKey and UserName write.
func number(prefix, name string) (uint64, error) {
	digits, found := strings.CutPrefix(name, prefix)
	n, err := strconv.ParseUint(digits, 10, 63)
	if !found || err != nil || n == 0 {
		return 0, fmt.Errorf("expected a name such as %s1, got %q", prefix, name)
	}
	return n, nil
}

// home is the region of a user, from 0.
func home(user uint64, regions int) int { return int(user % uint64(max(regions, 1))) }
