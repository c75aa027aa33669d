package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"stampede/harness/events"
	"stampede/harness/rundir"
)

// script tells a view a run, at times of its own.
type script struct {
	now  time.Time
	tell func(events.Event)
}

func newScript(tell func(events.Event)) *script {
	return &script{now: time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC), tell: tell}
}

// after lets an event happen so much later.
func (s *script) after(d time.Duration, e events.Event) {
	s.now = s.now.Add(d)
	s.tell(events.Stamped(e, s.now))
}

// start begins a run of variants, ten seconds of load each.
func (s *script) start(repeats int, variants ...string) {
	slots := []events.Slot{}
	for repeat := range repeats {
		for _, v := range variants {
			slots = append(slots, events.Slot{Variant: v, Repeat: repeat})
		}
	}
	s.after(0, events.Event{RunStarted: &events.Plan{Scenario: "sale", Profile: "smoke", Seed: 7,
		Repeats: repeats, Slots: slots, LoadNS: 10e9}})
}

func (s *script) stores() {
	s.after(2*time.Second, events.Event{Environment: &rundir.Environment{}})
}

func (s *script) phase(d time.Duration, r events.Repeat, name events.PhaseName) {
	s.after(d, events.Event{Phase: &events.Phase{Repeat: r, Phase: name}})
}

// tick has the numbers of a load at a moment of it.
func (s *script) tick(d time.Duration, r events.Repeat, elapsed time.Duration) {
	t := &events.Tick{Repeat: r, ElapsedNS: elapsed.Nanoseconds(), OfferedPerS: 1812,
		AchievedPerS: 800, P99NS: 55_000_000, P99RecentNS: 12_340_000,
		Load: rundir.Load{OK: 90, Refused: 5, Unknown: 2}}
	s.after(d, events.Event{Load: t})
}

// repeat is a whole one, of 14 seconds.
func (s *script) repeat(r events.Repeat, verdict string, reasons ...string) {
	s.after(0, events.Event{RepeatStarted: &r})
	s.phase(0, r, events.Prepare)
	s.phase(time.Second, r, events.Steady)
	s.phase(10*time.Second, r, events.Drain)
	s.after(3*time.Second, events.Event{RepeatDone: &events.Outcome{Repeat: r, Verdict: verdict,
		Reasons: reasons, Load: rundir.Load{OK: 100, Refused: 20, Dropped: 3}, Kind: "buy",
		Main: rundir.Load{OK: 90, Refused: 10}, P99NS: 23_600_000}})
}

// liveOn is a live view on a terminal of the test, which draws when it is told to.
func liveOn(v *terminal) (*liveView, *script) {
	l := &liveView{out: v, size: v.size, stop: make(chan struct{}),
		stopping: func() bool { return false }}
	s := newScript(l.Observe)
	l.now = func() time.Time { return s.now }
	return l, s
}

// TestLiveBlock: a line for each variant, which says what it is doing.
func TestLiveBlock(t *testing.T) {
	v := newTerminal(t, 100, 12)
	l, s := liveOn(v)
	l.Logf("backend: processes")
	l.draw(false)
	v.shows("backend: processes")
	if v.hidden {
		t.Error("the cursor is hidden before there is a block")
	}
	s.start(1, "naive", "units_skip_locked", "redis_lua")
	s.now = s.now.Add(1500 * time.Millisecond)
	l.draw(false)
	v.shows(`
backend: processes
sale · smoke · seed 7 · starting the stores, 1.5s
· naive              waiting
· units_skip_locked  waiting
· redis_lua          waiting`)
	s.stores()
	s.repeat(events.Repeat{Variant: "naive"}, rundir.Fail, "oversold 3 units\x1b[2Jof 50")
	second := events.Repeat{Variant: "units_skip_locked", Order: 1}
	s.after(0, events.Event{RepeatStarted: &second})
	s.phase(time.Second, second, events.Steady)
	s.tick(3*time.Second, second, 3*time.Second)
	s.after(0, events.Event{Fault: &events.FaultChange{Repeat: second, Fault: "stall", On: true}})
	l.Logf("a note")
	l.draw(false)
	// Beside its load a repeat took 4 s: 10 are left of this one and 14 of the next.
	v.shows(`
backend: processes
a note
sale · smoke · seed 7 · repeat 2 of 3 · about 24s left
✗ naive              FAIL  p99 23.6 ms  buy ok 90  refused 10  dropped 3  oversold 3 units�[2Jof 50
▶ units_skip_locked  steady 3s/10s  unknown 2  FAULT stall  1,812/s due, 800/s done, p99 12.3 ms i…
· redis_lua          waiting`)
	s.after(0, events.Event{Fault: &events.FaultChange{Repeat: second, Fault: "stall"}})
	s.phase(8*time.Second, second, events.Settle)
	s.now = s.now.Add(90 * time.Second)
	l.draw(false)
	if got := v.all(); !strings.Contains(got, "▶ units_skip_locked  settle 1m30s\n") ||
		!strings.Contains(got, "about 14s left") || strings.Contains(got, "FAULT") {
		t.Errorf("the terminal shows\n%s", got)
	}
	if !v.hidden || v.hides != 1 {
		t.Errorf("the cursor is hidden: %v, %d times", v.hidden, v.hides)
	}
	s.after(0, events.Event{RunDone: &events.Judged{}})
	if err := l.close(); err != nil {
		t.Error(err)
	}
	v.shows("backend: processes\na note")
	if v.hidden {
		t.Error("the cursor stays hidden")
	}
}

// TestLiveKeepsWhatAnUnfinishedRunFound, on whatever way it ends.
func TestLiveKeepsWhatAnUnfinishedRunFound(t *testing.T) {
	v := newTerminal(t, 60, 12)
	l, s := liveOn(v)
	s.start(1, "a", "b")
	s.stores()
	s.repeat(events.Repeat{Variant: "a"}, rundir.Pass)
	l.stopping = func() bool { return true }
	l.draw(false)
	if got := v.all(); !strings.Contains(got, "stopping; Ctrl-C again leaves at o…") {
		t.Errorf("the terminal shows\n%s", got)
	}
	func() {
		defer func() { _ = recover() }()
		defer func() { _ = l.close() }() // as main's are
		panic("a defect")
	}()
	if got := v.all(); v.hidden || !strings.Contains(got, "✓ a  PASS  p99 23.6 ms  buy ok 90") {
		t.Errorf("hidden %v; the terminal shows\n%s", v.hidden, got)
	}

	l, s = liveOn(v)
	s.start(1, "a")
	l.draw(false)
	l.restore() // a second Ctrl-C
	if v.hidden {
		t.Error("the cursor stays hidden after a second interrupt")
	}
}

// TestLiveFitsTheScreen: what is finished shares a line before what waits does, and
// a window that gets narrower leaves nothing behind.
func TestLiveFitsTheScreen(t *testing.T) {
	v := newTerminal(t, 90, 7)
	l, s := liveOn(v)
	names := []string{}
	for i := range 9 {
		names = append(names, fmt.Sprintf("variant_%d", i))
	}
	s.start(2, names...)
	s.stores()
	for i, name := range names[:3] {
		verdict := rundir.Pass
		if i == 1 {
			verdict = rundir.Invalid
		}
		s.repeat(events.Repeat{Variant: name, Order: i}, verdict, "because")
	}
	running := events.Repeat{Variant: "variant_3", Order: 3}
	s.after(0, events.Event{RepeatStarted: &running})
	l.draw(false)
	v.shows(`
sale · smoke · seed 7 · repeat 4 of 18 · about 3m30s left
✓ variant_0  PASS after 1/2  p99 23.6 ms  buy ok 90  refused 10  dropped 3  because
! variant_1  INVALID after 1/2  p99 23.6 ms  buy ok 90  refused 10  dropped 3  because
✓ variant_2  PASS after 1/2  p99 23.6 ms  buy ok 90  refused 10  dropped 3  because
▶ variant_3  #1/2 prepare 0s
· 5 more waiting`)
	v.rows = 30
	v.resize(40)
	l.Logf("a line that is much longer than the terminal is wide")
	l.draw(false)
	if got := v.all(); strings.Count(got, "sale · smoke") != 1 ||
		!strings.HasPrefix(got, "a line that is much longer than the\nterminal is wide\nsale") {
		t.Errorf("the terminal shows\n%s", got)
	}
	v.rows = 2
	l.draw(false)
	if len(l.drawn) != 1 {
		t.Errorf("%d lines on two rows", len(l.drawn))
	}
	for range 5 {
		s.now = s.now.Add(time.Second)
		l.draw(false)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.row-v.top > 1 {
		t.Errorf("the block scrolls: row %d of the screen", v.row-v.top)
	}
}

// TestLiveOutcome: a finished line begins with the answer about correctness; a control with
// what it was caught at.
func TestLiveOutcome(t *testing.T) {
	tick := events.Tick{Load: rundir.Load{OK: 1650, Refused: 20}, P99NS: 23_600_000}
	for want, l := range map[string]events.VariantLine{
		"✓ a  holds  p99 23.6 ms  ok 1,650  refused 20": {Verdict: rundir.Pass,
			Correctness: rundir.Holds, Timing: rundir.Clean},
		"✓ a  holds  p99 ≈ 23.6 ms  ok 1,650  refused 20": {Verdict: rundir.Pass,
			Correctness: rundir.Holds, Timing: rundir.Noisy},
		"✓ a  holds  ok 1,650  refused 20": {Verdict: rundir.Pass, Correctness: rundir.Holds,
			Timing: rundir.NoTimes},
		"⚑ a  caught: sold 26 of 25  p99 23.6 ms  ok 1,650  refused 20": {Verdict: rundir.Pass,
			Correctness: rundir.Caught, Timing: rundir.Clean,
			Reasons: []string{"violated as expected: sold 26 of 25"}},
		"✗ a  VIOLATED  p99 23.6 ms  ok 1,650  refused 20  sold 26 of 25": {Verdict: rundir.Fail,
			Correctness: rundir.Violated, Timing: rundir.Clean, Reasons: []string{"sold 26 of 25"}},
	} {
		l.Variant, l.Done, l.Of, l.Tick = "a", 1, 1, tick
		if got := variantText(&l, 1, nil, time.Time{}).paint(false); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// TestLiveFitted: with all variants judged once, these share the line.
func TestLiveFitted(t *testing.T) {
	lines := []events.VariantLine{}
	for range 10 {
		lines = append(lines, events.VariantLine{Done: 1, Of: 3, Verdict: rundir.Pass})
	}
	lines[4].Running = true
	lines[9].Done = 3
	shown, judged, waiting := fitted(lines, 4)
	if len(shown) != 3 || len(judged) != 7 || waiting != 0 || judged[0].Done != 3 ||
		!shown[0].Running {
		t.Errorf("shown %+v, judged %+v, %d waiting", shown, judged, waiting)
	}
	if got := judgedText(judged).paint(false); got != "✓ 7 judged: 7 PASS" {
		t.Error(got)
	}
	shown, judged, _ = fitted(lines, 10)
	if len(shown) != 10 || len(judged) != 0 {
		t.Errorf("there is room, and %d are folded", len(judged))
	}
}

// TestLiveNeverWaits: a terminal that takes nothing holds up nobody who tells.
func TestLiveNeverWaits(t *testing.T) {
	read, write := io.Pipe() // nobody reads
	l, s := liveOn(newTerminal(t, 80, 24))
	l.out = write
	s.start(1, "a")
	drawing := make(chan struct{})
	go func() { l.draw(false); close(drawing) }()
	for i := range 1000 {
		s.tick(time.Millisecond, events.Repeat{Variant: "a"}, time.Duration(i))
		l.Logf("line %d", i)
	}
	go func() { _, _ = io.Copy(io.Discard, read) }()
	<-drawing
	if err := l.close(); err != nil {
		t.Error(err)
	}
	_ = write.Close()
}

func TestCut(t *testing.T) {
	for in, want := range map[string]string{
		"short": "short", "exactly ten": "exactly t…", "a\nb\x1b[2J": "a b�[2J", "日本語日本語": "日本語日…",
	} {
		if got := (text{{in[:1], ""}, {in[1:], ""}}).cut(10).paint(false); len(in) < 12 && got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	if got := (text{{"日本語日本語", ""}}).cut(10); got.paint(false) != "日本語日…" || got.width() != 9 {
		t.Errorf("%q", got.paint(false))
	}
	if got := (text{{"a", ""}}).cut(0).paint(false); got != "" {
		t.Errorf("%q in no column", got)
	}
}

// TestPlainGroupsEnd: a repeat that does not come to its end leaves no group open.
func TestPlainGroupsEnd(t *testing.T) {
	t.Setenv("GITHUB_ACTIONS", "true")
	for name, end := range map[string]func(*plainView, *script){
		"failed": func(_ *plainView, s *script) {
			s.after(0, events.Event{RunFailed: &events.Failure{Error: "the disk is full"}})
		},
		"closed": func(v *plainView, _ *script) {
			if err := v.close(); err != nil {
				t.Error(err)
			}
		},
	} {
		out := &strings.Builder{}
		v := newPlainView(out, false, true)
		s := newScript(v.Observe)
		s.start(1, "a")
		s.after(0, events.Event{RepeatStarted: &events.Repeat{Variant: "a"}})
		end(v, s)
		v.Logf("why")
		if err := v.close(); err != nil {
			t.Error(err)
		}
		if want := "::group::[1/1] a\n::endgroup::\nwhy\n"; out.String() != want {
			t.Errorf("%s: %q, want %q", name, out, want)
		}
	}
}

// TestProgressIsNobodysOrder: what a foreign server said, and what a store's error has in
// it, moves no cursor and is no command to GitHub's runner; its lines stay lines.
func TestProgressIsNobodysOrder(t *testing.T) {
	t.Setenv("GITHUB_ACTIONS", "true")
	const said = "no\x1b[2J\u202e room\r\n  ::error::x\n##[error]y"
	show := func(v view) {
		s := newScript(v.Observe)
		s.start(1, "a\n::error::x")
		s.repeat(events.Repeat{Variant: "a\n::error::x"}, rundir.Invalid, "first: "+said, "second")
		s.after(0, events.Event{Fault: &events.FaultChange{Fault: said, On: true}})
		v.Logf("backend: %s", said)
		if err := v.close(); err != nil {
			t.Error(err)
		}
	}
	out := &strings.Builder{}
	show(newPlainView(out, false, true))
	for line := range strings.Lines(out.String()) {
		own := strings.HasPrefix(line, "::group::[1/1] a ::error::x") || line == "::endgroup::\n"
		if strings.HasPrefix(strings.TrimSpace(line), "::") && !own || strings.Contains(line, "##[") ||
			strings.ContainsAny(line, "\x1b\r\u202e") {
			t.Errorf("an order: %q", line)
		}
	}
	for _, want := range []string{
		"\n      first: no�[2J room\n        : :error::x\n      ## [error]y\n      second\n",
		"backend: no�[2J room\n  : :error::x\n## [error]y\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	screen := newTerminal(t, 60, 12)
	l, s := liveOn(screen)
	s.start(1, "a")
	l.Logf("backend: %s", said)
	l.draw(false)
	screen.shows(`
backend: no�[2J room
  : :error::x
## [error]y
sale · smoke · seed 7 · starting the stores, 0s
· a  waiting`)
}

// TestNoteReportFailsNothing: an event that cannot be kept is told of.
func TestNoteReportFailsNothing(t *testing.T) {
	said, err := os.Create(filepath.Join(t.TempDir(), "said"))
	if err != nil {
		t.Fatal(err)
	}
	defer said.Close()
	folder := filepath.Join(t.TempDir(), "gone")
	e := (&app{stderr: said}).noteReport(folder, "r1")
	if e.RunID != "r1" || e.ReportWritten.Path != filepath.Join(folder, rundir.ReportFile) {
		t.Errorf("%+v", e)
	}
	text, err := os.ReadFile(said.Name())
	if err != nil || !strings.HasPrefix(string(text), "stampede: record events: ") {
		t.Errorf("%q, %v", text, err)
	}
}

// shown is what two designs, of which the second one's repeat takes so many seconds, look like in
// lines.
func shown(t *testing.T, verbose bool, repeats, seconds int, outcome events.Outcome) string {
	t.Helper()
	t.Setenv("GITHUB_ACTIONS", "true")
	out := &strings.Builder{}
	v := newPlainView(out, false, verbose)
	s := newScript(v.Observe)
	s.start(repeats, "a", "b")
	s.stores()
	s.repeat(events.Repeat{Variant: "a"}, rundir.Pass)
	r := events.Repeat{Variant: "b", Order: 1}
	s.after(0, events.Event{RepeatStarted: &r})
	s.phase(0, r, events.Steady)
	for i := range seconds {
		s.tick(time.Second, r, time.Duration(i)*time.Second)
	}
	s.after(0, events.Event{Fault: &events.FaultChange{Repeat: r, Fault: "stall", On: true}})
	outcome.Repeat = r
	s.after(0, events.Event{RepeatDone: &outcome})
	v.Logf("the %s", "end")
	if err := v.close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestPlainVerbose: a line for each phase, and one now and then.
func TestPlainVerbose(t *testing.T) {
	want := `::group::[1/4] a #1
[1/4] a #1: prepare
[1/4] a #1: steady
[1/4] a #1: drain
::endgroup::
[1/4] a #1                         PASS    buy ok 90, refused 10; unknown 0, dropped 3, p99 23.6 ms
::group::[2/4] b #1
[2/4] b #1: steady
[2/4] b #1: steady 10s/10s, 1,812/s due, 800/s done, p99 12.3 ms in the last second, ok 90, refused 5, unknown 2, ` +
		`about 28s left
[2/4] b #1: steady 10s/10s, 1,812/s due, 800/s done, p99 12.3 ms in the last second, ok 90, refused 5, unknown 2, ` +
		`about 28s left
[2/4] b #1: fault stall begins
::endgroup::
[2/4] b #1                         FAIL    ok 0, refused 0; unknown 0, dropped 0
      oversold
the end
`
	got := shown(t, true, 2, 40, events.Outcome{Verdict: rundir.Fail, Reasons: []string{"oversold"}})
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestPlainControl: the baseline's second run says what it is for.
func TestPlainControl(t *testing.T) {
	v := newPlainView(io.Discard, false, false)
	s := newScript(v.Observe)
	s.after(0, events.Event{RunStarted: &events.Plan{Repeats: 1, Slots: []events.Slot{
		{Variant: "a"}, {Variant: "b"}, {Variant: "a", Repeat: 1, Control: true}}}})
	for want, r := range map[string]events.Repeat{
		"[1/3] a":                              {Variant: "a"},
		"[3/3] a (again, for the noise floor)": {Variant: "a", Repeat: 1, Order: 2},
	} {
		s.after(0, events.Event{RepeatStarted: &r})
		if got := v.position(r); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestPlain: a line for each repeat, and in a long one now and then another.
func TestPlain(t *testing.T) {
	want := `[1/2] a                            PASS    buy ok 90, refused 10; unknown 0, dropped 3, p99 23.6 ms
[2/2] b: steady 10s/10s, 1,812/s due, 800/s done, p99 12.3 ms in the last second, ok 90, ` +
		`refused 5, unknown 2, about 0s left
[2/2] b                            PASS    ok 0, refused 0; unknown 0, dropped 0
the end
`
	if got := shown(t, false, 1, 70, events.Outcome{Verdict: rundir.Pass}); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestPlainWaitsForNobody: who reads nothing holds up no run, and misses nothing.
func TestPlainWaitsForNobody(t *testing.T) {
	reader, writer := io.Pipe()
	v := newPlainView(writer, false, true)
	want := ""
	for i := range 100 {
		v.Logf("line %d", i)
		want += fmt.Sprintf("line %d\n", i)
	}
	for range 3 * mostPending / 100 { // what is being written, what waits, and more
		v.Logf("%100d", 0)
	}
	got := make(chan string)
	go func() {
		text, _ := io.ReadAll(reader)
		got <- string(text)
	}()
	if err := v.close(); err != nil {
		t.Fatal(err)
	}
	writer.Close()
	text := <-got
	left := regexp.MustCompile(`\n\([1-9][0-9]* lines were left out: the reader did not keep up\)\n$`)
	if !strings.HasPrefix(text, want) || !left.MatchString(text) || len(text) > 2*mostPending+100 {
		t.Errorf("%d bytes, from %q", len(text), text[:min(len(text), 200)])
	}
}

// TestWantColour: the flag, then NO_COLOR, whatever its value, then the variables that
// force it, unless they are 0, then the terminal.
func TestWantColour(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "no terminal"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, c := range []struct {
		flag, no, force, clicolor string
		want                      bool
	}{
		{"auto", "", "", "", false}, {"always", "", "", "", true}, {"always", "1", "", "", true},
		{"never", "", "1", "1", false}, {"auto", "", "1", "", true}, {"auto", "", "", "1", true},
		{"auto", "1", "1", "1", false}, {"auto", "", "0", "", false}, {"auto", "", "", "0", false},
		{"auto", "", "0", "1", true}, {"auto", "", "1", "0", true}, {"auto", "0", "1", "", false},
	} {
		t.Setenv("NO_COLOR", c.no)
		t.Setenv("FORCE_COLOR", c.force)
		t.Setenv("CLICOLOR_FORCE", c.clicolor)
		if got := wantColour(c.flag, file); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
