package recentsearches

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	"stampede/harness/stores"
	"stampede/systems/internal/objects"
)

const (
	// shelves is in how many parts the archive is, by users: a read of a user's past reads one.
	shelves = 16
	// archivedAtOnce bounds the changes of an object.
	archivedAtOnce = 5000
)

// selectRows selects changes as a ChangeRow has them.
const selectRows = `SELECT op AS id, user_id AS user, version, term, forgotten FROM changes`

// shelf is the prefix of the objects with a user's changes.
func shelf(user uint64) string { return fmt.Sprintf("changes/%02d/", user%shelves) }

// archiver moves old changes to the archive. It writes the object first, and then deletes the rows.
// After a crash in between they are archived again, and readers see a change once by its version.
func archiver() role {
	return role{Name: "archiver", Summary: "moves old changes to compressed objects",
		Places: []string{placeArchived},
		Step: func(ctx context.Context, st *opened) (time.Duration, error) {
			list, err := stores.Collect[ChangeRow](ctx, st.DB, selectRows+` WHERE at < clock_timestamp() - $1::interval
				ORDER BY at LIMIT $2`, st.Params.ArchiveAfter.D(), archivedAtOnce)
			for _, group := range byShelf(list) {
				if err == nil {
					err = archive(ctx, st, group)
				}
			}
			again := min(st.Params.ArchiveAfter.D()/10, time.Minute)
			if len(list) == archivedAtOnce {
				again = 0
			}
			return again, stores.Failed("archiving changes", err)
		}}
}

// placeArchived is when an object is written, and its rows are not deleted.
const placeArchived = "archived"

// byShelf groups changes.
func byShelf(list []ChangeRow) map[string][]ChangeRow {
	groups := map[string][]ChangeRow{}
	for _, c := range list {
		groups[shelf(c.User)] = append(groups[shelf(c.User)], c)
	}
	return groups
}

// archive writes an object, and deletes its rows. The object's name is a hash of what is in it, so
// that it takes the place of no other one.
func archive(ctx context.Context, st *opened, list []ChangeRow) error {
	body, err := objects.Pack(list)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("%s%x.json.gz", shelf(list[0].User), sha256.Sum256(body))
	if err := objects.In(st.DB).Put(ctx, name, body); err != nil {
		return err
	}
	st.Config.Passed(placeArchived)
	users, versions := make([]int64, len(list)), make([]int64, len(list))
	for i, c := range list {
		users[i], versions[i] = int64(c.User), c.Version
	}
	_, err = st.DB.Exec(ctx, `DELETE FROM changes c USING unnest($1::bigint[], $2::bigint[]) AS old (u, v)
		WHERE c.user_id = old.u AND c.version = old.v`, users, versions)
	return err
}

// archived reads the changes of some shelves that are in the archive.
func archived(ctx context.Context, st *opened, prefix string) ([]ChangeRow, error) {
	return objects.All[ChangeRow](ctx, objects.In(st.DB), prefix)
}

// past reads a user's newest changes: rows first, and then the archive, to which they may have
// gone meanwhile.
func past(ctx context.Context, st *opened, req HistoryRequest) (History, error) {
	list, err := stores.Collect[ChangeRow](ctx, st.DB, selectRows+`
		WHERE user_id = $1 ORDER BY version DESC LIMIT $2`, req.User, req.Most)
	if err == nil && len(list) < req.Most {
		var old []ChangeRow
		old, err = archived(ctx, st, shelf(req.User))
		others := func(c ChangeRow) bool { return c.User != req.User }
		list = append(list, slices.DeleteFunc(old, others)...)
	}
	if err != nil {
		return History{}, stores.Failed("reading a history", err)
	}
	list = once(list)
	slices.Reverse(list)
	h := History{Changes: []Change{}}
	for _, c := range list[:min(req.Most, len(list))] {
		h.Changes = append(h.Changes, Change{c.Version, c.Term, c.Forgotten})
	}
	h.Found = len(h.Changes)
	return h, nil
}

// once sorts changes by user and version, each once.
func once(list []ChangeRow) []ChangeRow {
	slices.SortFunc(list, func(a, b ChangeRow) int {
		return cmp.Or(cmp.Compare(a.User, b.User), cmp.Compare(a.Version, b.Version),
			cmp.Compare(a.ID, b.ID))
	})
	return slices.Compact(list)
}

// audit reads all changes, and the lists as devices are shown them.
func audit(
	ctx context.Context, st *opened, look func(context.Context, *opened, uint64) (List, error),
) (a Audit, err error) {
	a.Lists = []ListRow{}
	list, err := stores.Collect[ChangeRow](ctx, st.DB, selectRows)
	if err == nil {
		var old []ChangeRow
		old, err = archived(ctx, st, "")
		list = append(list, old...)
	}
	if err != nil {
		return a, stores.Failed("reading all changes", err)
	}
	a.Changes = append([]ChangeRow{}, once(list)...)
	for i, c := range a.Changes {
		if i > 0 && a.Changes[i-1].User == c.User {
			continue
		}
		l, err := look(ctx, st, c.User)
		if err != nil {
			return a, err
		}
		a.Lists = append(a.Lists, ListRow{c.User, l.Version, l.Terms})
	}
	return a, nil
}
