package sut

import (
	"errors"
	"strings"

	"stampede/harness/history"
)

// coded is an error with a documented code.
type coded struct {
	code, text string
	is         error
}

func (e *coded) Error() string { return e.text }
func (e *coded) Unwrap() error { return e.is }

// Refusal makes a documented reason of a refusal: an error that wraps ErrRefused. Its
// code is what the HTTP API answers with and what a history records; its text is for
// people.
func Refusal(code, text string) error {
	return &coded{code, text + refusedSuffix, ErrRefused}
}

// Failure makes a documented error that is no refusal.
func Failure(code, text string) error { return &coded{code, text, nil} }

// refusedSuffix ends the text of a Refusal.
const refusedSuffix = ": refused"

// refused is the code of a refusal without one of its own.
const refused = "refused"

// Code is the documented code of an error, "refused" of a refusal that has none, "" of
// anything else.
func Code(err error) string {
	if err == nil {
		return ""
	}
	if c, has := errors.AsType[*coded](err); has {
		return c.code
	}
	if errors.Is(err, ErrRefused) {
		return refused
	}
	return ""
}

// Outcome is the contract of ErrRefused: what an operation's error says of it.
func Outcome(err error) history.Outcome {
	switch {
	case err == nil:
		return history.OK
	case errors.Is(err, ErrRefused):
		return history.Refused
	}
	return history.Unknown
}

// RefusedFor says whether an operation was refused for a reason that Refusal made. The
// recorded code decides. Records of histories before version 3 have no code; their text
// is that of the designs of their time.
func RefusedFor(rec *history.Record, reason error) bool {
	switch {
	case rec.Outcome != history.Refused:
		return false
	case rec.Code != "":
		return rec.Code == Code(reason)
	}
	return strings.Contains(rec.Err, strings.TrimSuffix(reason.Error(), refusedSuffix))
}

// Reason is the text of a documented error, without the word that says it is a refusal.
func Reason(err error) string { return strings.TrimSuffix(err.Error(), refusedSuffix) }
