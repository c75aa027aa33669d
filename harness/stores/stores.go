// Package stores opens the drivers of Postgres and Redis for systems as every
// system needs them: every wait is bounded, nothing is retried in silence, and an
// error tells whether it proves that nothing was done. Kafka is for package topics.
package stores

import (
	"cmp"
	"time"

	"stampede/harness/sut"
)

// What a Config means where it says nothing.
const (
	defaultMaxConns = 16
	defaultTimeout  = 5 * time.Second
)

// MaxConns is how many connections a client may have to a store, 16 where the
// Config does not say.
func MaxConns(cfg sut.Config) int {
	if cfg.MaxConns > 0 {
		return cfg.MaxConns
	}
	return defaultMaxConns
}

// Timeout bounds a call of a store, 5 s where the Config does not say.
func Timeout(cfg sut.Config) time.Duration { return cmp.Or(cfg.Timeout, defaultTimeout) }
