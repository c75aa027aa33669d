package commentary

import (
	"context"
	"fmt"

	"stampede/harness/sut"
)

// mtimeETag names an answer by the second in which its match was last changed. It is wrong when
// two changes come in one.
//
// The idea: postgres_poll with the time of the last change as ETag, as file servers make them.
//
// The guarantee: what is acknowledged is kept, and seen at once.
//
// It gives up: the second change in a second. Who has the first is told that nothing has changed,
// until the next one.
func mtimeETag() variant {
	d := rowsPlan()
	d.cache = mustAsk
	d.beside = []string{`INSERT INTO mtimes VALUES ($1::bigint, extract(epoch FROM clock_timestamp()))
		ON CONFLICT (match_id) DO UPDATE SET at = excluded.at`}
	v := inPostgres(variant{Name: "mtime_etag",
		Idea:       "the ETag of an answer is the second in which its match was last changed",
		Guarantees: "what is acknowledged is kept, and seen at once",
		GivesUp:    "the second of two changes in one second, for those who have the first",
		Breaks: []sut.Break{{Invariant: OneAnswer, Under: sut.Load},
			{Invariant: SeenInTime, Under: sut.Load, Shows: sut.AtTimes}},
	}, d)
	v.State.Schema = `CREATE TABLE mtimes (match_id bigint PRIMARY KEY, at bigint NOT NULL);`
	v.Open = func(_ context.Context, st *opened) (Commentary, error) {
		return byTime{newServer(st, d)}, nil
	}
	return v
}

// byTime is an API that names answers by times.
type byTime struct{ server }

// Latest reads the time first, so that an answer is never older than its name.
func (b byTime) Latest(ctx context.Context, req LatestRequest) (Latest, error) {
	var at int64
	err := b.DB.Row(ctx, `SELECT coalesce(max(at), 0) FROM mtimes WHERE match_id = $1`,
		[]any{req.Match}, &at)
	if err != nil {
		return Latest{}, fmt.Errorf("reading the time of a match: %w", err)
	}
	v, err := kept(ctx, b.opened, req.Match)
	return b.answer(req, v, fmt.Sprintf(`"t%d"`, at)), err
}
