package admin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"stampede/harness/env"
	"stampede/harness/topics"
)

// Namespaces makes empty places in stores.
type Namespaces struct {
	// RunID becomes part of every name.
	RunID string
	// Signature says who makes them in servers that are not stampede's own; "" in those that are.
	Signature string
	// Postgres, Replica, Redis and Kafka are nil when the run does not use them.
	Postgres *Postgres
	Replica  *Replica
	Redis    *Redis
	Kafka    *Kafka

	mu   sync.Mutex
	made int
	open map[int][]drop
}

// drop removes what was made.
type drop func(context.Context) error

// maxIdentifier is how long a Postgres name may be, in bytes.
const maxIdentifier = 63

// RunKey is the key of a run's owner; the run's other keys are below it, behind a colon.
func RunKey(runID string) string { return "stampede:" + runID }

// Namespace makes a new database, or a schema where the user may make none, and a
// new prefix of keys, topics and groups, which are none yet. In stores of our own the
// first of them that is open also starts from an empty Redis; while others are
// open, only the prefix separates them.
func (n *Namespaces) Namespace(ctx context.Context, name string) (env.Namespace, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.made++
	number := n.made
	space := env.Namespace{Prefix: fmt.Sprintf("%s:%d:", RunKey(n.RunID), number)}
	var drops []drop
	for _, carve := range []func() (drop, error){
		func() (drop, error) {
			return n.carvePostgres(ctx, &space, DatabaseName(n.RunID, number, name))
		},
		func() (drop, error) { return n.carveRedis(ctx, &space) },
		func() (drop, error) { return n.carveKafka(ctx, &space) },
	} {
		made, err := carve()
		if made != nil {
			drops = append(drops, made)
		}
		if err != nil {
			return env.Namespace{}, errors.Join(err, dropAll(context.WithoutCancel(ctx), drops))
		}
	}
	if n.open == nil {
		n.open = map[int][]drop{}
	}
	n.open[number] = drops
	space.Release = func(ctx context.Context) error {
		n.mu.Lock()
		defer n.mu.Unlock()
		return n.release(ctx, number)
	}
	return space, nil
}

// release drops one namespace, once.
func (n *Namespaces) release(ctx context.Context, number int) error {
	if err := dropAll(ctx, n.open[number]); err != nil {
		return err
	}
	delete(n.open, number)
	return nil
}

// ReleaseAll drops the namespaces that were not released, and says whether there were any.
func (n *Namespaces) ReleaseAll(ctx context.Context) (made bool, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for number := range n.open {
		err = errors.Join(err, n.release(ctx, number))
	}
	return n.made > 0, err
}

func dropAll(ctx context.Context, drops []drop) (err error) {
	for _, one := range drops {
		err = errors.Join(err, one(ctx))
	}
	return err
}

func (n *Namespaces) carvePostgres(
	ctx context.Context, space *env.Namespace, name string,
) (drop, error) {
	if n.Postgres == nil {
		return nil, nil
	}
	may, err := n.Postgres.CanCreateDatabases(ctx)
	if err != nil {
		return nil, err
	}
	create, remove := n.Postgres.CreateDatabase, n.Postgres.DropDatabase
	if !may {
		create, remove = n.Postgres.CreateSchema, n.Postgres.DropSchema
	}
	if space.PostgresURL, err = create(ctx, name, n.Signature); err == nil && n.Replica != nil {
		space.ReplicaURL, err = n.Replica.Await(ctx, space.PostgresURL, name)
	}
	return func(ctx context.Context) error { return remove(ctx, name) }, err
}

func (n *Namespaces) carveRedis(ctx context.Context, space *env.Namespace) (made drop, err error) {
	if n.Redis == nil {
		return nil, nil
	}
	prefix := space.Prefix
	space.RedisURL = n.Redis.URL()
	switch {
	case n.Signature != "":
		err = n.Redis.Put(ctx, RunKey(n.RunID), n.Signature)
	case len(n.open) == 0:
		err = n.Redis.FlushAll(ctx)
	}
	return func(ctx context.Context) error {
		if n.Signature == "" && len(n.open) <= 1 {
			return n.Redis.FlushAll(ctx)
		}
		_, err := n.Redis.DeletePrefix(ctx, prefix)
		return err
	}, err
}

func (n *Namespaces) carveKafka(ctx context.Context, space *env.Namespace) (drop, error) {
	if n.Kafka == nil {
		return nil, nil
	}
	prefix := space.Prefix
	space.KafkaBrokers = n.Kafka.Brokers()
	if n.Signature != "" {
		err := n.Kafka.Untaken(ctx, prefix)
		if err == nil {
			err = n.Kafka.Put(ctx, topics.Prefix(RunKey(n.RunID)), n.Signature)
		}
		if err != nil {
			return nil, err
		}
	}
	return func(ctx context.Context) error { return n.Kafka.DeletePrefix(ctx, prefix) }, nil
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
