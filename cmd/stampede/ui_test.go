package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"stampede/harness/rundir"
)

// webUI is stampede ui as a process, on the runs in its folder.
type webUI struct {
	cmd  *exec.Cmd
	base string // its address without the token
	url  string
	errs *strings.Builder
}

// serveUI starts stampede ui and reads the address that it prints.
func serveUI(t *testing.T) *webUI {
	t.Helper()
	s := &webUI{cmd: command(t, nil, "ui"), errs: &strings.Builder{}}
	s.cmd.Stderr = s.errs
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("%v\n%s", err, s.errs)
	}
	s.url = strings.TrimSpace(line)
	s.base, _, _ = strings.Cut(s.url, "/?token=")
	t.Cleanup(func() { _ = s.cmd.Process.Kill() }) // an error says that it has ended
	return s
}

// end is Ctrl-C, and what the process said.
func (s *webUI) end(t *testing.T) (code int, said string) {
	t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	code, err := exitStatus(s.cmd.Wait())
	if err != nil {
		t.Fatal(err)
	}
	return code, s.errs.String()
}

// visitor is a browser that has been let in.
type visitor struct {
	*http.Client
	at *webUI
}

func (s *webUI) visit(t *testing.T) visitor {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	v := visitor{&http.Client{Jar: jar}, s}
	v.ask(t, http.MethodGet, s.url, nil)
	return v
}

// ask is the path that an address leads to, and what is there.
func (v visitor) ask(t *testing.T, method, address string, form url.Values) (path, text string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, address,
		strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := v.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s %v\n%s", response.Status, err, body)
	}
	return response.Request.URL.Path, string(body)
}

func (v visitor) get(t *testing.T, path string) string {
	t.Helper()
	_, text := v.ask(t, http.MethodGet, v.at.base+path, nil)
	return text
}

// start starts a sale on one design and returns the page of its run, and its directory.
func (v visitor) start(t *testing.T, profile string) (page, dir string) {
	t.Helper()
	key := regexp.MustCompile(`name="form" value="([^"]+)"`).FindStringSubmatch(
		v.get(t, "/start/flash-sale-100k"))
	page, _ = v.ask(t, http.MethodPost, v.at.base+"/start", url.Values{"form": {key[1]},
		"scenario": {"flash-sale-100k"}, "profile": {profile}, "backend": {"processes"},
		"seed": {"1"}, "variant": {"units_skip_locked"}})
	// On a busy machine it takes a while until the run has a folder.
	for deadline := time.Now().Add(patience); page == "/job" && time.Now().Before(deadline); {
		time.Sleep(20 * time.Millisecond)
		page, _ = v.ask(t, http.MethodGet, v.at.base+page, nil)
	}
	name, ok := strings.CutPrefix(page, "/run/")
	if !ok {
		t.Fatalf("it leads to %s", page)
	}
	return page, filepath.Join(v.at.cmd.Dir, "runs", name)
}

// TestUIRunsAScenario: a real run is started over HTTP, followed to its report, and the
// next one interrupted in an orderly way because the page ends.
func TestUIRunsAScenario(t *testing.T) {
	t.Parallel()
	s := serveUI(t)
	v := s.visit(t)
	run, _ := v.start(t, "smoke")
	states, last := followed(t, v.Client, s.base+run+"/live", "event: over")
	if !strings.Contains(states, "Repeat 1 of 1: units_skip_locked, steady") {
		t.Errorf("its states are %s", states)
	}
	link := regexp.MustCompile(`href="(/files/[^"]+/report.html)"`).FindStringSubmatch(last["actions"])
	if link == nil || !strings.Contains(v.get(t, link[1]), "flash-sale-100k") {
		t.Fatalf("the report: %q", last)
	}
	if !strings.Contains(v.get(t, "/"), link[1]) {
		t.Error("the list has no link to the report")
	}
	again, dir := v.start(t, "default")
	followed(t, v.Client, s.base+again+"/live", "units_skip_locked, steady")
	if again == run || rundir.StateOf(dir) != rundir.Running {
		t.Errorf("%s is %s", again, rundir.StateOf(dir))
	}
	if code, said := s.end(t); code != exitOK || !strings.Contains(said, "interrupting the run") {
		t.Errorf("exit code %d\n%s", code, said)
	}
	interrupted(t, dir)
}

// TestUIKilled: a run outlives the page that has started it for as long as it takes to
// be judged and reported.
func TestUIKilled(t *testing.T) {
	t.Parallel()
	s := serveUI(t)
	v := s.visit(t)
	run, dir := v.start(t, "default")
	followed(t, v.Client, s.base+run+"/live", "units_skip_locked, steady")
	if err := s.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	late := time.After(patience)
	report := filepath.Join(dir, rundir.ReportFile)
	for _, err := os.Stat(report); err != nil; _, err = os.Stat(report) {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("no report: the run is %s", rundir.StateOf(dir))
		}
	}
	interrupted(t, dir)
}

// interrupted fails the test unless a run was interrupted, judged and reported.
func interrupted(t *testing.T, dir string) {
	t.Helper()
	stored, err := rundir.Open("", dir)
	if err != nil {
		t.Fatal(err)
	}
	summary, err := stored.Summary()
	if err != nil || !summary.Run.Interrupted {
		t.Errorf("interrupted: %v, %v", summary.Run.Interrupted, err)
	}
	if _, err := os.Stat(filepath.Join(dir, rundir.ReportFile)); err != nil {
		t.Error(err)
	}
}

// followed is what a stream tells until a line of it has a text: all that it said of the
// run's state, and the last of each part.
func followed(t *testing.T, browser *http.Client, address, until string) (
	states string, last map[string]string,
) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := browser.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)
	last = map[string]string{}
	for lines.Scan() {
		if data, ok := strings.CutPrefix(lines.Text(), "data: {"); ok {
			if err := json.Unmarshal([]byte("{"+data), &last); err != nil {
				t.Fatal(err)
			}
			states += last["state"]
		}
		if strings.Contains(lines.Text(), until) {
			return states, last
		}
	}
	t.Fatalf("the stream ended early: %v", lines.Err())
	return "", nil
}
