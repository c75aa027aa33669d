package idempotency

import (
	"context"
	_ "embed" // the script
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"stampede/harness/stores"
	"stampede/harness/sut"
	"stampede/systems/internal/idem"
)

// redisLease keeps keys in Redis alone. It is wrong where Redis forgets.
//
// The idea: a hash for each key, with a lease, a fence and a note as in postgres_points, which
// one script changes in one step. Redis itself forgets a key when its time is over.
//
// The guarantee: one charge and one answer for each key, whoever crashes or sleeps, as long as
// Redis forgets nothing.
//
// It gives up: durability. Redis writes its log to the disk once a second. Keys of the last
// second before the power failed are unknown afterwards, and who asks again is charged again.
func redisLease() variant {
	return inPostgres(variant{
		Name:       "redis_lease",
		Idea:       "a hash with a lease, a fence and a note for each key, changed by one script",
		Guarantees: "one charge and one answer for each key, as long as Redis forgets nothing",
		GivesUp:    "durability: keys of the last second before a power loss are charged again",
		Needs:      []sut.Service{sut.Redis},
		Breaks:     []sut.Break{{Invariant: ChargedOnce, Under: sut.PowerLoss}},
		NotApplicable: map[string]string{
			KeptForItsTime: "Redis forgets keys by itself and keeps no log of it"},
		Roles: []role{{Name: "completer", Summary: completerDoes, Places: places(),
			Step: func(ctx context.Context, st *opened) (time.Duration, error) {
				left, err := hashes{st}.givenUp(ctx)
				if err != nil {
					return 0, err
				}
				return completeAll(ctx, st, hashes{st}, left)
			}}},
		State: state{Reset: emptyRedis, Audit: auditRedis,
			Pending: func(ctx context.Context, st *opened) (int64, string, error) {
				n, err := st.Redis.ZCard(ctx, st.Key("open")).Result()
				return n, fmt.Sprintf("%d requests are not finished", n), err
			}},
		Open: func(ctx context.Context, st *opened) (Till, error) {
			return newTill(ctx, st, st.Params.Wait.D(), hashes{st})
		},
	})
}

//go:embed redis_lease.lua
var lua string

// hashes are keys in Redis.
type hashes struct{ *opened }

type hashClaim struct {
	hashes
	key, fence string
	again      bool
	note       []byte
}

// errScript: the script answers something else.
var errScript = errors.New("an unexpected answer of the script")

func (s hashes) run(ctx context.Context, what, key string, args ...any) ([]string, error) {
	keys := []string{s.Key("key:" + key), s.Key("open")}
	reply, err := redis.NewScript(lua).Run(ctx, s.Redis, keys,
		append([]any{what, key}, args...)...).Slice()
	texts := make([]string, len(reply))
	for i := range reply {
		texts[i] = fmt.Sprint(reply[i])
	}
	return texts, err
}

// Begin claims a key or says what there is.
func (s hashes) Begin(ctx context.Context, req idem.Request) (idem.Claim, *idem.Response, error) {
	got, err := s.run(ctx, "begin", req.Key, req.Fingerprint, s.Params.Lease.D().Microseconds(),
		req.ID, req.Method, req.Path, req.Body)
	if err != nil {
		return nil, nil, stores.Failed("claiming a key", err)
	}
	switch {
	case len(got) == 1 && got[0] == sut.Code(idem.ErrOtherBody):
		return nil, nil, idem.ErrOtherBody
	case len(got) == 1 && got[0] == sut.Code(idem.ErrInProgress):
		return nil, nil, idem.ErrInProgress
	case len(got) == 4 && got[0] == done:
		status, err := strconv.Atoi(got[1])
		return nil, &idem.Response{Status: status, Type: got[2], Body: []byte(got[3])}, err
	case len(got) == 4 && got[0] == "mine":
		c := &hashClaim{hashes: s, key: req.Key, fence: got[1], again: got[2] == "1"}
		if got[3] != "" {
			c.note = []byte(got[3])
		}
		return c, nil, nil
	}
	return nil, nil, fmt.Errorf("claiming a key: %w: %v", errScript, got)
}

// Fence is the time of the claim: Redis may forget a counter, but its clock goes on.
func (c *hashClaim) Fence() int64 {
	n, _ := strconv.ParseInt(c.fence, 10, 64) // the script made it of a number
	return n
}

func (c *hashClaim) Again() bool   { return c.again }
func (c *hashClaim) Noted() []byte { return c.note }

// Note keeps the recovery point.
func (c *hashClaim) Note(ctx context.Context, note []byte) error {
	return c.change(ctx, "note", note)
}

// Finish keeps the answer for its time.
func (c *hashClaim) Finish(ctx context.Context, a idem.Response) error {
	return c.change(ctx, "finish", a.Status, a.Type, a.Body, c.Params.TTL.D().Milliseconds())
}

// Abandon ends the lease.
func (c *hashClaim) Abandon(ctx context.Context) error { return c.change(ctx, "abandon") }

func (c *hashClaim) change(ctx context.Context, what string, args ...any) error {
	got, err := c.run(ctx, what, c.key, append([]any{c.fence}, args...)...)
	if err == nil && got[0] != "ok" {
		err = idem.ErrLost
	}
	return unsure("changing a key", err)
}

// givenUp are requests whose lease is over.
func (s hashes) givenUp(ctx context.Context) (left []idem.Request, err error) {
	keys, err := s.run(ctx, "given_up", "", batch/10)
	for _, key := range keys {
		h, failed := s.Redis.HGetAll(ctx, s.Key("key:"+key)).Result()
		err = errors.Join(err, failed)
		if h["state"] != "" {
			left = append(left, idem.Request{Key: key, Fingerprint: h["fingerprint"], ID: h["op_id"],
				Method: h["method"], Path: h["path"], Body: []byte(h["body"])})
		}
	}
	return left, err
}

// each visits every key that Redis has.
func (s hashes) each(ctx context.Context, visit func(key string) error) error {
	names := s.Redis.Scan(ctx, 0, s.Key("key:*"), 1000).Iterator()
	for names.Next(ctx) {
		if err := visit(names.Val()); err != nil {
			return err
		}
	}
	return names.Err()
}

// emptyRedis forgets all keys.
func emptyRedis(ctx context.Context, st *opened) error {
	err := hashes{st}.each(ctx, func(key string) error { return st.Redis.Del(ctx, key).Err() })
	return errors.Join(err, st.Redis.Del(ctx, st.Key("open")).Err())
}

// auditRedis adds the keys that Redis still has to the provider's log.
func auditRedis(ctx context.Context, st *opened) (any, error) {
	all, err := audit(ctx, st)
	a, is := all.(Audit)
	if err != nil || !is {
		return all, err
	}
	err = hashes{st}.each(ctx, func(key string) error {
		h, err := st.Redis.HGetAll(ctx, key).Result()
		if err != nil || h["state"] == "" {
			return err // it was forgotten meanwhile
		}
		k := KeyRow{Key: h["key"], State: h["state"], Receipt: receiptOf([]byte(h["answer"]))}
		k.ID, err = strconv.ParseUint(h["op_id"], 10, 64)
		if err == nil && h["done"] != "" {
			k.DoneNS, err = strconv.ParseInt(h["done"], 10, 64)
		}
		a.Keys = append(a.Keys, k)
		return err
	})
	return a, err
}
