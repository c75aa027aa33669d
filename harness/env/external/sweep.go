package external

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"stampede/harness/env"
	"stampede/harness/env/admin"
	"stampede/harness/sut"
	"stampede/harness/topics"
)

// What begins the name of everything that is ours: databases and schemas, and
// keys.
const (
	namePrefix = "stampede_"
	keyPrefix  = "stampede:"
)

// sign is this process's signature under what it makes for a run.
func sign(runID string) (string, error) {
	self, err := env.OwnerOf(runID)
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(self)
	if err != nil {
		return "", fmt.Errorf("sign what is made: %w", err)
	}
	return string(text), nil
}

// foreignKey is a key that is not ours, empty if there is none.
func foreignKey(ctx context.Context, store admin.Redis) (foreign string, err error) {
	err = store.EachKey(ctx, "", func(key string) bool {
		if !strings.HasPrefix(key, keyPrefix) {
			foreign = key
		}
		return foreign == ""
	})
	return foreign, err
}

// made is something in a server that carries our prefix.
type made struct {
	name string
	// signature is its maker's, empty if there is none.
	signature string
	drop      func(ctx context.Context) error
}

// names lists what was made, at most the first few.
func names(all []made) string {
	const most = 5
	var list []string
	for _, m := range all[:min(len(all), most)] {
		list = append(list, m.name)
	}
	if len(all) > most {
		list = append(list, fmt.Sprintf("and %d more", len(all)-most))
	}
	return strings.Join(list, ", ")
}

// made lists what carries our prefix in a server.
func (c *component) made(ctx context.Context) ([]made, error) {
	switch store := c.Store.(type) {
	case admin.Postgres:
		return madeInPostgres(ctx, store)
	case admin.Redis:
		return madeInRedis(ctx, store)
	case admin.Replica:
		return nil, nil // what it has is its primary's
	case admin.Kafka:
		return madeInKafka(ctx, store)
	default:
		return nil, fmt.Errorf("no way to look for leftovers in %s", c.service)
	}
}

func madeInPostgres(ctx context.Context, store admin.Postgres) ([]made, error) {
	found, err := store.Find(ctx, namePrefix)
	var list []made
	for _, f := range found {
		m := made{name: "database " + f.Name, signature: f.Comment,
			drop: func(ctx context.Context) error { return store.DropDatabase(ctx, f.Name) }}
		if f.Schema {
			m.name = "schema " + f.Name
			m.drop = func(ctx context.Context) error { return store.DropSchema(ctx, f.Name) }
		}
		list = append(list, m)
	}
	return list, err
}

// madeInRedis is one entry for each run.
func madeInRedis(ctx context.Context, store admin.Redis) ([]made, error) {
	runs := map[string]bool{}
	err := store.EachKey(ctx, keyPrefix, func(key string) bool {
		runID, _, _ := strings.Cut(strings.TrimPrefix(key, keyPrefix), ":")
		runs[runID] = true
		return true
	})
	if err != nil {
		return nil, err
	}
	var list []made
	for _, runID := range slices.Sorted(maps.Keys(runs)) {
		key := admin.RunKey(runID)
		signature, err := store.Get(ctx, key)
		if err != nil {
			return nil, err
		}
		list = append(list, made{name: "keys " + key + ":*", signature: signature,
			drop: func(ctx context.Context) error {
				// The owner's key goes last: what is interrupted can be repeated.
				if _, err := store.DeletePrefix(ctx, key+":"); err != nil {
					return err
				}
				return store.Delete(ctx, key)
			}})
	}
	return list, nil
}

// madeInKafka is one entry for each run: its topics, its consumer groups and
// the topic with its signature.
func madeInKafka(ctx context.Context, store admin.Kafka) ([]made, error) {
	ours := topics.Prefix(keyPrefix)
	names, groups, err := store.Topics(ctx, ours)
	if err != nil {
		return nil, err
	}
	runs := map[string]bool{}
	for _, name := range append(names, groups...) {
		if name == admin.ProbeTopic {
			continue // nobody's data
		}
		runID, _, _ := strings.Cut(strings.TrimPrefix(name, ours), "-")
		runs[runID] = true
	}
	var list []made
	for _, runID := range slices.Sorted(maps.Keys(runs)) {
		topic := topics.Prefix(admin.RunKey(runID))
		signature, err := store.Get(ctx, topic)
		if err != nil {
			return nil, err
		}
		list = append(list, made{name: "topics " + topic + "-*", signature: signature,
			drop: func(ctx context.Context) error {
				if err := store.DeletePrefix(ctx, topic+"-"); err != nil {
					return err
				}
				return store.Delete(ctx, topic)
			}})
	}
	return list, nil
}

// kept says why something is not to be dropped; empty means that its owner is
// dead.
func (m made) kept() string {
	var o env.Owner
	if json.Unmarshal([]byte(m.signature), &o) != nil {
		o = env.Owner{}
	}
	return o.Kept()
}

// Sweep drops what runs that are dead have left in the user's servers, those
// that spec has a URL or brokers of. It names what it dropped, and what carries our prefix and was
// left alone, with the reason: its owner lives, ran on another host, of which
// nothing is known here, or is not recorded. One failure does not keep it from
// the rest. A dry sweep names the same and drops nothing.
func Sweep(ctx context.Context, spec env.Spec, dry bool) (removed, left []string, err error) {
	given := map[sut.Service]bool{sut.Postgres: spec.PostgresURL != "",
		sut.Redis: spec.RedisURL != "", sut.Kafka: len(spec.KafkaBrokers) > 0}
	var errs []error
	for _, service := range []sut.Service{sut.Postgres, sut.Redis, sut.Kafka} {
		if !given[service] {
			continue
		}
		gone, stays, err := sweep(ctx, service, spec, dry)
		removed, left = append(removed, gone...), append(left, stays...)
		if err != nil {
			errs = append(errs, fmt.Errorf("sweep %s: %w", service, err))
		}
	}
	return removed, left, errors.Join(errs...)
}

func sweep(ctx context.Context, service sut.Service, spec env.Spec, dry bool) (
	removed, left []string, err error) {
	c, err := componentOf(service, spec)
	if err != nil {
		return nil, nil, err
	}
	all, err := c.made(ctx)
	errs := []error{err}
	for _, m := range all {
		if why := m.kept(); why != "" {
			left = append(left, fmt.Sprintf("%s (%s)", m.name, why))
			continue
		}
		if !dry {
			if err := m.drop(ctx); err != nil {
				errs = append(errs, err)
				continue
			}
		}
		removed = append(removed, m.name)
	}
	return removed, left, errors.Join(errs...)
}
