package commentary

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/harness/stores"
	"stampede/systems/internal/objects"
)

// archivedAtOnce bounds the comments of an object.
const archivedAtOnce = 5000

// placeArchived is when an object is written, and its rows are not deleted.
const placeArchived = "archived"

// shelf is the prefix of a match's objects.
func shelf(match uint64) string { return fmt.Sprintf("matches/%d/", match) }

// archiver moves the comments of a match that are old to the archive, but for the newest thirty. It
// locks the match, so that none is corrected meanwhile; it writes the object first, and then
// deletes the rows. After a crash in between they may be corrected, and are archived again, in
// another object.
func archiver() role {
	return role{Name: "archiver", Summary: "moves old comments to compressed objects",
		Places: []string{placeArchived},
		Step: func(ctx context.Context, st *opened) (time.Duration, error) {
			matches, err := stores.Collect[struct{ ID uint64 }](ctx, st.DB, `SELECT DISTINCT match_id
				FROM (SELECT match_id FROM comments WHERE at < clock_timestamp() - $1::interval
					ORDER BY at LIMIT $2) AS old`, st.Params.ArchiveAfter.D(), archivedAtOnce)
			for _, m := range matches {
				if err == nil {
					err = archive(ctx, st, m.ID)
				}
			}
			return min(st.Params.ArchiveAfter.D()/10, time.Minute),
				stores.Failed("archiving comments", err)
		}}
}

// archive moves comments of a match.
func archive(ctx context.Context, st *opened, match uint64) error {
	return st.DB.Transaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT FROM matches WHERE id = $1 FOR UPDATE`, match); err != nil {
			return err
		}
		list, err := stores.CollectOn[Comment](ctx, tx, `SELECT id, version, ball, said FROM comments
			WHERE match_id = $1 AND at < clock_timestamp() - $2::interval AND id < (SELECT min(id)
				FROM (SELECT id FROM comments WHERE match_id = $1 ORDER BY id DESC LIMIT $3) AS newest)
			ORDER BY id LIMIT $4`, match, st.Params.ArchiveAfter.D(), newest, archivedAtOnce)
		if err != nil || len(list) == 0 {
			return err
		}
		body, err := objects.Pack(list)
		if err != nil {
			return err
		}
		name := fmt.Sprintf("%s%020d-%x.json.gz", shelf(match), list[0].ID, sha256.Sum256(body))
		if err := objects.In(st.DB).Put(ctx, name, body); err != nil {
			return err
		}
		st.Config.Passed(placeArchived)
		ids := make([]int64, len(list))
		for i, c := range list {
			ids[i] = c.ID
		}
		_, err = tx.Exec(ctx, `DELETE FROM comments WHERE match_id = $1 AND id = ANY ($2)`, match, ids)
		return err
	})
}

// Past reads older comments: rows first, and then the archive, to which they may have gone
// meanwhile.
func (s server) Past(ctx context.Context, req PastRequest) (Past, error) {
	v, err := rows(ctx, s.opened, req)
	p := Past{v.version, v.comments}
	if err == nil && p.Version > 0 && len(p.Comments) < req.Most {
		var old []Comment
		old, err = objects.All[Comment](ctx, objects.In(s.DB), shelf(req.Match))
		p.Comments = older(p.Comments, old, req)
	}
	return p, stores.Failed("reading older comments", err)
}

// older adds comments of the archive to those that were in rows. What is in both has been archived
// since, perhaps with a correction that is newer than the other rows; what is in the archive twice
// counts as it was the last time.
func older(rows, old []Comment, req PastRequest) []Comment {
	old = slices.DeleteFunc(old, func(c Comment) bool {
		return c.ID >= req.Before ||
			slices.ContainsFunc(rows, func(r Comment) bool { return r.ID == c.ID })
	})
	slices.SortFunc(old, func(a, b Comment) int {
		return cmp.Or(cmp.Compare(b.ID, a.ID), cmp.Compare(b.Version, a.Version))
	})
	old = slices.CompactFunc(old, func(a, b Comment) bool { return a.ID == b.ID })
	return append(rows, old[:min(req.Most-len(rows), len(old))]...)
}

// changes reads all changes.
func changes(ctx context.Context, st *opened) ([]ChangeRow, error) {
	list, err := stores.Collect[ChangeRow](ctx, st.DB, `SELECT op, match_id, version, comment, ball,
		said FROM changes ORDER BY match_id, version`)
	return list, stores.Failed("reading all changes", err)
}
