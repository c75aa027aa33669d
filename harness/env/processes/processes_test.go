package processes_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"stampede/harness/env"
	"stampede/harness/env/envtest"
	"stampede/harness/env/processes"
	"stampede/harness/sut"
)

// parentVariable makes this test binary start stores and wait to be killed.
const parentVariable = "STAMPEDE_TEST_PARENT"

func TestMain(m *testing.M) {
	if mode := os.Getenv(parentVariable); mode != "" {
		os.Exit(beParent(mode))
	}
	if len(os.Args) == 5 && os.Args[1] == kfakeWord {
		os.Exit(beKfake(os.Args[2:]))
	}
	os.Exit(m.Run())
}

var both = []sut.Service{sut.Postgres, sut.Redis}

func start(t *testing.T, spec env.Spec) env.Cluster {
	t.Helper()
	if testing.Short() {
		t.Skip("needs real stores")
	}
	if spec.Services == nil {
		spec.Services = both
	}
	spec.RunID, spec.Dir = "t"+strconv.Itoa(os.Getpid()), t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cluster, err := processes.New().Start(ctx, spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeCluster(t, cluster) })
	return cluster
}

func closeCluster(t *testing.T, cluster env.Cluster) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := cluster.Close(ctx); err != nil {
		t.Error(err)
	}
}

func TestExercise(t *testing.T) {
	envtest.Exercise(t, processes.Provider{BrokerFlags: envtest.Hasty()})
}

// TestSignalsReachEveryProcess looks at the processes themselves: after a
// kill none lives, and during a pause each is stopped, the backends of
// Postgres included, which are in no process group of ours.
func TestSignalsReachEveryProcess(t *testing.T) {
	cluster := start(t, env.Spec{})
	for _, service := range both {
		b := cluster.Component(service).(env.Breakable)
		paused, err := b.Pause(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		stopped := 0
		for _, pid := range paused {
			switch state := stateOf(pid); state {
			case "T":
				stopped++
			case "Z": // a worker that ended just then, whose parent is stopped
			default:
				t.Errorf("%s: process %d is in state %s while paused", service, pid, state)
			}
		}
		if least := map[sut.Service]int{sut.Postgres: 2, sut.Redis: 1}[service]; stopped < least {
			t.Errorf("%s: %d of the processes %v are stopped, want at least %d",
				service, stopped, paused, least)
		}
		killed, err := b.Kill(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, pid := range append(paused, killed...) {
			if state := stateOf(pid); state != "" && state != "Z" {
				t.Errorf("%s: process %d is in state %s after the kill", service, pid, state)
			}
		}
	}
}

// stateOf is the state of a process as proc(5) has it, empty if there is none.
func stateOf(pid int) string {
	stat, err := env.StatOf(pid)
	if err != nil {
		return ""
	}
	return string(stat.State)
}

// TestBackendsOfADeadPostmaster kills the postmaster alone, behind our back.
func TestBackendsOfADeadPostmaster(t *testing.T) {
	cluster := start(t, env.Spec{Services: []sut.Service{sut.Postgres}})
	b := cluster.Component(sut.Postgres).(env.Breakable)
	pids, err := b.Pause(t.Context()) // frozen backends do not notice
	if err != nil {
		t.Fatal(err)
	}
	postmaster := slices.Min(pids)
	if err := syscall.Kill(postmaster, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(30 * time.Second)
	for err = b.Start(t.Context(), false); err != nil; err = b.Start(t.Context(), false) {
		if time.Now().After(deadline) {
			t.Fatal(err) // until the death is noticed it says "running already"
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err := b.Ready(t.Context()); err != nil {
		t.Error(err)
	}
}

// openDir is a temporary folder that every user may enter.
func openDir(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for dir := root; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestUnreachableDataFolderIsOneClearError(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root gives stores to another user")
	}
	closed := t.TempDir()
	if err := os.Chmod(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("STAMPEDE_DATA_DIR", closed)
	_, err := processes.New().Start(t.Context(), env.Spec{Services: both})
	if err == nil || !strings.Contains(err.Error(), "cannot enter "+closed) {
		t.Errorf("got %v", err)
	}
}

func TestFailedStartLeavesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("needs real stores")
	}
	for service, spec := range map[sut.Service]env.Spec{
		sut.Postgres: {Services: both, Postgres: map[string]string{"shared_bufers": "1MB"}},
		sut.Redis:    {Services: both, Redis: map[string]string{"appendfsink": "always"}},
	} {
		data := openDir(t)
		t.Setenv("STAMPEDE_DATA_DIR", data)
		if _, err := processes.New().Start(t.Context(), spec); err == nil {
			t.Errorf("%s started with an unknown setting", service)
		}
		if found, err := os.ReadDir(data); err != nil || len(found) > 0 {
			t.Errorf("%s: left behind: %v, %v", service, found, err)
		}
		if left := leftIn(t, []string{data + "/stampede"}); len(left) > 0 {
			t.Errorf("%s: processes left: %v", service, left)
		}
	}
}

func TestCloseLeavesNothing(t *testing.T) {
	for _, mode := range []string{"running", "paused"} {
		t.Run(mode, func(t *testing.T) {
			cluster := start(t, env.Spec{})
			dirs := dataDirs(t, cluster)
			memory := sharedMemory(t, dirs[0])
			if mode == "paused" {
				pause(t, cluster)
			}
			closeCluster(t, cluster)
			closeCluster(t, cluster) // idempotent
			awaitGone(t, dirs, memory)
		})
	}
}

func pause(t *testing.T, cluster env.Cluster) {
	t.Helper()
	for _, service := range both {
		if _, err := cluster.Component(service).(env.Breakable).Pause(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// sharedMemory is the segment that the kernel keeps for the Postgres of a data folder,
// as "shared memory 17": the last word of the seventh line of its lock file.
func sharedMemory(t *testing.T, dir string) string {
	t.Helper()
	lock, err := os.ReadFile(filepath.Join(dir, "postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(lock), "\n")
	if len(lines) < 7 || len(strings.Fields(lines[6])) != 2 {
		t.Fatalf("no segment is named in %q", lock)
	}
	segment := "shared memory " + strings.Fields(lines[6])[1]
	if !slices.Contains(segments(t), segment) {
		t.Fatalf("there is no %s", segment)
	}
	return segment
}

// segments are all that the kernel keeps.
func segments(t *testing.T) (list []string) {
	t.Helper()
	table, err := os.ReadFile("/proc/sysvipc/shm")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(table)) {
		if words := strings.Fields(line); len(words) > 1 {
			list = append(list, "shared memory "+words[1])
		}
	}
	return list
}

// dataDirs asks the stores where their data is.
func dataDirs(t *testing.T, cluster env.Cluster) []string {
	t.Helper()
	space, err := cluster.Namespace(t.Context(), "dirs")
	if err != nil {
		t.Fatal(err)
	}
	var dir string
	row := envtest.Connect(t, space.PostgresURL).QueryRow(t.Context(), "SHOW data_directory")
	if err := row.Scan(&dir); err != nil {
		t.Fatal(err)
	}
	values, err := envtest.RedisClient(t, space.RedisURL).ConfigGet(t.Context(), "dir").Result()
	if err != nil {
		t.Fatal(err)
	}
	return slices.Concat([]string{dir}, slices.Collect(maps.Values(values)))
}

// awaitGone waits until nothing of the folders, no process in them and no segment of
// memory is left.
func awaitGone(t *testing.T, dirs []string, memory string) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		left := leftIn(t, dirs)
		if slices.Contains(segments(t), memory) {
			left = append(left, memory)
		}
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("still there: %v", left)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func leftIn(t *testing.T, dirs []string) (left []string) {
	t.Helper()
	for _, dir := range dirs {
		if _, err := os.Stat(dir); err == nil {
			left = append(left, dir)
		}
	}
	cwds, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range cwds {
		cwd, err := os.Readlink(link)
		for _, dir := range dirs {
			if err == nil && strings.HasPrefix(cwd, dir) {
				left = append(left, link)
			}
		}
	}
	return left
}

// TestNothingSurvivesKill9 starts stores from another process, kills that one
// with SIGKILL and expects every process and folder of it to go: while the
// stores run, and while they are frozen, when they can do nothing themselves.
func TestNothingSurvivesKill9(t *testing.T) {
	if testing.Short() {
		t.Skip("needs real stores")
	}
	for _, mode := range []string{"running", "paused"} {
		t.Run(mode, func(t *testing.T) {
			var dirs []string
			parent := envtest.Parent(t, parentVariable, mode, &dirs)
			if len(leftIn(t, dirs)) < 4 {
				t.Fatalf("the parent started too little: %v", leftIn(t, dirs))
			}
			memory := sharedMemory(t, filepath.Join(dirs[0], string(sut.Postgres)))
			if err := parent.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = parent.Wait() // it was killed: always an error
			awaitGone(t, dirs, memory)
		})
	}
}

// beParent starts stores, prints their data folders and waits for its end.
func beParent(mode string) int {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	spec := env.Spec{Services: append(both, sut.Kafka), RunID: "parent"}
	cluster, err := processes.New().Start(ctx, spec)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	home := ""
	for _, service := range spec.Services {
		c := cluster.Component(service).(env.Breakable)
		pids, err := c.Pause(ctx)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		cwd, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pids[0]))
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		home = filepath.Dir(cwd)
		if mode == "running" {
			if err := c.Resume(ctx); err != nil {
				fmt.Fprintln(os.Stderr, err)
				return 1
			}
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode([]string{home}); err != nil {
		return 1
	}
	<-ctx.Done()
	return 1
}

func TestSweepTakesOnlyWhatIsAbandoned(t *testing.T) {
	root := t.TempDir()
	t.Setenv("STAMPEDE_DATA_DIR", root)
	plant := func(name, owner string) string {
		dir := filepath.Join(root, name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if owner != "" {
			if err := os.WriteFile(filepath.Join(dir, "owner.json"), []byte(owner), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	// Start ticks that no living process has: the pid was given again.
	self, err := env.OwnerOf("r")
	if err != nil {
		t.Fatal(err)
	}
	self.Started = 1
	owner, err := json.Marshal(self)
	if err != nil {
		t.Fatal(err)
	}
	dead := plant("stampede-dead-1", string(owner))
	kept := []string{
		plant("stampede-unsigned-1", ""),
		plant("stampede-unreadable-1", "{"),
		plant("other-1", `{"pid":1,"started_ticks":1}`),
	}
	removed, err := processes.New().Sweep(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(removed, []string{dead}) {
		t.Errorf("removed %v, want only %s", removed, dead)
	}
	for _, dir := range kept {
		if _, err := os.Stat(dir); err != nil {
			t.Errorf("%s is gone", dir)
		}
	}
}

func TestSweepLeavesALivingRun(t *testing.T) {
	t.Setenv("STAMPEDE_DATA_DIR", openDir(t))
	cluster := start(t, env.Spec{Services: []sut.Service{sut.Redis}})
	removed, err := processes.New().Sweep(t.Context(), false)
	if err != nil || len(removed) > 0 {
		t.Errorf("removed %v, %v", removed, err)
	}
	if err := cluster.Component(sut.Redis).Ready(t.Context()); err != nil {
		t.Error(err)
	}
}
