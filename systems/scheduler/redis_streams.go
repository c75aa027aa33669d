package scheduler

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"stampede/harness/stores"
	"stampede/harness/sut"
)

// redisStreams hands picked tasks over through a stream in Redis.
//
// Idea: a picker adds what is due to a stream. Executors are a consumer group: each
// reads as many entries as it has free slots, starts the tasks in Postgres,
// acknowledges the entries and deletes them. Entries that an executor has read and
// not acknowledged in time are claimed by another.
//
// Guarantee: as skip_locked. An entry is a hint: a task starts under its row's lock,
// while the token of the entry is the row's. What Redis loses is handed over again.
//
// Gives up: a step, with its own delay and its own store; and where there is more
// than is started within HandAgain, the rest is in the stream twice.
func redisStreams() scheme {
	return scheme{variant{
		Name: "redis_streams",
		Idea: "skip_locked whose pickers pass due tasks through a Redis stream to a consumer group " +
			"of executors",
		Guarantees: "as skip_locked; a repeated or late entry starts nothing, a lost one is sent again",
		GivesUp:    "one more step and store; entries of a long backlog are in the stream twice",
		Needs:      []sut.Service{sut.Redis},
	}, overrides{lock: skipLocked, marks: carried, carry: openStream}}
}

const (
	// streamGroup is the group of executors.
	streamGroup = "executors"
	// streamField is the field of an entry.
	streamField = "task"
	// streamBlock is how long a read waits for entries.
	streamBlock = 500 * time.Millisecond
	// streamMost bounds the entries that nobody takes, roughly.
	streamMost = 100_000
)

// stream is the carrier in Redis.
type stream struct {
	rdb   *redis.Client
	key   string
	limit time.Duration
	// idle is after what time an entry is claimed from who has not acknowledged it.
	idle   time.Duration
	joined bool
	looked time.Time
	last   []string
}

func openStream(st *opened) (carrier, error) {
	return &stream{rdb: st.Redis, key: st.Key("picked"), limit: stores.Timeout(st.Config),
		idle: st.Params.HandAgain.D()}, nil
}

// prepare makes the stream and its group.
func (s *stream) prepare(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.limit)
	defer cancel()
	if err := s.rdb.XGroupCreateMkStream(ctx, s.key, streamGroup, "0").Err(); err != nil {
		return fmt.Errorf("making the stream: %w", err)
	}
	return nil
}

// join makes the group again where Redis has come back without it.
func (s *stream) join(ctx context.Context) error {
	if s.joined {
		return nil
	}
	if err := s.prepare(ctx); err != nil && !strings.Contains(err.Error(), "BUSYGROUP") {
		return err
	}
	s.joined = true
	return nil
}

// send adds an entry for each task, in one round trip.
func (s *stream) send(ctx context.Context, list []handed) error {
	ctx, cancel := context.WithTimeout(ctx, s.limit)
	defer cancel()
	_, err := s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, h := range list {
			p.XAdd(ctx, &redis.XAddArgs{Stream: s.key, MaxLen: streamMost, Approx: true,
				Values: []any{streamField, h.encoded()}})
		}
		return nil
	})
	return err
}

// receive claims what others have left behind, or else reads what is new.
func (s *stream) receive(ctx context.Context, executor string, n int) ([]handed, error) {
	ctx, cancel := context.WithTimeout(ctx, s.limit+streamBlock)
	defer cancel()
	if err := s.join(ctx); err != nil {
		return nil, err
	}
	entries, err := s.leftBehind(ctx, executor, n)
	if err == nil && len(entries) == 0 {
		entries, err = s.fresh(ctx, executor, n)
	}
	if err != nil {
		s.joined = !strings.Contains(err.Error(), "NOGROUP")
		return nil, err
	}
	s.last = column(entries, func(e redis.XMessage) string { return e.ID })
	return column(entries, func(e redis.XMessage) handed {
		text, _ := e.Values[streamField].(string)
		return handedIn([]byte(text))
	}), nil
}

// leftBehind claims entries that somebody has read and not acknowledged, each half
// of the time after which they may be.
func (s *stream) leftBehind(
	ctx context.Context, executor string, n int,
) ([]redis.XMessage, error) {
	if time.Since(s.looked) < s.idle/2 {
		return nil, nil
	}
	entries, _, err := s.rdb.XAutoClaim(ctx, &redis.XAutoClaimArgs{Stream: s.key, Start: "0",
		Group: streamGroup, Consumer: executor, MinIdle: s.idle, Count: int64(n)}).Result()
	if len(entries) < n {
		s.looked = time.Now()
	}
	return entries, err
}

func (s *stream) fresh(ctx context.Context, executor string, n int) ([]redis.XMessage, error) {
	read, err := s.rdb.XReadGroup(ctx, &redis.XReadGroupArgs{Group: streamGroup,
		Consumer: executor, Streams: []string{s.key, ">"}, Count: int64(n),
		Block: streamBlock}).Result()
	if errors.Is(err, redis.Nil) || err == nil && len(read) == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return read[0].Messages, nil
}

// settle acknowledges and deletes what was received last.
func (s *stream) settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.limit)
	defer cancel()
	_, err := s.rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.XAck(ctx, s.key, streamGroup, s.last...)
		p.XDel(ctx, s.key, s.last...)
		return nil
	})
	return err
}

func (s *stream) close() {} // its client is that of the stores
