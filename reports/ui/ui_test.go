package ui_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"stampede/harness/events"
	"stampede/harness/rundir"
)

// TestHome lists runs as they are: live, finished, dead.
func TestHome(t *testing.T) {
	s := inside(t, "runs")
	if _, text := s.get(t, "/"); !strings.Contains(text, "There are no runs here yet") {
		t.Error(text)
	}
	noon := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	dead, _ := s.write(t, noon)
	if err := dead.dir.Close(); err != nil { // as the kernel does for who dies
		t.Fatal(err)
	}
	finished, name := s.write(t, noon.Add(time.Minute))
	if err := finished.finish(); err != nil {
		t.Fatal(err)
	}
	_, live := s.write(t, noon.Add(2*time.Minute))
	_, text := s.get(t, "/")
	for _, want := range []string{"follow sale</a>", `href="/run/` + live + `"`, "▶</span> running",
		"✓</span> PASS", `data-l="timing"><span aria-hidden="true">✓</span> clean`, name +
			`/report.html"`, "■</span> ended without a report",
		"2026-11-22 12:01:00 UTC · smoke · seed 7", "index.html"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Index(text, live) > strings.Index(text, name) {
		t.Error("the newest run is not the first")
	}
}

// TestHomePages: many runs are many pages, and a changed summary is read again.
func TestHomePages(t *testing.T) {
	s := inside(t, "runs")
	noon := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for i := range 120 {
		r, _ := s.write(t, noon.Add(time.Duration(i)*time.Second))
		if err := r.finish(); err != nil {
			t.Fatal(err)
		}
	}
	path, seen := "/", map[string]bool{}
	for i, want := range []int{50, 50, 20} {
		_, text := s.get(t, path)
		if n := strings.Count(text, ">rates and messages<"); n != want {
			t.Errorf("page %d has %d runs", i, n)
		}
		for part := range strings.SplitSeq(text, `href="/run/`) {
			seen[strings.SplitN(part, `"`, 2)[0]] = true
		}
		if i > 0 && !strings.Contains(text, "newer runs") {
			t.Errorf("page %d leads to no newer runs", i)
		}
		head, _, more := strings.Cut(text, `">older runs`)
		path = ""
		if more {
			path = head[strings.LastIndex(head, `"`)+1:]
		}
		if (path == "") != (i == 2) {
			t.Fatalf("after page %d: %q", i, path)
		}
	}
	if len(seen) < 120 {
		t.Errorf("%d runs were listed", len(seen))
	}
}

// stream is a page that follows something.
type stream struct {
	*bufio.Scanner
	close func()
}

func (s *site) follow(t *testing.T, path string) *stream {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.base+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response := s.do(t, r) //nolint:bodyclose // the stream's close does, at the latest in the cleanup
	if kind := response.Header.Get("Content-Type"); kind != "text/event-stream" {
		t.Fatalf("%s: %s", response.Status, kind)
	}
	out := &stream{bufio.NewScanner(response.Body), func() { cancel(); response.Body.Close() }}
	out.Buffer(nil, 1<<20)
	t.Cleanup(out.close)
	return out
}

// listed is where the list of runs, as it is now, hears that it has changed.
func (s *site) listed(t *testing.T) string {
	t.Helper()
	_, page := s.get(t, "/")
	_, after, _ := strings.Cut(page, `data-list="`)
	address, _, _ := strings.Cut(after, `"`)
	return html.UnescapeString(address)
}

// next is the next event with its data.
func (s *stream) next(t *testing.T) (kind, data string) {
	t.Helper()
	for s.Scan() {
		if value, ok := strings.CutPrefix(s.Text(), "event: "); ok {
			kind = value
		} else if value, ok := strings.CutPrefix(s.Text(), "data: "); ok {
			return kind, value
		}
	}
	t.Fatalf("the stream ended: %v", s.Err())
	return "", ""
}

// parts is the next event's parts of a page.
func (s *stream) parts(t *testing.T) map[string]string {
	t.Helper()
	kind, data := s.next(t)
	parts := map[string]string{}
	if err := json.Unmarshal([]byte(data), &parts); err != nil || kind != "parts" {
		t.Fatalf("%s %s: %v", kind, data, err)
	}
	return parts
}

// TestFollow: a run that another process has started, to its end.
func TestFollow(t *testing.T) {
	s := inside(t, "runs")
	r, name := s.write(t, time.Now())
	page := s.until(t, "/run/"+name, "fault: stall")
	for _, want := range []string{`data-run="/run/` + name + `/live"`, "Who &lt;b&gt;wins&lt;/b&gt;?",
		"Repeat 1 of 2: first, steady", "812 → 803/s", "12.0 ms", "1,200",
		"rate over time: 803/s now, at most 803/s", "waiting", "at least"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in\n%s", want, page)
		}
	}
	if strings.Contains(page, "Interrupt") {
		t.Error("the run of another process can be interrupted")
	}
	live := s.follow(t, "/run/"+name+"/live")
	first := live.parts(t)
	if !strings.Contains(first["lane-0"], "fault: stall") || first["lane-1"] == "" ||
		!strings.Contains(first["state"], "Repeat 1 of 2") {
		t.Errorf("%+v", first)
	}
	r.record.Tell(r.event(events.Event{Fault: &events.FaultChange{
		Repeat: events.Repeat{Variant: "first"}, Fault: "stall"}}))
	for {
		parts := live.parts(t)
		if parts["lane-1"] != "" {
			t.Errorf("what has not changed is sent again: %+v", parts)
		}
		if lane := parts["lane-0"]; lane != "" {
			if strings.Contains(lane, "fault: stall") {
				t.Errorf("the fault has ended: %s", lane)
			}
			break
		}
	}
	if err := r.finish(); err != nil {
		t.Fatal(err)
	}
	all := live.untilOver(t)
	if !strings.Contains(all["actions"], name+"/report.html") ||
		!strings.Contains(all["state"], "PASS") || !strings.Contains(all["reasons"], "all held") {
		t.Errorf("%+v", all)
	}
	for live.Scan() {
		if live.Text() != "" {
			t.Errorf("the stream goes on: %s", live.Text())
		}
	}
}

// TestFollowTheDead: a run whose process has gone is not live for ever.
func TestFollowTheDead(t *testing.T) {
	s := inside(t, "runs")
	r, name := s.write(t, time.Now())
	live := s.follow(t, "/run/"+name+"/live")
	live.parts(t)
	if err := r.dir.Close(); err != nil {
		t.Fatal(err)
	}
	history := r.dir.File(rundir.HistoryName("first", 0))
	check := "stampede check " + filepath.Join(s.root, name) + " judges"
	if _, page := s.get(t, "/run/"+name); strings.Contains(page, check) {
		t.Errorf("there is nothing to check:\n%s", page)
	}
	if err := os.WriteFile(history, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	state := ""
	for {
		kind, data := live.next(t)
		if kind == "over" {
			break
		}
		state += data
	}
	if !strings.Contains(state, "Ended without a report") {
		t.Error(state)
	}
	_, page := s.get(t, "/run/"+name)
	if !strings.Contains(page, "Ended without a report") ||
		!strings.Contains(page, check) || strings.Contains(page, "data-run") ||
		strings.Contains(page, "steady") {
		t.Error(page)
	}
}

// TestFollowNonsense: a file that is none of ours is told of, and a run from before
// there were events has a page.
func TestFollowNonsense(t *testing.T) {
	s := inside(t, "runs")
	r, name := s.write(t, time.Now())
	path := r.dir.File(events.FileName)
	if err := os.WriteFile(path, []byte("{\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if kind, data := s.follow(t, "/run/"+name+"/live").next(t); kind != "problem" ||
		!strings.Contains(data, "read event") {
		t.Errorf("%s %s", kind, data)
	}
	if err := r.finish(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, page := s.get(t, "/run/"+name); !strings.Contains(page, "from before there were any") ||
		!strings.Contains(page, "Open the report") {
		t.Error(page)
	}
}

// TestFollowers are bounded in number, and hear that the list has changed.
func TestFollowers(t *testing.T) {
	s := inside(t, "runs")
	streams := []*stream{}
	for range 16 {
		streams = append(streams, s.follow(t, s.listed(t)))
	}
	if code, text := s.get(t, "/live"); code != http.StatusServiceUnavailable {
		t.Errorf("one more: %d\n%s", code, text)
	}
	streams[0].close()
	s.write(t, time.Now())
	// A folder that is removed and made again is read again.
	if err := os.RemoveAll(s.root); err != nil {
		t.Fatal(err)
	}
	r, name := s.write(t, time.Now())
	if err := r.finish(); err != nil {
		t.Fatal(err)
	}
	if _, text := s.get(t, "/"); !strings.Contains(text, name+"/report.html") {
		t.Error(text)
	}
	if kind, _ := streams[1].next(t); kind != "changed" {
		t.Errorf("%s", kind)
	}
	// What happened between the list's page and its stream is told too.
	shown := s.listed(t)
	s.write(t, time.Now().Add(time.Second))
	streams[1].close()
	if kind, _ := s.follow(t, shown).next(t); kind != "changed" {
		t.Errorf("%s", kind)
	}
}

// TestStart runs a scenario to its end, one at a time.
func TestStart(t *testing.T) {
	s := inside(t, "runs")
	if code, to := s.get(t, "/job"); code != http.StatusSeeOther || to != "/" {
		t.Errorf("no job: %d %s", code, to)
	}
	form := s.form(t)
	form.Set("seed", " 42 ")
	form.Set("repeats", "2")
	form["variant"] = []string{"first"}
	if code, to := s.post(t, "/start", form, "Origin", s.base); code != http.StatusSeeOther ||
		to != "/job" {
		t.Fatalf("%d %s", code, to)
	}
	code, run := s.get(t, "/job")
	if code != http.StatusSeeOther || !strings.HasPrefix(run, "/run/sale/") {
		t.Fatalf("%d %s", code, run)
	}
	s.mu.Lock()
	started := strings.Join(s.lines, "\n")
	s.mu.Unlock()
	if want := "started: stampede run sale --format=json --color=never --out=" + s.root +
		" --profile=smoke --backend=auto --design=first --seed=42 --repeats=2"; started != want {
		t.Errorf("%s\nwant %s", started, want)
	}
	if code, text := s.post(t, "/start", form); code != http.StatusConflict ||
		!strings.Contains(text, "two would measure each other, and sale is being run") {
		t.Errorf("a second one: %d\n%s", code, text)
	}
	s.until(t, run, "Interrupt</button>")
	if code, text := s.post(t, "/interrupt", form); code != http.StatusBadRequest {
		t.Errorf("which interrupt? %d %s", code, text)
	}
	if code := s.interrupt(t, form, 0); code != http.StatusSeeOther {
		t.Errorf("interrupt: %d", code)
	}
	s.until(t, run, "Open the report")
	// Its process writes nothing more, so it is about to end, if it has not.
	for code == http.StatusSeeOther {
		code = s.interrupt(t, form, 1)
	}
	if code != http.StatusConflict {
		t.Errorf("nothing is being run: %d", code)
	}
}

// TestStartBesideAnother: a run of another process is disturbed as little as one of ours, and so is
// the search for a knee, which is a row of runs.
func TestStartBesideAnother(t *testing.T) {
	running, searching := inside(t, "runs"), inside(t, "runs")
	running.write(t, time.Now())
	search, err := rundir.CreateSearch(searching.root, "sale", 7, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	defer search.Close()
	for s, what := range map[*site]string{running: "", searching: filepath.Base(search.Path())} {
		if code, text := s.post(t, "/start", s.form(t)); code != http.StatusConflict ||
			!strings.Contains(text, what+" is being written by another process") {
			t.Errorf("%d\n%s", code, text)
		}
	}
}

// TestStartRefuses what is not on offer, and keeps what was filled in.
func TestStartRefuses(t *testing.T) {
	s := inside(t, "runs")
	for _, c := range []struct{ field, value, want string }{
		{"profile", "--help", "there is no profile"}, {"backend", "external", "there is no backend"},
		{"variant", "first,second", "has no design"}, {"seed", "-1", "the seed is"},
		{"seed", "1e3", "the seed is"}, {"repeats", "0", "repeats are"},
		{"repeats", "101", "repeats are"}, {"variant", "", "at least one design"},
	} {
		form := s.form(t)
		form.Set(c.field, c.value)
		if c.value == "" {
			form.Del(c.field)
		}
		if code, text := s.post(t, "/start", form); code != http.StatusUnprocessableEntity ||
			!strings.Contains(text, c.want) || !strings.Contains(text, `role="alert"`) {
			t.Errorf("%s=%s: %d\n%s", c.field, c.value, code, text)
		}
	}
	form := s.form(t)
	form.Set("scenario", "../sale")
	if code, _ := s.post(t, "/start", form); code != http.StatusNotFound {
		t.Errorf("another scenario: %d", code)
	}
	if code, _ := s.get(t, "/start/nothing"); code != http.StatusNotFound {
		t.Errorf("the form of another scenario: %d", code)
	}
	if _, err := os.Stat(s.root); err == nil {
		t.Error("something was started")
	}
}

// TestStartFails: what it said is shown.
func TestStartFails(t *testing.T) {
	s := inside(t, "fails")
	if code, to := s.post(t, "/start", s.form(t)); code != http.StatusSeeOther || to != "/job" {
		t.Fatalf("%d %s", code, to)
	}
	text := s.until(t, "/job", "exit code 5")
	if !strings.Contains(text, "no engine answers") || strings.Contains(text, "http-equiv") {
		t.Error(text)
	}
	if _, home := s.get(t, "/"); !strings.Contains(home, "could not be run") {
		t.Error(home)
	}
}

// TestStartIsDiscarded: a run that has begun and then has no stores leaves no folder,
// and every page says why.
func TestStartIsDiscarded(t *testing.T) {
	s := inside(t, "discards")
	s.post(t, "/start", s.form(t))
	text := s.until(t, "/job", "exit code 5")
	if !strings.Contains(text, "no Postgres answers") {
		t.Error(text)
	}
	if _, home := s.get(t, "/"); !strings.Contains(home, "sale could not be run") {
		t.Error(home)
	}
	folder, err := os.ReadDir(s.root)
	if err != nil || len(folder) > 0 {
		t.Errorf("what is left: %v %v", folder, err)
	}
	name, err := os.ReadFile(rootFile(s, "../name"))
	if err != nil {
		t.Fatal(err)
	}
	if code, to := s.get(t, "/run/sale/"+string(name)); code != http.StatusSeeOther || to != "/job" {
		t.Errorf("its page: %d %s", code, to)
	}
	if code, _ := s.get(t, "/run/sale/20261122T120000Z-7-00000000"); code != http.StatusNotFound {
		t.Errorf("another run: %d", code)
	}
}

// TestDiscardedIsFollowed: who follows a run whose stores cannot be had hears why, and
// nothing of a history.
func TestDiscardedIsFollowed(t *testing.T) {
	s := inside(t, "runs")
	r, name := s.write(t, time.Now())
	live := s.follow(t, "/run/"+name+"/live")
	live.parts(t)
	r.record.Tell(r.event(events.Event{RunFailed: &events.Failure{Error: "no Postgres answers"}}))
	if err := errors.Join(r.record.Close(), r.dir.Discard()); err != nil {
		t.Fatal(err)
	}
	all := live.untilOver(t)
	if !strings.Contains(all["state"], "Failed: no Postgres answers") ||
		strings.Contains(all["state"], "stampede check") {
		t.Errorf("%+v", all)
	}
}

// untilOver is the last of each part until the stream is over.
func (s *stream) untilOver(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for {
		kind, data := s.next(t)
		if kind == "over" {
			return all
		}
		if err := json.Unmarshal([]byte(data), &all); err != nil {
			t.Fatal(err)
		}
	}
}

// TestStopsOnce: a run that the page has interrupted is waited for, not told again.
func TestStopsOnce(t *testing.T) {
	s := inside(t, "slow")
	form := s.form(t)
	s.post(t, "/start", form)
	_, run := s.get(t, "/job")
	s.interrupt(t, form, 0)
	stopped := make(chan error, 1)
	go func() { stopped <- s.stop() }()
	s.logged(t, "waiting for the run of sale")
	if err := os.WriteFile(rootFile(s, "../go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	path := filepath.Join(s.root, strings.TrimPrefix(run, "/run/"))
	if state := rundir.StateOf(path); state != rundir.Finished {
		t.Errorf("the run is %s", state)
	}
}

// TestStops: a run that was started is interrupted and waited for, and what does not
// end is killed.
func TestStops(t *testing.T) {
	s := inside(t, "runs")
	s.post(t, "/start", s.form(t))
	s.follow(t, "/live") // who follows does not hold it up
	_, run := s.get(t, "/job")
	if err := s.stop(); err != nil {
		t.Error(err)
	}
	path := filepath.Join(s.root, strings.TrimPrefix(run, "/run/"))
	if state := rundir.StateOf(path); state != rundir.Finished {
		t.Errorf("the run is %s", state)
	}
}

// TestKills: the third interrupt ends what two did not.
func TestKills(t *testing.T) {
	s := inside(t, "stubborn")
	form := s.form(t)
	s.post(t, "/start", form)
	_, run := s.get(t, "/job")
	for i, want := range []string{"leave at once", "Kill</button>"} {
		s.interrupt(t, form, i)
		s.interrupt(t, form, i) // a double click, or a page that is not up to date
		if page := s.until(t, run, want); !strings.Contains(page,
			fmt.Sprintf(`name="interrupts" value="%d"`, i+1)) {
			t.Errorf("after %d interrupts:\n%s", i+1, page)
		}
	}
	s.interrupt(t, form, 2)
	s.until(t, run, "Ended without a report")
	path := filepath.Join(s.root, strings.TrimPrefix(run, "/run/"))
	if state := rundir.StateOf(path); state != rundir.Unfinished {
		t.Errorf("the run is %s", state)
	}
}
