package events_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"stampede/harness/events"
	"stampede/harness/rundir"
	"stampede/harness/schema/schematest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func TestSchemaIsCurrent(t *testing.T) {
	schematest.Current(t, "harness/events/events.schema.json", events.Schema(),
		"../..", events.MakeSchema,
		"harness/events", "harness/rundir", "harness/check", "harness/history")
}

// TestSchemaAndDecoderAgree about what is an event and what is none.
func TestSchemaAndDecoderAgree(t *testing.T) {
	s := schematest.Compile(t, events.Schema())
	line, err := json.Marshal(events.Stamped(events.Event{RunID: "0a", Phase: &events.Phase{
		Repeat: events.Repeat{Variant: "v", Order: 1}, Phase: events.Steady}}, noon))
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string][2]string{
		"": {"", ""}, "unknown field": {`"order"`, `"odrer"`}, "unknown type": {`"type":"phase"`,
			`"type":"face"`}, "another type": {`"type":"phase"`, `"type":"load"`},
		"both": {`"phase":{`, `"log":{"text":""},"phase":{`}, "version": {`"` + events.SchemaVersion + `"`, `"1"`},
		"number": {`"order":1`, `"order":"1"`},
	} {
		text := bytes.Replace(line, []byte(change[0]), []byte(change[1]), 1)
		_, decoded := events.Decode(text)
		validated := s.JSON(text)
		if good := name == ""; (decoded == nil) != good || (validated == nil) != good {
			t.Errorf("%q: the decoder says %v, the schema %v\n%s", name, decoded, validated, text)
		}
	}
}

// TestDecodeNewer: what a newer minor version adds is passed over, a newer major one
// refused.
func TestDecodeNewer(t *testing.T) {
	e, err := events.Decode([]byte(`{"schema_version":"2.7.0","type":"mood","mood":{},"at":"2026-11-22T12:00:00Z"}`))
	if err != nil || e.Type != "mood" {
		t.Errorf("%+v, %v", e, err)
	}
	for _, line := range []string{`{"schema_version":"3.0.0","type":"log","log":{"text":""}}`,
		`{"schema_version":"0.9.0"}`, `{`, `[]`, ``} {
		if _, err := events.Decode([]byte(line)); err == nil {
			t.Errorf("%s was read", line)
		}
	}
}

func TestStampedRefusesNothing(t *testing.T) {
	for _, e := range []events.Event{{}, {Log: &events.Line{}, Load: &events.Tick{}}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%+v was stamped", e)
				}
			}()
			events.Stamped(e, noon)
		}()
	}
}

// tick is a load at a moment of a repeat.
func tick(repeat int, elapsed time.Duration) events.Event {
	return events.Stamped(events.Event{Load: &events.Tick{Repeat: events.Repeat{Repeat: repeat},
		ElapsedNS: elapsed.Nanoseconds(), OfferedPerS: elapsed.Seconds()}}, noon.Add(elapsed))
}

func line(text string) events.Event {
	return events.Stamped(events.Event{Log: &events.Line{Text: text}}, noon)
}

// TestRecorderKeepsLittle: what is told ten times a second is kept once a second,
// later more rarely, and nothing else is left out. All of it could wait at once.
func TestRecorderKeepsLittle(t *testing.T) {
	path := filepath.Join(t.TempDir(), events.FileName)
	r, err := events.KeepIn(path)
	if err != nil {
		t.Fatal(err)
	}
	const hours = 6
	for i := range hours * 3600 {
		r.Tell(tick(0, time.Duration(i)*time.Second))
		if i < 100 {
			r.Tell(tick(0, time.Duration(i)*time.Second+time.Second/2))
			r.Tell(line(fmt.Sprint("line ", i)))
		}
	}
	r.Tell(tick(1, 0))
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	r.Tell(line("too late"))
	if err := errors.Join(r.Close(), events.Append(path, line("after the run"))); err != nil {
		t.Error(err)
	}
	found := read(t, path)
	ticks, lines, last := 0, 0, time.Duration(0)
	for _, e := range found {
		switch {
		case e.Log != nil:
			lines++
		case e.Load.Repeat.Repeat == 0:
			ticks++
			elapsed := time.Duration(e.Load.ElapsedNS)
			if gap := elapsed - last; gap > time.Second && gap > elapsed/300 {
				t.Fatalf("nothing from %s to %s", last, elapsed)
			}
			last = elapsed
		}
	}
	// Whole seconds of the first ten minutes, then as many every time that the time
	// grows by a factor of e.
	if ticks < 600 || ticks > 600+600*4 || lines != 101 || found[len(found)-1].Log.Text !=
		"after the run" {
		t.Errorf("%d ticks and %d lines are kept", ticks, lines)
	}
	if last := found[len(found)-2]; last.Load == nil || last.Load.Repeat.Repeat != 1 {
		t.Errorf("the next repeat does not begin at once: %+v", last)
	}
	if _, err := events.KeepIn(path); err == nil {
		t.Error("the events of another run were overwritten")
	}
}

func read(t *testing.T, path string) []events.Event {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	tail := events.Tail{File: file}
	found, err := tail.Next()
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// stuck is a reader that takes nothing until it is let go.
type stuck struct {
	free chan struct{}
	got  bytes.Buffer
	err  error
}

func (s *stuck) Write(p []byte) (int, error) {
	<-s.free
	if s.err != nil {
		return 0, s.err
	}
	return s.got.Write(p)
}

// TestRecorderNeverWaits: what is slow costs ticks of the load, and nothing else.
func TestRecorderNeverWaits(t *testing.T) {
	out := &stuck{free: make(chan struct{})}
	r := events.NewRecorder(out)
	for i := range 9000 {
		r.Tell(tick(0, time.Duration(i)*time.Second))
		if i%100 == 0 {
			r.Tell(line("x"))
		}
	}
	close(out.free)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	text := out.got.String()
	if n := strings.Count(text, `"type":"log"`); n != 90 {
		t.Errorf("%d of 90 lines", n)
	}
	if n := strings.Count(text, `"type":"load"`); n < 4000 || n > 8300 {
		t.Errorf("%d ticks", n)
	}
}

func TestRecorderTellsOfErrors(t *testing.T) {
	out := &stuck{free: make(chan struct{}), err: io.ErrClosedPipe}
	close(out.free)
	r := events.NewRecorder(out)
	r.Tell(line("x"))
	<-r.Lost()
	r.Tell(line("y"))
	if err := r.Close(); !errors.Is(err, io.ErrClosedPipe) {
		t.Error(err)
	}
}

func TestRecorderIsShared(t *testing.T) {
	path := filepath.Join(t.TempDir(), events.FileName)
	r, err := events.KeepIn(path)
	if err != nil {
		t.Fatal(err)
	}
	var senders sync.WaitGroup
	for range 4 {
		senders.Go(func() {
			for range 100 {
				r.Tell(line("from many"))
			}
		})
	}
	senders.Wait()
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if n := len(read(t, path)); n != 400 {
		t.Errorf("%d of 400", n)
	}
}

// TestTail: lines are read once they are whole, and each once.
func TestTail(t *testing.T) {
	whole, err := json.Marshal(line(strings.Repeat("long ", 40_000)))
	if err != nil {
		t.Fatal(err)
	}
	whole = append(whole, '\n')
	short, err := json.Marshal(line("short"))
	if err != nil {
		t.Fatal(err)
	}
	file := &growing{}
	tail := events.Tail{File: file}
	add := func(text []byte, want int) {
		t.Helper()
		file.text = append(file.text, text...)
		if found, err := tail.Next(); err != nil || len(found) != want {
			t.Errorf("%d events, want %d (%v)", len(found), want, err)
		}
	}
	add(nil, 0)
	add(whole[:70_000], 0)
	add(whole[70_000:], 1)
	add(nil, 0)
	add(bytes.Repeat(whole, 3), 3)
	file.text = append(file.text, "nonsense\n"...)
	file.text = append(append(file.text, short...), '\n')
	if found, err := tail.Next(); err == nil || len(found) != 0 {
		t.Errorf("nonsense was read: %+v", found)
	}
	add(nil, 1)
	file.text = append(file.text, bytes.Repeat([]byte("x"), 17<<20)...)
	if _, err := tail.Next(); err == nil || !strings.Contains(err.Error(), "longer than 16 MiB") {
		t.Error(err)
	}
}

// growing is a file that is being written.
type growing struct{ text []byte }

func (g *growing) ReadAt(p []byte, at int64) (int, error) {
	return bytes.NewReader(g.text).ReadAt(p, at)
}

// story adds events to a progress, at times of its own.
type story struct {
	progress events.Progress
	now      time.Time
}

func (s *story) after(d time.Duration, e events.Event) {
	s.now = s.now.Add(d)
	s.progress.Add(events.Stamped(e, s.now))
}

// left fails the test unless that is how long the run will go on.
func (s *story) left(t *testing.T, want time.Duration, wantAtLeast bool) {
	t.Helper()
	left, atLeast, known := s.progress.Remaining(s.now)
	if left != want || atLeast != wantAtLeast || !known {
		t.Errorf("%s left (at least: %v, known: %v), want %s", left, atLeast, known, want)
	}
}

func begun(variants ...string) *story {
	s := &story{now: noon}
	slots := []events.Slot{}
	for repeat := range 2 {
		for _, v := range variants {
			slots = append(slots, events.Slot{Variant: v, Repeat: repeat})
		}
	}
	s.after(0, events.Event{Log: &events.Line{Text: "before"}})
	s.after(0, events.Event{RunID: "0a", RunStarted: &events.Plan{LoadNS: 10e9, Slots: slots}})
	return s
}

// TestProgressRemaining: the load of what is left, and what was taken beside it.
func TestProgressRemaining(t *testing.T) {
	s := begun("a", "b")
	s.left(t, 40*time.Second, true)
	s.after(0, events.Event{Environment: &rundir.Environment{}})
	a := events.Repeat{Variant: "a"}
	s.after(0, events.Event{RepeatStarted: &a})
	s.after(3*time.Second, events.Event{Phase: &events.Phase{Repeat: a, Phase: events.Steady}})
	s.left(t, 40*time.Second, true) // preparing is not the load
	s.after(4*time.Second, events.Event{Load: &events.Tick{Repeat: a, ElapsedNS: 4e9}})
	s.left(t, 36*time.Second, true)
	s.after(6*time.Second, events.Event{Phase: &events.Phase{Repeat: a, Phase: events.Drain}})
	s.left(t, 30*time.Second, true)
	s.after(7*time.Second, events.Event{RepeatDone: &events.Outcome{Repeat: a, Verdict: rundir.Pass}})
	s.left(t, 3*20*time.Second, false) // it took 20 s
	b := events.Repeat{Variant: "b", Order: 1}
	s.after(0, events.Event{RepeatStarted: &b})
	s.after(15*time.Second, events.Event{RepeatDone: &events.Outcome{Repeat: b,
		Verdict: rundir.Fail, Reasons: []string{"why"}}})
	s.left(t, (20+15)*time.Second, false) // each as long as it took before
	s.after(0, events.Event{RunDone: &events.Judged{}})
	if _, _, known := s.progress.Remaining(s.now); known || !s.progress.Over() {
		t.Error("it is over")
	}
}

// TestProgressVerdicts: the worst one stands, with its reasons.
func TestProgressVerdicts(t *testing.T) {
	s := begun("a")
	for repeat, verdict := range []string{rundir.Invalid, rundir.Pass} {
		r := events.Repeat{Variant: "a", Repeat: repeat, Order: repeat}
		s.after(0, events.Event{RepeatStarted: &r})
		l := s.progress.Running()
		if l == nil || l.Variant != "a" || l.Repeat != repeat || l.Finished() || l.Waiting() {
			t.Fatalf("%+v is running", l)
		}
		s.after(0, events.Event{Fault: &events.FaultChange{Repeat: r, Fault: "f", On: true}})
		s.after(0, events.Event{Fault: &events.FaultChange{Repeat: r, Fault: "g", On: true}})
		s.after(0, events.Event{Fault: &events.FaultChange{Repeat: r, Fault: "f"}})
		if len(l.Faults) != 1 || l.Faults[0] != "g" {
			t.Errorf("in force: %q", l.Faults)
		}
		s.after(11*time.Second, events.Event{RepeatDone: &events.Outcome{Repeat: r, Verdict: verdict,
			Reasons: []string{verdict}, P99NS: 5, Load: rundir.Load{OK: 3}}})
	}
	l := s.progress.Lines[0]
	if l.Verdict != rundir.Invalid || l.Reasons[0] != rundir.Invalid || l.Done != 2 ||
		!l.Finished() || l.Tick.OK != 3 || l.Tick.P99NS != 5 || len(l.Faults) > 0 ||
		s.progress.Done() != 2 || s.progress.Total() != 2 || s.progress.RunID != "0a" ||
		s.progress.Notes[0] != "before" {
		t.Errorf("%+v", s.progress)
	}
	s.after(0, events.Event{RunFailed: &events.Failure{Error: "the disk is full"}})
	s.after(0, events.Event{ReportWritten: &events.Report{Path: "p"}})
	if !s.progress.Over() || s.progress.Failed != "the disk is full" || s.progress.Report != "p" {
		t.Errorf("%+v", s.progress)
	}
}

// TestProgressTrace: a long load has a trace that is as long as a short one's.
func TestProgressTrace(t *testing.T) {
	s := begun("")
	s.after(0, events.Event{RepeatStarted: &events.Repeat{}})
	for i := range 36_000 {
		s.progress.Add(tick(0, time.Duration(i)*time.Second/10))
	}
	trace := s.progress.Lines[0].Trace
	if len(trace) < 60 || len(trace) >= 120 {
		t.Errorf("%d points", len(trace))
	}
	gap := trace[1].Elapsed - trace[0].Elapsed
	for i := 1; i < len(trace); i++ {
		if d := trace[i].Elapsed - trace[i-1].Elapsed; d < gap || d > 2*gap {
			t.Errorf("%s after %s, others %s", d, trace[i-1].Elapsed, gap)
		}
	}
	if end := trace[len(trace)-1].Elapsed; end < 58*time.Minute {
		t.Errorf("the trace ends at %s", end)
	}
}

// TestProgressBearsAnything: events of variants that no plan has, and none at all.
func TestProgressBearsAnything(t *testing.T) {
	var b events.Progress
	r := events.Repeat{Variant: "stranger"}
	for _, e := range []events.Event{{RepeatStarted: &r}, {Phase: &events.Phase{Repeat: r}},
		{Load: &events.Tick{Repeat: r}}, {Fault: &events.FaultChange{Repeat: r}},
		{RepeatDone: &events.Outcome{Repeat: r}}, {RunFailed: &events.Failure{Error: "x"}}} {
		b.Add(events.Stamped(e, noon))
	}
	if _, _, known := b.Remaining(noon); known || len(b.Lines) > 0 || b.Total() != 0 {
		t.Errorf("%+v", b)
	}
	for i := range 20 {
		b.Add(line(fmt.Sprint(i)))
	}
	if len(b.Notes) != 8 || b.Notes[7] != "19" {
		t.Errorf("%q", b.Notes)
	}
}
