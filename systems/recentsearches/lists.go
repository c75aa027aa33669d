package recentsearches

import (
	"context"
	_ "embed" // the script
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"stampede/harness/stores"
)

// listKey is where Redis has a user's list.
func listKey(st *opened, user uint64) string {
	return st.Key("list:" + strconv.FormatUint(user, 10))
}

// text is a list as Redis has it: the version, and the terms as JSON.
func (l List) text() string { return fmt.Sprintf("%d %s", l.Version, l.terms()) }

func (l List) terms() string {
	terms, _ := json.Marshal(l.Terms) // strings can be marshalled
	return string(terms)
}

var errMalformed = errors.New("malformed list")

// readList reads what text made.
func readList(text string) (l List, err error) {
	version, terms, _ := strings.Cut(text, " ")
	l.Version, err = strconv.ParseInt(version, 10, 64)
	wrong := json.Unmarshal([]byte(terms), &l.Terms)
	if err != nil || wrong != nil || l.Terms == nil || l.Version < 0 {
		return List{}, errMalformed
	}
	return l, nil
}

//go:embed put.lua
var putLua string

// put is the script that puts a list in the place of an older one. A list that comes late or twice
// changes nothing.
func put() *redis.Script { return redis.NewScript(putLua) }

// show puts a list into Redis.
func show(ctx context.Context, st *opened, user uint64, l List) error {
	ctx, cancel := context.WithTimeout(ctx, stores.Timeout(st.Config))
	defer cancel()
	err := put().Run(ctx, st.Redis, []string{listKey(st, user)}, l.Version, l.text(),
		st.Params.TTL.D().Milliseconds()).Err()
	return stores.Failed("showing a list", err)
}

// cached reads a user's list in Redis. If it is not there, or Redis is away, it is the one in
// Postgres, which is at least as new.
func cached(ctx context.Context, st *opened, user uint64) (List, error) {
	text, err := st.Redis.Get(ctx, listKey(st, user)).Result()
	if err == nil {
		return readList(text)
	}
	missing := errors.Is(err, redis.Nil)
	l, err := stored(ctx, st, user)
	if err == nil && missing && l.Version > 0 {
		if err := show(ctx, st, user, l); err != nil {
			st.Config.Warn("a list is not in Redis", err)
		}
	}
	return l, err
}
