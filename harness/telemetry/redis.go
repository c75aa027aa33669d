package telemetry

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"stampede/harness/sut"
)

// Redis is the server of a URL, at the address that it has now. It is asked over one
// connection of its own.
func Redis(url string, addr func() string) (Source, error) {
	opts, err := redis.ParseURL(url)
	if err != nil {
		return nil, fmt.Errorf("reading the Redis URL: %w", err)
	}
	opts.PoolSize, opts.MaxRetries = 1, -1
	opts.DialTimeout, opts.ReadTimeout, opts.WriteTimeout = answerBound, answerBound, answerBound
	opts.ClientName = "stampede-telemetry"
	opts.Dialer = dialer(addr)
	return redisServer{redis.NewClient(opts)}, nil
}

type redisServer struct{ client *redis.Client }

func (redisServer) Name() string { return string(sut.Redis) }

func (r redisServer) Read(ctx context.Context) ([]Value, error) {
	info, err := r.client.Info(ctx).Result()
	if err != nil {
		return nil, fmt.Errorf("asking Redis for its statistics: %w", err)
	}
	values, err := parseInfo(info)
	if err != nil {
		return nil, err
	}
	// A user of a shared server may not be allowed to see it.
	if slow, err := r.client.SlowLogGet(ctx, 1).Result(); err == nil {
		values = append(values, slowest(slow))
	}
	return values, nil
}

// slowest counts what has gone to the slow log, by the number of its newest entry: the
// first is 0, and none is used twice.
func slowest(newest []redis.SlowLog) Value {
	v := Value{Quantity: "slow commands", Unit: "/s", Counts: true}
	if len(newest) > 0 {
		v.Amount = float64(newest[0].ID + 1)
	}
	return v
}

// parseInfo takes from the answer to INFO what is drawn.
func parseInfo(info string) ([]Value, error) {
	fields := map[string]string{}
	for line := range strings.Lines(info) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	var values []Value
	for _, q := range []struct {
		field string
		Value
	}{
		{"total_commands_processed", Value{Quantity: "commands", Unit: "/s", Counts: true}},
		{"used_memory", Value{Quantity: "memory", Unit: "bytes"}},
		{"evicted_keys", Value{Quantity: "evictions", Unit: "/s", Counts: true}},
		{"keyspace_hits", Value{Quantity: "lookups", Part: "found", Unit: "/s", Counts: true}},
		{"keyspace_misses", Value{Quantity: "lookups", Part: "missing", Unit: "/s", Counts: true}},
		{"connected_clients", Value{Quantity: "clients", Unit: "connections"}},
	} {
		text, ok := fields[q.field]
		if !ok {
			continue // an older or another server
		}
		amount, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, fmt.Errorf("reading the statistics of Redis: %s: %w", q.field, err)
		}
		q.Amount = amount
		values = append(values, q.Value)
	}
	if len(values) == 0 {
		return nil, fmt.Errorf("reading the statistics of Redis: %w", errNothing)
	}
	return values, nil
}

func (r redisServer) Close() { _ = r.client.Close() } // nothing was written
