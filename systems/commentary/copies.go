package commentary

import (
	"context"
	_ "embed" // the scripts
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"stampede/harness/design"
	"stampede/harness/stores"
)

//go:embed put.lua
var putLua string

//go:embed fill.lua
var fillLua string

//go:embed read.lua
var readLua string

// copyKeys are where Redis has a match: the comments, and the version.
func copyKeys(st *opened, match uint64) []string {
	key := st.Key("match:" + strconv.FormatUint(match, 10))
	return []string{key, key + ":version"}
}

// member is a comment as Redis has it.
func (c Comment) member() string {
	text, _ := json.Marshal(c) // strings and numbers can be marshalled
	return string(text)
}

var errMalformed = errors.New("malformed copy of a match")

// readMember reads what member made.
func readMember(text string) (c Comment, err error) {
	if json.Unmarshal([]byte(text), &c) != nil || c.ID < 1 || c.Version < c.ID {
		return Comment{}, errMalformed
	}
	return c, nil
}

// readView reads what a script returned: a version, and comments. No copy is of the version -1.
func readView(found []any) (v view, err error) {
	version, _ := found[0].(string)
	if v.version, err = strconv.ParseInt(version, 10, 64); err != nil {
		return view{}, errMalformed
	}
	list, _ := found[1].([]any)
	for _, text := range list {
		text, _ := text.(string)
		c, wrong := readMember(text)
		err = errors.Join(err, wrong)
		v.comments = append(v.comments, c)
	}
	return v, err
}

// script runs a script in Redis.
func script(ctx context.Context, st *opened, text string, keys []string, args ...any) *redis.Cmd {
	ctx, cancel := context.WithTimeout(ctx, stores.Timeout(st.Config))
	defer cancel()
	return redis.NewScript(text).Run(ctx, st.Redis, keys, args...)
}

// put brings a change to the copy of its match.
func put(ctx context.Context, st *opened, c ChangeRow) error { return putBy(ctx, st, c, putLua) }

func putBy(ctx context.Context, st *opened, c ChangeRow, text string) error {
	return stores.Failed("changing a copy", script(ctx, st, text, copyKeys(st, c.Match), c.Version,
		c.Comment, Comment{c.Comment, c.Version, c.Ball, c.Text}.member(), newest).Err())
}

// fill makes a copy of what was read by then. It lasts as long as a copy may, from before the read.
func fill(ctx context.Context, st *opened, match uint64, v view, read time.Time) error {
	lasts := st.Params.CopyFor.D() - time.Since(read)
	if lasts < time.Millisecond {
		return nil
	}
	return stores.Failed("making a copy", script(ctx, st, fillLua, copyKeys(st, match),
		append([]any{v.version, lasts.Milliseconds()}, v.members()...)...).Err())
}

// members are ids and comments, as scripts take them.
func (v view) members() (list []any) {
	for _, c := range v.comments {
		list = append(list, c.ID, c.member())
	}
	return list
}

// copied reads the copy of a match. For those who know a version it has no comments if it is still
// that one. Without a copy, and while Redis is away, a match is read in Postgres, by one for all
// who ask at the time.
func (s server) copied(ctx context.Context, match uint64, known int64) (view, error) {
	found, err := script(ctx, s.opened, readLua, copyKeys(s.opened, match), known).Slice()
	if err == nil {
		v, wrong := readView(found)
		if wrong != nil || v.version >= 0 {
			return v, wrong
		}
	}
	if ctx.Err() != nil {
		return view{}, ctx.Err()
	}
	read, wrong, _ := s.flights.Do(strconv.FormatUint(match, 10), func() (any, error) {
		ctx := context.WithoutCancel(ctx) // it is for others too
		began := time.Now()
		v, wrong := kept(ctx, s.opened, match)
		if wrong == nil && err == nil {
			if err := fill(ctx, s.opened, match, v, began); err != nil {
				s.Config.Warn("a match has no copy", err)
			}
		}
		return v, wrong
	})
	v, _ := read.(view)
	return v, wrong
}

// copiesPending counts the copies that lack a change, which they may for a while.
func copiesPending() design.State[Params] {
	return design.State[Params]{Pending: func(
		ctx context.Context, st *opened,
	) (n int64, what string, err error) {
		matches, err := stores.Collect[struct {
			ID      uint64
			Version int64
		}](ctx, st.DB, `SELECT id, version FROM matches`)
		if err != nil || len(matches) == 0 {
			return 0, "", stores.Failed("reading versions", err)
		}
		keys := make([]string, len(matches))
		for i, m := range matches {
			keys[i] = copyKeys(st, m.ID)[1]
		}
		versions, err := st.Redis.MGet(ctx, keys...).Result()
		for i, found := range versions {
			text, there := found.(string)
			version, wrong := strconv.ParseInt(text, 10, 64)
			if there && (wrong != nil || version < matches[i].Version) {
				n++
			}
		}
		return n, fmt.Sprintf("%d copies lack a change", n), stores.Failed("reading copies", err)
	}}
}
