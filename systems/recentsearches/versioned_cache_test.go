package recentsearches_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"stampede/systems/recentsearches"
)

// copies is a user's list in Redis, as versioned_cache keeps it.
type copies struct {
	*testing.T
	recentsearches.Copies
	client *redis.Client
	key    string
}

// soon is how long a writer of these tests lasts at most that dies, long one that does not.
const (
	soon = 50 * ms
	long = time.Second
)

func (c copies) do(do string, lasts time.Duration, args ...any) []string {
	c.Helper()
	found, err := c.Copies.Do(c.Context(), do, lasts, args...)
	if err != nil {
		c.Fatal(err)
	}
	return found
}

// shows is what a look shows, "" if Postgres is to be read.
func (c copies) shows(want string) {
	c.Helper()
	if got := c.do("look", long)[0]; got != want {
		c.Errorf("a look shows %q, want %q", got, want)
	}
}

// fill puts what was read in Postgres into Redis.
func (c copies) fill(version int, terms string) {
	c.Helper()
	c.do("fill", long, c.do("look", long)[1], version, terms)
}

// gone waits until so many writers are left, because the notes of others have run out, and until
// the clock of Redis shows another millisecond than then.
func (c copies) gone(left int64) {
	c.Helper()
	var then time.Time
	for {
		c.do("look", long)
		n, err := c.client.ZCard(c.Context(), c.key+":writers").Result()
		now, wrong := c.client.Time(c.Context()).Result()
		if err != nil || wrong != nil {
			c.Fatal(err, wrong)
		}
		if n == left && then.IsZero() {
			then = now
		}
		if !then.IsZero() && now.Sub(then) > ms {
			return
		}
	}
}

// TestCopies: no copy is shown that may be old, whoever dies, comes late, or began in another run.
func TestCopies(t *testing.T) {
	for name, test := range map[string]func(c copies){
		"a writer": func(c copies) {
			c.fill(1, `["tea"]`)
			c.shows(`1 ["tea"]`)
			c.do("begin", long, "a")
			c.shows("")
			c.do("finish", long, "a", 2, `["milk"]`)
			c.shows(`2 ["milk"]`)
		},
		"two in the other order": func(c copies) {
			c.do("begin", long, "a")
			c.do("begin", long, "b")
			c.do("finish", long, "b", 2, `["milk"]`)
			c.shows("")
			c.do("finish", long, "a", 1, `["tea"]`)
			c.shows(`2 ["milk"]`)
		},
		"one dies": func(c copies) {
			c.fill(1, `["tea"]`)
			c.do("begin", soon, "dead")
			c.gone(0)
			c.shows("")
			c.fill(2, `["milk"]`)
			c.shows(`2 ["milk"]`)
		},
		"one is late after another one died": func(c copies) {
			c.do("begin", soon, "dead")
			c.do("begin", long, "late")
			c.do("begin", long, "a")
			c.do("finish", long, "a", 2, `["milk"]`)
			c.gone(1)
			c.do("finish", long, "late", 1, `["tea"]`)
			c.shows("")
			c.do("begin", long, "b")
			c.do("finish", long, "b", 4, `["new"]`)
			c.shows(`4 ["new"]`)
		},
		"one between them is late": func(c copies) {
			c.do("begin", soon, "dead") // its version is 3
			c.do("begin", long, "late")
			c.gone(1)
			c.do("finish", long, "late", 2, `["milk"]`)
			c.shows("")
		},
		"one of an earlier run may be under way": func(c copies) {
			c.fill(1, `["tea"]`)
			const ever = 1000 * time.Hour
			c.do("begin", ever, "a")
			c.do("finish", ever, "a", 2, `["milk"]`)
			c.shows("")
			c.fill(2, `["milk"]`)
			c.shows(`2 ["milk"]`)
		},
		"a note that has run out": func(c copies) {
			c.do("begin", soon, "a")
			c.gone(0)
			c.fill(1, `["tea"]`)
			c.do("finish", soon, "a", 2, `["milk"]`)
			c.shows("")
		},
		"what was read before": func(c copies) {
			leave := c.do("look", long)[1]
			c.do("begin", long, "a")
			c.do("finish", long, "a", 2, `["milk"]`)
			c.do("fill", long, leave, 1, `["tea"]`)
			c.shows(`2 ["milk"]`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			space := stores.Namespace(t)
			opts, err := redis.ParseURL(space.RedisURL)
			if err != nil {
				t.Fatal(err)
			}
			client := redis.NewClient(opts)
			defer func() { _ = client.Close() }()
			key := space.Prefix + "list"
			test(copies{t, recentsearches.CopiesIn(client, key), client, key})
		})
	}
}
