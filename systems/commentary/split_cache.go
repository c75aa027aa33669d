package commentary

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"stampede/harness/stores"
	"stampede/harness/sut"
)

// splitCache keeps an answer and its ETag apart. It is wrong as soon as somebody looks in between.
//
// The idea: after a change the whole answer is written to one key of Redis, and its ETag to
// another.
//
// The guarantee: what is acknowledged is kept, and seen when the copy is read anew at the latest.
//
// It gives up: that an answer is the one that its ETag names. Who gets the new one under the old
// name keeps what it does not stand for; two writers at a time, or one that dies in between, leave
// the two apart until the copy is too old.
func splitCache() variant {
	d := copiesPlan()
	d.then = writeApart
	d.look = server.apart
	v := inPostgres(variant{Name: "split_cache",
		Idea:       "Redis has the answer of a match under one key and its ETag under another",
		Guarantees: "what is acknowledged is kept, and seen when the copy is read anew at the latest",
		GivesUp:    "that an answer is the one that its ETag names",
		Needs:      []sut.Service{sut.Redis},
		State:      copiesPending(),
		Breaks: []sut.Break{{Invariant: OneAnswer, Under: sut.Load},
			{Invariant: VersionShown, Under: sut.Load, Shows: sut.AtTimes},
			{Invariant: SeenInTime, Under: sut.Load, Shows: sut.AtTimes},
			{Invariant: NeverBack, Under: sut.Load, Shows: sut.AtTimes}},
	}, d)
	v.Places = append(v.Places, placeBody)
	return v
}

// placeBody is when an answer is written, and its ETag is not.
const placeBody = "body"

// writeApart writes both keys, one after the other.
func writeApart(ctx context.Context, st *opened, c ChangeRow) error {
	v, err := kept(ctx, st, c.Match)
	if err != nil {
		return err
	}
	body, err := json.Marshal(v.comments)
	if err != nil {
		return fmt.Errorf("encoding a page: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, stores.Timeout(st.Config))
	defer cancel()
	keys, lasts := copyKeys(st, c.Match), st.Params.CopyFor.D()
	if err := st.Redis.Set(ctx, keys[0], body, lasts).Err(); err != nil {
		return stores.Failed("writing a page", err)
	}
	st.Config.Passed(placeBody)
	return stores.Failed("writing an ETag", st.Redis.Set(ctx, keys[1], v.version, lasts).Err())
}

// apart reads both keys, one after the other.
func (s server) apart(ctx context.Context, match uint64, known int64) (view, error) {
	limited, cancel := context.WithTimeout(ctx, stores.Timeout(s.Config))
	defer cancel()
	keys := copyKeys(s.opened, match)
	version, err := s.Redis.Get(limited, keys[1]).Int64()
	if err == nil && version == known {
		return view{version: version}, nil
	}
	v := view{version: version}
	if err == nil {
		var body []byte
		if body, err = s.Redis.Get(limited, keys[0]).Bytes(); err == nil {
			err = json.Unmarshal(body, &v.comments)
		}
	}
	if err == nil {
		return v, nil
	}
	if errors.Is(err, redis.Nil) {
		err = writeApart(ctx, s.opened, ChangeRow{Match: match})
	}
	if err != nil {
		s.Config.Warn("a match has no copy", err)
	}
	return kept(ctx, s.opened, match)
}
