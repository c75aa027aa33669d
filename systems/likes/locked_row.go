package likes

import (
	"context"
	"errors"

	"stampede/harness/api"
	"stampede/harness/design"
	"stampede/harness/sim"
	"stampede/harness/stores"
	"stampede/harness/sut"

	"github.com/jackc/pgx/v5"
)

// lockedRowDesign keeps the number in the video's row. Who likes the video waits for the row until
// the one before has flushed its commit.
func lockedRowDesign() variant {
	return variant{
		Name:          "locked_row",
		Idea:          "one transaction adds the like and increments the number in the video's row",
		Guarantees:    "the count is exact and durable at every moment",
		GivesUp:       "all likes of a video queue for its row",
		NotApplicable: map[string]string{LedgerIsLog: "has no log", AppliedFirst: "has no log"},
		Open: func(_ context.Context, st *opened) (Likes, error) {
			return &lockedRow{st.DB}, nil
		},
		Model: lockedRowModel,
		State: state{Audit: func(ctx context.Context, st *opened) (any, error) {
			a := Audit{Contract: Contract{Ack: AckLedger, Regions: 1}}
			err := a.read(ctx, inPostgres(st), st.Params, (&lockedRow{st.DB}).audit)
			return a, err
		}},
	}
}

// lockedRow is its Likes.
type lockedRow struct{ db *stores.Postgres }

// changeRow is one transaction. The conflict with an earlier row is settled on
// its newest version, under its lock, so that a repeated like is no news.
const changeRow = `
WITH video AS (
    SELECT video_id FROM videos WHERE video_id = $2
), news AS (
    INSERT INTO likes (video_id, user_id, liked, version, op_id)
    SELECT video_id, $3::bigint, $4::boolean, 1, $1::bigint FROM video
    ON CONFLICT (video_id, user_id) DO UPDATE
        SET liked = excluded.liked, version = likes.version + 1, op_id = excluded.op_id
        WHERE likes.liked <> excluded.liked
    RETURNING liked, version
), logged AS (
    INSERT INTO like_events (op_id, video_id, user_id, liked, version)
    SELECT $1, video_id, $3, $4, 0 FROM video ON CONFLICT (op_id) DO NOTHING
), counted AS (
    UPDATE videos SET likes = likes + delta
    FROM (SELECT CASE WHEN liked THEN 1 ELSE -1 END AS delta FROM news
        WHERE liked OR version > 1) AS change
    WHERE video_id = $2
    RETURNING likes
)
SELECT EXISTS (SELECT FROM video), EXISTS (SELECT FROM counted)`

// Change is one transaction.
func (l *lockedRow) Change(ctx context.Context, req Request, likes bool) (Change, error) {
	var known, changed bool
	err := l.db.Row(ctx, changeRow, []any{int64(req.OpID), int64(req.Video), int64(req.User), likes},
		&known, &changed)
	if err != nil {
		return Change{}, stores.Failed("liking in the ledger", err)
	}
	if !known {
		return Change{}, ErrUnknownVideo
	}
	return Change{changed}, nil
}

// Count reads the number.
func (l *lockedRow) Count(ctx context.Context, req CountRequest) (Count, error) {
	c := Count{Video: req.Video}
	err := l.db.Row(ctx, `SELECT likes, (SELECT count(*) FROM viewers WHERE video_id = $1)
		FROM videos WHERE video_id = $1`, []any{int64(req.Video)}, &c.Count, &c.Viewers)
	if errors.Is(err, pgx.ErrNoRows) {
		return Count{}, ErrUnknownVideo
	}
	if err != nil {
		return Count{}, stores.Failed("reading the number of likes", err)
	}
	return c, nil
}

// audit fills in what is counted of a video.
func (l *lockedRow) audit(ctx context.Context, v *VideoAudit) error {
	count, err := l.Count(ctx, CountRequest{Video: v.Video, User: 1})
	v.Shards, v.Members = 1, v.Ledger
	v.Counts, v.Viewers = []int64{count.Count}, count.Viewers
	return err
}

// View adds a viewer.
func (l *lockedRow) View(ctx context.Context, req Request) (api.Nothing, error) {
	var known bool
	err := l.db.Row(ctx, `WITH video AS (SELECT video_id FROM videos WHERE video_id = $1),
		seen AS (INSERT INTO viewers SELECT video_id, $2::bigint FROM video ON CONFLICT DO NOTHING)
		SELECT EXISTS (SELECT FROM video)`, []any{int64(req.Video), int64(req.User)}, &known)
	if err != nil {
		return api.Nothing{}, stores.Failed("adding a viewer", err)
	}
	if !known {
		return api.Nothing{}, ErrUnknownVideo
	}
	return api.Nothing{}, nil
}

// lockedRowModel is its model.
func lockedRowModel(c *sim.Cluster, p Params, cfg sut.Config) design.Model[Likes] {
	m := &modelRow{newModelLedger(c, p, cfg), c.Postgres.Conns(),
		sim.NewShelf[uint64](c.Postgres)}
	return design.Model[Likes]{Domain: m, Audit: func() any {
		return m.audited(Contract{Ack: AckLedger, Regions: 1}, func(v *VideoAudit) {
			row, _ := m.videos.Get(v.Video)
			v.Shards, v.Members, v.Counts = 1, v.Ledger, []int64{row.likes}
			v.Viewers = int64(m.seen.Len(v.Video))
		})
	}}
}

type modelRow struct {
	*modelLedger
	conns *sim.Conns
	seen  *sim.Shelf[uint64] // by video: the operations of its viewers
}

// Change is changeRow: the row of the pair is locked first, then that of the video if the number
// changes.
func (m *modelRow) Change(ctx context.Context, req Request, likes bool) (c Change, err error) {
	p, who := sim.In(ctx), pairID{req.Video, req.User}
	m.conns.Exec(p, costRow, func() {
		if _, known := m.videos.Get(req.Video); !known {
			err = ErrUnknownVideo
			return
		}
		p.Do(m.likes.Lock(who))
		row, is := m.likes.Get(who)
		if !is || row.liked != likes {
			m.put(who, pair{req.User, likes, row.version + 1, req.OpID}, !is)
			c.Changed = is || likes
		}
		if c.Changed {
			p.Do(m.videos.Lock(req.Video))
			video, _ := m.videos.Get(req.Video)
			video.likes += act{like: likes}.change()
			m.videos.Set(req.Video, video)
		}
		m.logged(p, Event{OpID: req.OpID, Video: req.Video, User: req.User, Liked: likes})
	})
	return c, err
}

// Count reads the number, and goes through the viewers, of which a thousand cost as much.
func (m *modelRow) Count(ctx context.Context, req CountRequest) (c Count, err error) {
	viewers := int64(m.seen.Len(req.Video))
	n := 1 + float64(viewers)/1000
	m.conns.ExecTimes(sim.In(ctx), costCount, n, func() {
		row, known := m.videos.Get(req.Video)
		if !known {
			err = ErrUnknownVideo
		}
		c = Count{Video: req.Video, Count: row.likes, Viewers: viewers}
	})
	return c, err
}

// View adds a viewer.
func (m *modelRow) View(ctx context.Context, req Request) (n api.Nothing, err error) {
	p, who := sim.In(ctx), pairID{req.Video, req.User}
	m.conns.Exec(p, costView, func() {
		if _, known := m.videos.Get(req.Video); !known {
			err = ErrUnknownVideo
			return
		}
		p.Do(m.viewers.Lock(who))
		if _, again := m.viewers.Get(who); !again {
			m.viewers.Set(who, struct{}{})
			m.seen.Add(req.Video, int64(req.OpID))
		}
	})
	return n, err
}
