package likes

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"

	"stampede/harness/api"
	"stampede/harness/history"
	"stampede/harness/stores"
	"stampede/harness/sut"
)

// The routes of the HTTP API; openapi.yaml describes them.
const (
	routeLikes = "/v1/likes"
	routeCount = "/v1/likes/{video}"
	routeViews = "/v1/views"
)

const (
	// maxRequestBody bounds what a request may send, in bytes.
	maxRequestBody = 16 << 10
)

// problems lists the documented problems.
func problems() api.Problems {
	return api.Documented(
		api.Problem{Status: http.StatusNotFound, Is: ErrUnknownVideo},
		api.Problem{Status: http.StatusServiceUnavailable, Is: ErrNotReady},
		api.Problem{Status: http.StatusTooManyRequests, Is: ErrOverloaded})
}

// ResetRequest asks for a new beginning: so many videos, numbered from 1, that
// nobody likes.
type ResetRequest struct {
	Videos int `json:"videos"`
}

// resetOf is the part of the parameters that a server needs.
func resetOf(p Params) ResetRequest { return ResetRequest{Videos: p.Videos} }

// NewHandler serves an instance over the HTTP API that openapi.yaml
// describes. The parameters of cfg must be a *Params or Params; a reset that
// asks for other videos is refused, because the instance was opened for these.
// Requests are bounded in size and, by cfg.Timeout, in time; listening, limits on
// connections and shutting down belong to the caller.
func NewHandler(inst sut.Instance, cfg sut.Config) (http.Handler, error) {
	p, err := paramsOf(cfg.Params)
	if err != nil {
		return nil, fmt.Errorf("likes handler: %w", err)
	}
	spec := api.Spec{System: "likes", Kinds: []string{KindLike, KindUnlike, KindCount, KindView},
		Problems: problems(), MaxBody: maxRequestBody, Timeout: stores.Timeout(cfg),
		Reset: api.ResetTo(resetOf(p), decodeReset)}
	if own, is := inst.(*instance); is && own.cache != nil {
		spec.Metrics = own.cache.writeRecomputations
	}
	s := server{api.NewServer(inst, spec)}
	return s.Handler(map[string]api.Methods{
		routeLikes: {http.MethodPost: s.change(KindLike), http.MethodDelete: s.change(KindUnlike)},
		routeCount: {http.MethodGet: s.count},
		routeViews: {http.MethodPost: s.view},
	}), nil
}

type server struct{ *api.Server }

func (s server) change(kind string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.Operation(w, r, kind, requested(kind), func(reply history.Reply) (int, any) {
			return http.StatusOK, Change{reply.Value != 0}
		})
	}
}

func (s server) view(w http.ResponseWriter, r *http.Request) {
	s.Operation(w, r, KindView, requested(KindView), func(history.Reply) (int, any) {
		return http.StatusNoContent, nil
	})
}

// count reads for the user that the query names; without one, for the first.
func (s server) count(w http.ResponseWriter, r *http.Request) {
	s.Operation(w, r, KindCount, func(io.Reader) (history.Op, error) {
		video, err := numberIn("video", r.PathValue("video"))
		req := Request{Video: video, User: 1}
		if text := r.URL.Query().Get("user_id"); err == nil && text != "" {
			req.User, err = numberIn("user_id", text)
		}
		return opOf(KindCount, req), err
	}, func(reply history.Reply) (int, any) { return http.StatusOK, json.RawMessage(reply.Body) })
}

// requested reads an operation of the kind.
func requested(kind string) func(io.Reader) (history.Op, error) {
	return func(body io.Reader) (history.Op, error) {
		req, err := decodeRequest(body)
		return opOf(kind, req), err
	}
}

// decodeRequest reads an interaction strictly.
func decodeRequest(body io.Reader) (Request, error) {
	req, err := api.DecodeRequest[Request](body)
	if err != nil {
		return Request{}, err
	}
	return req, errors.Join(checkNumber("op_id", req.OpID), checkNumber("video_id", req.Video),
		checkNumber("user_id", req.User))
}

// decodeReset reads a reset strictly.
func decodeReset(body io.Reader) (ResetRequest, error) {
	req, err := api.DecodeRequest[ResetRequest](body)
	if err == nil && req.Videos < 1 {
		err = fmt.Errorf("%w: videos: expected 1 or more, got %d", api.ErrBadRequest, req.Videos)
	}
	return req, err
}

func numberIn(field, text string) (uint64, error) {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: %s: expected a number, got %.20q", api.ErrBadRequest, field, text)
	}
	return n, checkNumber(field, n)
}

// checkNumber refuses what the ledger's columns cannot hold.
func checkNumber(field string, n uint64) error {
	if n == 0 || n > math.MaxInt64 {
		return fmt.Errorf("%w: %s: expected a number from 1 to %d, got %d or none", api.ErrBadRequest,
			field, math.MaxInt64, n)
	}
	return nil
}
