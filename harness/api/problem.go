// Package api is what the HTTP APIs of all systems have in common: problems, that
// is, documented answers to what failed, which are the same errors on both sides of
// the wire; a Table, which describes a system's API
// once and makes its server and its client; and what these rest on.
package api

import (
	"errors"
	"net/http"
	"slices"
	"time"

	"stampede/harness/sut"
)

// The errors that every API has. Those that wrap sut.ErrRefused promise that
// nothing happened.
var (
	// ErrBadRequest: the request cannot be read, or asks for what there is not.
	ErrBadRequest = sut.Refusal("bad_request", "bad request")
	// ErrTooLarge: the request is larger than the server reads.
	ErrTooLarge = sut.Refusal("too_large", "request too large")
	// ErrInUse: the server cannot be reset to what the request asks for.
	ErrInUse = sut.Refusal("in_use", "the server cannot start over")
	// ErrUnauthorized: the request does not have the token that the server asks for.
	ErrUnauthorized = sut.Refusal("unauthorized", "unauthorized")
	// ErrNoRoute: the server has no such route.
	ErrNoRoute = sut.Failure("no_route", "no such route")
	// ErrUnknownEffect: nobody knows what became of the operation.
	ErrUnknownEffect = sut.Failure("unknown_effect", "the effect is unknown")
)

// Problem is a documented answer to a request that failed.
type Problem struct {
	// Status is the HTTP status that the code comes with.
	Status int
	// Is is the error on both sides of the wire: the server finds the problem by
	// it, the client returns it. Its code, by sut.Code, is the answer's code, in the
	// failure that is its body.
	Is error
}

// code is the answer's code.
func (p Problem) code() string { return sut.Code(p.Is) }

// Problems are the documented problems of an API; the first that matches counts,
// so the general ones come last.
type Problems []Problem

// Documented returns a system's own problems and, after them, those that every API
// has.
func Documented(own ...Problem) Problems {
	return append(slices.Clip(Problems(own)),
		Problem{http.StatusConflict, ErrInUse},
		Problem{http.StatusUnauthorized, ErrUnauthorized},
		Problem{http.StatusBadRequest, ErrBadRequest},
		Problem{http.StatusRequestEntityTooLarge, ErrTooLarge},
		Problem{http.StatusNotFound, ErrNoRoute},
		Problem{http.StatusServiceUnavailable, sut.ErrRefused},
		Problem{http.StatusInternalServerError, ErrUnknownEffect})
}

// of returns the problem that an error is; anything unforeseen has an unknown
// effect.
func (p Problems) of(err error) Problem {
	for _, known := range p {
		if errors.Is(err, known.Is) {
			return known
		}
	}
	return p[len(p)-1]
}

// RetryLater is implemented by errors that know when another attempt may succeed. The
// answer says so in whole seconds, rounded up, in its header Retry-After.
type RetryLater interface {
	error
	RetryAfter() time.Duration
}

// failure is the body of every answer that is not a result.
type failure struct {
	Code  string `json:"code"`
	Error string `json:"error"`
}

// pendingReply is the body of the answer about what is left to do, and how much, if the
// server counts it.
type pendingReply struct {
	Pending string `json:"pending"`
	Left    *int64 `json:"left,omitempty"`
}
