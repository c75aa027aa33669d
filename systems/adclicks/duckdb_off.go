//go:build !duckdb

package adclicks

// tagged are the designs that a build tag adds.
func tagged() []variant { return nil }
