// Package reservation is the system in which many want the same places for some nights: the
// seats of an evening, the rooms of a hotel, the berths of a night train. Its question: are
// holds exact when they expire under load?
//
// A guest holds a place for a stay of some nights, all of them or none. A hold expires, unless
// it is confirmed in time or released earlier. Who has confirmed may cancel.
package reservation

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"stampede/harness/api"
	"stampede/harness/bounds"
	"stampede/harness/sut"
)

// The operation kinds.
const (
	// KindHold holds a place of Op.Key for Op.Client. Reply.Value is the place's number, 0 where
	// the design gives out numbers on arrival only.
	KindHold = "hold"
	// KindConfirm makes a booking of a hold.
	KindConfirm = "confirm"
	// KindRelease gives a hold back, KindCancel a booking.
	KindRelease = "release"
	KindCancel  = "cancel"
)

// The reasons of a refusal; each wraps sut.ErrRefused.
var (
	// ErrSoldOut: no place is free for all nights of the stay.
	ErrSoldOut = sut.Refusal("sold_out", "sold out")
	// ErrExpired: the hold has expired.
	ErrExpired = sut.Refusal("expired", "the hold has expired")
	// ErrNotOpen: what the request is about is not in the state for it, or was changed since.
	ErrNotOpen = sut.Refusal("not_open", "the hold or booking is not open for that")
	// ErrUnknownHold: the guest has no such hold.
	ErrUnknownHold = sut.Refusal("unknown_hold", "unknown hold")
	// ErrUnknownStay: there is no such resource, or not for these nights.
	ErrUnknownStay = sut.Refusal("unknown_stay", "unknown resource or nights")
	// ErrHouseFull: the waiting room is full.
	ErrHouseFull = sut.Refusal("house_full", "the waiting room is full")
	// ErrContended: others were faster each time.
	ErrContended = sut.Refusal("contended", "contended")
)

// Desk is the domain interface: what guests ask for.
type Desk interface {
	Hold(ctx context.Context, req HoldRequest) (Held, error)
	Confirm(ctx context.Context, req HeldRequest) (Booked, error)
	Release(ctx context.Context, req HeldRequest) (api.Nothing, error)
	Cancel(ctx context.Context, req HeldRequest) (api.Nothing, error)
}

// HoldRequest asks for a place from the night First on.
type HoldRequest struct {
	ID       uint64 `json:"op_id" op:"id" min:"1" max:"9223372036854775807" doc:"the request's identity, the same in every attempt; it is the hold_id from then on"`
	Resource uint64 `json:"resource" op:"key,resource-" min:"1" max:"100000"`
	Guest    string `json:"guest" op:"client" min:"1" max:"40"`
	First    int    `json:"first" min:"1" max:"1000" doc:"the first night, from 1"`
	Nights   int    `json:"nights" min:"1" max:"1000"`
}

// HeldRequest is about a hold, or about the booking that it became.
type HeldRequest struct {
	ID       uint64 `json:"op_id" op:"id" min:"1" max:"9223372036854775807" doc:"the request's identity, the same in every attempt"`
	Resource uint64 `json:"resource" op:"key,resource-" min:"1" max:"100000"`
	Guest    string `json:"guest" op:"client" min:"1" max:"40"`
	Hold     uint64 `json:"hold_id" min:"1" max:"9223372036854775807" doc:"of a hold of this guest and resource; any other is unknown_hold"`
	Version  int64  `json:"version" min:"1" doc:"the version that the last answer named; any other is not_open"`
}

// Held is what the guest is told of a hold.
type Held struct {
	Unit    int   `json:"unit" op:"value" min:"0" doc:"which place it is, from 1 to the places of the reset; 0 if that is decided on arrival"`
	Version int64 `json:"version" min:"1" doc:"counts the changes of the hold, of which this request made the first"`
}

// Booked is what the guest is told of a booking.
type Booked struct {
	Version int64 `json:"version" op:"value" min:"1" doc:"that the confirmation made"`
}

// API is what each operation is as a call, in a history and over HTTP.
func API() *api.Table[Desk] {
	return &api.Table[Desk]{
		System: "reservation", Title: "Reservation",
		About: "The API of a service that holds and books places for some nights. stampede serves its " +
			"own designs\nover it, and judges any server that implements it.\n" +
			"A request that is sent again is answered as before, even if the hold or booking has ended.\n" +
			"Then sold_out, if it is true, is accepted for the hold, and not_open for the confirmation.",
		Kinds: []api.Kind[Desk]{
			api.Op(KindHold, "POST /v1/holds", Desk.Hold, api.About{Summary: "Hold a place for a stay.",
				Detail: "All nights or none. The hold expires after hold_ttl_ms of the reset.",
				Reply:  "It is held.", Status: http.StatusCreated,
				Refuses: []error{ErrSoldOut, ErrUnknownStay, ErrHouseFull, ErrContended}}),
			api.Op(KindConfirm, "POST /v1/bookings", Desk.Confirm, api.About{
				Summary: "Make a booking of a hold.", Detail: "A hold that has expired is refused.",
				Reply: "It is booked.", Refuses: heldRefusals()}),
			api.Op(KindRelease, "DELETE /v1/holds", Desk.Release, api.About{
				Summary: "Give a hold back.", Reply: "It is given back.", Refuses: heldRefusals()}),
			api.Op(KindCancel, "DELETE /v1/bookings", Desk.Cancel, api.About{
				Summary: "Cancel a booking.", Reply: "It is cancelled.", Refuses: heldRefusals()}),
		},
		Problems: []api.Problem{{Status: http.StatusConflict, Is: ErrSoldOut},
			{Status: http.StatusGone, Is: ErrExpired}, {Status: http.StatusConflict, Is: ErrNotOpen},
			{Status: http.StatusNotFound, Is: ErrUnknownHold},
			{Status: http.StatusNotFound, Is: ErrUnknownStay},
			{Status: http.StatusTooManyRequests, Is: ErrHouseFull},
			{Status: http.StatusServiceUnavailable, Is: ErrContended}},
		MaxBody: 4 << 10,
		Reset:   ResetRequest{}, ResetMeans: "Begin with free places only.",
		Begin: func(params any) (any, error) {
			p, err := sut.ParamsOf[Params](params)
			return ResetRequest{p.Resources, p.capacity(), p.Nights, p.HoldTTL.D().Milliseconds()}, err
		},
		PendingMeans: "Optional. Without it a server is at rest when no hold in its audit is held.",
		Left:         api.LeftIn((*Audit).held), Audit: Audit{},
	}
}

// held counts the open holds.
func (a *Audit) held() (n int64, what string) {
	for _, h := range a.Holds {
		if h.State == held {
			n++
		}
	}
	return n, fmt.Sprintf("open holds: %d", n)
}

func heldRefusals() []error {
	return []error{ErrExpired, ErrNotOpen, ErrUnknownHold, ErrContended}
}

// ResetRequest asks for a new beginning.
type ResetRequest struct {
	Resources int   `json:"resources" min:"1" doc:"they are numbered from 1"`
	Places    int   `json:"places" min:"1" doc:"places of each resource that may be given out for a night, with overbooking"`
	Nights    int   `json:"nights" min:"1" doc:"nights for which there are places, from 1"`
	HoldTTLMS int64 `json:"hold_ttl_ms" min:"1" doc:"how long a hold lasts, in milliseconds"`
}

// The states of a hold. Confirmed is a booking; the last three are final.
const (
	held      = "held"
	confirmed = "confirmed"
	released  = "released"
	expired   = "expired"
	cancelled = "cancelled"
)

// Contract is what a design promises. What allows more than ten seconds is not judged.
type Contract struct {
	ExpiryLagNS int64 `json:"expiry_lag_ns" min:"1" doc:"how long after its time a hold may end, in nanoseconds; until then its place may be called taken. With more than ten seconds expired-is-over and free-is-for-sale are NOT EXERCISED"`
	ViewLagNS   int64 `json:"view_lag_ns" min:"0" doc:"how long a place that is free again may be called taken; 0 if never. With more than ten seconds free-is-for-sale is NOT EXERCISED"`
}

// Audit is the final truth of the stores, or of a foreign server's audit endpoint. Times are
// nanoseconds of the store's clock.
type Audit struct {
	Contract Contract   `json:"contract"`
	Holds    []HoldRow  `json:"holds" doc:"every hold that there ever was"`
	Nights   []NightRow `json:"nights" doc:"what the stock says of each night"`
	Changes  []Change   `json:"changes" doc:"the changes of all holds, in their order"`
}

// HoldRow is a hold at the end.
type HoldRow struct {
	Hold        uint64 `json:"hold_id" min:"1"`
	Resource    uint64 `json:"resource" min:"1"`
	Unit        int    `json:"unit" min:"0" doc:"as its guest was told: 0 stays 0"`
	First       int    `json:"first" min:"1"`
	Nights      int    `json:"nights" min:"1" max:"1000"`
	Guest       string `json:"guest"`
	State       string `json:"state" enum:"held,confirmed,released,expired,cancelled"`
	Version     int64  `json:"version" min:"1" doc:"that of its last change"`
	HeldNS      int64  `json:"held_ns" doc:"when it was made: its time counts from here. held_ns, confirmed_ns and ended_ns are the at_ns of their changes, or a little earlier"`
	ConfirmOp   uint64 `json:"confirm_op" doc:"the op_id of the confirmation, 0 if there was none"`
	ConfirmedNS int64  `json:"confirmed_ns" doc:"when it was confirmed, before its time was over; 0 if it was not"`
	EndOp       uint64 `json:"end_op" doc:"the op_id of the release or cancellation, 0 if there was none"`
	EndedNS     int64  `json:"ended_ns" doc:"when it was released, cancelled or expired; 0 if it has not ended"`
}

// NightRow is one night of one resource.
type NightRow struct {
	Resource uint64 `json:"resource" min:"1"`
	Night    int    `json:"night" min:"1"`
	Free     int64  `json:"free"`
	Taken    int64  `json:"taken"`
}

// Change is one change of a hold: the first one makes it, out of nothing.
type Change struct {
	Seq     int64  `json:"seq" fact:"seq" doc:"a number of its own, by which changes are ordered"`
	Hold    uint64 `json:"hold_id" fact:"name,op" doc:"that of a row of holds, which is never 0"`
	Before  string `json:"before" fact:"before" doc:"the state it was in, empty if it was not there"`
	State   string `json:"state" fact:"state"`
	Version int64  `json:"version" fact:"version" doc:"each change of a hold adds one, an expiry too"`
	AtNS    int64  `json:"at_ns" fact:"from" doc:"after the change, and before another can follow from it: a place may be held again at the time at which it was given back, and not earlier"`
}

// Params are the workload's parameters, and what the designs are opened for.
type Params struct {
	Resources   int     `json:"resources" min:"1" max:"100000" doc:"seats, kinds of rooms, cars of a train"`
	Units       int     `json:"units" min:"1" max:"500" doc:"places of each resource"`
	Overbooking float64 `json:"overbooking" min:"1" max:"2" doc:"how many times the places may be given out, for guests who do not come"`
	Nights      int     `json:"nights" min:"1" max:"1000" doc:"nights for which there are places"`
	Longest     int     `json:"longest" min:"1" max:"1000" doc:"nights of the longest stay"`
	Skew        string  `json:"skew" enum:"uniform,zipf,hot,moving" doc:"which resource is wanted"`
	Crowd       int     `json:"crowd" min:"1" max:"1000" doc:"how many guests in a row want the same resource"`
	Guests      int     `json:"guests" min:"0" max:"10000000" doc:"how many guests there are; 0 means one for each scheduled hold"`

	HoldTTL     sut.Duration `json:"hold_ttl" min:"1ms" max:"1h" doc:"how long a hold lasts; half an hour in life"`
	ExpireEvery sut.Duration `json:"expire_every" min:"1ms" max:"1m" doc:"how often holds are looked for whose time is over"`
	ExpireLag   sut.Duration `json:"expire_lag" min:"1ms" max:"10s" doc:"how long after its time a hold may end"`
	ViewEvery   sut.Duration `json:"view_every" min:"1ms" max:"1m" doc:"how often a view of the stock is brought up to date, in designs that have one"`
	Pay         sut.Duration `json:"pay" min:"0s" max:"1m" doc:"how long the payment takes that is part of a confirmation"`

	Confirm   float64      `json:"confirm" min:"0" max:"1" doc:"share of holds that are confirmed"`
	Release   float64      `json:"release" min:"0" max:"1" doc:"share of the other holds that are released; the rest expires"`
	Cancel    float64      `json:"cancel" min:"0" max:"1" doc:"share of bookings that are cancelled"`
	Rebook    float64      `json:"rebook" min:"0" max:"1" doc:"share of those who cancelled that hold again, for other nights"`
	ComeBack  int          `json:"come_back" min:"0" max:"10" doc:"how often a guest comes back who was told that all is sold out, or the waiting room full"`
	Think     sut.Duration `json:"think" min:"0s" max:"1h" doc:"longest time between a guest's operations"`
	LateShare float64      `json:"late_share" min:"0" max:"1" doc:"share of confirmations that come just when the hold expires"`
	Resend    float64      `json:"resend" min:"0" max:"1" doc:"share of operations that are sent twice with the same identity, at once or after the answer"`
	Retry     int          `json:"retry_on_lost" min:"0" max:"10" doc:"how often an operation of unknown outcome is repeated, with the same identity"`

	Admit   int `json:"admit" min:"0" max:"10000" doc:"how many guests a server lets to the desk at once, for a hold; 0 means all"`
	Waiting int `json:"waiting" min:"0" max:"100000" doc:"how many more wait; who comes then is told that the waiting room is full"`
}

// DefaultParams is a theatre.
func DefaultParams() Params {
	return Params{
		Resources: 500, Units: 1, Overbooking: 1, Nights: 1, Longest: 1, Skew: "uniform",
		Crowd: 1, HoldTTL: sut.Duration(time.Second), ExpireEvery: sut.Duration(50 * time.Millisecond),
		ExpireLag: sut.Duration(2 * time.Second), ViewEvery: sut.Duration(50 * time.Millisecond),
		Confirm: 0.6, Release: 0.3, Cancel: 0.1, Rebook: 0.5, ComeBack: 1, LateShare: 0.05,
		Think: sut.Duration(500 * time.Millisecond), Resend: 0.02, Retry: 3, Admit: 0, Waiting: 1000,
	}
}

// Validate returns every bad field at once, each named as in a scenario, or nil.
func (p Params) Validate() error {
	err := bounds.Check(p)
	if err == nil && p.Longest > p.Nights {
		err = fmt.Errorf("longest: expected at most nights (%d), got %d", p.Nights, p.Longest)
	}
	if places := p.Resources * p.capacity() * p.Nights; err == nil && places > maxPlaces {
		err = fmt.Errorf("nights: expected at most %d places over all nights, got %d", maxPlaces, places)
	}
	return err
}

// maxPlaces bounds the rows that some designs make of the places.
const maxPlaces = 1_000_000

// capacity is how many places of a resource may be given out for a night.
func (p Params) capacity() int { return int(float64(p.Units) * p.Overbooking) }

// has says whether there is such a stay.
func (p Params) has(req HoldRequest) bool {
	return req.Resource <= uint64(p.Resources) && req.First+req.Nights-1 <= p.Nights
}
