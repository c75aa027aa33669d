package stores

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"stampede/harness/sut"
)

// RedisOptions are what every client of a run starts from: bounded waits, and
// no retries behind the caller's back.
func RedisOptions(cfg sut.Config) (*redis.Options, error) {
	opts, err := redis.ParseURL(cfg.RedisURL)
	if err != nil {
		return nil, fmt.Errorf("reading the Redis URL: %w", err)
	}
	limit := Timeout(cfg)
	opts.PoolSize, opts.MaxActiveConns = MaxConns(cfg), MaxConns(cfg)
	opts.DialTimeout, opts.WriteTimeout, opts.PoolTimeout = limit, limit, limit
	opts.ReadTimeout = limit
	opts.ContextTimeoutEnabled = true
	opts.DialerRetries = 1
	opts.MaxRetries = -1
	opts.DisableIdentity = true
	opts.MaintNotificationsConfig = &maintnotifications.Config{
		Mode: maintnotifications.ModeDisabled,
	}
	if cfg.Dial != nil {
		opts.Dialer = cfg.Dial
	}
	return opts, nil
}

// OpenRedis makes a client of RedisOptions, which changes may change, and waits until Redis
// answers it.
func OpenRedis(
	ctx context.Context, cfg sut.Config, changes ...func(*redis.Options),
) (*redis.Client, error) {
	opts, err := RedisOptions(cfg)
	if err != nil {
		return nil, err
	}
	for _, change := range changes {
		change(opts)
	}
	client := redis.NewClient(opts)
	ctx, cancel := context.WithTimeout(ctx, Timeout(cfg))
	defer cancel()
	if err := client.Ping(ctx).Err(); err != nil {
		_ = client.Close() // the ping's error is being told
		return nil, Failed("connecting to Redis", err)
	}
	return client, nil
}
