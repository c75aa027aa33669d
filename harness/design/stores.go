package design

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"
	"github.com/twmb/franz-go/pkg/kgo"

	"stampede/harness/bounds"
	"stampede/harness/stores"
	"stampede/harness/sut"
	"stampede/harness/topics"
)

// Stores are the opened stores of an instance, a role or a gauge. What a design does not need
// is nil.
type Stores[P any] struct {
	Config sut.Config
	Params P
	// DB is a pool of Config.MaxConns warm connections.
	DB *stores.Postgres
	// Replica is a pool like it, of the replica.
	Replica *stores.Postgres
	// Redis has as many. It does not repeat what failed.
	Redis *redis.Client
	// Kafka is a client of topics.Open. Consumers open others, with options of their own.
	Kafka *kgo.Client

	keeping sync.Mutex
	kept    any
}

// Keep returns what the first call with these stores has made of them: what a design builds on
// its stores and needs as long as they are open, in users' calls, in each step of a role and in
// each look of a gauge. If it is an io.Closer, it is closed before they are.
func Keep[T, P any](st *Stores[P], build func() (T, error)) (T, error) {
	st.keeping.Lock()
	defer st.keeping.Unlock()
	if kept, is := st.kept.(T); is {
		return kept, nil
	}
	kept, err := build()
	if err == nil {
		st.kept = kept
	}
	return kept, err
}

// Key is a key in Redis that is this run's alone.
func (s *Stores[P]) Key(name string) string { return s.Config.Prefix + name }

func openStores[P any](
	ctx context.Context, cfg sut.Config, name string, needs []sut.Service, settings map[string]string,
	redisOptions func(*Stores[P], *redis.Options),
) (*Stores[P], error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	st := &Stores[P]{Config: cfg}
	var err error
	if st.Params, err = sut.ParamsOf[P](cfg.Params); err != nil {
		return nil, err
	}
	if err = validate(st.Params); err != nil {
		return nil, fmt.Errorf("%s parameters: %w", name, err)
	}
	if st.DB, err = stores.OpenPostgres(ctx, cfg, name, settings); err != nil {
		return nil, err
	}
	if slices.Contains(needs, sut.Replica) {
		if st.Replica, err = stores.OpenReplica(ctx, cfg, name, settings); err != nil {
			return nil, errors.Join(err, st.close())
		}
	}
	if slices.Contains(needs, sut.Redis) {
		if st.Redis, err = stores.OpenRedis(ctx, cfg, func(opts *redis.Options) {
			if redisOptions != nil {
				redisOptions(st, opts)
			}
		}); err != nil {
			return nil, errors.Join(err, st.close())
		}
	}
	if slices.Contains(needs, sut.Kafka) {
		if st.Kafka, err = topics.Open(cfg); err != nil {
			return nil, errors.Join(err, st.close())
		}
	}
	return st, nil
}

// validate says what is wrong with parameters.
func validate(params any) error {
	if own, has := params.(interface{ Validate() error }); has {
		return own.Validate()
	}
	return bounds.Check(params)
}

func (s *Stores[P]) close() (err error) {
	if c, is := s.kept.(io.Closer); is {
		err = c.Close()
	}
	s.DB.Close()
	if s.Replica != nil {
		s.Replica.Close()
	}
	if s.Kafka != nil {
		s.Kafka.Close()
	}
	if s.Redis != nil {
		if failed := s.Redis.Close(); failed != nil {
			err = errors.Join(err, fmt.Errorf("closing the connections to Redis: %w", failed))
		}
	}
	return err
}
