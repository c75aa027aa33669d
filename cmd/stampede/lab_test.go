package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"stampede/harness/env"
	"stampede/harness/env/external"
)

// startedLab is the command "lab ARGS...": stampede lab runs in the background and has printed
// $STAMPEDE_LAB as its last variable, until "stopped CODE".
func startedLab(ts *testscript.TestScript, _ bool, args []string) {
	cmd, done := launch(ts, append([]string{"lab"}, args...))
	ts.Defer(func() { _ = cmd.Process.Kill() }) // an error says that it has ended
	awaitOut(ts, done, `STAMPEDE_LAB=(\w+)\n`)
	running.Store(ts, server{cmd, done})
	for _, m := range regexp.MustCompile(`(?m)^export (\w+)='?([^'\n]*)'?$`).
		FindAllStringSubmatch(ts.ReadFile("out"), -1) {
		ts.Setenv(m[1], m[2])
	}
}

// nothingLeft is the command "nothingleft", after owndata: no process of $OWN stays, and no
// data of stores.
func nothingLeft(ts *testscript.TestScript, _ bool, _ []string) {
	awaitNone(ts, func() []string {
		data, err := filepath.Glob(filepath.Join(ts.Getenv("STAMPEDE_DATA_DIR"), "*"))
		ts.Check(err)
		return append(data, processesOf(ts.Getenv("OWN"))...)
	})
}

// TestLabNames: a name belongs to one process, and is free again when that ends it.
func TestLabNames(t *testing.T) {
	name := fmt.Sprintf("test-%d", os.Getpid())
	if _, _, err := dialLab(name); err == nil {
		t.Fatal("there is a lab that nobody has started")
	}
	claim, err := claimLab(name)
	if err != nil {
		t.Fatal(err)
	}
	conn, pid, err := dialLab(name)
	if err != nil || pid != os.Getpid() {
		t.Fatalf("the lab is process %d, %v, want %d", pid, err, os.Getpid())
	}
	if _, err := claimLab(name); err == nil || !strings.Contains(err.Error(), "--stop --name "+name) {
		t.Errorf("a second one: %v", err)
	}
	if err := claim.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Error("the connection is still open, and the lab has ended")
	}
	again, err := claimLab(name)
	if err != nil {
		t.Fatalf("a name that is free again: %v", err)
	}
	conn.Close()
	again.Close()
}

// TestLabVariables: the flags of the external backend and a lab mean the same variables.
func TestLabVariables(t *testing.T) {
	set := map[string]string{variable("postgres-url"): "postgres://h/d",
		variable("redis-url"): "redis://h", variable("kafka-brokers"): "h:1"}
	spec := env.Spec{Services: labServices()}
	if _, ok := external.Located(spec, func(name string) string { return set[name] }); !ok {
		t.Errorf("a lab has other variables than %v", set)
	}
}

// TestLabExample runs the Go example of docs/lab.md as a package of this module.
func TestLabExample(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("needs real stores; -short was given")
	}
	example := regexp.MustCompile("(?s)```go\n(.*?)```").FindStringSubmatch(
		string(read(t, docs+"/lab.md")))
	if example == nil {
		t.Fatal("docs/lab.md has no example in Go")
	}
	dir := reader(t)
	file, err := filepath.Abs(filepath.Join(docs, "shop_test.go")) // as if it were there
	if err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(dir, "shop_test.go"), example[1])
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {
		file: filepath.Join(dir, "shop_test.go")}})
	if err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(dir, "overlay.json"), string(overlay))
	run := filepath.Join(dir, "bin/stampede") + " lab --services postgres -- " +
		"go test -count=1 -v -overlay " + filepath.Join(dir, "overlay.json") + " ."
	out, errs, err := shell(t, docs, run, append(os.Environ(), "STAMPEDE_TEST_AS_COMMAND=1"))
	if err != nil || !strings.Contains(out, "--- PASS: TestOrders") {
		t.Errorf("%v\n%s%s", err, out, errs)
	}
}
