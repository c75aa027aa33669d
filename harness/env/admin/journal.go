package admin

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/redis/go-redis/v9"
)

// JournalOf is the folder of a store's append-only file, where the store itself
// sees it, or an error that says why a loss of power could take nothing of it:
// it is off, flushed at every write, or not of several files as Redis 7 has it.
func JournalOf(ctx context.Context, store Store) (folder string, err error) {
	r, ok := store.(Redis)
	if !ok {
		return "", errors.New("only redis has an append-only file to truncate")
	}
	settings := map[string]string{}
	err = r.with(ctx, func(ctx context.Context, client *redis.Client) error {
		for _, name := range []string{"appendonly", "appendfsync", "dir", "appenddirname"} {
			values, err := client.ConfigGet(ctx, name).Result()
			if err != nil {
				return fmt.Errorf("ask redis for setting %s: %w", name, err)
			}
			settings[name] = values[name]
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	return journalIn(settings)
}

func journalIn(settings map[string]string) (folder string, err error) {
	switch {
	case settings["appendonly"] != "yes":
		return "", errors.New("redis keeps no append-only file (appendonly is " +
			settings["appendonly"] + "): a loss of power would lose everything, as kill with wipe does")
	case settings["appendfsync"] == "always":
		return "", errors.New("redis flushes its append-only file before it answers (appendfsync is " +
			"always): a loss of power would lose nothing that it acknowledged")
	case settings["appenddirname"] == "":
		return "", errors.New("redis keeps its append-only file in one piece: it must be version 7 or " +
			"newer")
	}
	return path.Join(settings["dir"], settings["appenddirname"]), nil
}

// IsJournal says whether a file in the folder of JournalOf grows by the writes.
// The base file beside it was flushed when it was made, and never changes.
func IsJournal(name string) bool { return strings.HasSuffix(name, ".incr.aof") }
