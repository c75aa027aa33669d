// Package views is the system in which heartbeats of people who watch videos
// become view counts, through a log. Its question: what does a hot video do to
// a partitioned pipeline, and does the count stay exact when its parts die?
//
// The API writes each heartbeat to the topic watch_events. The filter reads them, decides by the
// rules of the table filter_rules which of them is a view, and writes the views to the topic
// valid_events. The counter adds these up by windows of event time and stores the sums in Postgres
// together with how far it has read.
//
// A view is the first heartbeat by which a session has been watched for the least time, if no rule
// turns it away. A session is judged by that heartbeat alone: what follows in it is the same watch.
package views

import (
	"context"

	"stampede/harness/sut"
)

// The operation kinds.
const (
	// KindHeartbeat tells that Op.Client has watched Op.Key until event time Op.Arg (Unix
	// milliseconds); Op.Body has the rest, as opOf writes it. Reply.Key is the Position in the log.
	KindHeartbeat = "heartbeat"
	// KindViews reads the count of Op.Key. Reply.Value is the count, Reply.Key
	// the generation of counts that it is from.
	KindViews = "views"
	// KindRules puts a new set of rules, Op.Body as JSON, into force. Reply.Value is its version.
	KindRules = "rules"
	// KindReprocess asks that all of valid_events be counted again, into a new
	// generation of counts. Reply.Value is its number.
	KindReprocess = "reprocess"
)

// The reasons of a refusal; each wraps sut.ErrRefused.
var (
	// ErrUnknownVideo: there is no such video.
	ErrUnknownVideo = sut.Refusal("unknown_video", "unknown video")
	// ErrOverloaded: the API has no room for another heartbeat.
	ErrOverloaded = sut.Refusal("overloaded", "overloaded")
)

// Pipeline is the domain interface: what every variant, the HTTP client and
// the HTTP handler have in common.
type Pipeline interface {
	// Watch returns when the heartbeat is in the log.
	Watch(ctx context.Context, req WatchRequest) (WatchReply, error)
	// Views reads a video's count as it is now.
	Views(ctx context.Context, req VideoRequest) (Views, error)
	// SetRules puts rules into force: heartbeats that enter the log from a
	// while later on, at most RulesReload, are decided by them.
	SetRules(ctx context.Context, rules Rules) (VersionReply, error)
	// Reprocess begins a new generation of counts.
	Reprocess(ctx context.Context, _ struct{}) (GenerationReply, error)
}

// Heartbeat is what a player sends every few seconds.
type Heartbeat struct {
	// ID is the heartbeat's identity: a repeated request has the same.
	ID uint64
	// Video, User and Session say who watches what; a session is one user's, on one video.
	Video, User, Session string
	// IP and Device are where it came from.
	IP, Device string
	// TimeMS is the event time, in Unix milliseconds.
	TimeMS int64
	// WatchedMS is how much of the session has been watched so far, in milliseconds.
	WatchedMS int64
}

// Event is a heartbeat in the log.
type Event struct {
	Heartbeat
	// Rules is the version of the rules that decide it: those that the API had
	// loaded when it entered the log. So the decision is a function of the log
	// and the table, whoever repeats it, and whenever.
	Rules int64
}

// Views is a video's count.
type Views struct {
	Video      string `json:"video_id" echo:"key" min:"1" max:"256"`
	Views      int64  `json:"views" op:"value" min:"0"`
	Generation int64  `json:"generation" op:"key" min:"1" doc:"which counting of the log the count is from"`
}

// Params are the workload's and the pipeline's parameters. Durations of events
// are in event time, which runs TimeScale times as fast as the clock.
type Params struct {
	Videos    int     `json:"videos" min:"1" max:"100000" doc:"number of videos"`
	Users     int     `json:"users" min:"1" max:"100000000" doc:"number of users; three share an address"`
	VideoSkew string  `json:"video_skew" enum:"uniform,zipf,hot" doc:"which video is watched"`
	HotShare  float64 `json:"hot_share" min:"0" max:"1" doc:"share of the sessions that watch the first video, if video_skew is hot"`

	EventRate float64 `json:"event_rate" min:"1e-3" max:"1e6" doc:"sessions that begin per second of event time"`
	TimeScale float64 `json:"time_scale" min:"1" max:"1e5" doc:"seconds of event time per second of real time"`

	Heartbeats     int          `json:"heartbeats" min:"1" max:"16" doc:"most heartbeats of a session"`
	HeartbeatEvery sut.Duration `json:"heartbeat_every" min:"1ms" max:"24h" doc:"event time between the heartbeats of a session"`
	Brief          float64      `json:"brief" min:"0" max:"1" doc:"share of sessions that end before they count"`
	Return         float64      `json:"return" min:"0" max:"1" doc:"share of sessions that watch again what the same user watched just before"`
	Creators       float64      `json:"creators" min:"0" max:"1" doc:"share of sessions in which creators watch their own video"`
	Bots           float64      `json:"bots" min:"0" max:"1" doc:"share of sessions from addresses that are on the blocklist"`
	Farm           float64      `json:"farm" min:"0" max:"1" doc:"share of sessions from the few addresses of a click farm"`
	FarmAddresses  int          `json:"farm_addresses" min:"1" max:"1000" doc:"addresses of the click farm"`
	ViewReads      float64      `json:"view_reads" min:"0" max:"8" doc:"reads of a count for each session"`
	Resend         float64      `json:"resend" min:"0" max:"1" doc:"share of heartbeats that are sent twice with the same identity, at once or after the answer"`
	RetryOnLost    int          `json:"retry_on_lost" min:"0" max:"15" doc:"how often a heartbeat of unknown outcome is sent again"`
	RulesAfter     int          `json:"rules_after" min:"0" doc:"number of sessions after which the farm's addresses are blocked; 0 means never"`
	ReprocessAfter int          `json:"reprocess_after" min:"0" doc:"number of sessions after which everything is recounted; 0 means never"`

	MinWatch     sut.Duration `json:"min_watch" min:"0s" max:"24h" doc:"watch time from which a session counts"`
	RepeatWindow sut.Duration `json:"repeat_window" min:"1s" max:"24h" doc:"window of event time in which a user has one view of a video"`
	IPViews      int          `json:"ip_views" min:"1" max:"1000000" doc:"most views of an address in ip_window"`
	IPWindow     sut.Duration `json:"ip_window" min:"1s" max:"24h" doc:"the window of ip_views, in event time"`
	RulesReload  sut.Duration `json:"rules_reload" min:"1ms" max:"24h" doc:"how often the rules are loaded, in event time (60s in production)"`

	CountWindow    sut.Duration `json:"count_window" min:"1s" max:"24h" doc:"length of the counting windows, in event time"`
	FlushAt        int          `json:"flush_at" min:"1" max:"10000000" doc:"number of views of a video that are stored before their window is over"`
	SessionTimeout sut.Duration `json:"session_timeout" min:"1s" max:"24h" doc:"silence after which a consumer loses its partitions, in real time"`
	Balancing      string       `json:"balancing" enum:"cooperative,eager" doc:"how consumers share partitions"`
	VisibleWithin  sut.Duration `json:"visible_within" min:"1ms" max:"24h" doc:"time from a view's acknowledgement until it must be counted, in real time"`
	Retention      sut.Duration `json:"retention" min:"1m" max:"24h" doc:"how long the topics keep events and the filter its windows, in real time"`
}
