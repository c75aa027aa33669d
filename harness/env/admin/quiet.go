package admin

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// Quiet stops the Redis driver from printing a line for each connection that
// it cannot make: when a store is broken on purpose there are thousands, and
// each operation's error is in the history. The setting is the driver's own
// and holds for the whole process: a main program makes it, and package envtest
// for every test with stores.
func Quiet() { redis.SetLogger(silence{}) }

type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}
