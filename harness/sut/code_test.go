package sut_test

import (
	"errors"
	"fmt"
	"testing"

	"stampede/harness/history"
	"stampede/harness/sut"
)

// TestCode: an error has the code of the documented error that it wraps, whatever else
// it says.
func TestCode(t *testing.T) {
	full, gone := sut.Refusal("full", "no seat is left"), sut.Failure("gone", "it is gone")
	for _, c := range []struct {
		err     error
		want    string
		refused bool
	}{
		{nil, "", false}, {errors.New("full"), "", false}, {gone, "gone", false},
		{full, "full", true}, {fmt.Errorf("taking a seat: %w", full), "full", true},
		{fmt.Errorf("%w: %w", sut.ErrRefused, full), "full", true},
		{errors.Join(sut.ErrRefused, errors.New("full")), "refused", true},
	} {
		if got := sut.Code(c.err); got != c.want || errors.Is(c.err, sut.ErrRefused) != c.refused {
			t.Errorf("%v: code %q, refused %v; want %q, %v", c.err, got, !c.refused, c.want, c.refused)
		}
	}
	if text := full.Error(); text != "no seat is left: refused" {
		t.Errorf("text %q", text)
	}
}

// TestRefusedFor: the code decides; only records without one, of older histories, are
// known by their text.
func TestRefusedFor(t *testing.T) {
	full := sut.Refusal("full", "no seat is left")
	for _, c := range []struct {
		rec  history.Record
		want bool
	}{
		{history.Record{Outcome: history.Refused, Code: "full", Err: "sorry"}, true},
		{history.Record{Outcome: history.Refused, Code: "busy", Err: "no seat is left: refused"}, false},
		{history.Record{Outcome: history.Unknown, Code: "full", Err: "sorry"}, false},
		{history.Record{Outcome: history.Refused, Err: "asking: no seat is left: refused"}, true},
		{history.Record{Outcome: history.Refused, Err: "sorry"}, false},
		{history.Record{Outcome: history.OK}, false},
	} {
		if got := sut.RefusedFor(&c.rec, full); got != c.want {
			t.Errorf("%+v: got %v", c.rec, got)
		}
	}
}
