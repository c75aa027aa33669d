package admin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"stampede/harness/env"
)

// Namespaces makes empty places in stores that belong to stampede alone.
type Namespaces struct {
	// RunID becomes part of every name.
	RunID string
	// Postgres, Redis and Kafka are nil when the run does not use them.
	Postgres *Postgres
	Redis    *Redis
	Kafka    *Kafka

	mu   sync.Mutex
	made int
	live int
}

// maxIdentifier is how long a Postgres name may be, in bytes.
const maxIdentifier = 63

// Namespace makes a new database and a new prefix of keys, topics and groups,
// which are none yet. The first of them that is
// open also starts from an empty Redis; while others are open, only the
// prefix separates them.
func (n *Namespaces) Namespace(ctx context.Context, name string) (env.Namespace, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.made++
	space := env.Namespace{Prefix: fmt.Sprintf("stampede:%s:%d:", n.RunID, n.made)}
	database := DatabaseName(n.RunID, n.made, name)
	if n.Redis != nil {
		if n.live == 0 {
			if err := n.Redis.FlushAll(ctx); err != nil {
				return env.Namespace{}, err
			}
		}
		space.RedisURL = n.Redis.URL()
	}
	if n.Postgres != nil {
		url, err := n.Postgres.CreateDatabase(ctx, database, "")
		if err != nil {
			return env.Namespace{}, err
		}
		space.PostgresURL = url
	}
	if n.Kafka != nil {
		space.KafkaBrokers = n.Kafka.Brokers()
	}
	n.live++
	released := false
	space.Release = func(ctx context.Context) error {
		n.mu.Lock()
		defer n.mu.Unlock()
		if released {
			return nil
		}
		if err := n.release(ctx, database, space.Prefix); err != nil {
			return err
		}
		released = true
		n.live--
		return nil
	}
	return space, nil
}

// release drops the database, the keys, topics and groups of one namespace.
func (n *Namespaces) release(ctx context.Context, database, prefix string) error {
	var errs []error
	if n.Postgres != nil {
		errs = append(errs, n.Postgres.DropDatabase(ctx, database))
	}
	switch {
	case n.Redis == nil:
	case n.live == 1:
		errs = append(errs, n.Redis.FlushAll(ctx))
	default:
		_, err := n.Redis.DeletePrefix(ctx, prefix)
		errs = append(errs, err)
	}
	if n.Kafka != nil {
		errs = append(errs, n.Kafka.DeletePrefix(ctx, prefix))
	}
	return errors.Join(errs...)
}

// maxRunID is how much of a run's id goes into a name, in bytes, so that the
// number which tells names apart is never cut.
const maxRunID = 24

// DatabaseName is stampede_<run>_<number>_<name> as a Postgres name: lower
// case letters, digits and underscores, cut to what Postgres keeps.
func DatabaseName(runID string, number int, name string) string {
	plain := func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		default:
			return '_'
		}
	}
	runID = strings.Map(plain, runID)
	runID = runID[:min(len(runID), maxRunID)]
	text := fmt.Sprintf("stampede_%s_%d_%s", runID, number, strings.Map(plain, name))
	return text[:min(len(text), maxIdentifier)]
}
