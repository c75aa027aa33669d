package main

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// busyPort is the command "busyport": it sets $BUSY to an address that
// somebody listens on until the script ends.
func busyPort(ts *testscript.TestScript, _ bool, _ []string) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Defer(func() { listener.Close() })
	ts.Setenv("BUSY", listener.Addr().String())
}

// running maps scripts to their servers.
var running sync.Map

// server is a stampede that serves in the background of a script.
type server struct {
	cmd  *exec.Cmd
	done chan error
}

// serve is the command "serve ARGS...": stampede serve on a port of the
// kernel's choice, at $URL, until "stopped 0" or the end of the script.
func serve(ts *testscript.TestScript, _ bool, args []string) {
	cmd, done := launch(ts, append([]string{"serve", "--listen", "127.0.0.1:0"}, args...))
	ts.Defer(func() { _ = cmd.Process.Kill() }) // an error says that it has ended
	found := awaitOut(ts, done, `on (http://\S+)`)
	ts.Setenv("URL", found[1])
	running.Store(ts, server{cmd, done})
}

// awaitOut waits until what launch has started has printed something, and returns its parts.
func awaitOut(ts *testscript.TestScript, done chan error, pattern string) []string {
	wanted := regexp.MustCompile(pattern)
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		if found := wanted.FindStringSubmatch(ts.ReadFile("out")); found != nil {
			return found
		}
		select {
		case err := <-done:
			ts.Fatalf("stampede ended: %v\n%s", err, ts.ReadFile("err"))
		case <-time.After(20 * time.Millisecond):
		}
	}
	ts.Fatalf("stampede has not printed %s", pattern)
	return nil
}

// shop is the command "shop ARGS...": the shop in Python on a port of the
// kernel's choice, at $URL, until the script ends.
func shop(ts *testscript.TestScript, _ bool, args []string) {
	cmd := exec.Command("python3", append([]string{ts.Getenv("SHOP"), "--port", "0"}, args...)...)
	out, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	ts.Defer(func() {
		_ = cmd.Process.Kill() // an error says that it has ended
		_ = cmd.Wait()
	})
	late := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	port, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !late.Stop() {
		ts.Fatalf("the shop does not say its port: %v", err)
	}
	ts.Setenv("URL", "http://127.0.0.1:"+strings.TrimSpace(port))
}

// post is the command "post PATH BODY"; the answer is kept for "answer".
func post(ts *testscript.TestScript, _ bool, args []string) {
	client := http.Client{Timeout: patience}
	response, err := client.Post(ts.Getenv("URL")+args[0], "application/json",
		strings.NewReader(args[1]))
	ts.Check(err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	ts.Check(err)
	ts.Setenv("ANSWER", strconv.Itoa(response.StatusCode)+" "+string(body))
}

// answered is the command "answer STATUS BODY": patterns of what post got.
func answered(ts *testscript.TestScript, _ bool, args []string) {
	got := ts.Getenv("ANSWER")
	if ok, err := regexp.MatchString("(?s)^"+args[0]+" .*"+args[1], got); err != nil || !ok {
		ts.Fatalf("answer %q, want %s %s", got, args[0], args[1])
	}
}
