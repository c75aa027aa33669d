package stores

import (
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
