package processes_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"stampede/harness/env"
	"stampede/harness/env/processes"
	"stampede/harness/sut"
)

// parentVariable makes this test binary start stores and wait to be killed.
const parentVariable = "STAMPEDE_TEST_PARENT"

func TestMain(m *testing.M) {
	if mode := os.Getenv(parentVariable); mode != "" {
		os.Exit(beParent(mode))
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

func breakable(t *testing.T, cluster env.Cluster, service sut.Service) env.Breakable {
	t.Helper()
	b, ok := cluster.Component(service).(env.Breakable)
	if !ok {
		t.Fatalf("%s is not breakable", service)
	}
	return b
}

func identity(t *testing.T, c env.Component) string {
	t.Helper()
	id, err := c.Identity(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestInfo(t *testing.T) {
	cluster := start(t, env.Spec{
		Postgres: map[string]string{"work_mem": "5MB"},
		Redis:    map[string]string{"save": "900 7", "hz": "17"},
	})
	want := map[sut.Service]map[string]string{
		sut.Postgres: {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on",
			"shared_buffers": "256MB", "max_connections": "300", "work_mem": "5MB"},
		sut.Redis: {"appendonly": "yes", "appendfsync": "everysec", "save": "900 7", "hz": "17"},
	}
	for service, settings := range want {
		info, err := cluster.Component(service).Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %+v", service, info)
		if info.Version == "" || info.Flush <= 0 || !filepath.IsAbs(info.Source) {
			t.Errorf("%s: incomplete: %+v", service, info)
		}
		for name, value := range settings {
			if info.Settings[name] != value {
				t.Errorf("%s: %s is %q, want %q", service, name, info.Settings[name], value)
			}
		}
	}
	if cluster.Component(sut.Kafka) != nil {
		t.Error("there is a kafka that nobody started")
	}
}

func TestKillLosesNothingAcknowledged(t *testing.T) {
	cluster := start(t, env.Spec{})
	space, err := cluster.Namespace(t.Context(), "kill")
	if err != nil {
		t.Fatal(err)
	}
	put(t, space)
	for _, service := range both {
		b := breakable(t, cluster, service)
		before := identity(t, b)
		pids, err := b.Kill(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if service == sut.Postgres && len(pids) < 4 {
			t.Errorf("killed %v: a postmaster has more children than that", pids)
		}
		for _, pid := range pids {
			if state := stateOf(pid); state != "" && state != "Z" {
				t.Errorf("%s: process %d is in state %s after the kill", service, pid, state)
			}
		}
		if b.Ready(t.Context()) == nil {
			t.Errorf("%s answers after the kill", service)
		}
		if _, err := b.Kill(t.Context()); err == nil {
			t.Errorf("%s was killed twice", service)
		}
		if err := b.Start(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		if identity(t, b) == before {
			t.Errorf("%s has the same identity after a kill", service)
		}
	}
	if row, key := get(t, space); row != "kept" || key != "kept" {
		t.Errorf("after the kill: postgres has %q, redis %q", row, key)
	}
}

func TestWipe(t *testing.T) {
	cluster := start(t, env.Spec{})
	space, err := cluster.Namespace(t.Context(), "wipe")
	if err != nil {
		t.Fatal(err)
	}
	put(t, space)
	for _, service := range both {
		b := breakable(t, cluster, service)
		if _, err := b.Kill(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := b.Start(t.Context(), true); err != nil {
			t.Fatal(err)
		}
	}
	if row, key := get(t, space); row != "" || key != "" {
		t.Errorf("after the wipe: postgres has %q, redis %q", row, key)
	}
}

// put stores one acknowledged value in each store.
func put(t *testing.T, space env.Namespace) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), space.PostgresURL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	_, err = conn.Exec(t.Context(), "CREATE TABLE t AS SELECT 'kept'::text AS v")
	if err != nil {
		t.Fatal(err)
	}
	client := redisClient(t, space.RedisURL)
	if err := client.Set(t.Context(), space.Prefix+"k", "kept", 0).Err(); err != nil {
		t.Fatal(err)
	}
}

// get reads both values, empty where there is none.
func get(t *testing.T, space env.Namespace) (row, key string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), space.PostgresURL)
	if err == nil {
		defer conn.Close(t.Context())
		if err := conn.QueryRow(t.Context(), "SELECT v FROM t").Scan(&row); err != nil {
			t.Fatal(err)
		}
	}
	key, err = redisClient(t, space.RedisURL).Get(t.Context(), space.Prefix+"k").Result()
	if err != nil && err != redis.Nil {
		t.Fatal(err)
	}
	return row, key
}

func redisClient(t *testing.T, url string) *redis.Client {
	t.Helper()
	opts, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	opts.MaxRetries = -1
	client := redis.NewClient(opts)
	t.Cleanup(func() { client.Close() })
	return client
}

func TestPauseAndResume(t *testing.T) {
	cluster := start(t, env.Spec{})
	for _, service := range both {
		b := breakable(t, cluster, service)
		before := identity(t, b)
		pids, err := b.Pause(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, pid := range pids {
			if state := stateOf(pid); state != "T" {
				t.Errorf("%s: process %d is in state %s while paused", service, pid, state)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		if b.Ready(ctx) == nil {
			t.Errorf("%s answers while paused", service)
		}
		cancel()
		if err := b.Resume(t.Context()); err != nil {
			t.Fatal(err)
		}
		if identity(t, b) != before {
			t.Errorf("%s is another one after a pause", service)
		}
	}
}

func TestRestart(t *testing.T) {
	cluster := start(t, env.Spec{})
	for _, service := range both {
		b := breakable(t, cluster, service)
		before := identity(t, b)
		if err := b.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		if identity(t, b) == before {
			t.Errorf("%s has the same identity after a restart", service)
		}
	}
}

// stateOf is the state of a process as proc(5) has it, empty if there is none.
func stateOf(pid int) string {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(string(data), ") ")
	return rest[:1]
}

func TestNamespacesAreSeparate(t *testing.T) {
	cluster := start(t, env.Spec{})
	first, err := cluster.Namespace(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	put(t, first)
	second, err := cluster.Namespace(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	put(t, second)
	if err := second.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if row, key := get(t, first); row != "kept" || key != "kept" {
		t.Errorf("releasing the second took the first's: %q, %q", row, key)
	}
	if row, key := get(t, second); row != "" || key != "" {
		t.Errorf("a released namespace still has %q, %q", row, key)
	}
	if err := second.Release(t.Context()); err != nil {
		t.Errorf("a second release: %v", err)
	}
	if err := first.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := redisClient(t, first.RedisURL).DBSize(t.Context()).Val(); n != 0 {
		t.Errorf("%d keys are left", n)
	}
}

func TestBadSettingIsOneClearError(t *testing.T) {
	if testing.Short() {
		t.Skip("needs real stores")
	}
	cases := map[string]struct {
		spec env.Spec
		want string
	}{
		"unknown postgres setting": {
			env.Spec{Services: both, Postgres: map[string]string{"shared_bufers": "1MB"}},
			"shared_bufers"},
		"unknown redis setting": {
			env.Spec{Services: both, Redis: map[string]string{"appendfsink": "always"}}, "appendfsink"},
		"two lines": {
			env.Spec{Services: both, Redis: map[string]string{"save": "\nport 1"}}, "one line"},
		"unknown service": {env.Spec{Services: []sut.Service{"oracle"}}, "oracle"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			data := openDir(t)
			t.Setenv("STAMPEDE_DATA_DIR", data)
			_, err := processes.New().Start(t.Context(), c.spec)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
			if left, _ := filepath.Glob(filepath.Join(data, "*")); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
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

func TestCloseLeavesNothing(t *testing.T) {
	cluster := start(t, env.Spec{})
	dirs := dataDirs(t, cluster)
	closeCluster(t, cluster)
	closeCluster(t, cluster) // idempotent
	awaitGone(t, dirs)
}

// dataDirs asks the stores where their data is.
func dataDirs(t *testing.T, cluster env.Cluster) []string {
	t.Helper()
	space, err := cluster.Namespace(t.Context(), "dirs")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), space.PostgresURL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	var dir string
	if err := conn.QueryRow(t.Context(), "SHOW data_directory").Scan(&dir); err != nil {
		t.Fatal(err)
	}
	values, err := redisClient(t, space.RedisURL).ConfigGet(t.Context(), "dir").Result()
	if err != nil {
		t.Fatal(err)
	}
	return slices.Concat([]string{dir}, slices.Collect(maps.Values(values)))
}

// awaitGone waits until nothing of the folders and no process in them is left.
func awaitGone(t *testing.T, dirs []string) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		left := leftIn(t, dirs)
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
			parent, dirs := startParent(t, mode)
			if len(leftIn(t, dirs)) < 4 {
				t.Fatalf("the parent started too little: %v", leftIn(t, dirs))
			}
			if err := parent.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = parent.Wait() // it was killed: always an error
			awaitGone(t, dirs)
		})
	}
}

// startParent re-executes this binary and returns it with its data folders.
func startParent(t *testing.T, mode string) (*exec.Cmd, []string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), parentVariable+"="+mode)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	var dirs []string
	if err := json.NewDecoder(out).Decode(&dirs); err != nil {
		t.Fatalf("read the parent's answer: %v", err)
	}
	return cmd, dirs
}

// beParent starts stores, prints their data folders and waits for its end.
func beParent(mode string) int {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	spec := env.Spec{Services: both, RunID: "parent"}
	cluster, err := processes.New().Start(ctx, spec)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	home := ""
	for _, service := range both {
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
	dead := plant("stampede-dead-1", fmt.Sprintf(`{"pid":%d,"started_ticks":1}`, os.Getpid()))
	kept := []string{
		plant("stampede-unsigned-1", ""),
		plant("stampede-unreadable-1", "{"),
		plant("other-1", `{"pid":1,"started_ticks":1}`),
	}
	removed, err := processes.New().Sweep(t.Context())
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
	removed, err := processes.New().Sweep(t.Context())
	if err != nil || len(removed) > 0 {
		t.Errorf("removed %v, %v", removed, err)
	}
	if err := cluster.Component(sut.Redis).Ready(t.Context()); err != nil {
		t.Error(err)
	}
}
