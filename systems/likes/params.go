package likes

import (
	"errors"
	"fmt"
	"time"

	"stampede/harness/bounds"
	"stampede/harness/keys"
	"stampede/harness/sut"
)

// DefaultParams is one video that takes everything.
func DefaultParams() Params {
	return Params{
		Videos: 1, VideoSkew: keys.SkewUniform,
		ClickTwice: 0.1, Unlike: 0.1, Relike: 0.3,
		Think: sut.Duration(500 * time.Millisecond),
		Reads: 0.1, Views: 0.2, Resend: 0.02, RetryOnLost: 3,
		Shards: 100, FirstShards: 10, MaxShards: 1000, HeatPerShard: 100,
		ReadTTL: 0, EarlyBeta: 1, Buffer: 1000,
		RepairEvery: sut.Duration(200 * time.Millisecond),
		MergeEvery:  sut.Duration(50 * time.Millisecond),
	}
}

// Validate returns every bad field at once, each named as in a scenario, or nil.
func (p Params) Validate() error {
	err := bounds.Check(p)
	if p.FirstShards > p.MaxShards {
		err = errors.Join(err, fmt.Errorf("first_shards: expected at most max_shards (%d), got %d",
			p.MaxShards, p.FirstShards))
	}
	return err
}
