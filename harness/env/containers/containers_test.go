package containers_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"stampede/harness/env"
	"stampede/harness/env/containers"
	"stampede/harness/env/envtest"
	"stampede/harness/sut"
)

// parentVariable makes this test binary start a store and wait to be killed.
const parentVariable = "STAMPEDE_TEST_PARENT"

func TestMain(m *testing.M) {
	if os.Getenv(parentVariable) != "" {
		os.Exit(beParent())
	}
	os.Exit(m.Run())
}

var onlyRedis = []sut.Service{sut.Redis}

// engineRequired says whether a missing engine is a failure.
func engineRequired() bool {
	return os.Getenv("CI") != "" || os.Getenv("STAMPEDE_REQUIRE_ENGINE") != ""
}

// needEngine skips where no engine answers, but never in CI: there a missing
// engine is a failure.
func needEngine(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a container engine; -short was given")
	}
	ok, reason := containers.New().Available(t.Context(), env.Spec{Services: onlyRedis})
	switch {
	case ok:
	case engineRequired():
		t.Fatal(reason)
	default:
		t.Skip(reason)
	}
}

func TestExercise(t *testing.T) {
	needEngine(t)
	envtest.Exercise(t, &containers.Provider{BrokerFlags: envtest.Hasty()})
}

// left counts the containers and volumes of a run.
func left(t *testing.T, runID string) int {
	t.Helper()
	n := 0
	for _, kind := range []string{"ps -aq", "volume ls -q"} {
		args := append(strings.Fields(kind), "--filter", "label=stampede.run="+runID)
		out, err := exec.Command("docker", args...).Output()
		switch {
		case err == nil:
		case engineRequired():
			t.Fatalf("no docker program to look with: %v", err)
		default:
			t.Skipf("no docker program to look with: %v", err)
		}
		n += len(strings.Fields(string(out)))
	}
	return n
}

func TestCloseLeavesNothing(t *testing.T) {
	needEngine(t)
	runID := fmt.Sprintf("close%d", os.Getpid())
	spec := env.Spec{Services: onlyRedis, RunID: runID, Dir: t.TempDir()}
	cluster, err := containers.New().Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	if left(t, runID) < 2 {
		t.Error("there is no labelled container with its volume")
	}
	if err := cluster.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := left(t, runID); n != 0 {
		t.Errorf("%d containers and volumes are left", n)
	}
	if log, err := os.ReadFile(spec.Dir + "/redis.log"); err != nil || len(log) == 0 {
		t.Errorf("the log was not kept: %v", err)
	}
}

func TestFailedStartLeavesNothing(t *testing.T) {
	needEngine(t)
	runID := fmt.Sprintf("fail%d", os.Getpid())
	_, err := containers.New().Start(t.Context(), env.Spec{Services: onlyRedis, RunID: runID,
		Redis: map[string]string{"appendfsink": "always"}})
	if err == nil || !strings.Contains(err.Error(), "appendfsink") {
		t.Errorf("got %v", err)
	}
	if n := left(t, runID); n != 0 {
		t.Errorf("%d containers and volumes are left", n)
	}
}

func TestUnobtainableImageIsOneClearError(t *testing.T) {
	needEngine(t)
	// A registry on the discard port of this machine answers nothing.
	const image = "127.0.0.1:9/nobody/redis:1"
	t.Setenv("STAMPEDE_IMAGE_REDIS", image)
	ok, reason := containers.New().Available(t.Context(), env.Spec{Services: onlyRedis})
	if ok || !strings.Contains(reason, image+" is neither here nor can be pulled") {
		t.Errorf("got %v, %s", ok, reason)
	}
}

func TestNoEngineIsOneClearError(t *testing.T) {
	t.Setenv("DOCKER_HOST", "tcp://user:hunter2@127.0.0.1:9")
	ok, reason := containers.New().Available(t.Context(), env.Spec{Services: onlyRedis})
	if ok || !strings.Contains(reason, "no container engine answers") ||
		strings.Contains(reason, "hunter2") || strings.Contains(reason, "\n") {
		t.Errorf("got %v, %s", ok, reason)
	}
	removed, err := containers.New().Sweep(t.Context(), false)
	if err != nil || removed != nil {
		t.Errorf("a sweep without an engine: %v, %v", removed, err)
	}
}

// TestSweepAndGuardAfterKill9 starts a store from another process and kills
// that with SIGKILL: a sweep takes what it left, and nothing of the living.
func TestSweepAndGuardAfterKill9(t *testing.T) {
	needEngine(t)
	ours := fmt.Sprintf("ours%d", os.Getpid())
	spec := env.Spec{Services: onlyRedis, RunID: ours}
	cluster, err := containers.New().Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close(context.Background())
	for name, clean := range map[string]func(runID string) error{
		"sweep": func(string) error { _, err := containers.New().Sweep(t.Context(), false); return err },
		"guard": func(id string) error { return containers.RemoveRun(t.Context(), id) },
	} {
		t.Run(name, func(t *testing.T) {
			runID := fmt.Sprintf("%s%d", name, os.Getpid())
			// Without the reaper, which would do the work of what is tested.
			t.Setenv("TESTCONTAINERS_RYUK_DISABLED", "true")
			var ready bool
			parent := envtest.Parent(t, parentVariable, runID, &ready)
			if err := parent.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = parent.Wait() // it was killed: always an error
			if left(t, runID) < 2 {
				t.Error("nothing was left behind, so that nothing is tested")
			}
			if err := clean(runID); err != nil {
				t.Fatal(err)
			}
			if n := left(t, runID); n != 0 {
				t.Errorf("%d containers and volumes are left", n)
			}
			if left(t, ours) < 2 {
				t.Error("a living run lost what is its own")
			}
		})
	}
}

func beParent() int {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	spec := env.Spec{Services: onlyRedis, RunID: os.Getenv(parentVariable)}
	if _, err := containers.New().Start(ctx, spec); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println("true")
	<-ctx.Done()
	return 1
}

// TestADeadStoreHasNoAddress: the engine gives the address of a container that has
// ended to the next one, of whatever run. Who still looked there would write into a
// stranger's store.
func TestADeadStoreHasNoAddress(t *testing.T) {
	needEngine(t)
	spec := env.Spec{Services: onlyRedis, RunID: "dead-address", Dir: t.TempDir(), Log: t.Logf}
	start := func() env.Cluster {
		cluster, err := containers.New().Start(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := cluster.Close(context.WithoutCancel(t.Context())); err != nil {
				t.Error(err)
			}
		})
		return cluster
	}
	store := start().Component(sut.Redis).(env.Breakable)
	first := store.Addr()
	if _, err := store.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if addr := store.Addr(); addr != "" {
		t.Errorf("it is dead, and said to be at %s", addr)
	}
	stranger := start().Component(sut.Redis)
	t.Logf("it was at %s; the next one is at %s", first, stranger.Addr())
	if err := store.Start(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	if addr := store.Addr(); addr == "" || addr == stranger.Addr() {
		t.Errorf("it came back at %q, where the other one is at %s", addr, stranger.Addr())
	}
	if err := store.Ready(t.Context()); err != nil {
		t.Error(err)
	}
}
