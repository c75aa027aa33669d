package taskqueue

import (
	"context"
	_ "embed" // the script
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"stampede/harness/stores"
	"stampede/harness/sut"
)

//go:embed jobs.lua
var lua string

// inRedis completes a design whose jobs are in Redis, with ready ones in lists or in streams.
// Redis writes its log to the disk once a second, so that a power loss takes what was
// acknowledged since.
func inRedis(v variant, ready string) variant {
	v.Needs = []sut.Service{sut.Redis}
	v.Breaks = []sut.Break{{Invariant: JobsKept, Under: sut.PowerLoss}}
	v.State = state{
		Reset: func(ctx context.Context, st *opened) error {
			return eachKey(ctx, st, "*", func(key string) error { return st.Redis.Del(ctx, key).Err() })
		},
		Found: func(ctx context.Context, st *opened) (string, error) {
			n := 0
			err := eachKey(ctx, st, "*", func(string) error { n++; return nil })
			if n == 0 {
				return "", err
			}
			return fmt.Sprintf("%d keys in Redis", n), err
		},
		Pending: func(ctx context.Context, st *opened) (int64, string, error) {
			n, err := st.Redis.SCard(ctx, st.Key("live")).Result()
			return n, fmt.Sprintf("%d jobs are not over", n), err
		},
		Audit: auditRedis,
	}
	return around(v, func(st *opened) (keeper, error) {
		return &hashes{st, ready, redis.NewScript(lua)}, nil
	})
}

// hashes is the jobs in Redis.
type hashes struct {
	*opened
	ready  string
	script *redis.Script // the one of all designs in Redis
}

// errScript: the script answers something else.
var errScript = errors.New("an unexpected answer of the script")

// run runs the script, bounded as every operation on a store is.
func (h *hashes) run(ctx context.Context, what string, args ...any) ([]any, error) {
	ctx, cancel := context.WithTimeout(ctx, stores.Timeout(h.Config))
	defer cancel()
	return h.script.Run(ctx, h.Redis, []string{h.Config.Prefix}, append([]any{what, h.ready},
		args...)...).Slice()
}

// asked runs it for a client.
func (h *hashes) asked(ctx context.Context, what string, args ...any) error {
	reply, err := h.run(ctx, what, args...)
	if err != nil {
		return stores.Failed("changing a job: "+what, err)
	}
	for _, refusal := range []error{ErrDuplicate, ErrUnknownJob, ErrTooLate, ErrNotDead} {
		if reply[0] == sut.Code(refusal) {
			return refusal
		}
	}
	if reply[0] != "ok" {
		return fmt.Errorf("%w to %s: %v", errScript, what, reply)
	}
	return nil
}

// Put stores a job.
func (h *hashes) Put(ctx context.Context, req EnqueueRequest) error {
	payload, err := json.Marshal(req)
	if err != nil {
		return fmt.Errorf("writing a payload: %w", err)
	}
	return h.asked(ctx, "put", req.ID, req.Tenant, req.Priority, req.Unique, req.DelayMS, payload)
}

// Cancel ends a job.
func (h *hashes) Cancel(ctx context.Context, job uint64) error {
	return h.asked(ctx, "cancel", job)
}

// Replay makes a dead letter ready.
func (h *hashes) Replay(ctx context.Context, job uint64) error {
	return h.asked(ctx, "replay", job, h.Params.MaxAttempts)
}

// Take claims a batch.
func (h *hashes) Take(ctx context.Context, last *turn) (list []claim, err error) {
	reply, err := h.run(ctx, "take", last.worker, last.tenant, h.Params.Batch,
		h.Params.Lease.D().Microseconds(), h.Params.every(), h.Params.TenantBurst)
	if err != nil {
		return nil, stores.Failed("claiming jobs", err)
	}
	taken, is := reply[1].([]any)
	at, err := micros(reply[0])
	if err != nil || !is {
		return nil, fmt.Errorf("%w to take: %v", errScript, reply)
	}
	for _, one := range taken {
		pair, is := one.([]any)
		if !is || len(pair) != 2 {
			return nil, fmt.Errorf("%w to take: %v", errScript, one)
		}
		c := claim{askedNS: at, atNS: at}
		payload, isText := pair[0].(string)
		if c.attempt, is = pair[1].(int64); !is || !isText {
			return nil, fmt.Errorf("%w to take: %v", errScript, pair)
		}
		if err := json.Unmarshal([]byte(payload), &c.job); err != nil {
			return nil, fmt.Errorf("%w: %w", errUnclaimed, err)
		}
		list = append(list, c)
	}
	if n := len(list); n > 0 {
		last.tenant = list[n-1].job.Tenant // who was served last, in the last of several rounds
	}
	return list, nil
}

// micros is a time of the script's in nanoseconds.
func micros(of any) (int64, error) {
	n, err := strconv.ParseInt(fmt.Sprint(of), 10, 64)
	return n * 1000, err
}

// changed runs what is about claims, and returns how many of them were still their worker's.
func (h *hashes) changed(ctx context.Context, what string, claims []claim) (int, error) {
	args := []any{h.Params.Lease.D().Microseconds()}
	for _, c := range claims {
		args = append(args, c.job.ID, c.attempt)
	}
	reply, err := h.run(ctx, what, args...)
	if err != nil {
		return 0, stores.Failed("changing claimed jobs: "+what, err)
	}
	return strconv.Atoi(fmt.Sprint(reply[0]))
}

// Beat renews leases.
func (h *hashes) Beat(ctx context.Context, claims []claim) (int, error) {
	return h.changed(ctx, "beat", claims)
}

// Done ends jobs.
func (h *hashes) Done(ctx context.Context, claims []claim) error {
	_, err := h.changed(ctx, "done", claims)
	return err
}

// Fail has a job tried again, or makes it a dead letter. A script that is repeated must do the
// same, so that the pause is drawn here.
func (h *hashes) Fail(ctx context.Context, c claim, permanent bool) (*failure, error) {
	floor, most := h.Params.BackoffFloor.D().Microseconds(), h.Params.ceiling(c.attempt).Microseconds()
	reply, err := h.run(ctx, "fail", c.job.ID, c.attempt, h.Params.reason(c, permanent),
		between(floor, most))
	switch {
	case err != nil:
		return nil, stores.Failed("failing a job", err)
	case len(reply) != 2:
		return nil, nil // the claim is lost
	}
	var how failure
	how.atNS, err = micros(reply[0])
	if err == nil {
		how.nextNS, err = micros(reply[1])
	}
	return &how, err
}

// Upkeep makes jobs ready.
func (h *hashes) Upkeep(ctx context.Context) (int, error) {
	reply, err := h.run(ctx, "upkeep", upkeepMost, h.Params.MaxAttempts)
	if err != nil {
		return 0, stores.Failed("making jobs ready", err)
	}
	return strconv.Atoi(fmt.Sprint(reply[0]))
}

// eachKey visits every key of a pattern.
func eachKey(ctx context.Context, st *opened, pattern string, visit func(key string) error) error {
	names := st.Redis.Scan(ctx, 0, st.Key(pattern), 1000).Iterator()
	for names.Next(ctx) {
		if err := visit(names.Val()); err != nil {
			return err
		}
	}
	return names.Err()
}

// auditRedis adds the jobs that Redis has to what the handler did.
func auditRedis(ctx context.Context, st *opened) (any, error) {
	var a Audit
	err := st.DB.Snapshot(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
		a, err = handled(ctx, tx)
		return err
	})
	if err != nil {
		return a, err
	}
	a.Jobs = []JobRow{}
	seen := map[string]bool{} // a scan may tell of a key twice
	err = eachKey(ctx, st, "job:*", func(key string) error {
		var j JobRow
		if err := st.Redis.HGetAll(ctx, key).Scan(&j); err != nil || seen[key] {
			return err
		}
		seen[key] = true
		j.Job, j.CreatedNS, j.EndedNS = nameOf(j.ID), j.CreatedNS*1000, j.EndedNS*1000
		a.Jobs = append(a.Jobs, j)
		return nil
	})
	return a, err
}
