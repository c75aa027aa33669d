package processes_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"stampede/harness/env"
	"stampede/harness/env/processes"
	"stampede/harness/sut"
)

// install puts programs that print a version into a folder of its own, and
// that folder alone on the PATH.
func install(t *testing.T, prints map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, line := range prints {
		script := "#!/bin/sh\necho '" + line + "'\n"
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir)
	return dir
}

func TestFindTakesThePathFirst(t *testing.T) {
	dir := install(t, map[string]string{"postgres": "postgres (PostgreSQL) 17.2 (Debian 17.2-1)",
		"initdb": "", "valkey-server": "Server v=8.1.0 sha=0 bits=64"})
	for service, want := range map[sut.Service]string{
		sut.Postgres: "postgres 17.2 at " + filepath.Join(dir, "postgres"),
		sut.Redis:    "valkey-server 8.1.0 at " + filepath.Join(dir, "valkey-server"),
	} {
		if got, err := processes.Find(t.Context(), service); err != nil || got.String() != want {
			t.Errorf("got %s, %v, want %s", got, err, want)
		}
	}
}

func TestFindFollowsALinkToTheOtherPrograms(t *testing.T) {
	elsewhere := install(t, map[string]string{"postgres": "postgres (PostgreSQL) 16.1", "initdb": ""})
	dir := t.TempDir()
	if err := os.Symlink(filepath.Join(elsewhere, "postgres"), dir+"/postgres"); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	got, err := processes.Find(t.Context(), sut.Postgres)
	if err != nil || got.Path != filepath.Join(elsewhere, "postgres") {
		t.Errorf("got %s, %v", got, err)
	}
}

func TestFindErrorsNameTheNextStep(t *testing.T) {
	install(t, map[string]string{"postgres": "postgres (PostgreSQL) 12.9", "initdb": ""})
	spec := env.Spec{Services: both}
	_, _, err := env.Choose(t.Context(), env.Auto, spec, processes.New())
	for _, want := range []string{"Postgres 14 or later", "no redis-server", "doctor --fix"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %q", err, want)
		}
	}
	t.Setenv("STAMPEDE_CACHE_DIR", t.TempDir())
	if _, err := processes.Find(t.Context(), sut.Kafka); err == nil {
		t.Error("kafka was found")
	}
}

// java makes a folder of Java whose program says what it is told.
func java(t *testing.T, says string) string {
	t.Helper()
	home := t.TempDir()
	if err := os.Mkdir(filepath.Join(home, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	script := "#!/bin/sh\necho '" + says + "' >&2\n"
	if err := os.WriteFile(filepath.Join(home, "bin", "java"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return home
}

func TestFindJava(t *testing.T) {
	home := java(t, `openjdk version "21.0.2" 2024-01-16`)
	t.Setenv("JAVA_HOME", home)
	got, err := processes.FindJava(t.Context())
	if err != nil || got.Version != "21.0.2" || got.Path != filepath.Join(home, "bin", "java") {
		t.Errorf("got %s, %v", got, err)
	}
	t.Setenv("JAVA_HOME", java(t, "NOTE: Picked up JDK_JAVA_OPTIONS: -Xmx1g\n"+
		`openjdk version "17" 2021-09-14`))
	if noted, err := processes.FindJava(t.Context()); err != nil || noted.Version != "17" {
		t.Errorf("got %s, %v", noted, err)
	}
	t.Setenv("JAVA_HOME", java(t, `openjdk version "11.0.2" 2019-01-15`))
	if old, err := processes.FindJava(t.Context()); err == nil && old.Version == "11.0.2" {
		t.Errorf("took %s", old)
	}
}
