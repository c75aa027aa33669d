package recentsearches

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
	"github.com/twmb/franz-go/pkg/kgo"

	"stampede/harness/stores"
	"stampede/harness/sut"
	"stampede/systems/internal/objects"
)

// Mutants are designs with a planted error each.
func Mutants() map[string]sut.Variant {
	of := func(v variant) sut.Variant { return systemOf(v).Variants[0] }
	planted := func(v variant, api func(*opened) Recents) sut.Variant {
		v.Open = func(_ context.Context, st *opened) (Recents, error) { return api(st), nil }
		return of(v)
	}
	early := outboxRelay()
	early.Roles[0].Step = deletedFirst
	return map[string]sut.Variant{
		"inline": of(outboxInline()), "relay": of(outboxRelay()), "log": of(searchLog()),
		"copies": of(versionedCache()),
		"M60": planted(outboxInline(), func(st *opened) Recents {
			return hasty{server{st, inlinePlan(), cached}}
		}),
		"M63": of(early),
		"M64": planted(searchLog(), func(st *opened) Recents { return scattered{logged{st}} }),
		"a list grows": planted(outboxInline(), func(st *opened) Recents {
			return server{st, inlinePlan(), growing}
		}),
		"the archive is not read": planted(outboxInline(), func(st *opened) Recents {
			return forgetful{server{st, inlinePlan(), cached}}
		}),
		"a copy is not given up": planted(versionedCache(), func(st *opened) Recents {
			return server{st, plan{then: func(context.Context, *opened, *change) (int64, error) {
				return 0, nil
			}}, valid}
		}),
	}
}

// growing shows the first term twice.
func growing(ctx context.Context, st *opened, user uint64) (List, error) {
	l, err := cached(ctx, st, user)
	if len(l.Terms) > 0 {
		l.Terms = append(l.Terms, l.Terms[0])
	}
	return l, err
}

// hasty shows what it then may fail to keep: here each change of an odd term.
type hasty struct{ server }

func (h hasty) Search(ctx context.Context, req SearchRequest) (Kept, error) {
	l, err := stored(ctx, h.opened, req.User)
	if err == nil {
		err = show(ctx, h.opened, req.User, l.after(Change{l.Version + 1, req.Term, false}))
	}
	if err == nil && req.ID>>idBits%7 == 3 {
		err = sut.ErrRefused
	}
	if err != nil {
		return Kept{}, err
	}
	return h.server.Search(ctx, req)
}

// deletedFirst empties the outbox, and then shows what was in it, if Redis answers: not always.
func deletedFirst(ctx context.Context, st *opened) (again time.Duration, err error) {
	var list []entry
	err = st.DB.Transaction(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
		list, err = stores.CollectOn[entry](ctx, tx, `DELETE FROM outbox
			RETURNING id, user_id AS user, version, term, forgotten, terms`)
		return err
	})
	if err == nil {
		list = slices.DeleteFunc(list, func(e entry) bool { return e.ID%7 == 3 })
		err = showAll(ctx, st, list)
	}
	return st.Params.RelayEvery.D(), err
}

// scattered puts changes of a user into any partition.
type scattered struct{ logged }

func (s scattered) Search(ctx context.Context, req SearchRequest) (Kept, error) {
	return s.send(ctx, ChangeRow{ID: req.ID, User: req.User, Term: req.Term}, func(r *kgo.Record) {
		r.Key = append(r.Key, byte(req.ID>>idBits))
	})
}

// forgetful shows the newest history only.
type forgetful struct{ server }

func (f forgetful) History(ctx context.Context, req HistoryRequest) (History, error) {
	list, err := stores.Collect[Change](ctx, f.DB, `SELECT version, term, forgotten FROM changes
		WHERE user_id = $1 ORDER BY version DESC`, req.User)
	return History{len(list), append([]Change{}, list...)}, err
}

// Decoders decodes bytes as everything that is stored; each is an error or is encoded to the same.
func Decoders(raw []byte) error {
	if l, err := readList(string(raw)); err == nil {
		again, err := readList(l.text())
		if err != nil || again.Version != l.Version || !slices.Equal(again.Terms, l.Terms) {
			return errors.New("a list changed")
		}
	}
	if list, err := objects.Unpack[ChangeRow](raw); err == nil {
		body, err := objects.Pack(list)
		again, wrong := objects.Unpack[ChangeRow](body)
		if err != nil || wrong != nil || !slices.Equal(again, list) {
			return errors.New("an object changed")
		}
	}
	return nil
}

// Object is one of the archive.
func Object() []byte {
	body, err := objects.Pack([]ChangeRow{{1, 2, 3, "tea", true}, {4, 5, 6, "two", false}})
	if err != nil {
		panic(err)
	}
	return body
}

// Copies is what versioned_cache keeps of one user's list in Redis.
type Copies struct {
	client *redis.Client
	key    string
}

// CopiesIn is the list at a key.
func CopiesIn(client *redis.Client, key string) Copies { return Copies{client, key} }

// Do asks for something, where a writer lasts for some time at most.
func (c Copies) Do(
	ctx context.Context, do string, lasts time.Duration, args ...any,
) ([]string, error) {
	return redis.NewScript(versionedLua).Run(ctx, c.client, []string{c.key, c.key + ":writers"},
		append([]any{do, 3_600_000, lasts.Milliseconds()}, args...)...).StringSlice()
}
