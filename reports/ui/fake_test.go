package ui_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"stampede/harness/events"
	"stampede/harness/rundir"
	"stampede/reports/ui"
)

// TestMain lets this binary act as stampede; see pretend.
func TestMain(m *testing.M) {
	if how := os.Getenv("STAMPEDE_UI_TEST"); how != "" {
		if err := pretend(how, os.Args[1:]); err != nil {
			log.Fatal(err)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// pretend runs nothing for as long as it is not interrupted, with all the files and
// events of a run. how is "runs", "fails", "discards", which fails when the run has
// started and leaves its name beside the folder, "stubborn", which interrupts do not end,
// or "slow", which once interrupted waits for the file go beside the folder and leaves at
// a second interrupt.
func pretend(how string, args []string) error {
	if how == "fails" {
		fmt.Fprintln(os.Stderr, "stampede: no engine answers")
		os.Exit(5)
	}
	interrupts := make(chan os.Signal, 3)
	signal.Notify(interrupts, os.Interrupt)
	root := ""
	for _, arg := range args {
		if value, ok := strings.CutPrefix(arg, "--out="); ok {
			root = value
		}
	}
	r, err := newRun(root, args[1], time.Now())
	if err != nil {
		return err
	}
	told := r.opening()
	if how == "discards" {
		told = append(told[:1], r.event(events.Event{RunFailed: &events.Failure{
			Error: "no Postgres answers"}}))
	}
	enc := json.NewEncoder(os.Stdout)
	for _, e := range told {
		r.record.Tell(e)
		if err := enc.Encode(e); err != nil {
			return err
		}
	}
	if how == "discards" {
		name := []byte(filepath.Base(r.dir.Path()))
		if err := errors.Join(r.record.Close(), r.dir.Discard(),
			os.WriteFile(filepath.Join(filepath.Dir(root), "name"), name, 0o644)); err != nil {
			return err
		}
		os.Exit(5)
	}
	<-interrupts
	for how == "stubborn" {
		<-interrupts
	}
	if how == "slow" && !awaitGo(filepath.Join(filepath.Dir(root), "go"), interrupts) {
		os.Exit(130)
	}
	return r.finish()
}

// awaitGo waits for a file; false at an interrupt.
func awaitGo(file string, interrupts <-chan os.Signal) bool {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := os.Stat(file); err == nil {
			return true
		}
		select {
		case <-interrupts:
			return false
		case <-tick.C:
		}
	}
}

// pretended is a run that is being written.
type pretended struct {
	dir    *rundir.Dir
	record *events.Recorder
	at     time.Time
}

func newRun(root, scenario string, at time.Time) (*pretended, error) {
	dir, err := rundir.Create(root, scenario, 7, at)
	if err != nil {
		return nil, err
	}
	record, err := events.KeepIn(dir.File(events.FileName))
	return &pretended{dir, record, at}, err
}

func (r *pretended) event(e events.Event) events.Event {
	e.RunID = r.dir.ID()
	return events.Stamped(e, r.at)
}

// opening is what happens up to the middle of a load.
func (r *pretended) opening() []events.Event {
	first := events.Repeat{Variant: "first"}
	tick := func(seconds int) events.Event {
		return r.event(events.Event{Load: &events.Tick{Repeat: first, ElapsedNS: int64(seconds) * 1e9,
			Load: rundir.Load{Scheduled: 1234, OK: 1200, Unknown: 3}, OfferedPerS: 812,
			AchievedPerS: 800 + float64(seconds), P99NS: 12e6, P99RecentNS: 11e6}})
	}
	return []events.Event{
		r.event(events.Event{RunStarted: &events.Plan{Directory: r.dir.Path(), PID: os.Getpid(),
			Scenario: "sale", Question: `Who <b>wins</b>?`, System: "shop", Profile: "smoke", Seed: 7,
			Repeats: 1, LoadNS: 10e9, Faults: []string{"stall"},
			Slots: []events.Slot{{Variant: "first"}, {Variant: "second"}}}}),
		r.event(events.Event{Environment: &rundir.Environment{
			Components: map[string]rundir.Component{}}}),
		r.event(events.Event{RepeatStarted: &first}),
		r.event(events.Event{Phase: &events.Phase{Repeat: first, Phase: events.Steady}}),
		tick(1), tick(2), tick(3),
		r.event(events.Event{Fault: &events.FaultChange{Repeat: first, Fault: "stall", On: true}}),
	}
}

// finish ends the run with a summary and a page.
func (r *pretended) finish() error {
	first := events.Repeat{Variant: "first"}
	pass := rundir.Verdict{Overall: rundir.Pass, Correctness: rundir.Pass, Objectives: rundir.Pass,
		Timing: rundir.Clean, Reasons: []string{"all held"}}
	r.record.Tell(r.event(events.Event{RepeatDone: &events.Outcome{Repeat: first,
		Verdict: rundir.Pass, Reasons: []string{}, Load: rundir.Load{OK: 1300}}}))
	r.record.Tell(r.event(events.Event{RunDone: &events.Judged{Verdict: pass}}))
	if err := r.record.Close(); err != nil {
		return err
	}
	info := rundir.RunInfo{ID: r.dir.ID(), Scenario: "sale", System: "shop", Profile: "smoke", Seed: 7}
	if err := r.dir.WriteManifest(rundir.Manifest{Run: info}); err != nil {
		return err
	}
	if err := r.dir.WriteSummary(rundir.Summary{Run: info, Verdict: pass}); err != nil {
		return err
	}
	err := r.dir.WriteFile(rundir.ReportFile, func(w io.Writer) error {
		_, err := io.WriteString(w, "<!doctype html><title>the report</title>")
		return err
	})
	if err != nil {
		return err
	}
	return r.dir.Close()
}

// site is a server that is running, with a browser's cookies.
type site struct {
	*http.Client
	server *ui.Server
	root   string
	base   string
	stop   func() error

	mu    sync.Mutex
	lines []string
}

// newSite serves an empty folder of runs. how is what a started program does.
func newSite(t *testing.T, how string) *site {
	t.Helper()
	l, err := ui.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	s := &site{root: filepath.Join(t.TempDir(), "runs"), base: "http://" + l.Addr().String(),
		Client: &http.Client{Jar: jar, Transport: transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s.server = ui.New(ui.Options{Root: s.root, Backends: []string{"auto", "processes"},
		Scenarios: []ui.Scenario{{Name: "sale", Question: "Who wins?", System: "shop",
			Variants: []string{"first", "second"}, Profiles: []string{"smoke", "default"},
			Known: map[string]bool{"second": true}}},
		Command: func(args ...string) *exec.Cmd {
			cmd := exec.Command(self, args...)
			cmd.Env = append(os.Environ(), "STAMPEDE_UI_TEST="+how)
			return cmd
		},
		Logf: func(format string, args ...any) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.lines = append(s.lines, fmt.Sprintf(format, args...))
		}}, l.Addr())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.server.Serve(ctx, l) }()
	s.stop = sync.OnceValue(func() error {
		cancel()
		err := <-done
		transport.CloseIdleConnections()
		return err
	})
	t.Cleanup(func() {
		if err := s.stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// inside is a new site whose browser has been let in.
func inside(t *testing.T, how string) *site {
	t.Helper()
	s := newSite(t, how)
	s.enter(t)
	return s
}

// enter opens the address with the token.
func (s *site) enter(t *testing.T) {
	t.Helper()
	if code, text := s.get(t, s.server.URL()); code != http.StatusOK ||
		!strings.Contains(text, `url=/`) {
		t.Fatalf("%d\n%s", code, text)
	}
}

// get asks for an address, or a path.
func (s *site) get(t *testing.T, address string, headers ...string) (code int, text string) {
	t.Helper()
	return s.ask(t, http.MethodGet, address, nil, headers...)
}

// post sends a form.
func (s *site) post(t *testing.T, path string, form url.Values, headers ...string) (int, string) {
	t.Helper()
	return s.ask(t, http.MethodPost, path, form,
		append([]string{"Content-Type", "application/x-www-form-urlencoded"}, headers...)...)
}

// ask returns what is at an address, or where it leads to.
func (s *site) ask(
	t *testing.T, method, address string, form url.Values, headers ...string,
) (code int, text string) {
	t.Helper()
	if strings.HasPrefix(address, "/") {
		address = s.base + address
	}
	r, err := http.NewRequestWithContext(t.Context(), method, address,
		strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	response := s.do(t, r, headers...)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, cmp.Or(response.Header.Get("Location"), string(body))
}

// do sends a request with headers, which are names and values in turn.
func (s *site) do(t *testing.T, r *http.Request, headers ...string) *http.Response {
	t.Helper()
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		}
	}
	response, err := s.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	return response
}

var formKey = regexp.MustCompile(`name="form" value="([A-Z2-7]+)"`)

// form is the page's form, filled in.
func (s *site) form(t *testing.T) url.Values {
	t.Helper()
	_, text := s.get(t, "/start/sale")
	key := formKey.FindStringSubmatch(text)
	if key == nil {
		t.Fatalf("no form in\n%s", text)
	}
	return url.Values{"form": {key[1]}, "scenario": {"sale"}, "profile": {"smoke"},
		"backend": {"auto"}, "variant": {"first", "second"}}
}

// interrupt presses a button that stood for an interrupt after so many others.
func (s *site) interrupt(t *testing.T, form url.Values, before int) int {
	t.Helper()
	form.Set("interrupts", strconv.Itoa(before))
	code, to := s.post(t, "/interrupt", form)
	if code == http.StatusSeeOther && to != "/job" {
		t.Errorf("interrupting leads to %s", to)
	}
	return code
}

// logged waits until the server has logged a line.
func (s *site) logged(t *testing.T, want string) {
	t.Helper()
	await(t, want, func() string {
		s.mu.Lock()
		defer s.mu.Unlock()
		return strings.Join(s.lines, "\n")
	})
}

// write makes a run in the folder that goes on, and returns its name.
func (s *site) write(t *testing.T, at time.Time) (r *pretended, name string) {
	t.Helper()
	r, err := newRun(s.root, "sale", at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.record.Close(); _ = r.dir.Close() })
	for _, e := range r.opening() {
		r.record.Tell(e)
	}
	return r, "sale/" + filepath.Base(r.dir.Path())
}

// until asks again and again until a text is there.
func (s *site) until(t *testing.T, path, want string) string {
	t.Helper()
	return await(t, want, func() string {
		_, text := s.get(t, path)
		return text
	})
}

// await looks again and again until what it sees has a text.
func await(t *testing.T, want string, look func() string) string {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		text := look()
		if strings.Contains(text, want) {
			return text
		}
		if time.Now().After(deadline) {
			t.Fatalf("never %q:\n%s", want, text)
		}
	}
}
