package fault_test

import (
	"strings"
	"testing"
	"time"

	"stampede/harness/fault"
	"stampede/harness/scenario"
	"stampede/harness/sut"
)

func TestFaultPrintsItself(t *testing.T) {
	for want, f := range map[string]fault.Fault{
		"kill redis wipe": {Kind: fault.Kill, Target: sut.Redis, Wipe: true},
		"latency redis 50ms jitter 5ms": {Kind: fault.Latency, Target: sut.Redis,
			Latency: 50 * time.Millisecond, Jitter: 5 * time.Millisecond},
		"power-loss redis 1s":          {Kind: fault.PowerLoss, Target: sut.Redis, Loses: time.Second},
		"partition counter from kafka": {Kind: fault.Partition, Target: "counter", From: sut.Kafka},
		"crash counter-2 at applied passage 3": {Kind: fault.Crash, Target: "counter-2",
			Place: "applied", Passage: 3},
		"churn counter 1s mixed": {Kind: fault.Churn, Target: "counter", Every: time.Second,
			How: fault.Mixed},
	} {
		if got := f.String(); got != want {
			t.Errorf("%q, want %q", got, want)
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
