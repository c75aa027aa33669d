package fault_test

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"stampede/harness/fault"
	"stampede/harness/scenario"
	"stampede/harness/sut"
)

// anyFault draws a fault that makes sense.
func anyFault(t *rapid.T) fault.Fault {
	f := fault.Fault{
		Kind:   rapid.SampledFrom(fault.Kinds()).Draw(t, "kind"),
		Target: rapid.SampledFrom([]sut.Service{sut.Postgres, sut.Redis}).Draw(t, "target"),
	}
	switch f.Kind {
	case fault.Kill:
		f.Wipe = rapid.Bool().Draw(t, "wipe")
	case fault.Latency:
		f.Latency = time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "latency"))
		f.Jitter = time.Duration(rapid.Int64Range(0, int64(f.Latency)).Draw(t, "jitter"))
	case fault.Partition:
		if rapid.Bool().Draw(t, "of a role") {
			f.From, f.Target = f.Target, "counter-2"
		}
	case fault.Crash:
		f.Target = "counter"
		f.Place = rapid.StringMatching("[a-z]{1,5}(-[a-z0-9]{1,5})?").Draw(t, "place")
		f.Passage = rapid.IntRange(1, 1000).Draw(t, "passage")
	case fault.Churn:
		f.Target = "counter"
		f.Every = time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "every"))
		f.How = rapid.SampledFrom([]string{fault.Mixed, fault.Orderly, fault.Abrupt}).Draw(t, "how")
	case fault.PowerLoss:
		f.Target = sut.Redis
		f.Loses = time.Duration(rapid.Int64Range(1, int64(fault.MostLoses)).Draw(t, "loses"))
	}
	return f
}

func TestFaultPrintsItselfAsItParses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := anyFault(t)
		got, err := fault.Parse(f.String())
		if err != nil || got != f {
			t.Fatalf("%q parses as %+v, %v; want %+v", f, got, err, f)
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"kill redis", "kill postgres wipe",
		"latency redis 50ms jitter 5ms", "latency redis", "pause x wipe", "power-loss redis 1s",
		"partition counter-2 from kafka",
		"crash counter at applied passage 3", "churn counter 1s mixed", "crash counter at x passage",
		"\xff"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := fault.Parse(text)
		if err != nil {
			return
		}
		again, err := fault.Parse(got.String())
		if err != nil || again != got {
			t.Errorf("%q is %+v, which prints as %q, which is %+v, %v", text, got, got, again, err)
		}
	})
}

func TestParseErrors(t *testing.T) {
	cases := map[string]string{
		"":                                "expected a kind and a target",
		"kill":                            "expected a kind and a target",
		"explode redis":                   "unknown kind",
		"latency redis":                   "above zero",
		"latency redis 0s":                "above zero",
		"latency redis fast":              "invalid duration",
		"latency redis 1ms jitter 2ms":    "jitter",
		"latency redis 1ms jitter 1ms up": `unexpected "up"`,
		"pause redis wipe":                "only kind kill",
		"pause redis jitter 1ms":          "only kind latency",
		"kill redis at once":              "unexpected",
		"power-loss redis":                "takes 0s",
		"power-loss redis 11s":            "not within 0s and 10s",
		"power-loss postgres 1s":          "only redis",
		"power-loss redis 1s wipe":        "only kind kill",
		"partition redis from kafka":      "only a partition of a role",
		"partition counter from moon":     "only a partition of a role",
		"kill counter from kafka":         "only a partition of a role",
		"crash redis at x passage 1":      "only a role can crash",
		"crash counter":                   "needs a place",
		"crash counter at x passage 0":    "needs a place",
		"crash counter at x passage one":  "invalid syntax",
		"kill counter at x passage 1":     "only kind crash",
		"churn counter 1s":                "churn needs",
		"churn counter 0s kill":           "churn needs",
		"churn counter 1s gently":         "churn needs",
		"churn postgres 1s kill":          "only a role can churn",
	}
	for text, want := range cases {
		if _, err := fault.Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want an error with %q", text, err, want)
		}
	}
}

func TestOf(t *testing.T) {
	got, err := fault.Of(scenario.Fault{Name: "n", Kind: "latency", Target: "redis",
		Latency: scenario.Duration(time.Second), Jitter: scenario.Duration(time.Millisecond)})
	want := fault.Fault{Kind: fault.Latency, Target: sut.Redis, Latency: time.Second,
		Jitter: time.Millisecond}
	if err != nil || got != want {
		t.Errorf("got %+v, %v", got, err)
	}
	got, err = fault.Of(scenario.Fault{Name: "n", Kind: "power-loss", Target: "redis"})
	want = fault.Fault{Kind: fault.PowerLoss, Target: sut.Redis, Loses: time.Second}
	if err != nil || got != want {
		t.Errorf("got %+v, %v", got, err)
	}
	_, err = fault.Of(scenario.Fault{Name: "n", Kind: "kill", Target: "redis",
		Loses: scenario.Duration(1)})
	if err == nil {
		t.Error("a kill takes what it loses")
	}
	got, err = fault.Of(scenario.Fault{Name: "n", Kind: "churn", Target: "counter"})
	want = fault.Fault{Kind: fault.Churn, Target: "counter", Every: time.Second, How: "mixed"}
	if err != nil || got != want {
		t.Errorf("got %+v, %v", got, err)
	}
	got, err = fault.Of(scenario.Fault{Name: "n", Kind: "crash", Target: "counter", Place: "put"})
	want = fault.Fault{Kind: fault.Crash, Target: "counter", Place: "put", Passage: 1}
	if err != nil || got != want {
		t.Errorf("got %+v, %v", got, err)
	}
	_, err = fault.Of(scenario.Fault{Name: "odd", Kind: "melt", Target: "redis"})
	if err == nil || !strings.Contains(err.Error(), `fault "odd": unknown kind "melt"`) {
		t.Errorf("got %v", err)
	}
}

func TestRewrite(t *testing.T) {
	cases := []struct{ url, want string }{
		{"postgres://u:p@db:5432/shop?sslmode=disable",
			"postgres://u:p@127.0.0.1:9/shop?sslmode=disable"},
		{"redis://cache/3", "redis://127.0.0.1:9/3"},
		{"postgres://[::1]:5432/x", "postgres://127.0.0.1:9/x"},
	}
	for _, c := range cases {
		if got, err := fault.Rewrite(c.url, "127.0.0.1:9"); err != nil || got != c.want {
			t.Errorf("%s: got %s, %v", c.url, got, err)
		}
	}
	for _, bad := range []string{"host=db user=u password=secret", "%zz://secret",
		"postgres:///x?host=/run/secret", "postgres://h/x?host=other&password=secret"} {
		_, err := fault.Rewrite(bad, "127.0.0.1:9")
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got %v", bad, err)
		}
	}
	if _, err := fault.Rewrite("redis://h/0", "nowhere"); err == nil {
		t.Error("an address without a port was taken")
	}
}

func TestTargets(t *testing.T) {
	stores := []string{"kafka", "postgres", "redis"}
	if got := fault.PowerLoss.Targets(stores); len(got) != 1 || got[0] != "redis" {
		t.Errorf("power can be lost by %v", got)
	}
	if got := fault.Churn.Targets(stores); len(got) != 0 || !fault.Churn.OnRoles() {
		t.Errorf("%v can churn", got)
	}
	if got := fault.Kill.Targets(stores); len(got) != 3 {
		t.Errorf("%v can be killed", got)
	}
}

func TestKindsExplainThemselves(t *testing.T) {
	seen := map[string]fault.Kind{}
	for _, kind := range fault.Kinds() {
		if kind.Does() == "" || kind.Proof() == "" {
			t.Errorf("%s does %q, which is proved by %q", kind, kind.Does(), kind.Proof())
		}
		if twin, ok := seen[kind.Does()]; ok {
			t.Errorf("%s and %s do the same: %s", kind, twin, kind.Does())
		}
		seen[kind.Does()] = kind
	}
}
