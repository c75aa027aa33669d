package views

import (
	"cmp"
	"context"
	"errors"
	"strconv"

	"github.com/redis/go-redis/v9"
)

// judgeCarelessly reads all that is remembered, decides, and writes: between
// the two, another replica may have decided as well.
func (w *windows) judgeCarelessly(ctx context.Context, list []candidate) ([]string, error) {
	mind, err := w.remembered(ctx, list)
	if err != nil {
		return nil, err
	}
	out, pipe := make([]string, len(list)), w.rdb.Pipeline()
	put := func(f field, value string) {
		mind[f] = value
		pipe.HSet(ctx, w.key(f.span), f.name, value)
		pipe.PExpire(ctx, w.key(f.span), w.keep)
	}
	for i := range list {
		c := &list[i]
		seen, address := c.fields()
		session := field{name: c.event.Session, span: span{kind: 's'}}
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
		case used >= c.rules.IPViews:
			word = IPRate
		default:
			put(seen, "1")
			put(address, strconv.FormatInt(used+1, 10))
		}
		out[i] = c.mine() + ":" + word
		put(session, out[i])
	}
	_, err = pipe.Exec(ctx)
	return out, err
}

// remembered reads what a careless judge decides by.
func (w *windows) remembered(
	ctx context.Context, list []candidate,
) (map[field]string, error) {
	found, pipe := make(map[field]*redis.StringCmd), w.rdb.Pipeline()
	for i := range list {
		seen, address := list[i].fields()
		session := field{name: list[i].event.Session, span: span{kind: 's'}}
		for _, f := range []field{session, seen, address} {
			found[f] = pipe.HGet(ctx, w.key(f.span), f.name)
		}
	}
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return nil, err
	}
	mind := make(map[field]string, len(found))
	for f, call := range found {
		mind[f] = call.Val()
	}
	return mind, nil
}
