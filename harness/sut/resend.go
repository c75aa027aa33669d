package sut

import (
	"slices"
	"time"

	"stampede/harness/history"
)

// Resending says when an operation is sent once more.
type Resending uint8

// The times of a second sending.
const (
	// Never: the operation is sent once.
	Never Resending = iota
	// Together: both are sent at the same time, so that they race.
	Together
	// Later: the second is sent after the first was acknowledged.
	Later
)

// Resender is implemented by workloads of an API with idempotency keys, so that it shows
// whether the keys mean anything.
type Resender interface {
	// Resend says whether and when an operation is sent once more, unchanged; pause is
	// how long after the first sending (Together) or its answer (Later). Nothing follows
	// from the second sending. It is called as Follow is.
	Resend(op history.Op) (when Resending, pause time.Duration)
}

// resendWithin is the longest pause before an operation is sent once more.
const resendWithin = 200 * time.Millisecond

// Resends sends a share of the operations of some kinds twice, half of them together. It
// is a Resender to embed in a workload. Coin gives each identity a number in [0, 1).
type Resends struct {
	Share float64
	Kinds []string
	Coin  func(id uint64) float64
}

// Resend decides by the operation's identity.
func (r Resends) Resend(op history.Op) (when Resending, pause time.Duration) {
	if r.Share == 0 || !slices.Contains(r.Kinds, op.Kind) {
		return Never, 0
	}
	switch u := r.Coin(op.ID) / r.Share; {
	case u < 0.5:
		return Together, 0
	case u < 1:
		return Later, time.Duration((2*u - 1) * float64(resendWithin))
	}
	return Never, 0
}
