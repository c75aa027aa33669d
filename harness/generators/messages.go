package generators

import (
	"time"

	"stampede/harness/load"
)

// The paths of the coordinator's API, under which everything is JSON but the history's bytes. The
// placeholder is the index of a generator.
const (
	clockPath   = "/v1/generators/%d/clock"
	joinPath    = "/v1/generators/%d/join"
	beatPath    = "/v1/generators/%d/beat"
	historyPath = "/v1/generators/%d/history"
	donePath    = "/v1/generators/%d/done"
	failedPath  = "/v1/generators/%d/failed"
)

// Hello is how a generator introduces itself.
type Hello struct {
	// ID is the process's own: an introduction that was heard and not answered is repeated.
	ID   string `json:"id"`
	Host string `json:"host"`
	// Operations is the digest of what it would offer; see Plan.
	Operations string `json:"operations"`
	// Wall is its wall clock, for people: nothing is computed with it.
	Wall time.Time `json:"wall"`
}

// Status is what a generator says some times a second.
type Status struct {
	// Ready says that it waits to be told when to begin.
	Ready bool          `json:"ready"`
	Load  load.Snapshot `json:"load"`
}

// Orders is the answer to a Status.
type Orders struct {
	// Begun says that the load begins at Base by the coordinator's clock, which is the zero of the
	// run's.
	Begun bool          `json:"begun"`
	Base  time.Duration `json:"base_ns"`
	// Targets are the base URLs of the API's servers.
	Targets []string `json:"targets"`
	// Stop ends the load early, as an interruption does.
	Stop bool `json:"stop"`
}

// Recorded is what a generator did, beside its history.
type Recorded struct {
	Index int    `json:"index"`
	Host  string `json:"host"`
	// Cores is how many it could use.
	Cores  int         `json:"cores"`
	Result load.Result `json:"result"`
	// Lag is the histogram of the result's PacerLag, as HdrHistogram V2.
	Lag []byte `json:"lag"`
	// ClockError is how far its times may be from the coordinator's clock.
	ClockError time.Duration `json:"clock_error_ns"`
	// Lost counts records that could not be written.
	Lost uint64 `json:"lost"`
	// Bytes and SHA256 are those of its history, which is in order (history.Sort).
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

type clockMessage struct {
	Now time.Duration `json:"now_ns"`
}

type sizeMessage struct {
	Bytes int64 `json:"bytes"`
}

type errorMessage struct {
	Error string `json:"error"`
}
