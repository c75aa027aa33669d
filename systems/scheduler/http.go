package scheduler

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"stampede/harness/api"
	"stampede/harness/history"
	"stampede/harness/stores"
	"stampede/harness/sut"
)

// The routes of the HTTP API; openapi.yaml describes them.
const (
	routeTasks  = "/v1/tasks"
	routeTask   = "/v1/tasks/{id}"
	routeStart  = "/v1/tasks/{id}/start"
	routeCancel = "/v1/tasks/{id}/cancel"
	routePause  = "/v1/tasks/{id}/pause"
	routeResume = "/v1/tasks/{id}/resume"
	routeRerun  = "/v1/tasks/{id}/rerun"
)

// Bounds of requests: bytes of a body, and of a text in it.
const (
	maxRequestBody = 1 << 16
	maxText        = 256
)

// problems lists the documented problems.
func problems() api.Problems {
	return api.Documented(
		api.Problem{Status: http.StatusNotFound, Is: ErrUnknownTask},
		api.Problem{Status: http.StatusConflict, Is: ErrConflict},
		api.Problem{Status: http.StatusConflict, Is: ErrState},
		api.Problem{Status: http.StatusConflict, Is: ErrOpTaken},
		api.Problem{Status: http.StatusGatewayTimeout, Is: ErrNotStarted})
}

// taskRequest is a task as users ask for it.
type taskRequest struct {
	ID     uint64 `json:"id"`
	Queue  string `json:"queue"`
	Client string `json:"client"`
	Spec
	// At is business time, RFC 3339.
	At time.Time `json:"at"`
}

func (r taskRequest) check() error {
	switch {
	case r.ID == 0:
		return fmt.Errorf("%w: id: expected a number above 0", api.ErrBadRequest)
	case r.At.IsZero():
		return fmt.Errorf("%w: at: expected a time", api.ErrBadRequest)
	case r.WorkMS < 0 || r.WorkMS > maxDuration.Milliseconds():
		return fmt.Errorf("%w: work_ms: expected 0 to %d", api.ErrBadRequest,
			maxDuration.Milliseconds())
	case r.Times < 0:
		return fmt.Errorf("%w: times: expected 0 or more", api.ErrBadRequest)
	}
	for name, text := range map[string]string{"queue": r.Queue, "client": r.Client, "task": r.Task} {
		if text == "" || len(text) > maxText {
			return fmt.Errorf("%w: %s: expected 1 to %d bytes", api.ErrBadRequest, name, maxText)
		}
	}
	if r.Cron == "" {
		return nil
	}
	if _, err := parseCron(r.Cron, r.Zone); err != nil {
		return fmt.Errorf("%w: cron: %w", api.ErrBadRequest, err)
	}
	return nil
}

// changeRequest names a change; scheduledReply, stateReply and startReply are
// bodies of answers.
type changeRequest struct {
	ID uint64 `json:"op_id"`
}

type scheduledReply struct {
	ID    uint64 `json:"id"`
	DueUS int64  `json:"due_in_us"`
}

type stateReply struct {
	State State `json:"state"`
}

type startReply struct {
	LateUS int64 `json:"late_us"`
}

// ResetRequest asks for a scheduler without tasks, whose day begins at Day with
// the first request.
type ResetRequest struct {
	Day           string  `json:"day"`
	TimeScale     float64 `json:"time_scale"`
	GranularityMS int64   `json:"granularity_ms"`
}

// resetOf is the part of the parameters that a server needs.
func resetOf(p Params) ResetRequest {
	return ResetRequest{Day: p.Day, TimeScale: p.TimeScale,
		GranularityMS: p.Granularity.D().Milliseconds()}
}

// NewHandler serves an instance over the HTTP API that openapi.yaml
// describes. The parameters of cfg must be a *Params or Params; a reset that
// asks for anything else is refused, because the instance was opened for these.
// Requests are bounded in size and, by cfg.Timeout, in time; listening, limits on
// connections and shutting down belong to the caller.
func NewHandler(inst sut.Instance, cfg sut.Config) (http.Handler, error) {
	p, err := paramsOf(cfg.Params)
	if err != nil {
		return nil, fmt.Errorf("scheduler handler: %w", err)
	}
	spec := api.Spec{System: "scheduler", Problems: problems(), MaxBody: maxRequestBody,
		Kinds: kinds(), Timeout: stores.Timeout(cfg), Token: p.Token,
		Reset: api.ResetTo(resetOf(p), decodeReset)}
	if i, own := inst.(*instance); own {
		spec.Metrics = i.writeMetrics
	}
	s := server{api.NewServer(inst, spec)}
	return s.Handler(map[string]api.Methods{
		routeTasks:  {http.MethodPost: s.schedule, http.MethodGet: s.tasks},
		routeTask:   {http.MethodGet: s.task},
		routeStart:  {http.MethodGet: s.start},
		routeCancel: {http.MethodPost: s.change(KindCancel)},
		routePause:  {http.MethodPost: s.change(KindPause)},
		routeResume: {http.MethodPost: s.change(KindResume)},
		routeRerun:  {http.MethodPost: s.change(KindRerun)},
	}), nil
}

type server struct{ *api.Server }

func (s server) schedule(w http.ResponseWriter, r *http.Request) {
	var id uint64
	s.Operation(w, r, KindSchedule, func(body io.Reader) (history.Op, error) {
		req, err := api.DecodeRequest[taskRequest](body)
		if err == nil {
			err = req.check()
		}
		if err != nil {
			return history.Op{}, err
		}
		id = req.ID
		return opOf(Request(req), 0), nil
	}, func(reply history.Reply) (int, any) {
		return http.StatusCreated, scheduledReply{id, reply.Value / 1000}
	})
}

func (s server) tasks(w http.ResponseWriter, r *http.Request) {
	queue := r.URL.Query().Get("queue")
	s.Operation(w, r, KindTasks, func(io.Reader) (history.Op, error) {
		return history.Op{Kind: KindTasks, Key: queue}, nil
	}, whole)
}

func (s server) task(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	s.Operation(w, r, KindTask, func(io.Reader) (history.Op, error) {
		return history.Op{Kind: KindTask, Key: id}, nil
	}, whole)
}

// whole answers with the body of a reply.
func whole(reply history.Reply) (int, any) { return http.StatusOK, json.RawMessage(reply.Body) }

func (s server) start(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	s.Operation(w, r, KindAwait, func(io.Reader) (history.Op, error) {
		return history.Op{Kind: KindAwait, Key: id}, nil
	}, func(reply history.Reply) (int, any) { return http.StatusOK, startReply{reply.Value / 1000} })
}

func (s server) change(what string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		id := r.PathValue("id")
		s.Operation(w, r, what, func(body io.Reader) (history.Op, error) {
			req, err := api.DecodeRequest[changeRequest](body)
			if err == nil && req.ID == 0 {
				err = fmt.Errorf("%w: op_id: expected a number above 0", api.ErrBadRequest)
			}
			return history.Op{ID: req.ID, Kind: what, Key: id}, err
		}, func(reply history.Reply) (int, any) { return http.StatusOK, stateReply{State(reply.Key)} })
	}
}

// decodeReset reads a reset strictly.
func decodeReset(body io.Reader) (ResetRequest, error) {
	req, err := api.DecodeRequest[ResetRequest](body)
	if err != nil {
		return req, err
	}
	if _, bad := time.Parse(time.RFC3339, req.Day); bad != nil {
		err = fmt.Errorf("%w: day: expected a time, got %q", api.ErrBadRequest, req.Day)
	} else if !(req.TimeScale >= 1) || req.GranularityMS < 1 {
		err = fmt.Errorf("%w: time_scale and granularity_ms: expected 1 or more", api.ErrBadRequest)
	}
	return req, err
}
