package recentsearches

import (
	"context"
	"crypto/rand"
	_ "embed" // the script
	"time"

	"github.com/redis/go-redis/v9"

	"stampede/harness/stores"
	"stampede/harness/sut"
)

//go:embed versioned.lua
var versionedLua string

// What the script is asked to do.
const (
	toBegin  = "begin"  // note a writer
	toFinish = "finish" // put the writer's list, and forget the writer
	toLook   = "look"   // read the list, if it may be used
	toFill   = "fill"   // put a list that was read in Postgres, if that was in time
)

// versionedCache trusts Redis only as far as Redis can know that it is right.
//
// The idea: the list in Redis is a copy that is valid or not. Whoever changes a list first notes
// that in Redis, with the time until which the transaction can last at most; then commits; then
// puts the list after the change, and takes the note back. While there is a note, the list is read
// in Postgres, and nobody fills it in. A note that runs out makes the copy a tombstone, which keeps
// the version, so that a writer that is late does not put an older list. A copy bears the run of
// Redis that it was written in: after a restart every copy is of another run, and invalid, whatever
// the append-only file has lost. Notes may be lost as well; so for as long as a transaction can
// last, a Redis that has just begun has no valid copies.
//
// The guarantee: what is acknowledged is in Postgres, and at once on every device, whoever dies and
// whatever Redis loses. There is no outbox and no relay.
//
// It gives up: changes while Redis is away; two calls of Redis for a change; copies, for some
// seconds after Redis has begun, or after a writer has died. It relies on Postgres to decide a
// commit within the time of three operations, and on a Redis that evicts nothing.
func versionedCache() variant {
	v := inPostgres(variant{Name: "versioned_cache",
		Idea: "a list in Redis is valid unless a writer has noted itself there, or Redis has been " +
			"restarted since; else it is read in Postgres",
		Guarantees: "what is acknowledged is kept, and at once on every device, whatever Redis loses",
		GivesUp:    "changes while Redis is away, and copies for some seconds after it comes back",
		Needs:      []sut.Service{sut.Redis},
	}, plan{})
	v.Open = func(_ context.Context, st *opened) (Recents, error) {
		return noting{server{st, plan{then: finish}, valid}}, nil
	}
	v.State.Audit = func(ctx context.Context, st *opened) (any, error) { return audit(ctx, st, valid) }
	return v
}

// noting is an API that notes its writers.
type noting struct{ server }

// Search keeps a search.
func (n noting) Search(ctx context.Context, req SearchRequest) (Kept, error) {
	return n.noted(ctx, &change{User: req.User, Op: req.ID, Term: req.Term})
}

// Forget keeps that a term is forgotten.
func (n noting) Forget(ctx context.Context, req ForgetRequest) (Kept, error) {
	return n.noted(ctx, &change{User: req.User, Op: req.ID, Term: req.Term, Forgotten: true})
}

// noted notes a writer before its transaction. Of what fails the note stays until it runs out.
func (n noting) noted(ctx context.Context, c *change) (Kept, error) {
	c.note = rand.Text()
	ends := time.Now().Add(lasts(n.opened) - stores.Timeout(n.Config))
	if _, err := run(ctx, n.opened, c.User, toBegin, c.note); err != nil {
		return Kept{}, ErrUnavailable
	}
	// One that has slept does not begin once its note has run out.
	ctx, cancel := context.WithDeadline(ctx, ends)
	defer cancel()
	return n.change(ctx, c)
}

// lasts is how long the transaction of a change can last, with time to spare: each of its
// statements, and its end, has the time of an operation, and so has the process itself.
func lasts(st *opened) time.Duration {
	return 3*stores.Timeout(st.Config) + st.Params.SlowFor.D()
}

// finish puts the list after a change. If that fails, the writer's note stays until it runs out,
// and the list is read in Postgres.
func finish(ctx context.Context, st *opened, c *change) (int64, error) {
	l := c.list()
	if _, err := run(ctx, st, c.User, toFinish, c.note, l.Version, l.terms()); err != nil {
		st.Config.Warn("a list is read in Postgres for a while", err)
	}
	return 0, nil
}

// valid reads a list in Redis if that is certain to be right, and else in Postgres.
func valid(ctx context.Context, st *opened, user uint64) (List, error) {
	found, err := run(ctx, st, user, toLook)
	if err == nil && found[0] != "" {
		return readList(found[0])
	}
	l, wrong := stored(ctx, st, user)
	if wrong == nil && err == nil && found[1] != "" && l.Version > 0 {
		if _, err := run(ctx, st, user, toFill, found[1], l.Version, l.terms()); err != nil {
			st.Config.Warn("a list is not in Redis", err)
		}
	}
	return l, wrong
}

// run runs the script. Of a look it returns the list, or "", and leave to fill it in, or "".
func run(ctx context.Context, st *opened, user uint64, do string, args ...any) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, stores.Timeout(st.Config))
	defer cancel()
	key := listKey(st, user)
	last := lasts(st)
	stays := max(st.Params.TTL.D(), 2*last) // a version is known for as long as writers come late
	all := append([]any{do, stays.Milliseconds(), last.Milliseconds()}, args...)
	found, err := redis.NewScript(versionedLua).Run(ctx, st.Redis,
		[]string{key, key + ":writers"}, all...).StringSlice()
	return found, stores.Failed("asking Redis for a list", err)
}
