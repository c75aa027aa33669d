package admin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"stampede/harness/env"
)

// Redis administers one Redis, or a server that speaks its protocol.
type Redis struct {
	// URL is asked for at each call, because a restarted container may
	// change its port.
	URL func() string
}

var _ Store = Redis{}

// client opens a client with one connection and no hidden retries. It dials
// here rather than in the client's pool, which writes every refused
// connection to standard error, and a store that starts refuses many.
func (r Redis) client(ctx context.Context, addr string) (*session, error) {
	opts, err := redis.ParseURL(r.URL())
	if err != nil {
		return nil, fmt.Errorf("read the URL of redis: %s", Redact(r.URL()))
	}
	if addr != "" {
		opts.Addr = addr
	}
	conn, err := redis.NewDialer(opts)(ctx, opts.Network, opts.Addr)
	if err != nil {
		return nil, fmt.Errorf("connect to redis: %w", err)
	}
	opts.MaxRetries = -1
	opts.DialerRetries = 1
	opts.PoolSize = 1
	opts.ContextTimeoutEnabled = true
	opts.DisableIdentity = true
	opts.MaintNotificationsConfig = &maintnotifications.Config{
		Mode: maintnotifications.ModeDisabled,
	}
	opts.Dialer = once(conn)
	return &session{Client: redis.NewClient(opts), conn: conn}, nil
}

// session is a client with the one connection that it may use.
type session struct {
	*redis.Client
	conn net.Conn
}

// Close closes both: a client that was never asked does not know its
// connection.
func (s *session) Close() error {
	return errors.Join(s.Client.Close(), ignoreClosed(s.conn.Close()))
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// once is a dialer that hands out a connection one time.
func once(conn net.Conn) func(context.Context, string, string) (net.Conn, error) {
	var used atomic.Bool
	return func(context.Context, string, string) (net.Conn, error) {
		if used.Swap(true) {
			return nil, errors.New("the connection was lost")
		}
		return conn, nil
	}
}

// with runs f on a client that is closed afterwards.
func (r Redis) with(ctx context.Context, f func(context.Context, *redis.Client) error) error {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	client, err := r.client(ctx, "")
	if err != nil {
		return err
	}
	defer client.Close()
	return f(ctx, client.Client)
}

// Ready implements Store.
func (r Redis) Ready(ctx context.Context) error { return r.ReadyAt(ctx, "") }

// ReadyAt implements Store: PING is answered by PONG, which a Redis that is
// still loading its data refuses.
func (r Redis) ReadyAt(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	client, err := r.client(ctx, addr)
	if err != nil {
		return err
	}
	defer client.Close()
	if err := client.Ping(ctx).Err(); err != nil {
		return fmt.Errorf("ask redis: %w", err)
	}
	return nil
}

// Identity implements Store by the server's run_id.
func (r Redis) Identity(ctx context.Context) (string, error) {
	facts, err := r.facts(ctx)
	if err != nil {
		return "", err
	}
	if facts["run_id"] == "" {
		return "", fmt.Errorf("redis reports no run_id")
	}
	return facts["run_id"], nil
}

// facts is the server section of INFO.
func (r Redis) facts(ctx context.Context) (map[string]string, error) {
	facts := map[string]string{}
	err := r.with(ctx, func(ctx context.Context, client *redis.Client) error {
		text, err := client.Info(ctx, "server").Result()
		if err != nil {
			return fmt.Errorf("ask redis for its facts: %w", err)
		}
		for line := range strings.Lines(text) {
			if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
				facts[name] = value
			}
		}
		return nil
	})
	return facts, err
}

// redisSettings decide what Redis's numbers mean.
var redisSettings = []string{"appendonly", "appendfsync", "save", "maxmemory", "maxmemory-policy"}

// Info implements Store. An unknown setting is an error.
func (r Redis) Info(ctx context.Context, also []string) (env.Info, error) {
	facts, err := r.facts(ctx)
	if err != nil {
		return env.Info{}, err
	}
	info := env.Info{Settings: map[string]string{}}
	info.Kind, info.Version = redisKind(facts)
	err = r.with(ctx, func(ctx context.Context, client *redis.Client) error {
		for _, name := range slices.Concat(redisSettings, also) {
			values, err := client.ConfigGet(ctx, name).Result()
			if refused(err) {
				info.Settings[name] = "unknown: the server does not report it"
				continue
			}
			if err != nil {
				return fmt.Errorf("ask redis for setting %s: %w", name, err)
			}
			value, ok := values[strings.ToLower(name)]
			if !ok {
				return fmt.Errorf("redis has no setting %s", name)
			}
			info.Settings[name] = value
		}
		return nil
	})
	return info, err
}

// refused says whether the server answered that it does not do this: hosted
// ones hide their configuration.
func refused(err error) bool {
	var answer redis.Error
	return errors.As(err, &answer) && (strings.HasPrefix(answer.Error(), "NOPERM") ||
		strings.HasPrefix(answer.Error(), "ERR unknown command"))
}

// redisKind tells Redis from Valkey, which answers with a Redis version too.
func redisKind(facts map[string]string) (kind, version string) {
	if v := facts["valkey_version"]; v != "" {
		return "valkey", v
	}
	return "redis", facts["redis_version"]
}

// FlushAll empties every database of the server.
func (r Redis) FlushAll(ctx context.Context) error {
	return r.with(ctx, func(ctx context.Context, client *redis.Client) error {
		if err := client.FlushAll(ctx).Err(); err != nil {
			return fmt.Errorf("empty redis: %w", err)
		}
		return nil
	})
}

// scanBatch is how many keys one SCAN asks for and one UNLINK removes.
const scanBatch = 1000

// EachKey calls f for the keys of the URL's database that start with prefix,
// all of them if it is empty, until f returns false. A key may come twice.
func (r Redis) EachKey(ctx context.Context, prefix string, f func(key string) bool) error {
	return r.scan(ctx, prefix, func(_ *redis.Client, keys []string) (bool, error) {
		for _, key := range keys {
			if !f(key) {
				return false, nil
			}
		}
		return true, nil
	})
}

// DeletePrefix removes the keys that start with prefix and counts them.
func (r Redis) DeletePrefix(ctx context.Context, prefix string) (n int64, err error) {
	if prefix == "" {
		return 0, fmt.Errorf("refusing to delete every key: the prefix is empty")
	}
	err = r.scan(ctx, prefix, func(client *redis.Client, keys []string) (bool, error) {
		if len(keys) == 0 {
			return true, nil
		}
		removed, err := client.Unlink(ctx, keys...).Result()
		n += removed
		if err != nil {
			return false, fmt.Errorf("remove redis's keys: %w", err)
		}
		return true, nil
	})
	return n, err
}

// scan calls f for batches of the keys that start with prefix, until it
// returns false or an error.
func (r Redis) scan(ctx context.Context, prefix string,
	f func(client *redis.Client, keys []string) (more bool, err error)) error {
	return r.with(ctx, func(ctx context.Context, client *redis.Client) error {
		var cursor uint64
		for {
			keys, next, err := client.Scan(ctx, cursor, globEscape(prefix)+"*", scanBatch).Result()
			if err != nil {
				return fmt.Errorf("list redis's keys: %w", err)
			}
			if more, err := f(client, keys); err != nil || !more {
				return err
			}
			if cursor = next; cursor == 0 {
				return nil
			}
		}
	})
}

// Put gives a key a value.
func (r Redis) Put(ctx context.Context, key, value string) error {
	return r.with(ctx, func(ctx context.Context, client *redis.Client) error {
		if err := client.Set(ctx, key, value, 0).Err(); err != nil {
			return fmt.Errorf("write redis's key %s: %w", key, err)
		}
		return nil
	})
}

// Get returns a key's value, empty if there is no such key.
func (r Redis) Get(ctx context.Context, key string) (value string, err error) {
	err = r.with(ctx, func(ctx context.Context, client *redis.Client) (err error) {
		if value, err = client.Get(ctx, key).Result(); err != nil && !errors.Is(err, redis.Nil) {
			return fmt.Errorf("read redis's key %s: %w", key, err)
		}
		return nil
	})
	return value, err
}

// Delete removes a key, if it is there.
func (r Redis) Delete(ctx context.Context, key string) error {
	return r.with(ctx, func(ctx context.Context, client *redis.Client) error {
		if err := client.Unlink(ctx, key).Err(); err != nil {
			return fmt.Errorf("remove redis's key %s: %w", key, err)
		}
		return nil
	})
}

// globEscape makes a pattern match a text literally.
func globEscape(text string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(text)
}

// RedisConf is a configuration file with settings appended; the last line of
// a name wins.
func RedisConf(base []byte, settings map[string]string) ([]byte, error) {
	if err := checkSettings("redis", settings); err != nil {
		return nil, err
	}
	out := bytes.NewBuffer(slices.Clone(base))
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		value := settings[name]
		if name == "save" {
			// Lines of save add up; an empty one starts over.
			out.WriteString("\nsave \"\"")
		}
		if value == "" {
			value = `""`
		}
		fmt.Fprintf(out, "\n%s %s", name, value)
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}
