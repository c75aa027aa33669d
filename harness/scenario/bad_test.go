package scenario_test

import (
	"errors"
	"strings"
	"testing"

	"stampede/harness/scenario"
)

// base is a valid scenario that uses most fields; the bad ones are it with
// one text replaced.
const base = `name: shop-rush
question: Which design sells each item once?
system: shop
variants: [naive, locked, cached]
baseline: locked
repeats: 2
params: {items: 5, pay: 0.5, fail: 0.25, ttl: 2s, labels: {a: b, n: 3}, seats: 4}
load:
  arrival:
    process: constant
    rate: 100.5
    over: 10s
  warm_up: 1s
  max_in_flight: 64
  queue: 1000
  timeout: 2s
  drain: 10s
stores:
  max_conns: 8
  postgres: {shared_buffers: 128MB, max_connections: 50, fsync: on}
faults:
  - name: power-loss
    kind: kill
    target: redis
    at: 2s
    for: 500ms
    wipe: true
  - {name: slow, kind: latency, target: postgres, at: 2s, for: 1s, latency: 20ms}
  - {name: bounce, kind: restart, target: postgres, at: 5s}
provokes: [load, redis-loss]
slos:
  - name: fast
    objective: p99(response, buy) <= 500ms during slow
profiles:
  smoke:
    params: {items: 2}
    load: {arrival: {over: 8s}}
  default:
  full: {repeats: 6}
`

// bad is the base with one text replaced, and what must be said of it.
type bad struct {
	old, new, want string
	// alone says that the schema cannot know: only the decoder refuses it.
	alone bool
}

func badScenarios() map[string]bad {
	return map[string]bad{
		"deploy": {
			"provokes:", "deploy: process\nprovokes:",
			`30:9: unknown deploy "process"; expected one of`, false,
		},
		"replicas of nobody": {
			"provokes:", "replicas: {swepper: 2}\nprovokes:",
			`30:12: unknown role "swepper"; expected one of api, sweeper, keeper; did you mean "sweeper"?`,
			false,
		},
		"no replica": {
			"provokes:", "replicas: {sweeper: 0}\nprovokes:",
			`30:21: sweeper is 0; expected 1 to 100`, false,
		},
		"replicas of what is single": {
			"provokes:", "replicas: {keeper: 2}\nprovokes:",
			`30:20: two of keeper at once would interfere with each other; expected 1`, true,
		},
		"crash at no place": {
			"kind: restart, target: postgres, at: 5s}", "kind: crash, target: sweeper, for: 1s, at: 5s, " +
				"place: sweept}\ndeploy: processes", `unknown place "sweept"; expected one of ` +
				`taken, swept; did you mean "swept"?`, true,
		},
		"crash without a place": {
			"kind: restart, target: postgres, at: 5s}", "kind: crash, target: sweeper, for: 1s, at: 5s}\n" +
				"deploy: processes", `place is missing; expected it for kind crash`, false,
		},
		"crash of a store": {
			"kind: restart, target: postgres", "kind: crash, place: swept, for: 1s, target: postgres",
			`only a role can crash, not postgres; expected one of api, sweeper`, false,
		},
		"place of a kill": {
			"wipe: true", "place: swept", `place does not belong to kind kill; expected one of kind, ` +
				`name, target, at, for, wipe`, false,
		},
		"partition of a role": {
			"kind: restart, target: postgres", "kind: partition, for: 1s, target: sweeper",
			`from is missing; expected it for a partition of a role`, true,
		},
		"partition from nowhere": {
			"kind: restart, target: postgres", "kind: partition, for: 1s, target: sweeper, from: kafka",
			`unknown store of sweeper "kafka"; expected one of postgres, redis`, true,
		},
		"partition of a store from another": {
			"kind: restart, target: postgres", "kind: partition, for: 1s, target: redis, from: postgres",
			`from does not belong to partition of redis`, true,
		},
		"churn by force in process": {
			"kind: restart, target: postgres", "kind: churn, how: kill, for: 1s, target: sweeper",
			`churn of sweeper needs a process of its own`, true,
		},
		"two faults of one way": {
			"{name: bounce, kind: restart, target: postgres, at: 5s}",
			"{name: bounce, kind: partition, target: sweeper, from: redis, at: 5s, for: 2s}\n" +
				"  - {name: b, kind: partition, target: sweeper, from: redis, at: 6s, for: 1s}",
			`faults "bounce" and "b" are in force on sweeper at the same time`, true,
		},
		"role-crash": {
			"redis-loss]", "role-crash]", `no fault kills a role, so role-crash is not provoked`, true,
		},
		"role-pause": {
			"redis-loss]", "role-pause]", `no fault pauses a role, so role-pause is not provoked`, true,
		},
		"rebalance": {
			"redis-loss]", "rebalance]", `no role leaves and returns, so rebalance is not provoked`, true,
		},
		"broker-pause": {
			"redis-loss]", "broker-pause]", `kafka never stops answering, so broker-pause is not`, true,
		},
		"kill of a goroutine": {
			"kind: restart, target: postgres", "kind: kill, target: sweeper, for: 1s",
			`29:40: kill of sweeper needs a process of its own; expected deploy processes or containers`,
			true,
		},
		"restart of the API in process": {
			"kind: restart, target: postgres", "kind: restart, target: api",
			`restart of api needs a process of its own`, true,
		},
		"wipe of a role": {
			"kind: restart, target: postgres, at: 5s}", "kind: kill, target: sweeper, for: 1s, " +
				"at: 5s, wipe: true}\ndeploy: processes", `a role has no data to wipe`, true,
		},
		"latency of a role": {
			"kind: latency, target: postgres", "kind: latency, target: sweeper",
			`28:24: kind latency is not for roles; expected one of`, true,
		},
		"one replica with a number": {
			"kind: restart, target: postgres", "kind: restart, target: sweeper-1",
			`one replica has no number: there is no sweeper-1; expected sweeper, or replicas of it`, true,
		},
		"a replica too many": {
			"kind: restart, target: postgres, at: 5s}", "kind: restart, target: sweeper-3, at: 5s}\n" +
				"replicas: {sweeper: 2}", `there is no sweeper-3: sweeper has 2 replicas`, true,
		},
		"a role of no chosen design": {
			"variants: [naive, locked, cached]\nbaseline: locked", "variants: [naive]\nfaults: [{name: " +
				"a, kind: restart, target: sweeper, at: 1s}]", `5:43: no chosen design has the target ` +
				`"sweeper", so the fault has no target; expected one of locked, cached among variants`,
			true,
		},
		"a place of no chosen design": {
			"variants: [naive, locked, cached]", "variants: [naive, locked]\ndeploy: processes\n" +
				"faults: [{name: a, kind: crash, target: sweeper, place: swept, at: 1s, for: 1s}]",
			`no chosen design has the place "swept", so the fault has no target; expected cached ` +
				`among variants, or no such fault`, true,
		},
		"empty": {base, "", `1:1: the file is empty`, false},
		"a list": {
			base, "- a\n- b\n",
			`1:1: unexpected a list; expected a mapping`, false,
		},
		"not yaml": {base, "a: [1\n", `1:4: not valid YAML`, true},
		"two documents": {
			"name: shop-rush", "a: 1\n---\nname: shop-rush",
			`3:1: a second`, true,
		},
		"anchor":    {"repeats: 2", "repeats: &r 2", `6:10: anchors, aliases`, true},
		"alias":     {"repeats: 2", "repeats: *r", `6:10: anchors, aliases`, true},
		"merge key": {"repeats: 2", "<<: {repeats: 2}", `6:1: this kind of key`, true},
		"tag": {
			"repeats: 2", "repeats: !!int 2",
			`6:10: anchors, aliases`, true,
		},
		"duplicate key": {
			"repeats: 2", "system: shop",
			`6:1: "system" appears twice, first on`, true,
		},
		"unknown field":  {"repeats", "repaets", `6:1: unknown field "repaets"`, false},
		"nested unknown": {"warm_up", "warmup", `unknown field "warmup"`, false},
		"unknown param":  {"ttl: 2s", "tll: 2s", `7:42: unknown field "tll"`, false},
		"null":           {"repeats: 2", "repeats:", `6:9: a value is missing`, false},
		"text for number": {
			"repeats: 2", "repeats: two",
			`6:10: unexpected "two"; expected a whole`, false,
		},
		"quoted number": {
			"repeats: 2", `repeats: "2"`,
			`6:10: unexpected "2"; expected a whole`, false,
		},
		"fraction": {
			"repeats: 2", "repeats: 2.5",
			`6:10: unexpected 2.5; expected a whole`, false,
		},
		"octal": {
			"repeats: 2", "repeats: 0o2",
			`6:10: unexpected "0o2"; expected a whole`, false,
		},
		"underscore": {
			"queue: 1000", "queue: 1_000",
			`unexpected "1_000"; expected a whole`, false,
		},
		"infinite": {
			"rate: 100.5", "rate: .inf",
			`unexpected ".inf"; expected a number`, false,
		},
		"not a number": {
			"rate: 100.5", "rate: .nan",
			`unexpected ".nan"; expected a number`, false,
		},
		"too large": {
			"items: 5", "items: 1e300",
			`unexpected 1e300; expected a whole`, true,
		},
		"number for text": {
			"name: shop-rush", "name: 5",
			`1:7: unexpected 5; expected text`, false,
		},
		"text for bool": {
			"wipe: true", "wipe: yes",
			`unexpected "yes"; expected true or false`, false,
		},
		"list for mapping": {
			"params: {items: 5", "params: [1]\nx: {items: 5",
			`7:9: unexpected a list`, false,
		},
		"text for list": {
			"[naive, locked, cached]", "naive",
			`unexpected "naive"; expected a list`, false,
		},
		"no unit": {
			"timeout: 2s", "timeout: 500",
			`16:12: the unit of 500 is missing`, false,
		},
		"no unit in text": {
			"timeout: 2s", `timeout: "500"`,
			`the unit of 500 is missing`, false,
		},
		"unknown unit": {
			"timeout: 2s", "timeout: 2 sec",
			`"2 sec" is not a duration`, false,
		},
		"negative time": {"timeout: 2s", "timeout: -2s", `"-2s" is negative`, false},
		"bad name": {
			"name: shop-rush", "name: ../x",
			`1:7: name is "../x"; expected lower-case letters, digits and hyphens`, false,
		},
		"no question": {
			"question: Which design sells each item once?", "",
			`question is missing`, false,
		},
		"blank question": {
			"question: Which design sells each item once?", `question: " "`,
			`question is " "; expected text that is not blank`, false,
		},
		"no system": {
			"system: shop\n", "",
			`system is missing; expected one of shop`, false,
		},
		"unknown system": {
			"system: shop", "system: shup",
			`3:9: unknown system "shup"`, false,
		},
		"unknown design": {"[naive,", "[naiv,", `4:12: unknown design "naiv"`, false},
		"design twice": {
			"[naive,", "[locked,",
			`4:20: design "locked" appears twice`, false,
		},
		"unknown baseline": {
			"baseline: locked", "baseline: locker",
			`baseline "locker" is not among`, false,
		},
		"no repeats": {
			"repeats: 2", "repeats: 0",
			`repeats is 0; expected 1 to 100`, false,
		},
		"impossible mix": {"fail: 0.25", "fail: 0.75", `7:25: pay + fail is 1.25`, true},
		"no load": {
			from("load:"), "",
			`load is missing`, false,
		},
		"no arrival": {
			base[strings.Index(base, "  arrival"):strings.Index(base, "  warm_up")], "",
			`arrival is missing`, false,
		},
		"no process": {"    process: constant\n", "", `9:3: process is missing`, false},
		"unknown process": {
			"process: constant", "process: konstant",
			`did you mean "constant"?`, false,
		},
		"negative rate": {
			"rate: 100.5", "rate: -1",
			`11:11: rate is -1; expected a number from 0`, false,
		},
		"fit of a rate": {
			"    over: 10s", "    over: fit",
			`12:11: over is fit, and process constant has no number of operations to keep`, false,
		},
		"fit without bounds": {
			"process: constant\n    rate: 100.5\n    over: 10s",
			"process: burst\n    ops: 5\n    over: fit",
			`over_least is missing; expected it where over is fit`, false,
		},
		"fit from more to less": {
			"process: constant\n    rate: 100.5\n    over: 10s",
			"process: burst\n    ops: 5\n    over: fit\n    over_least: 10s\n    over_most: 9s",
			`over_least 10s is more than over_most 9s`, true,
		},
		"fit in full": {
			"process: constant\n    rate: 100.5\n    over: 10s",
			"process: burst\n    ops: 5\n    over: fit\n    over_least: 8s\n    over_most: 9s",
			`over is fit in the profile full, which sends the same on every machine`, true,
		},
		"bounds of a rate": {
			"    over: 10s", "    over: 10s\n    over_most: 10s",
			`over_most does not belong to process constant`, false,
		},
		"no rate": {
			"    rate: 100.5\n", "",
			`rate is missing; expected it for process`, false,
		},
		"zero rate": {"rate: 100.5", "rate: 0", `never has an operation due`, true},
		"foreign field": {
			"    rate: 100.5\n", "    rate: 100.5\n    ops: 5\n",
			`ops does not belong to process constant`, false,
		},
		"rate of a burst": {
			"process: constant\n    rate: 100.5", "process: burst\n    ops: 5\n    rate: 100",
			`rate does not belong to process burst, which has a number of operations ` +
				`(--set load.arrival.ops=...)`, false,
		},
		"too many": {
			"rate: 100.5\n    over: 10s", "rate: 1e6\n    over: 1h",
			`about 3.6e+09 operations`, true,
		},
		"too long": {"over: 10s", "over: 25h", `the load lasts 25h0m0s`, true},
		"low peak": {
			"process: constant\n    rate: 100.5",
			"process: sine\n    rate: 9\n    to: 8\n    period: 1s",
			`peak, 8/s, is below its mean`, true,
		},
		"late spike": {
			"process: constant\n    rate: 100.5",
			"process: spike\n    rate: 9\n    to: 80\n    at: 9s\n    for: 2s",
			`does not fit into 10s`, true,
		},
		"unsorted trace": {
			"process: constant\n    rate: 100.5\n    over: 10s",
			"process: trace\n    trace: [2s, 1s]",
			`due time 1 of the trace`, true,
		},
		"no steps": {
			"process: constant\n    rate: 100.5\n    over: 10s", "process: step\n    steps: []",
			`steps has 0 elements; expected 1 or more`, false,
		},
		"users and arrival": {
			"  warm_up: 1s", "  users: 5\n  duration: 9s",
			`users and arrival exclude each other`, false,
		},
		"think open": {
			"  warm_up: 1s", "  think: 5ms",
			`think belongs to a closed loop`, false,
		},
		"all warm-up": {
			"warm_up: 1s", "warm_up: 10s",
			`leaves nothing to measure`, true,
		},
		"list setting": {
			"fsync: on", "fsync: [1]",
			`unexpected a list; expected text`, false,
		},
		"fault kind": {"kind: kill", "kind: kil", `did you mean "kill"?`, false},
		"fault target": {
			"target: redis", "target: rediss",
			`did you mean "redis"?`, false,
		},
		"fault not needed": {
			"[naive, locked, cached]", "[naive, locked]",
			`no design needs redis`, true,
		},
		"fault unnamed": {
			"  - name: power-loss\n    kind", "  - kind",
			`name is missing`, false,
		},
		"fault name": {"name: slow", "name: So Slow", `name is "So Slow"; expected lower-case letters`, false},
		"fault name twice": {
			"name: slow", "name: power-loss",
			`fault name "power-loss" appears twice`, true,
		},
		"fault late": {
			"name: bounce, kind: restart, target: postgres, at: 5s",
			"name: bounce, kind: restart, target: postgres, at: 10s",
			`begins at 10s, after the end of load`, true,
		},
		"fault without time": {"    at: 2s\n", "", `at is missing`, false},
		"fault without end":  {"    for: 500ms\n", "", `for is missing`, false},
		"restart with end": {
			"target: postgres, at: 5s", "target: postgres, at: 5s, for: 1s",
			`for does not belong to kind restart`, false,
		},
		"endless pause": {
			"kind: kill\n    target: redis\n    at: 2s\n    for: 500ms\n    wipe: true",
			"kind: pause\n    target: redis\n    at: 2s\n    for: 0s",
			`for is 0s`, true,
		},
		"loses of a kill": {
			"    wipe: true", "    wipe: true\n    loses: 1s",
			`loses does not belong to kind kill`, false,
		},
		"loses too much": {
			"kind: kill\n    target: redis\n    at: 2s\n    for: 500ms\n    wipe: true",
			"kind: power-loss\n    target: redis\n    at: 2s\n    for: 500ms\n    loses: 11s",
			`loses is 11s`, true,
		},
		"power of postgres": {
			"kind: kill\n    target: redis\n    at: 2s\n    for: 500ms\n    wipe: true",
			"kind: power-loss\n    target: postgres\n    at: 2s\n    for: 500ms",
			`a fault of kind power-loss is one of redis, not of postgres`, false,
		},
		"lag of redis": {
			"kind: kill\n    target: redis\n    at: 2s\n    for: 500ms\n    wipe: true",
			"kind: lag\n    target: redis\n    at: 2s\n    for: 500ms",
			`a fault of kind lag is one of replica, not of redis`, false,
		},
		"power lost too early": {
			"kind: kill\n    target: redis\n    at: 2s\n    for: 500ms\n    wipe: true",
			"kind: power-loss\n    target: redis\n    at: 900ms\n    for: 500ms",
			`reaches back to before the load; expected 1s or more`, true,
		},
		"power loss without a log": {
			"postgres: {shared_buffers: 128MB, max_connections: 50, fsync: on}\nfaults:\n" +
				"  - name: power-loss\n    kind: kill\n    target: redis\n    at: 2s\n    for: 500ms\n" +
				"    wipe: true",
			"redis: {appendonly: no}\nfaults:\n" +
				"  - name: power-loss\n    kind: power-loss\n    target: redis\n    at: 2s\n    for: 500ms",
			`with appendonly no a loss of power has nothing to remove`, true,
		},
		"wipe without kill": {"kind: kill", "kind: pause", `wipe does not belong to kind pause`, false},
		"no latency":        {", latency: 20ms", "", `latency is missing`, false},
		"latency of a kill": {
			"    wipe: true", "    wipe: true\n    latency: 1s",
			`latency does not belong to kind kill`, false,
		},
		"jitter of a kill": {
			"    wipe: true", "    wipe: true\n    jitter: 1s",
			`jitter does not belong to kind kill`, false,
		},
		"much jitter": {
			"latency: 20ms", "latency: 20ms, jitter: 30ms",
			`28:91: a jitter of 30ms is more than the latency; expected at most 20ms`, true,
		},
		"overlapping": {
			"kind: restart, target: postgres, at: 5s",
			"kind: pause, target: redis, at: 2400ms, for: 1s",
			`"power-loss" and "bounce" are in force on redis`, true,
		},
		"unknown trigger": {"redis-loss", "redis-lost", `did you mean "redis-loss"?`, false},
		"trigger twice": {
			"[load, redis-loss]", "[load, load]",
			`trigger "load" appears twice`, false,
		},
		"not provoked": {"wipe: true", "wipe: false", `no fault wipes redis`, true},
		"no postgres killed": {
			"[load, redis-loss]", "[postgres-crash]",
			`no fault kills postgres`, true,
		},
		"no power lost": {
			"[load, redis-loss]", "[power-loss]",
			`redis loses no power`, true,
		},
		"no lost ack": {
			"[load, redis-loss]", "[lost-ack]",
			`no fault loses replies`, true,
		},
		"objective": {
			"<= 500ms", "<< 500ms",
			`33:36: unexpected "<" in the objective`, true,
		},
		"objective kind": {
			"(response, buy)", "(response, by)",
			`33:30: unexpected "by"`, true,
		},
		"objective fault": {"during slow", "during slaw", `did you mean "slow"?`, true},
		"objective unnamed": {
			"  - name: fast\n    objective", "  - objective",
			`name is missing`, false,
		},
		"unknown profile": {"  smoke:", "  smoky:", `unknown profile "smoky"`, false},
		"profile of text": {
			"full: {repeats: 6}", "full: many",
			`unexpected "many"; expected a mapping`, false,
		},
		"profile of name": {
			"full: {repeats: 6}", "full: {name: x}",
			`a profile cannot change "name"`, false,
		},
		"profile's field": {
			"full: {repeats: 6}", "full: {repeat: 6}",
			`39:10: unknown field "repeat" (in profile full)`, false,
		},
		"profile's value": {
			"full: {repeats: 6}", "full: {repeats: -6}",
			`39:19: repeats is -6 (in profile full)`, false,
		},
		"both profiles": {
			"repeats: 2", "profile: smoke",
			`profile and profiles exclude each other`, false,
		},
		"profiles a list": {
			from("profiles:"), "profiles: [smoke]\n",
			`unexpected a list`, false,
		},
		"only in a profile": {
			"    over: 10s\n", "",
			`over is missing (in profile none)`, false,
		},
	}
}

// TestHugeInputIsRefusedAtOnce gives what would keep a YAML parser busy.
func TestHugeInputIsRefusedAtOnce(t *testing.T) {
	for text, want := range map[string]string{
		strings.Repeat("[", 300_000):                      `1:201: nested too deeply`,
		"a:\n" + strings.Repeat("- ", 300_000):            `2:401: nested too deeply`,
		strings.Repeat("{a: ", 150) + "1":                 `not valid YAML`,
		strings.Repeat("[", 50) + strings.Repeat("]", 50): `1:34: nested too deeply`,
		strings.Repeat("a: 1 # x\n", 200_000):             `the file is too large`,
	} {
		_, _, err := scenario.Decode([]byte(text), "x.yaml", options())
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.10q...: got %v, want %q in it", text, err, want)
		}
	}
}

func TestBaseIsValid(t *testing.T) {
	for _, profile := range []string{"", "smoke", "default", "full"} {
		opts := options()
		opts.Profile = profile
		if _, _, err := scenario.Decode([]byte(base), "x.yaml", opts); err != nil {
			t.Errorf("profile %q: %v", profile, err)
		}
	}
}

func TestBadScenarios(t *testing.T) {
	for name, c := range badScenarios() {
		t.Run(name, func(t *testing.T) {
			src := mustReplace(t, base, c.old, c.new)
			opts := options()
			if name == "only in a profile" {
				src = mustReplace(t, src, "  default:", "  default: {load: {arrival: {over: 9s}}}")
			}
			_, _, err := scenario.Decode([]byte(src), "x.yaml", opts)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v\nwant %q in it", err, c.want)
			}
			mustPointIntoFile(t, src, err)
		})
	}
}

// from is the base from a text on.
func from(text string) string {
	_, rest, _ := strings.Cut(base, text)
	return text + rest
}

func mustReplace(t *testing.T, s, old, replacement string) string {
	t.Helper()
	if !strings.Contains(s, old) {
		t.Fatalf("%q is not there to be replaced", old)
	}
	return strings.Replace(s, old, replacement, 1)
}

// mustPointIntoFile checks that every problem is on a line that exists.
func mustPointIntoFile(t *testing.T, src string, err error) {
	t.Helper()
	var all scenario.Errors
	if !errors.As(err, &all) || len(all) == 0 {
		t.Fatalf("the error is a %T", err)
	}
	// YAML breaks lines at CR too.
	lines := strings.Count(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(src), "\n") + 1
	for _, p := range all {
		if p.What == "" || p.Where.Flag == "" && (p.Where.Line < 1 || p.Where.Line > lines ||
			p.Where.Column < 1) {
			t.Errorf("%v points nowhere in a file of %d lines", p, lines)
		}
	}
}
