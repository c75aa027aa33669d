package design_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"stampede/harness/api"
	"stampede/harness/check"
	"stampede/harness/design"
	"stampede/harness/env/envtest"
	"stampede/harness/history"
	"stampede/harness/keys"
	"stampede/harness/sut"
)

var shared = envtest.NewShared(sut.Postgres, sut.Redis)

func TestMain(m *testing.M) { os.Exit(shared.Run(m)) }

// boxes take things, of which a role throws away what is old.
type boxes interface {
	Put(ctx context.Context, req putRequest) (api.Nothing, error)
}

type putRequest struct {
	Thing string `json:"thing" op:"key" min:"1" max:"20"`
}

type params struct {
	First string `json:"first"`
}

var errNoName = errors.New("first: expected a name")

// Validate wants a name.
func (p params) Validate() error {
	if p.First == "" {
		return errNoName
	}
	return nil
}

type inPostgres struct{ *design.Stores[params] }

// Put stores a thing.
func (b inPostgres) Put(ctx context.Context, req putRequest) (api.Nothing, error) {
	_, err := b.DB.Exec(ctx, `INSERT INTO things VALUES ($1)`, req.Thing)
	return api.Nothing{}, err
}

// inBoth counts in Redis too. It counts its Closes.
type inBoth struct {
	inPostgres
	closed *atomic.Int64
}

// Close counts.
func (b inBoth) Close() error {
	b.closed.Add(1)
	return nil
}

// inMemory has two things in hand at all times, and metrics of its own.
type inMemory struct{ inPostgres }

// Waiting counts them.
func (inMemory) Waiting() (int64, string) { return 2, "2 things are in hand" }

// WriteMetrics writes one.
func (inMemory) WriteMetrics(out io.Writer) { fmt.Fprintln(out, "in_hand 2") }

type emptying = design.Role[params]

func throwAway() emptying {
	return emptying{Name: "emptier", Summary: "throws things away",
		Step: func(ctx context.Context, st *design.Stores[params]) (time.Duration, error) {
			_, err := st.DB.Exec(ctx, `DELETE FROM things`)
			return time.Millisecond, err
		}}
}

func system(closed *atomic.Int64, roles ...emptying) sut.System {
	table := &api.Table[boxes]{
		System: "boxes", MaxBody: 1 << 10, Audit: []string{},
		Kinds: []api.Kind[boxes]{api.Op("put", "POST /v1/things", boxes.Put, api.About{})},
	}
	return design.System[boxes, params]{
		Name: "boxes", Question: "are things kept?", API: table,
		Defaults: func() params { return params{First: "first"} },
		Workload: func(*keys.Streams, params) sut.Workload { return nil },
		State: design.State[params]{
			Schema: `CREATE TABLE things (thing text PRIMARY KEY); CREATE TABLE noise (n int);`,
			Seed: func(ctx context.Context, tx pgx.Tx, p params) error {
				_, err := tx.Exec(ctx, `INSERT INTO noise VALUES (1)`)
				return err
			},
			Empty: []string{"things"},
			Pending: func(ctx context.Context, st *design.Stores[params]) (int64, string, error) {
				var n int64
				err := st.DB.Row(ctx, `SELECT count(*) FROM things`, nil, &n)
				return n, fmt.Sprintf("%d things lie about", n), err
			},
			Audit: func(ctx context.Context, st *design.Stores[params]) (any, error) {
				var first string
				err := st.DB.Row(ctx, `SELECT coalesce(min(thing), '') FROM things`, nil, &first)
				return []string{first}, err
			},
		},
		Roles: roles,
		Invariants: func(params) []check.Invariant {
			return []check.Invariant{new(check.Subject).State("tidy", "nothing lies about")}
		},
		Designs: []design.Variant[boxes, params]{
			{Name: "postgres",
				Open: func(_ context.Context, st *design.Stores[params]) (boxes, error) {
					return inPostgres{st}, nil
				}},
			{Name: "both", Needs: []sut.Service{sut.Redis},
				Settings: map[string]string{"application_name": "both"},
				Redis:    func(_ *design.Stores[params], o *redis.Options) { o.ClientName = "both" },
				Open: func(_ context.Context, st *design.Stores[params]) (boxes, error) {
					return inBoth{inPostgres{st}, closed}, nil
				},
				State: design.State[params]{
					Schema: `CREATE TABLE more (n int);`,
					Ready: func(ctx context.Context, st *design.Stores[params]) error {
						return st.Redis.Set(ctx, st.Key("ready"), "yes", 0).Err()
					},
					Reset: func(ctx context.Context, st *design.Stores[params]) error {
						return st.Redis.Set(ctx, st.Key("ready"), "again", 0).Err()
					},
					Empty: []string{"things", "more"},
					Gauge: func(ctx context.Context, st *design.Stores[params]) (any, error) {
						var name string
						if err := st.DB.Row(ctx, `SHOW application_name`, nil, &name); err != nil {
							return nil, err
						}
						client, err := st.Redis.ClientGetName(ctx).Result()
						if err != nil {
							return nil, err
						}
						ready, err := st.Redis.Get(ctx, st.Key("ready")).Result()
						return name + " " + client + " " + ready, err
					},
				}},
			{Name: "memory",
				Open: func(_ context.Context, st *design.Stores[params]) (boxes, error) {
					return inMemory{inPostgres{st}}, nil
				}},
			{Name: "closed",
				Open: func(context.Context, *design.Stores[params]) (boxes, error) {
					return nil, errClosed
				}},
		},
	}.Sut()
}

var errClosed = errors.New("closed today")

func config(t *testing.T) sut.Config {
	t.Helper()
	space := shared.Namespace(t)
	return sut.Config{PostgresURL: space.PostgresURL, RedisURL: space.RedisURL,
		Prefix: space.Prefix, MaxConns: 3, Timeout: 5 * time.Second,
		Params: &params{First: "first"}}
}

// TestOthersParameters: of a run with the parameters of another system nothing is judged.
func TestOthersParameters(t *testing.T) {
	list := system(nil).Invariants("none")
	if len(list) != 1 {
		t.Fatalf("there are %d invariants, want 1", len(list))
	}
	for _, v := range check.All(t.Context(), list, history.Slice(nil), nil) {
		if v.Invariant != "tidy" || v.Status != check.Undecided ||
			!strings.Contains(v.Reason, "expected parameters of the type") {
			t.Errorf("%+v", v)
		}
	}
}

// TestLife: what a system declares once is what each of its designs does, and what a design
// says of its own wins.
func TestLife(t *testing.T) {
	var closed atomic.Int64
	sys := system(&closed)
	for _, v := range sys.Variants[:2] {
		t.Run(v.Name, func(t *testing.T) {
			cfg := config(t)
			before := goleak.IgnoreCurrent()
			inst, err := v.Open(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			said := func(want string, of func(context.Context) (string, error)) {
				t.Helper()
				if got, err := of(t.Context()); err != nil || got != want {
					t.Errorf("got %q, %v; want %q", got, err, want)
				}
			}
			// Before it was prepared, an instance is prepared by a reset too.
			if err := inst.(api.Resetter).Reset(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := inst.Prepare(t.Context()); err == nil {
				t.Error("a second Prepare succeeded")
			}
			said("", inst.(sut.Emptier).Empty)
			said("", inst.(sut.Quiescer).Quiesced)
			if _, err := inst.Do(t.Context(), history.Op{Kind: "put", Key: "ball"}); err != nil {
				t.Fatal(err)
			}
			said("1 things", inst.(sut.Emptier).Empty)
			said("1 things lie about", inst.(sut.Quiescer).Quiesced)
			if left, err := inst.(sut.Backlogger).Backlog(t.Context()); left != 1 || err != nil {
				t.Errorf("a backlog of %d, %v; want 1", left, err)
			}
			if raw, err := inst.Audit(t.Context()); err != nil || string(raw) != `["ball"]` {
				t.Errorf("audit %s, %v", raw, err)
			}
			if v.Gauge != nil {
				looked(t, v, cfg, "both both yes")
				if err := inst.(api.Resetter).Reset(t.Context()); err != nil {
					t.Fatal(err)
				}
				said("", inst.(sut.Emptier).Empty)
				looked(t, v, cfg, "both both again")
			}
			for range 2 {
				if err := inst.Close(); err != nil {
					t.Error(err)
				}
			}
			goleak.VerifyNone(t, before)
		})
	}
	if closed.Load() != 1 || sys.Variants[0].Gauge != nil {
		t.Errorf("closed %d times; want once, and a gauge in the second design alone", closed.Load())
	}
}

func looked(t *testing.T, v sut.Variant, cfg sut.Config, want string) {
	t.Helper()
	g, err := v.Gauge(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if raw, err := g.Sample(t.Context()); err != nil || string(raw) != `"`+want+`"` {
		t.Errorf("the gauge saw %s, %v", raw, err)
	}
	if err := g.Close(); err != nil {
		t.Error(err)
	}
}

// TestInMemory: what a design has in its memory is pending too, and it shows metrics.
func TestInMemory(t *testing.T) {
	cfg, sys := config(t), system(new(atomic.Int64))
	inst, err := sys.Variants[2].Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer inst.Close()
	if err := inst.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := inst.Do(t.Context(), history.Op{Kind: "put", Key: "ball"}); err != nil {
		t.Fatal(err)
	}
	what, err := inst.(sut.Quiescer).Quiesced(t.Context())
	left, failed := inst.(sut.Backlogger).Backlog(t.Context())
	if what != "2 things are in hand" || left != 3 || errors.Join(err, failed) != nil {
		t.Errorf("%q and %d, %v %v; want 2 in hand and a backlog of 3", what, left, err, failed)
	}
	handler, err := sys.Handler(inst, cfg)
	if err != nil {
		t.Fatal(err)
	}
	got := httptest.NewRecorder()
	handler.ServeHTTP(got, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if !strings.Contains(got.Body.String(), "in_hand 2") {
		t.Errorf("the metrics are\n%s", got.Body)
	}
}

// sends leaves a record to the driver, and does not wait for it.
type sends struct{ *design.Stores[params] }

// Put sends a thing.
func (s sends) Put(ctx context.Context, req putRequest) (none api.Nothing, err error) {
	s.Kafka.TryProduce(context.WithoutCancel(ctx),
		&kgo.Record{Topic: "things", Key: []byte(req.Thing)}, nil)
	return none, nil
}

// TestWorkload: parameters are judged, and so is what the streams were asked for.
func TestWorkload(t *testing.T) {
	sys := design.System[boxes, params]{Name: "boxes", API: &api.Table[boxes]{System: "boxes"},
		Workload: func(s *keys.Streams, p params) sut.Workload {
			s.Uniform(len(p.First) - 1)
			return nil
		}}.Sut()
	for want, given := range map[string]any{
		"boxes parameters: first: expected a name": params{},
		"boxes workload: keys: ":                   params{First: "x"},
		"expected parameters of the type ":         7,
	} {
		if _, err := sys.Workload(1, given); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v does not begin with %q", err, want)
		}
	}
	if _, err := sys.Workload(1, &params{First: "xx"}); err != nil {
		t.Error(err)
	}
}

// TestOnItsWay: a record that is not in Kafka yet, and may still come there, is pending.
func TestOnItsWay(t *testing.T) {
	cfg := config(t)
	cfg.KafkaBrokers, cfg.Kafka = []string{"127.0.0.1:1"}, sut.DefaultKafka()
	sys := design.System[boxes, params]{Name: "boxes",
		API: &api.Table[boxes]{System: "boxes", MaxBody: 1 << 10, Audit: []string{},
			Kinds: []api.Kind[boxes]{api.Op("put", "POST /v1/things", boxes.Put, api.About{})}},
		Defaults: func() params { return params{First: "first"} },
		Designs: []design.Variant[boxes, params]{{Name: "sends", Needs: []sut.Service{sut.Kafka},
			Open: func(_ context.Context, st *design.Stores[params]) (boxes, error) {
				return sends{st}, nil
			}}}}.Sut()
	inst, err := sys.Variants[0].Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer inst.Close()
	for _, want := range []string{"", "1 records are on their way to Kafka"} {
		if what, err := inst.(sut.Quiescer).Quiesced(t.Context()); what != want || err != nil {
			t.Errorf("pending is %q, not %q (%v)", what, want, err)
		}
		if _, err := inst.Do(t.Context(), history.Op{Kind: "put", Key: "ball"}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestOpenFails: an error says what was being opened, and nothing stays open.
func TestOpenFails(t *testing.T) {
	cfg := config(t)
	before := goleak.IgnoreCurrent()
	sys := system(new(atomic.Int64))
	bad := cfg
	bad.Params = &params{}
	for want, open := range map[string]func() (sut.Instance, error){
		"opening boxes closed: closed today": func() (sut.Instance, error) {
			return sys.Variants[3].Open(t.Context(), cfg)
		},
		"opening boxes postgres: boxes parameters: first: expected a name": func() (sut.Instance, error) {
			return sys.Variants[0].Open(t.Context(), bad)
		},
	} {
		if _, err := open(); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	bad = cfg
	bad.RedisURL = "redis://127.0.0.1:1"
	if _, err := sys.Variants[1].Open(t.Context(), bad); err == nil {
		t.Error("a design opened without its Redis")
	}
	goleak.VerifyNone(t, before)
}

// TestRole: a role steps until it is told to stop, goes on after an error, and says of each
// step that succeeded that it worked.
func TestRole(t *testing.T) {
	cfg := config(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	steps, worked := 0, 0
	cfg.OnWorked = func() { worked++ }
	role := throwAway()
	inner := role.Step
	role.Step = func(ctx context.Context, st *design.Stores[params]) (time.Duration, error) {
		if steps++; steps == 2 {
			return 0, errClosed
		}
		if steps == 4 {
			cancel()
		}
		return inner(ctx, st)
	}
	sys := system(new(atomic.Int64), role)
	inst, err := sys.Variants[0].Open(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer inst.Close()
	if err := inst.Prepare(ctx); err != nil {
		t.Fatal(err)
	}
	if err := sys.Variants[0].Roles[0].Run(ctx, cfg); err != nil {
		t.Error(err)
	}
	if steps != 4 || worked != 2 {
		t.Errorf("%d steps, of which %d worked; want 4 and 2", steps, worked)
	}
	if got := sys.Variants[1].Roles[0].Name; !strings.Contains(got, "emptier") {
		t.Errorf("the second design's role is %q", got)
	}
}

// TestRoleLoop: a role without steps gets the stores that it needs, those of the design if it
// does not say, and opened anew after an error.
func TestRoleLoop(t *testing.T) {
	cfg := config(t)
	cfg.KafkaBrokers, cfg.Kafka = []string{"127.0.0.1:1"}, sut.DefaultKafka()
	for want, needs := range map[string][]sut.Service{
		"redis true, kafka false": nil,
		"redis false, kafka true": {sut.Kafka},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		var seen *design.Stores[params]
		kept := 0
		role := emptying{Name: "emptier", Needs: needs, Timeout: time.Second,
			ConnsOf: func(p params, instance int) int { return len(p.First) + instance },
			Do: func(ctx context.Context, st *design.Stores[params]) error {
				if st.Config.MaxConns != len("first")+3 {
					t.Errorf("%d connections", st.Config.MaxConns)
				}
				for range 2 {
					if _, err := design.Keep(st, func() (io.Closer, error) {
						kept++
						return closing{&kept}, nil
					}); err != nil {
						t.Error(err)
					}
				}
				if seen == nil {
					seen = st
					return errClosed
				}
				if st == seen || st.Config.Timeout != time.Second {
					t.Errorf("after an error the stores are the same, or their timeout %v", st.Config.Timeout)
				}
				if got := fmt.Sprintf("redis %v, kafka %v", st.Redis != nil, st.Kafka != nil); got != want {
					t.Errorf("got %s; want %s", got, want)
				}
				cancel()
				return ctx.Err()
			}}
		if err := system(new(atomic.Int64), role).Variants[1].Roles[0].Run(ctx, cfg); err != nil {
			t.Error(err)
		}
		if kept != 2*(1+10) { // each time it was opened once and closed once
			t.Errorf("what is kept was opened and closed %d times", kept)
		}
	}
}

// closing is kept by stores, and counts in tens how often it is closed.
type closing struct{ n *int }

// Close counts.
func (c closing) Close() error {
	*c.n += 10
	return nil
}
