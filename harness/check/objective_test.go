package check_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"stampede/harness/check"
	"stampede/harness/history"
)

func TestParseObjective(t *testing.T) {
	tests := []struct{ text, want string }{
		{"p99(response, buy) <= 500ms in steady", ""},
		{"p50(service) < 2ms", ""},
		{"p99.9(lag)<=1m30s", "p99.9(lag) <= 1m30s"},
		{"p999(lag) <= 1s", "p99.9(lag) <= 1s"},
		{"p9999(lag) <= 1s in run", "p99.99(lag) <= 1s"},
		{"max(lag) <= 1s", ""},
		{"share(refused, buy) <= 1%", ""},
		{"share(dropped) < 0.1%", ""},
		{"share(ok) >= 99.5% in warm-up", ""},
		{"rate(ok, buy) >= 1000/s during redis-pause", ""},
		{"rate(scheduled) > 0.5/s in drain", ""},
		{"count(unknown) <= 10 after redis-pause", ""},
		{"count(started, pay.now) > 5 before F", ""},
		{" p50 ( response ,\tbuy ) < 1500us in [ 2s,8s ] ",
			"p50(response, buy) < 1.5ms in [2s, 8s]"},
		{"share(unknown) <= 0%", ""},
	}
	for _, tt := range tests {
		o, err := check.ParseObjective(tt.text)
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		want := tt.want
		if want == "" {
			want = tt.text
		}
		if o.String() != want {
			t.Errorf("%q prints as %q, want %q", tt.text, o, want)
		}
	}
}

func TestParseObjectiveErrors(t *testing.T) {
	tests := []struct {
		text     string
		column   int
		expected string // part of the message
		nearest  string
	}{
		{"", 1, "expected a percentile", ""},
		{"p100(lag) < 1s", 1, "max", ""},
		{"p0(lag) < 1s", 1, "expected a percentile", ""},
		{"p9x(lag) < 1s", 1, "expected a percentile", "p99"},
		{"p99.99999999999999999999(lag) < 1s", 1, "expected a percentile", ""},
		{"mxa(lag) < 1s", 1, "max", "max"},
		{"shar(ok) < 1%", 1, "share", "share"},
		{"p99 response) < 1s", 5, `expected "("`, ""},
		{"p99(respons) <= 1s", 5, "response, service or lag", "response"},
		{"p99(ok) <= 1s", 5, "response, service or lag", ""},
		{"share(response) < 1%", 7, "ok, refused, unknown or dropped", ""},
		{"share(scheduled) < 1%", 7, "ok, refused, unknown or dropped", ""},
		{"count(droped) < 1", 7, "started", "dropped"},
		{"p99(lag,) <= 1s", 9, "an operation kind", ""},
		{"p99(lag, buy <= 1s", 14, `expected ")"`, ""},
		{"p99(lag) = 1s", 10, "expected < or <=", ""},
		{"p99(lag) >= 1s", 10, "expected < or <=", ""},
		{"share(ok) == 1%", 11, "<, <=, > or >=", ""},
		{"p99(lag) <= 500", 13, "a duration such as", ""},
		{"p99(lag) <= 0", 13, "a duration such as", ""},
		{"p99(lag) <= -5ms", 13, "a duration such as", ""},
		{"p99(lag) <= 10000h", 13, "a duration such as", ""},
		{"p99(lag) < 0s", 12, "can be met", ""},
		{"p99(lag) <= 5%", 13, "a duration such as", ""},
		{"p99(lag) <=", 12, "found the end", ""},
		{"p99(lag) <", 11, "found the end", ""},
		{"share(ok) <= 0.5", 14, "a percentage such as", ""},
		{"share(ok) <= 101%", 14, "a percentage such as", ""},
		{"share(ok) <= 100%", 14, "can be missed", ""},
		{"share(ok) >= 0%", 14, "can be missed", ""},
		{"share(ok) > 100%", 13, "can be met", ""},
		{"count(ok) >= 0", 14, "can be missed", ""},
		{"count(ok) >= 1.5", 14, "a number such as", ""},
		{"count(ok) >= 1e3", 14, "a number such as", ""},
		{"count(ok) >= 99999999999999999999", 14, "a number such as", ""},
		{"rate(ok) >= 1000", 13, "a rate such as", ""},
		{"rate(ok) >= Inf/s", 13, "a rate such as", ""},
		{"p99(lag) <= 1s on steady", 16, "in, before, during or after", "in"},
		{"p99(lag) <= 1s in stedy", 19, "run, steady, warm-up or drain", "steady"},
		{"p99(lag) <= 1s during", 22, "a fault's name", ""},
		{"p99(lag) <= 1s in [2s 8s]", 23, `expected ","`, ""},
		{"p99(lag) <= 1s in [2s, 2s]", 24, "a time after 2s", ""},
		{"p99(lag) <= 1s in [2s, 8]", 24, "a time from the run's base", ""},
		{"p99(lag) <= 1s in [2s, 8s", 26, `expected "]"`, ""},
		{"p99(lag) <= 1s in steady now", 26, "expected the end", ""},
		{"p99(lag) <= 1s; max(lag) < 1s", 15, "in, before", ""},
		{"p99(größe, ö) <= 1s", 5, "response, service or lag", ""},
		{"p99(lag, ö) >= 1s", 13, "expected < or <=", ""},
		{strings.Repeat("p", 501), 500, "at most 500 bytes", ""},
	}
	for _, tt := range tests {
		o, err := check.ParseObjective(tt.text)
		var parse *check.ParseError
		if !errors.As(err, &parse) {
			t.Errorf("%q: got %v, %v; want a ParseError", tt.text, o, err)
			continue
		}
		if parse.Column != tt.column || !strings.Contains(err.Error(), tt.expected) ||
			parse.Nearest != tt.nearest {
			t.Errorf("%q: %v (nearest %q); want column %d, %q, nearest %q",
				tt.text, err, parse.Nearest, tt.column, tt.expected, tt.nearest)
		}
	}
}

func FuzzParseObjective(f *testing.F) {
	for _, text := range []string{
		"p99(response, buy) <= 500ms in steady", "share(dropped) < 0.1%", "max(lag)<=1us in [0s, 8s]",
		"rate(ok, buy) >= 1000.25/s during x", "count(unknown) <= 10 after y", "p99999(lag) < 1h",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		o, err := check.ParseObjective(text)
		if err != nil {
			var parse *check.ParseError
			if !errors.As(err, &parse) || parse.Column < 1 {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		again, err := check.ParseObjective(o.String())
		if err != nil {
			t.Fatalf("%q prints as %q, which does not parse: %v", text, o, err)
		}
		if again.String() != o.String() || again.Limit != o.Limit || again.Percent != o.Percent ||
			again.Part != o.Part {
			t.Fatalf("%q prints as %q, which parses as %q", text, o, again)
		}
	})
}

func TestResolve(t *testing.T) {
	kinds, faults := []string{"buy", "stock"}, []string{"redis-pause"}
	tests := []struct{ text, want string }{
		{"p99(lag, buy) < 1s during redis-pause", ""},
		{"p99(lag) < 1s", ""},
		{"p99(lag, stok) < 1s", `column 10: expected an operation kind: buy or stock, found "stok" ` +
			`(did you mean "stock"?)`},
		{"p99(lag) < 1s after redis-pauses", `column 21: expected a fault: redis-pause, ` +
			`found "redis-pauses" (did you mean "redis-pause"?)`},
	}
	for _, tt := range tests {
		err := mustParse(t, tt.text).Resolve(tt.text, kinds, faults)
		if (err == nil) != (tt.want == "") || err != nil && !strings.HasSuffix(err.Error(), tt.want) {
			t.Errorf("%q: %v, want %q", tt.text, err, tt.want)
		}
	}
	err := mustParse(t, "p99(lag) < 1s after x").Resolve("", kinds, nil)
	if err == nil || !strings.Contains(err.Error(), "of which there is none") {
		t.Errorf("without faults: %v", err)
	}
}

func mustParse(t testing.TB, text string) check.Objective {
	t.Helper()
	o, err := check.ParseObjective(text)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestScope(t *testing.T) {
	const s = time.Second
	never := history.Never
	phase := func(name string, from, to time.Duration) history.Window {
		return history.Window{Kind: history.PhaseWindow, Name: name, Start: from, End: to}
	}
	fault := func(name string, from, to, recovered time.Duration, evidence ...string) history.Window {
		return history.Window{Kind: history.FaultWindow, Name: name, Start: from, End: to,
			Recovered: recovered, Evidence: evidence}
	}
	windows := []history.Window{
		phase("warm-up", 0, 2*s), phase("steady", 2*s, 20*s),
		fault("pause", 5*s, 6*s, 0, "stopped"), fault("kill", 10*s, 11*s, 13*s, "killed"),
		fault("kill", 15*s, 16*s, 16*s, "killed"), fault("noop", 3*s, 4*s, 0),
	}
	tests := []struct {
		part     string
		from, to time.Duration
		err      string
	}{
		{"", 2 * s, never, ""},
		{"in steady", 2 * s, 20 * s, ""},
		{"in warm-up", 0, 2 * s, ""},
		{"in drain", 0, 0, "the run had no phase drain"},
		{"in [1s, 3s]", s, 3 * s, ""},
		{"before pause", 2 * s, 5 * s, ""},
		{"during pause", 5 * s, 6 * s, ""},
		{"after pause", 6 * s, never, ""},
		{"during kill", 10 * s, 16 * s, ""},
		{"after kill", 16 * s, never, ""},
		{"during noop", 0, 0, "there is no evidence that fault noop happened"},
		{"during other", 0, 0, "there is no evidence that fault other happened"},
	}
	for _, tt := range tests {
		o := mustParse(t, "p99(lag) < 1s "+tt.part)
		got, err := o.Scope(windows)
		if tt.err != "" {
			if err == nil || err.Error() != tt.err {
				t.Errorf("%q: error %v, want %q", tt.part, err, tt.err)
			}
			continue
		}
		want := check.Scope{Name: o.ScopeName(), From: tt.from, To: tt.to}
		if err != nil || got != want {
			t.Errorf("%q: %v, %v, want %v", tt.part, got, err, want)
		}
	}
	early := []history.Window{phase("warm-up", 0, 2*s), fault("early", s, 2*s, 0, "x")}
	if got, err := mustParse(t, "p99(lag) < 1s before early").Scope(early); err == nil {
		t.Errorf("before a fault in the warm-up is %v, want an error", got)
	}
}

// numbers are canned Numbers of one scope.
type numbers struct {
	scope   string
	tally   check.Tally
	ns      int64
	samples int64
	span    time.Duration
}

func (n numbers) Tally(_, scope string) (check.Tally, bool) { return n.tally, scope == n.scope }

func (n numbers) Quantile(_, _, scope string, _ float64) (ns, samples int64, ok bool) {
	return n.ns, n.samples, scope == n.scope && n.samples >= 0
}

func (n numbers) Span(string) time.Duration { return n.span }

func TestJudgeObjective(t *testing.T) {
	const ms = int64(time.Millisecond)
	latency := func(ns, samples int64) numbers {
		return numbers{"run", check.Tally{Scheduled: samples + 1}, ns, samples, time.Second}
	}
	tally := func(t check.Tally) numbers { return numbers{"run", t, 0, 0, 2 * time.Second} }
	tests := []struct {
		name, text string
		n          numbers
		status     check.Status
		actual     string
		margin     float64
		reason     string
	}{
		{"below - pass", "p99(lag) <= 10ms", latency(9*ms, 1000), check.Held, "9ms", 0.1, ""},
		{"at - pass", "p99(lag) <= 10ms", latency(10*ms, 1000), check.Held, "10ms", 0, ""},
		{"at, strict - fail", "p99(lag) < 10ms", latency(10*ms, 1000), check.Broken, "10ms", 0, ""},
		{"above - fail", "p99(lag) <= 10ms", latency(15*ms, 1000), check.Broken, "15ms", -0.5, ""},
		{"p99 of 999 - undecided", "p99(lag) <= 10ms", latency(ms, 999), check.Undecided, "", 0,
			"999 samples are too few: p99 needs 1000"},
		{"p99.9 of 9999 - undecided", "p99.9(lag) <= 10ms", latency(ms, 9999), check.Undecided, "", 0,
			"p99.9 needs 10000"},
		{"p99.9 of 10000 - pass", "p99.9(lag) <= 10ms", latency(5*ms, 10000), check.Held, "5ms", 0.5, ""},
		{"p50 of 20 - pass", "p50(lag) <= 10ms", latency(5*ms, 20), check.Held, "5ms", 0.5, ""},
		{"max of one - pass", "max(lag) <= 10ms", latency(5*ms, 1), check.Held, "5ms", 0.5, ""},
		{"max of none - undecided", "max(lag) <= 10ms", latency(5*ms, 0), check.Undecided, "", 0,
			"0 samples are too few: max needs 1"},
		{"never ended - fail", "p99(lag) <= 10ms", latency(int64(history.Never), 1000), check.Broken,
			"never", -1000, "never ended"},
		{"metric not measured - undecided", "p99(lag) <= 10ms", latency(ms, -1), check.Undecided, "", 0,
			"no operation was scheduled"},
		{"nothing scheduled - undecided", "count(unknown) <= 10", tally(check.Tally{}),
			check.Undecided, "", 0, "no operation was scheduled in run"},
		{"count - pass", "count(unknown) <= 10", tally(check.Tally{Scheduled: 20, Unknown: 5}),
			check.Held, "5", 0.5, ""},
		{"count of zero - fail", "count(unknown) <= 0", tally(check.Tally{Scheduled: 20, Unknown: 5}),
			check.Broken, "5", -5, ""},
		{"started - fail", "count(started) > 20", tally(check.Tally{Scheduled: 20, Started: 20}),
			check.Broken, "20", 0, ""},
		{"share - pass", "share(refused) <= 1%", tally(check.Tally{Scheduled: 200, Refused: 1}),
			check.Held, "0.5%", 0.5, ""},
		{"share of few, inside - undecided", "share(dropped) < 0.1%", tally(check.Tally{Scheduled: 999}),
			check.Undecided, "0%", 1, "999 operations are too few: a limit of 0.1% needs 1000"},
		{"share of few, outside - fail", "share(dropped) < 0.1%",
			tally(check.Tally{Scheduled: 10, Dropped: 1}), check.Broken, "10%", -99, ""},
		{"share of at least - pass", "share(ok) >= 99%", tally(check.Tally{Scheduled: 100, OK: 99}),
			check.Held, "99%", 0, ""},
		{"share of at least, few - undecided", "share(ok) >= 99%",
			tally(check.Tally{Scheduled: 99, OK: 99}),
			check.Undecided, "100%", 1. / 99, "99 operations are too few"},
		{"share of nothing - pass", "share(unknown) <= 0%", tally(check.Tally{Scheduled: 1}),
			check.Held, "0%", 0, ""},
		{"rate - pass", "rate(ok) >= 1000/s", tally(check.Tally{Scheduled: 3000, OK: 3000}),
			check.Held, "1500/s", 0.5, ""},
		{"rate - fail", "rate(ok) >= 1000/s", tally(check.Tally{Scheduled: 3000, OK: 1000}),
			check.Broken, "500/s", -0.5, ""},
		{"rate of no time - undecided", "rate(ok) >= 1000/s",
			numbers{"run", check.Tally{Scheduled: 1}, 0, 0, 0},
			check.Undecided, "", 0, "run has no length"},
		{"other scope - undecided", "rate(ok) >= 1000/s in steady", tally(check.Tally{Scheduled: 1}),
			check.Undecided, "", 0, "steady was not measured"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := mustParse(t, tt.text).Judge("slo", tt.n)
			if v.Status != tt.status || v.Actual != tt.actual || !near(v.Margin, tt.margin) {
				t.Errorf("got %v %q margin %v, want %v %q margin %v",
					v.Status, v.Actual, v.Margin, tt.status, tt.actual, tt.margin)
			}
			if !strings.Contains(v.Reason, tt.reason) || (v.Status == check.Undecided) && v.Reason == "" {
				t.Errorf("reason %q, want %q", v.Reason, tt.reason)
			}
			if v.Name != "slo" || v.Objective != tt.text || v.Limit == "" {
				t.Errorf("verdict is labelled %+v", v)
			}
		})
	}
}

func TestNeeds(t *testing.T) {
	for text, want := range map[string]int64{
		"p99(response) <= 1s": 1000, "p50(lag) <= 1s": 20, "max(service) <= 1s": 1,
		"share(unknown) <= 0.1%": 1000, "share(ok) >= 99%": 100, "share(ok) >= 100%": 1,
		"rate(ok) >= 5/s": 1, "count(unknown) <= 5": 1,
	} {
		if got := mustParse(t, text).Needs(); got != want {
			t.Errorf("%s needs %d, want %d", text, got, want)
		}
	}
}

func near(a, b float64) bool { return a-b < 1e-9 && b-a < 1e-9 }

func TestJudgeRunNeedsTheFault(t *testing.T) {
	o := mustParse(t, "count(unknown) <= 10 during pause")
	n := numbers{"during pause", check.Tally{Scheduled: 100}, 0, 0, time.Second}
	pause := history.Window{Kind: history.FaultWindow, Name: "pause", Start: 1, End: 2}
	if v := o.JudgeRun("slo", n, []history.Window{pause}); v.Status != check.Undecided ||
		!strings.Contains(v.Reason, "no evidence that fault pause happened") {
		t.Errorf("without evidence: %+v", v)
	}
	pause.Evidence = []string{"pid 7 stopped"}
	if v := o.JudgeRun("slo", n, []history.Window{pause}); v.Status != check.Held {
		t.Errorf("with evidence: %+v", v)
	}
}
