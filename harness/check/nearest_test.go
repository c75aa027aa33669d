package check_test

import (
	"testing"

	"stampede/harness/check"
)

func TestNearest(t *testing.T) {
	known := []string{"units_skip_locked", "units_grouped", "redis_lua", "redis_only", "kill"}
	for name, want := range map[string]string{
		"kil": "kill", "Redis-Lua": "redis_lua", "redsi_lua": "redis_lua",
		"units_skip": "units_skip_locked", // what it begins with
		"units":      "",                  // two begin with it
		"re":         "",                  // too little to go by
		"postgres":   "", "": "",
	} {
		if got := check.Nearest(name, known); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}
