package views

import (
	"fmt"
	"math"
	"net/http"
	"reflect"
	"time"

	"stampede/harness/api"
	"stampede/harness/history"
	"stampede/harness/sut"
)

// API is what each operation is as a call, in a history and over HTTP.
func API() *api.Table[Pipeline] {
	return &api.Table[Pipeline]{
		System: "views", Title: "Video views",
		About: "The API of a pipeline that counts views of videos from the heartbeats of those who " +
			"watch\nthem. stampede serves its own designs over it, and judges any server that " +
			"implements it.\n\nA session is one user's, of one video, and in one partition of the log. " +
			"A view is the first\nheartbeat at which it has reached the least watch time of the rules, " +
			"if no rule rejects it.",
		Kinds: []api.Kind[Pipeline]{
			api.Op(KindHeartbeat, "POST /watchtime", Pipeline.Watch, api.About{ID: "watch",
				Summary: "Report how much of a video has been watched so far.",
				Detail:  "The server answers when the heartbeat is in the log.",
				Reply:   "The position of the heartbeat in the log.", Status: http.StatusAccepted}),
			api.Op(KindViews, "GET /videos/{id}/views", Pipeline.Views, api.About{
				Summary: "Read how often a video was viewed.", Reply: "The count."}),
			api.Op(KindRules, "PUT /v1/rules", Pipeline.SetRules, api.About{ID: "setRules",
				Summary: "Put rules into force.",
				Detail: "They decide what enters the log from now on, or from at most rules_reload (a minute " +
					"of event time)\nlater on. Each request makes a version of its own.",
				Reply: "The version of the rules."}),
			api.Op(KindReprocess, "POST /v1/reprocess", Pipeline.Reprocess, api.About{
				Summary: "Recount the whole log into a new generation of counts.",
				Reply:   "The number of a new generation, which readers see once it has caught up.",
				Status:  http.StatusAccepted}),
		},
		Problems: []api.Problem{{Status: http.StatusNotFound, Is: ErrUnknownVideo},
			{Status: http.StatusTooManyRequests, Is: ErrOverloaded}},
		MaxBody: 1 << 20,
		Reset:   ResetRequest{}, ResetMeans: "Begin with an empty log.",
		Begin: func(params any) (any, error) {
			p, err := sut.ParamsOf[Params](params)
			return ResetRequest{Videos: p.Videos, CountWindowMS: p.CountWindow.D().Milliseconds(),
				Rules: p.rules()}, err
		},
		PendingMeans: "Optional. A server without it counts as at rest.",
		Audit:        Audit{},
		Types: map[reflect.Type]map[string]any{reflect.TypeFor[PositionText](): {"type": "string",
			"pattern":     "^[0-9]+/[0-9]+/[0-9]+$",
			"description": "partition, offset and index in the record, each from 0"}},
	}
}

// The requests and replies.

type (
	// WatchRequest is a heartbeat as players send it.
	WatchRequest struct {
		ID        uint64    `json:"event_id" op:"id" min:"1" max:"18446744073709551615" doc:"the heartbeat's identity, the same in every attempt"`
		Video     string    `json:"video_id" op:"key" min:"1" max:"256"`
		User      string    `json:"user_id" op:"client" min:"1" max:"256"`
		Session   string    `json:"session_id" min:"1" max:"256" doc:"one user's, of one video"`
		Timestamp time.Time `json:"timestamp" op:"arg" doc:"the event time, to the millisecond"`
		Watched   float64   `json:"watch_duration" min:"0" max:"86400" doc:"how much of the session has been watched so far, in seconds, to the millisecond"`
		Device    string    `json:"device,omitempty" max:"256"`
		IP        string    `json:"ip" min:"1" max:"256"`
	}
	// WatchReply says where in the log a heartbeat is.
	WatchReply struct {
		Position PositionText `json:"position" op:"key" example:"3/120/0"`
	}
	// PositionText is a Position as a text.
	PositionText string
	// VideoRequest is about a video.
	VideoRequest struct {
		Video string `json:"-" path:"id" op:"key"`
	}
	// VersionReply has the version of rules.
	VersionReply struct {
		Version int64 `json:"version" op:"value" min:"1"`
	}
	// GenerationReply has the number of a generation.
	GenerationReply struct {
		Generation int64 `json:"generation" op:"value" min:"1"`
	}
	// ResetRequest asks for an empty log, with videos made by creator-1, creator-2 and so on.
	ResetRequest struct {
		Videos        int   `json:"videos" min:"1" doc:"they are named video-1 and so on; the creator of video-1 is the user creator-1, and so on"`
		CountWindowMS int64 `json:"count_window_ms" min:"1" doc:"length of the windows of counts, in event time"`
		Rules         Rules `json:"rules"`
	}
)

// watchOf is the request that sends a heartbeat.
func watchOf(h Heartbeat) WatchRequest {
	return WatchRequest{ID: h.ID, Video: h.Video, User: h.User, Session: h.Session,
		Timestamp: time.UnixMilli(h.TimeMS).UTC(), Watched: float64(h.WatchedMS) / 1000,
		Device: h.Device, IP: h.IP}
}

func (r *WatchRequest) heartbeat() Heartbeat {
	return Heartbeat{ID: r.ID, Video: r.Video, User: r.User, Session: r.Session, IP: r.IP,
		Device: r.Device, TimeMS: r.Timestamp.UnixMilli(),
		WatchedMS: int64(math.Round(r.Watched * 1000))}
}

// Check refuses what is no event time.
func (r *WatchRequest) Check() error {
	if ms := r.Timestamp.UnixMilli(); ms <= 0 || ms > maxTimeMS {
		return fmt.Errorf("timestamp: expected a time from 1970 to 9999, got %d ms", ms)
	}
	return nil
}

// AppendBinary appends what a history keeps of a request in the body, which is all of it.
func (r *WatchRequest) AppendBinary(body []byte) ([]byte, error) {
	h := r.heartbeat()
	return appendHeartbeat(append(body, 0), &h), nil
}

// UnmarshalBinary reads what AppendBinary writes.
func (r *WatchRequest) UnmarshalBinary(body []byte) error {
	h, _, err := heartbeatOf(history.Op{ID: r.ID, Body: body})
	*r = watchOf(h)
	return err
}

// Check refuses what is no position.
func (r *WatchReply) Check(any) error {
	_, err := ParsePosition(string(r.Position))
	return err
}

// opOf is the operation that sends a heartbeat, for the tries-th time again: that of the
// table, faster. Its body is the number of tries and the heartbeat.
func opOf(h Heartbeat, tries int) history.Op {
	return history.Op{ID: h.ID, Kind: KindHeartbeat, Key: h.Video, Client: h.User, Arg: h.TimeMS,
		Body: appendHeartbeat([]byte{byte(tries)}, &h)}
}
