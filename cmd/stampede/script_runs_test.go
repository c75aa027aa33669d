package main

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"stampede/harness/knee"
	"stampede/harness/rundir"
)

// canMount says whether this process may mount a file system.
func canMount() bool {
	dir, err := os.MkdirTemp("", "stampede-mount-*")
	if err != nil {
		return false
	}
	defer os.Remove(dir)
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=4k"); err != nil {
		return false
	}
	return unix.Unmount(dir, unix.MNT_DETACH) == nil
}

// smallDisk is the command "smalldisk DIR SIZE": a file system of that size,
// until the script ends.
func smallDisk(ts *testscript.TestScript, _ bool, args []string) {
	dir := ts.MkAbs(args[0])
	ts.Check(os.Mkdir(dir, 0o755))
	ts.Check(unix.Mount("tmpfs", dir, "tmpfs", 0, "size="+args[1]))
	ts.Defer(func() { ts.Check(unix.Unmount(dir, unix.MNT_DETACH)) })
}

// ownData is the command "owndata": stores of local processes keep their data in
// a folder of the script's own, and clean sees no container. What tests of other
// packages abandon at the same time is not found. $OWN is the folder's name, in which the names
// of all processes of local stores can be found.
func ownData(ts *testscript.TestScript, _ bool, _ []string) {
	dir, err := os.MkdirTemp("/var/tmp", "stampede-script-*")
	ts.Check(err)
	ts.Defer(func() { ts.Check(os.RemoveAll(dir)) })
	ts.Check(os.Chmod(dir, 0o755)) // Postgres runs as another user
	ts.Setenv("STAMPEDE_DATA_DIR", dir)
	ts.Setenv("OWN", filepath.Base(dir))
	ts.Setenv("DOCKER_HOST", "tcp://127.0.0.1:9")
}

// ends is the command "ends CODE run ARGS... --out FOLDER": stampede must end
// by itself, soon and with that exit code, and leave no process of its run.
// Its output goes to the files "out" and "err".
func ends(ts *testscript.TestScript, _ bool, args []string) {
	cmd, done := launch(ts, args[1:])
	code, err := exitStatus(await(ts, cmd, done))
	ts.Check(err)
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("stampede exited with %d, want %s\n%s", code, args[0], ts.ReadFile("err"))
	}
	runs, err := filepath.Glob(filepath.Join(ts.MkAbs(args[len(args)-1]), "*", "*-*"))
	ts.Check(err)
	if len(runs) == 0 {
		ts.Fatalf("there is no run directory")
	}
	for _, run := range runs {
		id := run[strings.LastIndexByte(run, '-')+1:]
		awaitNone(ts, func() []string { return processesOf(id) })
	}
}

// whileRunning is the command "whilerunning ARGS...": stampede runs in the
// background and has recorded something, until "stopped CODE".
func whileRunning(ts *testscript.TestScript, _ bool, args []string) {
	before := runsOf(ts)
	cmd, done := launch(ts, args)
	ts.Defer(func() { _ = cmd.Process.Kill() }) // an error says that it has ended
	awaitRun(ts, before, done, recorded)
	running.Store(ts, server{cmd, done})
}

// stopped is the command "stopped CODE [SIGNAL]": what whilerunning, serve or lab started gets
// SIGINT, or that signal, none if it is "by-itself", and must end with that exit code.
func stopped(ts *testscript.TestScript, _ bool, args []string) {
	v, ok := running.Load(ts)
	if !ok {
		ts.Fatalf("nothing is running")
	}
	s := v.(server)
	signal := syscall.SIGINT
	if len(args) > 1 {
		signal = map[string]syscall.Signal{"TERM": syscall.SIGTERM, "KILL": syscall.SIGKILL}[args[1]]
	}
	if signal != 0 {
		ts.Check(s.cmd.Process.Signal(signal))
	}
	code, err := exitStatus(await(ts, s.cmd, s.done))
	ts.Check(err)
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("stampede exited with %d, want %s\n%s", code, args[0], ts.ReadFile("err"))
	}
}

// storedRun opens a run as a script names it.
func storedRun(ts *testscript.TestScript, which string) *rundir.Run {
	if _, err := os.Stat(ts.MkAbs(which)); err == nil {
		which = ts.MkAbs(which)
	}
	stored, err := rundir.Open(ts.MkAbs("runs"), which)
	ts.Check(err)
	return stored
}

// keptBy is the command "keptby RUN N": the run has so many containers and
// volumes.
func keptBy(ts *testscript.TestScript, _ bool, args []string) {
	id := storedRun(ts, args[0]).Manifest.Run.ID
	if found := containersOf(ts, id); strconv.Itoa(len(found)) != args[1] {
		ts.Fatalf("the run %s has the containers and volumes %v, want %s", id, found, args[1])
	}
}

// order is the command "order RUN VARIANT...": the variants ran in this order.
func order(ts *testscript.TestScript, _ bool, args []string) {
	got := []string{}
	for _, slot := range storedRun(ts, args[0]).Manifest.Slots {
		got = append(got, slot.Variant)
	}
	if !slices.Equal(got, args[1:]) {
		ts.Fatalf("the order was %v", got)
	}
}

// searched is the command "searched DIRECTORY SEED": knee.json of a search has
// windows, and each of them a run directory, the seed that follows the one before, and a
// page unless it held.
func searched(ts *testscript.TestScript, _ bool, args []string) {
	dir := ts.MkAbs(args[0])
	text, err := os.ReadFile(filepath.Join(dir, knee.SummaryFile))
	ts.Check(err)
	var s knee.Summary
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	ts.Check(decoder.Decode(&s))
	seed, err := strconv.ParseUint(args[1], 10, 64)
	ts.Check(err)
	if len(s.Variants) != 1 || len(s.Variants[0].Result.Windows) == 0 {
		ts.Fatalf("expected the windows of one variant in\n%s", text)
	}
	for _, w := range s.Variants[0].Result.Windows {
		if w.Seed != seed || w.Count == 0 {
			ts.Fatalf("the window %+v: want seed %d and something measured", w, seed)
		}
		seed++
		stored, err := rundir.Open("", filepath.Join(dir, filepath.FromSlash(w.Run)))
		ts.Check(err)
		summary, err := stored.Summary()
		ts.Check(err)
		_, err = os.Stat(filepath.Join(stored.Path, rundir.ReportFile))
		if summary.Run.Seed != w.Seed || (err != nil) != (w.Verdict == knee.Held) {
			ts.Fatalf("the window %+v: its run has seed %d, its page: %v", w, summary.Run.Seed, err)
		}
	}
}

// edit is the command "edit RUN FILE OLD NEW": a text in a file of a run
// becomes another, as if the run had been another one.
func edit(ts *testscript.TestScript, _ bool, args []string) {
	path, err := storedRun(ts, args[0]).File(args[1])
	ts.Check(err)
	text, err := os.ReadFile(path)
	ts.Check(err)
	if !strings.Contains(string(text), args[2]) {
		ts.Fatalf("%s has no %s:\n%s", args[1], args[2], text)
	}
	changed := strings.ReplaceAll(string(text), args[2], args[3])
	ts.Check(os.WriteFile(path, []byte(changed), 0o644))
}

// pretend is the command "pretend RUN COPY FACTOR": another run like the stored one, with
// clean times that were all so many times as long.
func pretend(ts *testscript.TestScript, _ bool, args []string) {
	stored := storedRun(ts, args[0])
	ts.Check(os.CopyFS(ts.MkAbs(args[1]), os.DirFS(stored.Path)))
	factor, err := strconv.ParseInt(args[2], 10, 64)
	ts.Check(err)
	s, err := stored.Summary()
	ts.Check(err)
	s.Run.ID += "-" + args[1]
	s.Verdict.Timing = rundir.Clean
	for i := range s.Variants {
		v := &s.Variants[i]
		v.Timing = rundir.Clean
		for k := range v.Repeats {
			r := &v.Repeats[k]
			r.Timing, r.Used = rundir.Clean, true
			for i := range r.Validity {
				r.Validity[i].OK = true
			}
			for i := range r.Operations {
				slow(&r.Operations[i].Latency.Response, factor)
				if p := r.Operations[i].Successful; p != nil {
					slow(p, factor)
				}
			}
		}
	}
	dir, err := rundir.Lock(ts.MkAbs(args[1]))
	ts.Check(err)
	ts.Check(dir.WriteSummary(s))
	ts.Check(dir.Close())
}

func slow(p *rundir.Percentiles, factor int64) {
	for _, ns := range []*int64{&p.P50, &p.P90, &p.P99, &p.P999, &p.Max} {
		*ns *= factor
	}
}

// tlsFront is the command "tlsfront": a TLS server at $TLS_URL before that at
// $URL, until the script ends. Who trusts it has ca.pem.
func tlsFront(ts *testscript.TestScript, _ bool, _ []string) {
	behind, err := url.Parse(ts.Getenv("URL"))
	ts.Check(err)
	proxy := httputil.NewSingleHostReverseProxy(behind)
	front := httptest.NewUnstartedServer(http.HandlerFunc(proxy.ServeHTTP))
	front.Config.ErrorLog = log.New(io.Discard, "", 0) // the handshakes that are refused
	front.StartTLS()
	ts.Defer(front.Close)
	ts.Setenv("TLS_URL", front.URL)
	block := &pem.Block{Type: "CERTIFICATE", Bytes: front.Certificate().Raw}
	ts.Check(os.WriteFile(ts.MkAbs("ca.pem"), pem.EncodeToMemory(block), 0o644))
}
