package main

import (
	"strings"
	"testing"
)

// TestReproduceNamesTheServers: the line of an external run can be run again,
// and has no password in it.
func TestReproduceNamesTheServers(t *testing.T) {
	for want, f := range map[string]runFlags{
		"": {backend: "processes", redisURL: "redis://h:1/0"},
		"--postgres-url 'postgres://u@h/d?a=1&b=2' --redis-url redis://h:1/0 --allow-nonempty": {
			backend: "external", postgresURL: "postgres://u@h/d?a=1&b=2", redisURL: "redis://h:1/0",
			allowNonEmpty: true},
		"--redis-url redis://h:1/0 # with STAMPEDE_POSTGRES_URL=postgres://u:xxxxx@h/d, " +
			"the passwords put in": {backend: "external", postgresURL: "postgres://u:hush@h/d",
			redisURL: "redis://h:1/0"},
	} {
		flags, note := f.servers()
		if got := strings.Join(flags, " ") + note; got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}
