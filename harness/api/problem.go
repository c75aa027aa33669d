// Package api is what the HTTP APIs of all systems have in common: problems, that
// is, documented answers to what failed, which are the same errors on both sides of
// the wire; a Server of an instance; and a Client of such a server.
package api

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"stampede/harness/sut"
)

// The errors that every API has. Those that wrap sut.ErrRefused promise that
// nothing happened.
var (
	// ErrBadRequest: the request cannot be read, or asks for what there is not.
	ErrBadRequest = fmt.Errorf("bad request: %w", sut.ErrRefused)
	// ErrTooLarge: the request is larger than the server reads.
	ErrTooLarge = fmt.Errorf("request too large: %w", sut.ErrRefused)
	// ErrInUse: the server cannot be reset to what the request asks for.
	ErrInUse = fmt.Errorf("the server cannot begin anew: %w", sut.ErrRefused)
	// ErrUnauthorized: the request does not have the token that the server asks for.
	ErrUnauthorized = fmt.Errorf("unauthorized: %w", sut.ErrRefused)
	// ErrNoRoute: the server has no such route.
	ErrNoRoute = errors.New("no such route")
	// ErrUnknownEffect: nobody knows what became of the operation.
	ErrUnknownEffect = errors.New("the effect is unknown")
)

// Problem is a documented answer to a request that failed.
type Problem struct {
	// Code is the answer's code, in the failure that is its body.
	Code string
	// Status is the HTTP status that the code comes with.
	Status int
	// Is is the error on both sides of the wire: the server finds the problem by
	// it, the client returns it.
	Is error
}

// Problems are the documented problems of an API; the first that matches counts,
// so the general ones come last.
type Problems []Problem

// Documented returns a system's own problems and, after them, those that every API
// has.
func Documented(own ...Problem) Problems {
	return append(slices.Clip(Problems(own)),
		Problem{"in_use", http.StatusConflict, ErrInUse},
		Problem{"unauthorized", http.StatusUnauthorized, ErrUnauthorized},
		Problem{"bad_request", http.StatusBadRequest, ErrBadRequest},
		Problem{"too_large", http.StatusRequestEntityTooLarge, ErrTooLarge},
		Problem{"no_route", http.StatusNotFound, ErrNoRoute},
		Problem{"refused", http.StatusServiceUnavailable, sut.ErrRefused},
		Problem{"unknown_effect", http.StatusInternalServerError, ErrUnknownEffect})
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
