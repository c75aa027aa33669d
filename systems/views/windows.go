package views

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"stampede/harness/sut"
)

// candidate is an event that no rule turns away by itself: what else has been
// watched decides.
type candidate struct {
	at    Position
	event *Event
	rules *ruleSet
}

// mine names a candidate: its position and its heartbeat.
func (c *candidate) mine() string {
	return fmt.Sprintf("%d:%d:%d", c.at.Partition, c.at.in(), c.event.ID)
}

// windows is what the filter remembers, in Redis, which all its replicas
// share. Its keys are, after the prefix: s:SESSION, the candidate that made the
// session a watch and what became of it; r:MS:N:VIDEO:USER, which is there if
// the user has a view of the video in window N of so many milliseconds; and
// i:MS:N:IP, how many views the address has in it.
type windows struct {
	rdb    *redis.Client
	prefix string
	limit  time.Duration
	keep   time.Duration
	script *redis.Script
	// careless reads first and writes later.
	careless bool
}

// judge decides candidates one after the other, each in one step. The session
// remembers the decision, so that a candidate that comes again, because its
// first reader died, is decided as it was.
const judge = `
local out = {}
for i = 1, #KEYS / 3 do
	local session, seen, address = KEYS[3*i-2], KEYS[3*i-1], KEYS[3*i]
	local judged = redis.call('GET', session)
	if not judged then
		local word = 'view'
		if redis.call('EXISTS', seen) == 1 then
			word = 'repeat'
		elseif tonumber(redis.call('GET', address) or '0') >= tonumber(ARGV[2*i+1]) then
			word = 'ip-rate'
		else
			redis.call('SET', seen, '1', 'PX', ARGV[1])
			if redis.call('INCR', address) == 1 then
				redis.call('PEXPIRE', address, ARGV[1])
			end
		end
		judged = ARGV[2*i] .. ':' .. word
		redis.call('SET', session, judged, 'PX', ARGV[1])
	end
	out[i] = judged
end
return out`

// wordView is what judge says of a view; otherwise it says the reason.
const wordView = "view"

// judgedAtOnce bounds the candidates of one call, so that others get a turn.
const judgedAtOnce = 500

func openWindows(ctx context.Context, cfg sut.Config, p Params) (*windows, error) {
	opts, err := redisOptions(cfg)
	if err != nil {
		return nil, err
	}
	w := &windows{rdb: redis.NewClient(opts), prefix: cfg.Prefix, limit: timeout(cfg),
		keep: p.Retention.D(), script: redis.NewScript(judge)}
	ctx, cancel := context.WithTimeout(ctx, w.limit)
	defer cancel()
	if err := w.rdb.Ping(ctx).Err(); err != nil {
		_ = w.rdb.Close() // the ping's error is being told
		return nil, fmt.Errorf("connecting to Redis: %w", err)
	}
	return w, nil
}

// redisOptions are bounded waits, and no retries behind the caller's back.
func redisOptions(cfg sut.Config) (*redis.Options, error) {
	opts, err := redis.ParseURL(cfg.RedisURL)
	if err != nil {
		return nil, fmt.Errorf("reading the Redis URL: %w", err)
	}
	limit := timeout(cfg)
	opts.PoolSize, opts.MaxActiveConns = maxConns(cfg), maxConns(cfg)
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

func (w *windows) close() error {
	if err := w.rdb.Close(); err != nil {
		return fmt.Errorf("closing the Redis client: %w", err)
	}
	return nil
}

// keys are a candidate's session, user and address.
func (w *windows) keys(c *candidate) (session, seen, address string) {
	e, r := c.event, c.rules
	window := func(ms int64) string {
		return strconv.FormatInt(ms, 10) + ":" + strconv.FormatInt(e.TimeMS/ms, 10) + ":"
	}
	return w.prefix + "s:" + e.Session,
		w.prefix + "r:" + window(r.RepeatWindowMS) + e.Video + ":" + e.User,
		w.prefix + "i:" + window(r.IPWindowMS) + e.IP
}

// judgement is what a session remembers.
type judgement struct {
	at   string // partition and number of the position
	id   uint64
	word string
}

func parseJudgement(text string) (judgement, error) {
	parts := strings.Split(text, ":")
	if len(parts) != 4 {
		return judgement{}, fmt.Errorf("a session remembers %q, which is no judgement", text)
	}
	id, err := strconv.ParseUint(parts[2], 10, 64)
	if err != nil {
		return judgement{}, fmt.Errorf("a session remembers %q, which names no heartbeat", text)
	}
	return judgement{at: parts[0] + ":" + parts[1], id: id, word: parts[3]}, nil
}

// judge decides candidates in order; the result has what each one's session
// remembers now.
func (w *windows) judge(ctx context.Context, list []candidate) ([]judgement, error) {
	out := make([]judgement, 0, len(list))
	for len(list) > 0 {
		n := min(len(list), judgedAtOnce)
		judge := w.judgeSome
		if w.careless {
			judge = w.judgeCarelessly
		}
		some, err := judge(ctx, list[:n])
		if err != nil {
			return nil, fmt.Errorf("judging candidates: %w", err)
		}
		for _, text := range some {
			j, err := parseJudgement(text)
			if err != nil {
				return nil, err
			}
			out = append(out, j)
		}
		list = list[n:]
	}
	return out, nil
}

func (w *windows) judgeSome(ctx context.Context, list []candidate) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, w.limit)
	defer cancel()
	keys := make([]string, 0, 3*len(list))
	args := append(make([]any, 0, 1+2*len(list)), w.keep.Milliseconds())
	for i := range list {
		c := &list[i]
		session, seen, address := w.keys(c)
		keys = append(keys, session, seen, address)
		args = append(args, c.mine(), c.rules.IPViews)
	}
	some, err := w.script.Run(ctx, w.rdb, keys, args...).StringSlice()
	if err == nil && len(some) != len(list) {
		err = fmt.Errorf("%d of %d candidates were judged", len(some), len(list))
	}
	return some, err
}

// judgeCarelessly reads all that is remembered, decides, and writes: between
// the two, another replica may have decided as well.
func (w *windows) judgeCarelessly(ctx context.Context, list []candidate) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, w.limit)
	defer cancel()
	var keys []string
	for i := range list {
		session, seen, address := w.keys(&list[i])
		keys = append(keys, session, seen, address)
	}
	known, err := w.rdb.MGet(ctx, keys...).Result()
	if err != nil {
		return nil, err
	}
	mind := make(map[string]string, len(keys))
	for i, value := range known {
		if text, ok := value.(string); ok {
			mind[keys[i]] = text
		}
	}
	out, pipe := make([]string, len(list)), w.rdb.Pipeline()
	for i := range list {
		session, seen, address := w.keys(&list[i])
		if out[i] = mind[session]; out[i] != "" {
			continue
		}
		used, err := strconv.ParseInt(cmp.Or(mind[address], "0"), 10, 64)
		if err != nil {
			return nil, err
		}
		word := wordView
		switch {
		case mind[seen] != "":
			word = Repeat
		case used >= list[i].rules.IPViews:
			word = IPRate
		default:
			mind[seen], mind[address] = "1", strconv.FormatInt(used+1, 10)
			pipe.Set(ctx, seen, "1", w.keep)
			pipe.Set(ctx, address, used+1, w.keep)
		}
		out[i] = list[i].mine() + ":" + word
		mind[session] = out[i]
		pipe.Set(ctx, session, out[i], w.keep)
	}
	_, err = pipe.Exec(ctx)
	return out, err
}

// empty says what there is already, "" if nothing.
func (w *windows) empty(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, w.limit)
	defer cancel()
	var cursor uint64
	for {
		keys, next, err := w.rdb.Scan(ctx, cursor, w.prefix+"*", 1000).Result()
		switch {
		case err != nil && !errors.Is(err, redis.Nil):
			return "", fmt.Errorf("looking for the filter's memory: %w", err)
		case len(keys) > 0:
			return fmt.Sprintf("the key %s in Redis", keys[0]), nil
		case next == 0:
			return "", nil
		}
		cursor = next
	}
}
