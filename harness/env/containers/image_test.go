//go:build image

package containers

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"stampede/harness/env"
	"stampede/harness/sut"
)

// built is the image of stampede itself, which docker/images.sh makes.
const built = "stampede/stampede:local"

// label makes a name under which everything of a test is removed at its end.
func label(t *testing.T, name string) string {
	t.Helper()
	runID := name + strconv.Itoa(os.Getpid())
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := RemoveRun(ctx, runID); err != nil {
			t.Error(err)
		}
	})
	return runID
}

// engineDo runs the docker program and returns what it printed.
func engineDo(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var errs bytes.Buffer
	cmd := exec.CommandContext(ctx, "docker", args...)
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("docker %s: %v\n%s%s", strings.Join(args, " "), err, out, errs.String())
	}
	return strings.TrimSpace(string(out))
}

// up starts a service as compose.yaml has it, on a port of the kernel's
// choice and a volume without a name, and returns its address when its own
// health check is content.
func up(t *testing.T, service sut.Service, c composed, runID string) string {
	t.Helper()
	e, err := connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	image, err := e.choose(t.Context(), service)
	if err != nil {
		t.Fatal(err)
	}
	inside := c.Ports[0][strings.LastIndexByte(c.Ports[0], ':')+1:]
	args := []string{"run", "-d", "--label", env.RunLabel + "=" + runID, "-p", "127.0.0.1::" + inside,
		"--health-cmd", strings.Join(c.Healthcheck.Test[1:], " "),
		"--health-interval", c.Healthcheck.Interval,
		"--health-retries", strconv.Itoa(c.Healthcheck.Retries)}
	if c.ShmSize != "" {
		args = append(args, "--shm-size", strings.TrimSuffix(c.ShmSize, "b"))
	}
	for name, value := range c.Environment {
		args = append(args, "-e", name+"="+value)
	}
	for _, volume := range c.Volumes {
		source, target, _ := strings.Cut(volume, ":")
		if !strings.HasPrefix(source, "./") {
			args = append(args, "-v", target)
			continue
		}
		file, err := filepath.Abs(filepath.Join(composeDir, source))
		if err != nil {
			t.Fatal(err)
		}
		args = append(args, "-v", file+":"+target)
	}
	id := engineDo(t, append(append(args, image.ref), c.Command...)...)
	awaitHealthy(t, id)
	return engineDo(t, "port", id, inside)
}

func awaitHealthy(t *testing.T, id string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		status := engineDo(t, "inspect", "-f", "{{.State.Status}} {{.State.Health.Status}}", id)
		switch {
		case status == "running healthy":
			return
		case !strings.HasPrefix(status, "running"):
			t.Fatalf("it is %s:\n%s", status, engineDo(t, "logs", "--tail", "20", id))
		}
		select {
		case <-ctx.Done():
			t.Fatalf("it stays %s:\n%s", status, engineDo(t, "logs", "--tail", "20", id))
		case <-tick.C:
		}
	}
}

// TestImageServesOnComposedStores: the image of stampede sells a unit out of
// the stores of compose.yaml, and ends in order when it is told to.
func TestImageServesOnComposedStores(t *testing.T) {
	runID := label(t, "image")
	services := readCompose(t)
	postgres := up(t, sut.Postgres, services[sut.Postgres], runID)
	redis := up(t, sut.Redis, services[sut.Redis], runID)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "docker", "run", "--rm", "--name", runID, "--network", "host",
		"--label", env.RunLabel+"="+runID, built, "serve", "flashsale", "--design", "redis_lua",
		"--set", "items=1", "--set", "units=1", "--listen", "127.0.0.1:0", "--backend", "external",
		"--postgres-url", "postgres://stampede@"+postgres+"/stampede?sslmode=disable",
		"--redis-url", "redis://"+redis+"/0")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	_, url, said := strings.Cut(strings.TrimSpace(line), " on ")
	if err != nil || !said {
		cancel()
		t.Fatalf("it said %q, %v; %v\n%s", line, err, cmd.Wait(), errs.String())
	}
	for buyer, want := range []struct {
		status int
		text   string
	}{{http.StatusCreated, `"unit":1`}, {http.StatusConflict, "sold_out"}} {
		status, body := buyFrom(t, url, buyer)
		if status != want.status || !strings.Contains(body, want.text) {
			t.Errorf("buyer %d got %d %s, want %d %s", buyer, status, body, want.status, want.text)
		}
	}
	engineDo(t, "stop", "-t", "30", runID)
	if err := cmd.Wait(); err != nil {
		t.Errorf("it did not end in order: %v\n%s", err, errs.String())
	}
}

func buyFrom(t *testing.T, url string, buyer int) (status int, body string) {
	t.Helper()
	client := http.Client{Timeout: 30 * time.Second}
	request := fmt.Sprintf(`{"op_id": %d, "item": "item-1", "buyer": "b%[1]d"}`, buyer+1)
	response, err := client.Post(url+"/v1/buy", "application/json", strings.NewReader(request))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// TestImageRunsAlone: the image brings its stores and needs nothing outside.
func TestImageRunsAlone(t *testing.T) {
	runID := label(t, "alone")
	out := engineDo(t, "run", "--rm", "--network", "none", "--label", env.RunLabel+"="+runID, built,
		"run", "flash-sale-100k", "--profile", "smoke", "--design", "redis_lua",
		"--backend", "processes", "--seed", "7", "--fail-on", "invariant")
	if !strings.Contains(out, "RESULT flash-sale-100k") || !strings.Contains(out, "exit=0") {
		t.Errorf("it said\n%s", out)
	}
}
