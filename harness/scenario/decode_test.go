package scenario_test

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"stampede/harness/scenario"
	"stampede/harness/sut"
)

// shopParams are the parameters of the system that these tests decode for.
type shopParams struct {
	Items   int               `json:"items" doc:"how many items"`
	Skew    string            `json:"skew" doc:"uniform or zipf"`
	Pay     float64           `json:"pay" min:"0" max:"1" doc:"share that pays"`
	Fail    float64           `json:"fail" doc:"share that fails"`
	TTL     sut.Duration      `json:"ttl" doc:"how long a cart lives"`
	Weights []float64         `json:"weights,omitempty" doc:"weights of the items"`
	Labels  map[string]string `json:"labels,omitempty" doc:"free labels"`
	Seats   *int              `json:"seats,omitempty" min:"1" doc:"seats, if any"`
	Big     uint64            `json:"big,omitempty" doc:"a large number"`
	Closed  bool              `json:"closed,omitempty" doc:"whether the shop is closed"`
}

// buys is a workload with one kind of operation, which is never asked for.
type buys struct{ sut.Workload }

func (buys) Kinds() []string { return []string{"buy"} }

// shop is a system that does nothing but validate.
func shop() sut.System {
	variant := func(name string, needs ...sut.Service) sut.Variant {
		return sut.Variant{Name: name, Needs: needs}
	}
	cached := variant("cached", sut.Postgres, sut.Redis)
	cached.Roles = []sut.Role{{Name: "sweeper", Places: []string{"taken", "swept"}},
		{Name: "keeper", Single: true}}
	locked := variant("locked", sut.Postgres)
	locked.Roles = []sut.Role{{Name: "sweeper", Places: []string{"taken"}}}
	return sut.System{
		Name:    "shop",
		Handler: func(sut.Instance, sut.Config) (http.Handler, error) { return nil, nil },
		Target:  func(string, sut.Config) (sut.Instance, error) { return nil, nil },
		Params:  func() any { return &shopParams{Items: 3, Skew: "uniform", Pay: 0.5} },
		Workload: func(_ uint64, params any) (sut.Workload, error) {
			p := params.(*shopParams)
			var errs []error
			if p.Pay+p.Fail > 1 {
				errs = append(errs, fmt.Errorf("pay + fail is %v, expected at most 1", p.Pay+p.Fail))
			}
			if p.Items < 1 {
				errs = append(errs, fmt.Errorf("items: expected 1 or more, got %d", p.Items))
			}
			return buys{}, errors.Join(errs...)
		},
		Variants: []sut.Variant{
			variant("naive", sut.Postgres),
			locked,
			cached,
		},
	}
}

func options(set ...string) scenario.Options {
	return scenario.Options{
		Set:         set,
		SystemNames: []string{"shop", "queue"},
		Systems: func(name string) (sut.System, bool) {
			if name == "shop" {
				return shop(), true
			}
			return sut.System{}, false
		},
	}
}

const minimal = `
name: shop-rush
question: Which design sells each item once?
system: shop
load:
  arrival: {process: constant, rate: 100, over: 10s}
`

func TestDecodeFillsDefaults(t *testing.T) {
	sc, res, err := scenario.Decode([]byte(minimal), "shop-rush.yaml", options())
	if err != nil {
		t.Fatal(err)
	}
	if sc.Profile != "default" || sc.Repeats != 1 || sc.Load.MaxInFlight != 512 {
		t.Errorf("defaults are not filled: %+v", sc)
	}
	if want := []string{"naive", "locked", "cached"}; !reflect.DeepEqual(sc.Variants, want) {
		t.Errorf("variants %v, want %v", sc.Variants, want)
	}
	if sc.Baseline != "naive" {
		t.Errorf("baseline %q, want the first variant", sc.Baseline)
	}
	if got := res.Params.(*shopParams).Items; got != 3 {
		t.Errorf("items %d, want the system's default 3", got)
	}
}

// TestAllErrorsAtOnce decodes a file with one mistake on most lines and
// expects each with its place, what was expected and the nearest name.
func TestAllErrorsAtOnce(t *testing.T) {
	src := `name: shop-rush
quesion: misspelt
system: shop
variants: [naive, locket]
baseline: cached
repeats: many
repeats: 2
params:
  itms: 5
  ttl: 500
load:
  arrival:
    process: constnt
  queue: -1
  timeout: 0s
faults:
  - {name: a, kind: pauze, target: redis, at: 1s, for: 1s}
  - {name: a, kind: pause, target: redys, at: 1s, for: 1s, wipe: true}
provokes: [laod]
profiles:
  smok: {}
`
	_, _, err := scenario.Decode([]byte(src), "x.yaml", options())
	want := []string{
		`x.yaml:2:1: unknown field "quesion"`, `did you mean "question"?`,
		`x.yaml:4:19: unknown design "locket"`, `did you mean "locked"?`,
		`x.yaml:5:11: baseline "cached" is not among the designs`,
		`x.yaml:6:10: unexpected "many"; expected a whole number`,
		`x.yaml:7:1: "repeats" appears twice, first on line 6`,
		`x.yaml:9:3: unknown field "itms"`, `did you mean "items"?`,
		`x.yaml:10:8: the unit of 500 is missing`, `did you mean "500ms"?`,
		`x.yaml:13:14: unknown process "constnt"`, `did you mean "constant"?`,
		`x.yaml:14:10: queue is -1; expected 0 to 10000000`,
		`x.yaml:15:12: timeout is 0s`,
		`x.yaml:17:21: unknown kind "pauze"`, `did you mean "pause"?`,
		`x.yaml:17:36: no design needs redis; expected postgres`,
		`x.yaml:18:12: fault name "a" appears twice`,
		`x.yaml:18:36: unknown target "redys"`, `did you mean "redis"?`,
		`x.yaml:18:66: wipe does not belong to kind pause`,
		`x.yaml:19:12: unknown trigger "laod"`, `did you mean "load"?`,
		`x.yaml:21:3: unknown profile "smok"`, `did you mean "smoke"?`,
	}
	if err == nil {
		t.Fatal("the file decodes")
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("missing: %s", w)
		}
	}
	var all scenario.Errors
	if !errors.As(err, &all) || len(all) != 17 {
		t.Errorf("%d problems, want 17:\n%v", len(all), err)
	}
}

// TestParamsDoNotHideEachOther has params that cannot be decoded beside some
// that the system refuses, and what can only be judged with a system.
func TestParamsDoNotHideEachOther(t *testing.T) {
	const rest = `
slos:
  - {name: quick, objective: "p99(response, bye) <= 500ms"}
`
	for params, want := range map[string][]string{
		"{itemz: 3, items: 0, pay: 7, ttl: 500}": {`unknown field "itemz"`, "items: expected",
			"pay is 7", "the unit of 500 is missing"},
		"{items: 0}": {"items: expected"},
		// What the system says of a default in the place of a slip is no problem.
		"{pay: x, fail: 0.75}":  {`unexpected "x"`},
		"{payy: 0, fail: 0.75}": {`unknown field "payy"`},
	} {
		src := minimal + "params: " + params + rest
		_, _, err := scenario.Decode([]byte(src), "x.yaml", options())
		var all scenario.Errors
		if !errors.As(err, &all) {
			t.Fatalf("%s: got %v", params, err)
		}
		want = append(want, `unexpected "bye" in the objective; expected an operation kind: buy`)
		for _, w := range want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: missing: %s", params, w)
			}
		}
		if len(all) != len(want) {
			t.Errorf("%s: %d problems, want %d:\n%v", params, len(all), len(want), err)
		}
	}
}

// TestUnknownFaultIsStillDue expects a fault of no kind to be told when it is
// due after the load.
func TestUnknownFaultIsStillDue(t *testing.T) {
	src := minimal + "faults: [{name: f, kind: pauze, target: redis, at: 20s, for: 1s}]\n"
	_, _, err := scenario.Decode([]byte(src), "x.yaml", options())
	if err == nil || !strings.Contains(err.Error(), "after the end of load") {
		t.Errorf("got %v", err)
	}
}

// TestRolesAreDeployedAndBroken: everything that a scenario can say of roles
// is taken, and comes back when it is written and read again.
func TestRolesAreDeployedAndBroken(t *testing.T) {
	src := minimal + `
deploy: processes
replicas: {sweeper: 3, api: 2}
provokes: [role-crash, role-pause, rebalance]
faults:
  - {name: a, kind: kill, target: sweeper, at: 0s, for: 500ms}
  - {name: b, kind: pause, target: sweeper-2, at: 1s, for: 500ms}
  - {name: c, kind: restart, target: api-2, at: 1s}
  - {name: d, kind: crash, target: sweeper-3, place: swept, passage: 3, at: 2s, for: 1s}
  - {name: e, kind: churn, target: sweeper, at: 4s, for: 1s, every: 100ms, how: kill}
  - {name: f, kind: partition, target: sweeper, from: redis, at: 4s, for: 1s}
`
	sc, _, err := scenario.Decode([]byte(src), "shop-rush.yaml", options())
	if err != nil {
		t.Fatal(err)
	}
	text, err := sc.YAML()
	if err != nil {
		t.Fatal(err)
	}
	again, _, err := scenario.Decode(text, "again.yaml", options())
	if err != nil || !reflect.DeepEqual(sc, again) {
		t.Errorf("written and read again: %+v, %v", again, err)
	}
	gentle := `
replicas: {sweeper: 2}
provokes: [rebalance]
faults:
  - {name: a, kind: churn, target: sweeper, at: 0s, for: 500ms, how: stop}
  - {name: b, kind: restart, target: sweeper-1, at: 1s}
  - {name: c, kind: partition, target: sweeper-2, from: postgres, at: 2s, for: 1s}
`
	if _, _, err := scenario.Decode([]byte(minimal+gentle), "shop-rush.yaml", options()); err != nil {
		t.Errorf("in process: %v", err)
	}
}

// TestASystemWithoutAnAPI runs in process only.
func TestASystemWithoutAnAPI(t *testing.T) {
	opts := options("deploy=containers")
	bare := shop()
	bare.Handler = nil
	opts.Systems = func(string) (sut.System, bool) { return bare, true }
	_, _, err := scenario.Decode([]byte(minimal), "shop-rush.yaml", opts)
	if err == nil || !strings.Contains(err.Error(), "shop has no HTTP API") {
		t.Errorf("got %v", err)
	}
}
