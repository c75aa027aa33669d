package likes

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"stampede/harness/stores"
	"stampede/harness/sut"
)

// life numbers the lives of Redis that this process has seen, from 0.
type life struct {
	mu  sync.Mutex
	run string
	n   int64
}

func (l *life) number() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.n
}

// see notes what a new connection was told.
func (l *life) see(run string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.run != "" && l.run != run {
		l.n++
	}
	l.run = run
}

// closeScript closes all videos if Redis has begun another life. KEYS are the life
// and the metas; ARGV is the run_id.
const closeScript = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return 0 end
for i = 2, #KEYS do redis.call('DEL', KEYS[i]) end
redis.call('SET', KEYS[1], ARGV[1])
return 1`

// connected runs on each new connection, before anything else does. A Redis that
// was started again may have come back older than it was: it would give out
// versions twice, and answer users out of a past that they know to be over. All
// its connections are new ones, so that the first of them closes the videos before
// anybody has asked anything; the repairer rebuilds them from the ledger.
func (s *store) connected(ctx context.Context, conn *redis.Conn) error {
	info, err := conn.Info(ctx, "server").Result()
	if err != nil {
		return stores.Failed("asking Redis for its run_id", err)
	}
	run, err := runID(info)
	if err != nil {
		return err
	}
	s.life.see(run)
	life := s.prefix + "life"
	switch known, err := conn.Get(ctx, life).Result(); {
	case err != nil && !errors.Is(err, redis.Nil):
		return stores.Failed("asking which life of Redis the counters are of", err)
	case known == run:
		return nil
	}
	keys := []string{life}
	for region := range s.regions() {
		for video := uint64(1); video <= s.videos; video++ {
			keys = append(keys, s.meta(region, video))
		}
	}
	if err := conn.Eval(ctx, closeScript, keys, run).Err(); err != nil {
		return stores.Failed("closing the videos of another life of Redis", err)
	}
	return nil
}

// runID finds what INFO says of the life of a server.
func runID(info string) (string, error) {
	for line := range strings.Lines(info) {
		if id, found := strings.CutPrefix(strings.TrimSpace(line), "run_id:"); found && id != "" {
			return id, nil
		}
	}
	return "", fmt.Errorf("the answer of Redis to INFO has no run_id")
}

const (
	// tellEvery is how often a server with something in its buffer looks whether it is
	// of an earlier life of Redis, and tellFor how long it is believed that it is.
	tellEvery = 100 * time.Millisecond
	tellFor   = 3 * time.Second
	// tellBound bounds one look, whatever Redis has become, and tellWithin is how long
	// a rebuild gives the servers to tell anything at all.
	tellBound  = 250 * time.Millisecond
	tellWithin = 2 * time.Second
)

// tellScript says until when, on the clock of Redis, a server has not logged what it
// counted in an earlier life, and how many such servers there are. KEYS are the buffers;
// ARGV the server, "" if none tells anything, and for how many milliseconds.
const tellScript = `
local now = redis.call('TIME')
now = now[1] * 1000 + math.floor(now[2] / 1000)
if ARGV[1] ~= '' then redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[1]) end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
return redis.call('ZCARD', KEYS[1])`

// tellBuffer lets the repairer wait with its rebuild until this server has logged what
// it acknowledged in an earlier life of Redis: the ledger, from which counters are
// rebuilt, has it only then. It returns when ctx is cancelled. A server that sleeps, or
// cannot reach Redis, is not waited for. It has a connection of its own: those of users
// may all wait for a Redis that is gone.
func (b *backend) tellBuffer(ctx context.Context, own *redis.Client) {
	server, told := strconv.Itoa(b.cfg.Replica), false
	for sut.Pause(ctx, tellEvery) {
		if len(b.log.slots) == 0 && !told {
			continue
		}
		// Whoever asks Redis for anything finds out that it is another one.
		if _, err := b.store.buffers(ctx, own, tellBound, ""); err != nil {
			continue
		}
		var err error
		switch old := b.log.held.before(b.store.life.number()); {
		case old > 0:
			_, err = b.store.buffers(ctx, own, tellBound, server)
			told = true
		case told:
			err = own.ZRem(ctx, b.store.prefix+"buffers", server).Err()
			told = err != nil
		}
		if err != nil {
			b.cfg.Warn("likes: a server could not tell what is in its buffer", err)
		}
	}
}

// teller makes the client of tellBuffer.
func (s *store) teller(cfg sut.Config) (*redis.Client, error) {
	opts, err := stores.RedisOptions(cfg)
	if err != nil {
		return nil, err
	}
	opts.PoolSize, opts.MaxActiveConns = 1, 1
	opts.DialTimeout, opts.PoolTimeout = tellBound, tellBound
	opts.ReadTimeout, opts.WriteTimeout = tellBound, tellBound
	opts.OnConnect = s.connected
	return redis.NewClient(opts), nil
}

// buffers notes that a server, if one is given, has something in its buffer, and counts
// those that have.
func (s *store) buffers(
	ctx context.Context, rdb *redis.Client, limit time.Duration, server string,
) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	n, err := s.script.tell.Run(ctx, rdb, []string{s.prefix + "buffers"}, server,
		tellFor.Milliseconds()).Int64()
	if err != nil {
		return 0, stores.Failed("asking for the buffers of servers", err)
	}
	return n, nil
}
