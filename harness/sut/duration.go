package sut

import "stampede/harness/sim"

// Duration is a time.Duration written as "1m30s" in scenarios and JSON.
type Duration = sim.Duration
