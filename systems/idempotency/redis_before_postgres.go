package idempotency

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"stampede/harness/sut"
	"stampede/systems/internal/idem"
)

// redisBeforePostgres answers repeated requests from Redis.
//
// The idea: answers are kept in Postgres, by postgres_points, and copied to Redis for as long as
// they are kept. A request looks in Redis first; what is not there, or where Redis does not
// answer, is for Postgres to say.
//
// The guarantee: that of postgres_points, whatever Redis forgets.
//
// It gives up: a write and a read of Redis for each charge, so that repeats, which are few, spare
// Postgres.
func redisBeforePostgres() variant {
	return inPostgres(variant{
		Name:       "redis_before_postgres",
		Idea:       "postgres_points, with a copy of each answer in Redis, where requests look first",
		Guarantees: "one charge and one answer for each key, whatever Redis forgets",
		GivesUp:    "a write and a read of Redis for each charge, for the sake of the repeats",
		Needs:      []sut.Service{sut.Redis},
		Roles:      []role{reaper(), completer()},
		State:      state{Reset: emptyRedis},
		Open: func(ctx context.Context, st *opened) (Till, error) {
			return newTill(ctx, st, st.Params.Wait.D(), copies{rows{st}})
		},
	})
}

type copies struct{ rows }

// copied is an answer in Redis.
type copied struct {
	Fingerprint string
	Answer      idem.Response
}

func (s copies) name(key string) string { return s.Key("key:" + key) }

// Begin looks in Redis first.
func (s copies) Begin(ctx context.Context, req idem.Request) (idem.Claim, *idem.Response, error) {
	var c copied
	text, err := s.Redis.Get(ctx, s.name(req.Key)).Bytes()
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	switch {
	case err == nil && c.Fingerprint == req.Fingerprint:
		return nil, &c.Answer, nil
	case err == nil:
		return nil, nil, idem.ErrOtherBody
	case !errors.Is(err, redis.Nil):
		s.Config.Warn("looking for an answer in Redis", err)
	}
	claim, kept, err := s.rows.Begin(ctx, req)
	if claim == nil {
		return nil, kept, err
	}
	return copiedClaim{claim.(*rowClaim), s, req.Fingerprint}, nil, err
}

type copiedClaim struct {
	*rowClaim
	copies      copies
	fingerprint string
}

// Finish keeps the answer in Postgres and then, if it can, in Redis.
func (c copiedClaim) Finish(ctx context.Context, a idem.Response) error {
	began := time.Now()
	if err := c.rowClaim.Finish(ctx, a); err != nil {
		return err
	}
	text, err := json.Marshal(copied{c.fingerprint, a})
	if left := c.Params.TTL.D() - time.Since(began); err == nil && left > time.Millisecond {
		err = c.Redis.Set(ctx, c.copies.name(c.key), text, left).Err()
	}
	if err != nil {
		c.Config.Warn("copying an answer to Redis", err)
	}
	return nil
}
