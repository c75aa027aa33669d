package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"stampede/harness/check"
	"stampede/harness/env"
	"stampede/harness/env/admin"
	"stampede/harness/env/envtest"
	"stampede/harness/history"
	"stampede/harness/rundir"
	"stampede/harness/scenario"
	"stampede/harness/sut"
)

func TestMain(m *testing.M) {
	admin.Quiet() // stores start without envtest
	envtest.Child(moverSystem())
	goleak.VerifyTestMain(m)
}

// moverSystem keeps numbers in two stores: the API puts them into a list in
// Redis, and a role moves them to a table in Postgres. One variant takes them
// first, and loses what it holds when it dies.
func moverSystem() sut.System {
	s := sut.System{
		Name: "mover", Summary: "moves numbers from one store to another",
		Params:     func() any { return &ledgerParams{Keys: 1000} },
		Workload:   func(seed uint64, _ any) (sut.Workload, error) { return adds{seed, 1000}, nil },
		Invariants: func(any) []check.Invariant { return []check.Invariant{kept{}, asked{}} },
		Handler: func(inst sut.Instance, _ sut.Config) (http.Handler, error) {
			return http.HandlerFunc(inst.(*mover).serve), nil
		},
		Target: func(base string, cfg sut.Config) (sut.Instance, error) {
			return caller{base, &http.Client{Timeout: cfg.Timeout, Transport: &http.Transport{}}}, nil
		},
	}
	for name, step := range map[string]func(*mover, context.Context, string) (bool, error){
		"take": (*mover).take, "keep": (*mover).keep} {
		v := sut.Variant{Name: name, Idea: "a list and a table",
			Needs: []sut.Service{sut.Postgres, sut.Redis}, Places: []string{"asked"},
			Roles: []sut.Role{{Name: "mover", Places: []string{"taken", "put"},
				Run: func(ctx context.Context, cfg sut.Config) error { return move(ctx, cfg, step) }}},
			Open: func(ctx context.Context, cfg sut.Config) (sut.Instance, error) {
				return openMover(ctx, cfg)
			}}
		if name == "take" {
			v.Breaks = []sut.Break{{Invariant: "kept", Under: sut.RoleCrash}}
		}
		s.Variants = append(s.Variants, v)
	}
	slices.SortFunc(s.Variants, func(a, b sut.Variant) int { return strings.Compare(a.Name, b.Name) })
	return s
}

// mover is connected to both stores.
type mover struct {
	cfg   sut.Config
	redis *redis.Client
	table *pgxpool.Pool
}

func openMover(ctx context.Context, cfg sut.Config) (*mover, error) {
	opts, err := redis.ParseURL(cfg.RedisURL)
	if err != nil {
		return nil, err
	}
	opts.MaxRetries, opts.ReadTimeout, opts.DialTimeout = -1, time.Second, time.Second
	table, err := pgxpool.New(ctx, cfg.PostgresURL)
	return &mover{cfg, redis.NewClient(opts), table}, err
}

func (m *mover) list(name string) string { return m.cfg.Prefix + name }

func (m *mover) Prepare(ctx context.Context) error {
	_, err := m.table.Exec(ctx, "CREATE TABLE numbers (id bigint PRIMARY KEY)")
	return err
}

func (m *mover) Do(ctx context.Context, op history.Op) (history.Reply, error) {
	m.cfg.Passed("asked")
	return history.Reply{Value: 1}, m.redis.LPush(ctx, m.list("numbers"), op.ID).Err()
}

// Quiesced counts what is in Redis.
func (m *mover) Quiesced(ctx context.Context) (string, error) {
	left := int64(0)
	for _, name := range []string{"numbers", "taken0", "taken1", "taken2"} {
		n, err := m.redis.LLen(ctx, m.list(name)).Result()
		if err != nil {
			return "", err
		}
		left += n
	}
	if left > 0 {
		return fmt.Sprintf("%d numbers", left), nil
	}
	return "", nil
}

func (m *mover) Audit(ctx context.Context) (json.RawMessage, error) {
	var ids json.RawMessage
	err := m.table.QueryRow(ctx, "SELECT coalesce(json_agg(id), '[]') FROM numbers").Scan(&ids)
	return ids, err
}

func (m *mover) Close() error {
	m.table.Close()
	return m.redis.Close()
}

// serve is the API: GET /?id=7.
func (m *mover) serve(w http.ResponseWriter, r *http.Request) {
	id, err := strconv.ParseUint(r.FormValue("id"), 10, 64)
	if err == nil {
		_, err = m.Do(r.Context(), history.Op{ID: id})
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// caller calls the API.
type caller struct {
	base string
	http *http.Client
}

func (caller) Prepare(context.Context) error                  { return nil }
func (caller) Audit(context.Context) (json.RawMessage, error) { return nil, nil }

func (c caller) Do(ctx context.Context, op history.Op) (history.Reply, error) {
	at := c.base + "/?" + url.Values{"id": {fmt.Sprint(op.ID)}}.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return history.Reply{}, err
	}
	answer, err := c.http.Do(req)
	if err != nil {
		return history.Reply{}, err
	}
	if err := answer.Body.Close(); err != nil {
		return history.Reply{}, err
	}
	if answer.StatusCode != http.StatusOK {
		return history.Reply{}, errors.New(answer.Status)
	}
	return history.Reply{Value: 1}, nil
}

func (c caller) Close() error {
	c.http.CloseIdleConnections()
	return nil
}

// move is the role. It survives errors of the stores.
func move(
	ctx context.Context, cfg sut.Config, step func(*mover, context.Context, string) (bool, error),
) error {
	if cfg.Params.(*ledgerParams).Keys == 13 {
		os.Exit(3)
	}
	m, err := openMover(ctx, cfg)
	if err != nil {
		return err
	}
	defer m.Close()
	mine := m.list("taken" + strconv.Itoa(cfg.Replica))
	for ctx.Err() == nil {
		// What was begun is finished: an orderly stop loses nothing.
		bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		worked, err := step(m, bound, mine)
		cancel()
		if err == nil || errors.Is(err, redis.Nil) { // there is nothing to move
			cfg.Worked()
		}
		if !worked || err != nil {
			sut.Pause(ctx, 2*time.Millisecond)
		}
	}
	return nil
}

func (m *mover) insert(ctx context.Context, id string) error {
	number, err := strconv.ParseInt(id, 10, 64)
	if err != nil {
		return err
	}
	_, err = m.table.Exec(ctx, "INSERT INTO numbers VALUES ($1) ON CONFLICT DO NOTHING", number)
	return err
}

// take removes a number from the list before it is in the table.
func (m *mover) take(ctx context.Context, _ string) (bool, error) {
	id, err := m.redis.RPop(ctx, m.list("numbers")).Result()
	if err != nil {
		return false, err
	}
	m.cfg.Passed("taken")
	err = m.insert(ctx, id)
	m.cfg.Passed("put")
	return true, err
}

// keep has the number in a list of its own until it is in the table.
func (m *mover) keep(ctx context.Context, mine string) (bool, error) {
	id, err := m.redis.LIndex(ctx, mine, 0).Result()
	if errors.Is(err, redis.Nil) {
		id, err = m.redis.LMove(ctx, m.list("numbers"), mine, "RIGHT", "LEFT").Result()
	}
	if err != nil {
		return false, err
	}
	m.cfg.Passed("taken")
	if err := m.insert(ctx, id); err != nil {
		return true, err
	}
	m.cfg.Passed("put")
	return true, m.redis.LRem(ctx, mine, 0, id).Err()
}

// everyFault has a fault of each kind that roles have. Who is to be cut off must be there: the
// others are stopped and take their time to come back.
const everyFault = `
name: mover-test
question: Does what was taken arrive, whatever happens to who took it?
system: mover
deploy: processes
replicas: {mover: 2}
load:
  arrival: {process: constant, rate: 100, over: 8s}
  max_in_flight: 64
  timeout: 2s
  drain: 30s
faults:
  - {name: cut, kind: partition, target: mover-1, from: redis, at: 100ms, for: 1s}
  - {name: between, kind: crash, target: mover-1, place: taken, passage: 3, at: 1200ms, for: 600ms}
  - {name: gone, kind: kill, target: mover-2, at: 1500ms, for: 300ms}
  - {name: asleep, kind: pause, target: mover, at: 2200ms, for: 400ms}
  - {name: storm, kind: churn, target: mover, every: 200ms, how: stop, at: 3s, for: 800ms}
  - {name: bounce, kind: restart, target: mover, at: 6800ms}
  - {name: unserved, kind: crash, target: api, place: asked, passage: 1, at: 6900ms, for: 1s}
provokes: [role-crash]
`

// movers runs the system with a scenario on real stores.
func movers(t *testing.T, text string, set ...string) ended {
	t.Helper()
	return onRealStores(t, text, moverSystem(), []sut.Service{sut.Postgres, sut.Redis}, set...)
}

// onRealStores runs a system with a scenario on real stores.
func onRealStores(
	t *testing.T, text string, system sut.System, services []sut.Service, set ...string,
) ended {
	t.Helper()
	if testing.Short() {
		t.Skip("needs real stores; -short was given")
	}
	sc, res, err := scenario.Decode([]byte(text), system.Name+"-test.yaml", scenario.Options{
		Set: set, SystemNames: []string{system.Name},
		Systems: func(string) (sut.System, bool) { return system, true },
	})
	if err != nil {
		t.Fatal(err)
	}
	spec := env.Spec{Services: services, Kafka: sc.Stores.Kafka, Log: t.Logf}
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	path, summary, err := Run(ctx, ctx, Options{Scenario: sc, System: system, Params: res.Params,
		Seed: 7, Root: t.TempDir(), Provider: envtest.Provider(t, spec), Spec: spec,
		Launcher: envtest.Launcher(), Observer: &watcher{}, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	e := ended{path: path, summary: summary}
	if e.stored, err = rundir.Open("", path); err != nil {
		t.Fatal(err)
	}
	e.agrees(t)
	e.rejudge(t, system)
	return e
}

// TestRolesAsProcesses takes a whole run with roles and an API in processes of
// their own through every fault that they can have: each proves itself, the
// design that takes first is caught, the other one is not.
func TestRolesAsProcesses(t *testing.T) {
	e := movers(t, everyFault)
	e.is(t, "keep", rundir.Pass)
	e.is(t, "take", rundir.Pass, "violated as expected: kept")
	for _, v := range e.summary.Variants {
		for _, w := range v.Repeats[0].Faults {
			t.Logf("%s: %s: %v to %v, recovered %v: %q", v.Name, w.Name, w.Start, w.End, w.Recovered,
				w.Evidence)
			if len(w.Evidence) == 0 || w.Recovered < w.End {
				t.Errorf("%s: %+v", v.Name, w)
			}
		}
	}
	for _, name := range []string{"keep_0_mover-1", "keep_0_mover-2", "take_0_api"} {
		path, err := e.stored.File(rundir.LogName(name))
		if err == nil {
			_, err = os.Stat(path)
		}
		if err != nil {
			t.Error(err)
		}
	}
}

// TestAPlaceThatIsNotReached leaves the repeat INVALID.
func TestAPlaceThatIsNotReached(t *testing.T) {
	e := movers(t, everyFault, "variants=[keep]", "load.arrival.over=1s", "provokes=[]",
		"faults=[{name: between, kind: crash, target: mover, place: put, passage: 1000000, "+
			"at: 100ms, for: 200ms}]")
	e.is(t, "keep", rundir.Inconclusive, "fault between: there is no evidence that it happened")
}

// TestAProcessThatDiesByItself is the repeat's error.
func TestAProcessThatDiesByItself(t *testing.T) {
	e := movers(t, everyFault, "variants=[keep]", "load.arrival.over=500ms", "provokes=[]",
		"faults=[]", "replicas.mover=1", "params.keys=13", "load.drain=100ms")
	e.is(t, "keep", rundir.Inconclusive, "role mover: its process", "exit status 3")
}

// TestRolesInProcess: what needs no process of its own works without one.
func TestRolesInProcess(t *testing.T) {
	e := movers(t, everyFault, "deploy=in-process", "load.arrival.over=2s", "provokes=[]",
		"variants=[keep]", "faults=[{name: storm, kind: churn, target: mover, every: 100ms, at: 100ms, "+
			"for: 500ms}, {name: cut, kind: partition, target: mover-2, from: postgres, at: 1s, "+
			"for: 400ms}]")
	e.is(t, "keep", rundir.Pass)
}
