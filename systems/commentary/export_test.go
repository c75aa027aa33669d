package commentary

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"

	"stampede/harness/edge"
	"stampede/harness/sut"
)

// Mutants are designs with a planted error each.
func Mutants() map[string]sut.Variant {
	of := func(v variant) sut.Variant { return systemOf(v).Variants[0] }
	copies := func(then func(context.Context, *opened, ChangeRow) error) sut.Variant {
		d := copiesPlan()
		d.then = then
		return of(inPostgres(redisETag(), d))
	}
	planted := func(v variant, api func(*opened) Commentary) sut.Variant {
		v.Open = func(_ context.Context, st *opened) (Commentary, error) { return api(st), nil }
		return of(v)
	}
	return map[string]sut.Variant{
		"postgres_poll": of(postgresPoll()), "redis_etag": of(redisETag()), "edge": of(edgeCache()),
		"a copy takes any change": copies(func(ctx context.Context, st *opened, c ChangeRow) error {
			if odd(c.ID) {
				return nil
			}
			return putBy(ctx, st, c, strings.Replace(putLua, "have ~= version - 1", "have < 0", 1))
		}),
		"a copy is not cut": copies(func(ctx context.Context, st *opened, c ChangeRow) error {
			return putBy(ctx, st, c, strings.Replace(putLua, "-1 - ARGV[4]", "-1000 - ARGV[4]", 1))
		}),
		"a viewer is shown what was there first": planted(postgresPoll(), func(st *opened) Commentary {
			return &forgetful{server: newServer(st, rowsPlan())}
		}),
		"a correction is a new comment": planted(postgresPoll(), func(st *opened) Commentary {
			return adding{newServer(st, rowsPlan())}
		}),
		"a text is cut": planted(postgresPoll(), func(st *opened) Commentary {
			return cutting{newServer(st, rowsPlan())}
		}),
		"the archive is not read": planted(postgresPoll(), func(st *opened) Commentary {
			return short{newServer(st, rowsPlan())}
		}),
		"an edge for whole days": of(edged(edgeCache(), edge.Config{},
			func(Params) string { return "public, max-age=86400" })),
	}
}

// odd picks some scheduled operations.
func odd(id uint64) bool { return id>>idBits%7 == 3 }

// forgetful shows some viewers what it has shown first.
type forgetful struct {
	server
	mu    sync.Mutex
	first map[uint64]Latest
}

func (f *forgetful) Latest(ctx context.Context, req LatestRequest) (Latest, error) {
	l, err := f.server.Latest(ctx, req)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.first == nil {
		f.first = map[uint64]Latest{}
	}
	if before, has := f.first[req.Match]; has && req.ID%5 == 2 {
		return before, err
	}
	if _, has := f.first[req.Match]; !has && err == nil {
		f.first[req.Match] = l
	}
	return l, err
}

// adding publishes corrections.
type adding struct{ server }

func (a adding) Correct(ctx context.Context, req CorrectRequest) (Published, error) {
	return a.change(ctx, ChangeRow{ID: req.ID, Match: req.Match, Ball: "?", Text: req.Text})
}

// cutting keeps the beginning of some comments.
type cutting struct{ server }

func (c cutting) Publish(ctx context.Context, req PublishRequest) (Published, error) {
	if odd(req.ID) {
		req.Text = req.Text[:1]
	}
	return c.server.Publish(ctx, req)
}

// short reads rows only.
type short struct{ server }

func (s short) Past(ctx context.Context, req PastRequest) (Past, error) {
	v, err := kept(ctx, s.opened, req.Match)
	p := Past{Version: v.version, Comments: []Comment{}}
	for _, c := range v.comments {
		if c.ID < req.Before && len(p.Comments) < req.Most {
			p.Comments = append(p.Comments, c)
		}
	}
	return p, err
}

// Decoders decodes a text as everything that is stored; each is an error or is encoded to the same.
func Decoders(text string) error {
	if c, err := readMember(text); err == nil {
		if again, err := readMember(c.member()); err != nil || again != c {
			return errors.New("a comment changed")
		}
	}
	if c, err := readUnwritten(text); err == nil && max(c.ID, c.Match) > math.MaxInt64 {
		return errors.New("an identity that no store takes")
	}
	return nil
}
