package views

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"time"

	"stampede/harness/api"
	"stampede/harness/history"
	"stampede/harness/stores"
	"stampede/harness/sut"
)

// The routes of the HTTP API; openapi.yaml describes them.
const (
	routeWatch     = "/watchtime"
	routeViews     = "/videos/{id}/views"
	routeRules     = "/v1/rules"
	routeReprocess = "/v1/reprocess"
)

const (
	// maxRequestBody bounds what a request may send, in bytes.
	maxRequestBody = 1 << 20
)

// problems lists the documented problems.
func problems() api.Problems {
	return api.Documented(
		api.Problem{Status: http.StatusNotFound, Is: ErrUnknownVideo},
		api.Problem{Status: http.StatusTooManyRequests, Is: ErrOverloaded})
}

// heartbeatRequest is a heartbeat as players send it.
type heartbeatRequest struct {
	ID      uint64 `json:"event_id"`
	Video   string `json:"video_id"`
	User    string `json:"user_id"`
	Session string `json:"session_id"`
	// Timestamp is the event time, RFC 3339, to the millisecond.
	Timestamp time.Time `json:"timestamp"`
	// WatchDuration is how much has been watched so far, in seconds.
	WatchDuration float64 `json:"watch_duration"`
	Device        string  `json:"device"`
	IP            string  `json:"ip"`
}

func requestOf(h Heartbeat) heartbeatRequest {
	return heartbeatRequest{ID: h.ID, Video: h.Video, User: h.User, Session: h.Session,
		Timestamp:     time.UnixMilli(h.TimeMS).UTC(),
		WatchDuration: float64(h.WatchedMS) / 1000, Device: h.Device, IP: h.IP}
}

func (r heartbeatRequest) heartbeat() Heartbeat {
	return Heartbeat{ID: r.ID, Video: r.Video, User: r.User, Session: r.Session, IP: r.IP,
		Device: r.Device, TimeMS: r.Timestamp.UnixMilli(),
		WatchedMS: int64(math.Round(r.WatchDuration * 1000))}
}

// positionReply, versionReply and generationReply are bodies of answers.
type positionReply struct {
	Position string `json:"position"`
}

type versionReply struct {
	Version int64 `json:"version"`
}

type generationReply struct {
	Generation int64 `json:"generation"`
}

// ResetRequest asks for an empty log, with videos named video-1, video-2 and so
// on, made by creator-1, creator-2 and so on.
type ResetRequest struct {
	Videos        int   `json:"videos"`
	CountWindowMS int64 `json:"count_window_ms"`
	Rules         Rules `json:"rules"`
}

// resetOf is the part of the parameters that a server needs.
func resetOf(p Params) ResetRequest {
	return ResetRequest{Videos: p.Videos, CountWindowMS: p.CountWindow.D().Milliseconds(),
		Rules: p.rules()}
}

// NewHandler serves an instance over the HTTP API that openapi.yaml
// describes. The parameters of cfg must be a *Params or Params; a reset that
// asks for anything else is refused, because the instance was opened for these.
// Requests are bounded in size and, by cfg.Timeout, in time; listening, limits on
// connections and shutting down belong to the caller.
func NewHandler(inst sut.Instance, cfg sut.Config) (http.Handler, error) {
	p, err := paramsOf(cfg.Params)
	if err != nil {
		return nil, fmt.Errorf("views handler: %w", err)
	}
	s := server{api.NewServer(inst, api.Spec{System: "views",
		Kinds:    []string{KindHeartbeat, KindViews, KindRules, KindReprocess},
		Problems: problems(), MaxBody: maxRequestBody, Timeout: stores.Timeout(cfg),
		Reset: api.ResetTo(resetOf(p), decodeReset)})}
	return s.Handler(map[string]api.Methods{
		routeWatch:     {http.MethodPost: s.watch},
		routeViews:     {http.MethodGet: s.views},
		routeRules:     {http.MethodPut: s.rules},
		routeReprocess: {http.MethodPost: s.reprocess},
	}), nil
}

type server struct{ *api.Server }

func (s server) watch(w http.ResponseWriter, r *http.Request) {
	s.Operation(w, r, KindHeartbeat, func(body io.Reader) (history.Op, error) {
		req, err := api.DecodeRequest[heartbeatRequest](body)
		if err != nil {
			return history.Op{}, err
		}
		h := req.heartbeat()
		if text := h.check(); text != "" {
			return history.Op{}, fmt.Errorf("%w: %s", api.ErrBadRequest, text)
		}
		return opOf(h, 0), nil
	}, func(reply history.Reply) (int, any) {
		return http.StatusAccepted, positionReply{reply.Key}
	})
}

func (s server) views(w http.ResponseWriter, r *http.Request) {
	video := r.PathValue("id")
	s.Operation(w, r, KindViews, func(io.Reader) (history.Op, error) {
		return history.Op{Kind: KindViews, Key: video}, nil
	}, func(reply history.Reply) (int, any) {
		generation, _ := strconv.ParseInt(reply.Key, 10, 64) // we wrote it
		return http.StatusOK, Views{Video: video, Views: reply.Value, Generation: generation}
	})
}

func (s server) rules(w http.ResponseWriter, r *http.Request) {
	s.Operation(w, r, KindRules, func(body io.Reader) (history.Op, error) {
		rules, err := api.DecodeRequest[Rules](body)
		if err != nil {
			return history.Op{}, err
		}
		if err := rules.validate(); err != nil {
			return history.Op{}, fmt.Errorf("%w: %w", api.ErrBadRequest, err)
		}
		text, err := json.Marshal(rules)
		return history.Op{Kind: KindRules, Body: text}, err
	}, func(reply history.Reply) (int, any) { return http.StatusOK, versionReply{reply.Value} })
}

func (s server) reprocess(w http.ResponseWriter, r *http.Request) {
	s.Operation(w, r, KindReprocess, func(io.Reader) (history.Op, error) {
		return history.Op{Kind: KindReprocess}, nil
	}, func(reply history.Reply) (int, any) {
		return http.StatusAccepted, generationReply{reply.Value}
	})
}

// decodeReset reads a reset strictly.
func decodeReset(body io.Reader) (ResetRequest, error) {
	req, err := api.DecodeRequest[ResetRequest](body)
	switch {
	case err != nil:
	case req.Videos < 1:
		err = fmt.Errorf("%w: videos: expected 1 or more, got %d", api.ErrBadRequest, req.Videos)
	case req.CountWindowMS < 1:
		err = fmt.Errorf("%w: count_window_ms: expected 1 or more, got %d", api.ErrBadRequest,
			req.CountWindowMS)
	default:
		if wrong := req.Rules.validate(); wrong != nil {
			err = fmt.Errorf("%w: rules: %w", api.ErrBadRequest, wrong)
		}
	}
	return req, err
}
