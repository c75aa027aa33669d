package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"stampede/harness/events"
	"stampede/harness/history"
	"stampede/harness/run"
	"stampede/harness/rundir"
	"stampede/harness/scenario"
)

// offers is the command "offers RUN": the run offered every operation of its schedule, once, when
// it was due, as the seed alone decides.
func offers(ts *testscript.TestScript, _ bool, args []string) {
	stored := storedRun(ts, args[0])
	text, err := stored.Scenario()
	ts.Check(err)
	sc, res, err := scenario.Decode(text, args[0], scenario.Options{Systems: findSystem})
	ts.Check(err)
	plan, err := run.PlanOf(sc, stored.Manifest.Run.Seed)
	ts.Check(err)
	for _, slot := range stored.Manifest.Slots {
		want := map[scheduled]int{}
		system, _ := findSystem(sc.System)
		workload, err := system.Workload(plan.WorkloadSeed, res.Params)
		ts.Check(err)
		arrivals := plan.Process.Start(plan.ArrivalSeed)
		start, n := firstDue(ts, stored, slot), uint64(0)
		for due, more := arrivals.Next(); more; due, more = arrivals.Next() {
			want[scheduledOf(workload.Op(n), start+due)]++
			n++
		}
		for _, rec := range records(ts, stored, slot) {
			want[scheduledOf(rec.Op, rec.Intended)]--
		}
		for op, left := range want {
			if left > 0 { // what is not of the schedule follows from replies
				ts.Fatalf("%s of %s lacks %+v, of %d operations", slot.Variant, args[0], op, n)
			}
		}
		ts.Logf("%s offered the %d operations of its schedule", slot.Variant, n)
	}
}

// scheduled is an operation and when it was due.
type scheduled struct {
	id                uint64
	kind, key, client string
	arg               int64
	due               time.Duration
}

func scheduledOf(op history.Op, due time.Duration) scheduled {
	return scheduled{op.ID, op.Kind, op.Key, op.Client, op.Arg, due}
}

func records(
	ts *testscript.TestScript, stored *rundir.Run, slot rundir.Slot,
) (list []history.Record) {
	path, err := stored.File(slot.History)
	ts.Check(err)
	h, err := history.Open(path)
	ts.Check(err)
	defer h.Close()
	for rec, err := range h.All() {
		ts.Check(err)
		list = append(list, rec)
	}
	return list
}

// firstDue is when the first operation of a repeat was due.
func firstDue(ts *testscript.TestScript, stored *rundir.Run, slot rundir.Slot) time.Duration {
	first := history.Never
	for _, rec := range records(ts, stored, slot) {
		first = min(first, rec.Intended)
	}
	return first
}

// loses is the command "loses WHO SIGNAL CODE ARGS...": a run that exits with a code because, while
// the load is under way, it (run), it and its guard (both), one of its generators (generator), a
// container of the cluster (container) or the swarm's third node (node) gets a signal, or a pod is
// deleted (pod). No process of the run stays.
func loses(ts *testscript.TestScript, _ bool, args []string) {
	before := runsOf(ts)
	cmd, done := launch(ts, args[3:])
	path := awaitRun(ts, before, done, sending)
	signal := map[string]syscall.Signal{"KILL": syscall.SIGKILL, "TERM": syscall.SIGTERM}[args[1]]
	id := filepath.Base(path)[strings.LastIndexByte(filepath.Base(path), '-')+1:]
	swarm, pid := os.Getenv(swarmVariable), cmd.Process.Pid
	switch args[0] {
	case "both":
		ts.Check(syscall.Kill(processWith(ts, "reap\x00--run\x00"+id), signal))
	case "generator":
		pid = processWith(ts, path, "--index\x001")
	case "node":
		pid = processWith(ts, "unshare", filepath.Join(swarm, "node.sh"), filepath.Join(swarm, "3"))
	case "pod":
		pid = 0
		pods := strings.Fields(kubectl(ts, "get", "pods", "-o", "name", "-l", "stampede.run="+id))
		kubectl(ts, "delete", "--wait=false", pods[0])
	case "container":
		if swarm == "" {
			pid = processWith(ts, "generate\x00--plan\x00/plan/")
			break
		}
		pid = 0
		first := strings.Fields(docker(ts, 2, "ps", "-q"))[0]
		docker(ts, 2, "kill", "-s", args[1], first)
	}
	if pid > 0 {
		ts.Check(syscall.Kill(pid, signal))
	}
	code, err := exitStatus(await(ts, cmd, done))
	ts.Check(err)
	if strconv.Itoa(code) != args[2] {
		ts.Fatalf("stampede exited with %d, want %s\n%s", code, args[2], ts.ReadFile("err"))
	}
	awaitNone(ts, func() []string { return processesOf(filepath.Base(path)) })
}

// atOnce is the command "atonce CODE[,CODE...] ARGS...": two runs at once, into folders one
// and other, exit with one of these codes.
func atOnce(ts *testscript.TestScript, _ bool, args []string) {
	_, one := launch(ts, append(args[1:], "--out", "one"))
	cmd, other := launch(ts, append(args[1:], "--out", "other"))
	for _, done := range []chan error{one, other} {
		code, err := exitStatus(await(ts, cmd, done))
		ts.Check(err)
		if !slices.Contains(strings.Split(args[0], ","), strconv.Itoa(code)) {
			ts.Fatalf("stampede exited with %d, want %s\n%s", code, args[0], ts.ReadFile("err"))
		}
	}
}

// These name the folder of a cluster that docker/swarm/up.sh or docker/kubernetes/up.sh has made.
const (
	swarmVariable      = "STAMPEDE_TEST_SWARM"
	kubernetesVariable = "STAMPEDE_TEST_KUBERNETES"
)

// kubectl asks the Kubernetes, as its administrator, by default about the namespace of the tests.
func kubectl(ts *testscript.TestScript, args ...string) string {
	tool := filepath.Join(os.Getenv(kubernetesVariable), "kubectl")
	out, err := exec.Command(tool, append([]string{"-n", "stampede"}, args...)...).CombinedOutput()
	if err != nil {
		ts.Fatalf("kubectl %q: %v\n%s", args, err, out)
	}
	return string(out)
}

// docker asks the engine of one of the swarm's nodes.
func docker(ts *testscript.TestScript, node int, args ...string) string {
	socket := fmt.Sprintf("unix://%s/%d/docker.sock", os.Getenv(swarmVariable), node)
	out, err := exec.Command("docker", append([]string{"-H", socket}, args...)...).CombinedOutput()
	if err != nil {
		ts.Fatalf("docker %q on node %d: %v\n%s", args, node, err, out)
	}
	return string(out)
}

// onNode is the command "onnode N ARGS...": docker at one of the swarm's nodes.
func onNode(ts *testscript.TestScript, _ bool, args []string) {
	node, err := strconv.Atoi(args[0])
	ts.Check(err)
	ts.Logf("%s", docker(ts, node, args[1:]...))
}

// emptyCluster is the command "emptycluster N": of stampede nothing is in the cluster, nor on the
// first N nodes of a swarm.
func emptyCluster(ts *testscript.TestScript, _ bool, args []string) {
	nodes, err := strconv.Atoi(args[0])
	ts.Check(err)
	awaitNone(ts, func() (left []string) {
		if os.Getenv(kubernetesVariable) != "" {
			return strings.Fields(kubectl(ts, "get", "jobs,pods,secrets", "-A", "-o", "name", "-l",
				"stampede.run"))
		}
		const ours = "label=stampede.run"
		left = strings.Fields(docker(ts, 1, "service", "ls", "-q", "--filter", ours) +
			docker(ts, 1, "secret", "ls", "-q", "--filter", ours))
		for node := range nodes {
			left = append(left, strings.Fields(docker(ts, node+1, "ps", "-aq"))...)
		}
		return left
	})
}

// sending says whether the events of a run tell of an answered operation.
func sending(path string) bool {
	text, err := os.ReadFile(filepath.Join(path, events.FileName))
	if err != nil {
		return false // it is not there yet
	}
	for line := range bytes.Lines(text) {
		if e, err := events.Decode(line); err == nil && e.Load != nil && e.Load.OK > 0 {
			return true
		}
	}
	return false
}

// processWith finds a process with all of some words on its command line.
func processWith(ts *testscript.TestScript, words ...string) int {
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range lines {
		text, err := os.ReadFile(file)
		all := err == nil
		for _, word := range words {
			all = all && strings.Contains(string(text), word)
		}
		if all {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			return pid
		}
	}
	ts.Fatalf("no process has %q on its command line", words)
	return 0
}
