package main

import (
	"os/exec"
	"regexp"
	"runtime/debug"
	"testing"
)

func TestToolOf(t *testing.T) {
	t.Parallel()
	stamped := &debug.BuildInfo{Settings: []debug.BuildSetting{
		{Key: "vcs.revision", Value: "stamped"}, {Key: "vcs.modified", Value: "true"}}}
	for _, c := range []struct {
		name, version, commit string
		info                  *debug.BuildInfo
		want                  string
		dirty                 bool
	}{
		{"make build with -buildvcs=false", "v1", "linked", &debug.BuildInfo{}, "linked", false},
		{"make build of changed files", "v1-dirty", "linked", &debug.BuildInfo{}, "linked", true},
		{"go build", "dev", "", stamped, "stamped", true},
		{"both", "v1", "linked", stamped, "linked", true},
		{"neither", "dev", "", nil, "", false},
	} {
		if got := toolOf(c.version, c.commit, c.info); got.Commit != c.want ||
			got.Dirty != c.dirty || got.Version != c.version {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

// TestMakeBuildKnowsItsCommit: go build alone finds none where GOFLAGS has -buildvcs=false.
func TestMakeBuildKnowsItsCommit(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("make", "-n", "-C", "../..", "build", "COMMIT=abc123").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !regexp.MustCompile(`-X main\.commit=abc123`).Match(out) {
		t.Errorf("make build does not set main.commit:\n%s", out)
	}
}
