package suttest

import (
	"cmp"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/sut"
)

// Foreign hammers a server that somebody else might have written, by its URL, and
// returns the verdicts by the names of the invariants: the variant with its roles
// behind the system's API, changed by wrap. Nobody looks inside it.
func Foreign(
	t *testing.T, s Suite, variant string, wrap func(http.Handler) http.Handler,
) map[string]check.Verdict {
	t.Helper()
	url, stop := Served(t, s, variant, wrap)
	return s.judgeTarget(t, s.target(t, url), stop)
}

// Served serves a variant with its roles at a URL until the test ends. The returned function ends
// the roles before that.
func Served(
	t *testing.T, s Suite, variant string, wrap func(http.Handler) http.Handler,
) (url string, stop func()) {
	t.Helper()
	s.Patience = cmp.Or(s.Patience, defaultPatience)
	v := s.variant(t, variant)
	cfg := s.config(t, v)
	inst := open(t, v, cfg)
	stop = s.start(t, v, cfg)
	handler, err := s.System.Handler(inst, cfg)
	if err != nil {
		t.Fatalf("handler: %v", err)
	}
	server := httptest.NewServer(wrap(handler))
	t.Cleanup(server.Close)
	return server.URL, stop
}

// Remote begins anew at a server that somebody else wrote, hammers it by its URL, and returns
// the verdicts by the names of the invariants.
func Remote(t *testing.T, s Suite, url string) map[string]check.Verdict {
	t.Helper()
	target := s.target(t, url)
	if err := target.Prepare(t.Context()); err != nil {
		t.Fatalf("prepare: %v", err)
	}
	return s.judgeTarget(t, target, func() {})
}

// target is a server by its URL; it is closed when the test ends.
func (s Suite) target(t *testing.T, url string) sut.Instance {
	t.Helper()
	target, err := s.System.Target(url, sut.Config{Params: s.Params, Timeout: opTimeout,
		MaxConns: inFlight, Folder: t.TempDir()})
	if err != nil {
		t.Fatalf("target: %v", err)
	}
	t.Cleanup(func() { _ = target.Close() })
	return target
}

// judgeTarget hammers a server and judges it once it is at rest and stopped.
func (s Suite) judgeTarget(
	t *testing.T, target sut.Instance, stop func(),
) map[string]check.Verdict {
	t.Helper()
	s.Patience = cmp.Or(s.Patience, defaultPatience)
	rec := &recorder{}
	s.attack(t, target, time.Now(), rec)
	s.settle(t, target)
	stop()
	return Verdicts(s.System.Invariants(s.Params), history.Slice(rec.records), audit(t, target))
}

// Understood fails the test unless a foreign server is judged like the variant behind
// it: what applies holds, but for what the suite need not decide.
func Understood(
	t *testing.T, s Suite, variant string, wrap func(http.Handler) http.Handler,
) {
	t.Helper()
	v := s.variant(t, variant)
	undecided := map[string]string{}
	for range blows {
		clear(undecided)
		for name, verdict := range Foreign(t, s, variant, wrap) {
			switch {
			case v.NotApplicable[name] != "" || s.System.TargetNotApplicable[name] != "":
			case verdict.Status == check.Broken:
				t.Errorf("%s: broken %d times: %+v", name, verdict.Count, verdict.Violations)
			case verdict.Status == check.Undecided && s.Undecided[name] == "":
				undecided[name] = verdict.Reason
			}
		}
		if len(undecided) == 0 || t.Failed() {
			return
		}
		s.Seed++
	}
	t.Errorf("undecided: %v", undecided)
}

func (s Suite) variant(t testing.TB, name string) sut.Variant {
	t.Helper()
	v, ok := s.System.Variant(name)
	if !ok {
		t.Fatalf("there is no variant %q", name)
	}
	return v
}
