package admin

import (
	"strings"
	"testing"
)

func TestJournalIn(t *testing.T) {
	good := map[string]string{"appendonly": "yes", "appendfsync": "everysec", "dir": "/data",
		"appenddirname": "aof"}
	if folder, err := journalIn(good); err != nil || folder != "/data/aof" {
		t.Errorf("got %q, %v", folder, err)
	}
	for setting, c := range map[string]struct{ value, want string }{
		"appendonly":    {"no", "keeps no append-only file"},
		"appendfsync":   {"always", "would lose nothing that it acknowledged"},
		"appenddirname": {"", "version 7 or newer"},
	} {
		old := good[setting]
		good[setting] = c.value
		if _, err := journalIn(good); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s=%q: got %v, want %q", setting, c.value, err, c.want)
		}
		good[setting] = old
	}
}

func TestJournalOfPostgres(t *testing.T) {
	if _, err := JournalOf(t.Context(), Postgres{}); err == nil {
		t.Error("postgres has an append-only file")
	}
}

func TestIsJournal(t *testing.T) {
	for name, want := range map[string]bool{
		"appendonly.aof.1.incr.aof": true, "appendonly.aof.1.base.rdb": false,
		"appendonly.aof.manifest": false,
	} {
		if got := IsJournal(name); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
