package telemetry_test

import (
	"context"
	"errors"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"stampede/harness/env"
	"stampede/harness/env/envtest"
	"stampede/harness/sut"
	"stampede/harness/telemetry"
	"stampede/harness/topics"
)

var stores = envtest.NewOwn(sut.Postgres, sut.Redis, sut.Kafka)

func TestMain(m *testing.M) { os.Exit(stores.Run(m)) }

// value reads a source until it says of a quantity what is wanted; a store may count
// a second late.
func value(t *testing.T, s telemetry.Source, quantity, part string, want func(float64) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		values, err := s.Read(ctx)
		if err != nil {
			t.Fatalf("reading %s: %v", s.Name(), err)
		}
		i := slices.IndexFunc(values, func(v telemetry.Value) bool {
			return v.Quantity == quantity && v.Part == part
		})
		if i >= 0 && want(values[i].Amount) {
			return
		}
		if !sut.Pause(ctx, 50*time.Millisecond) {
			t.Fatalf("%s %s of %s is never as it should be: %+v", quantity, part, s.Name(), values)
		}
	}
}

func is(n float64) func(float64) bool      { return func(v float64) bool { return v == n } }
func atLeast(n float64) func(float64) bool { return func(v float64) bool { return v >= n } }

func execute(t *testing.T, conn *pgx.Conn, sql string) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func TestPostgres(t *testing.T) {
	url := stores.Namespace(t).PostgresURL
	source := telemetry.Postgres(url, stores.Cluster(t).Component(sut.Postgres).Addr)
	t.Cleanup(source.Close)
	one, two := envtest.Connect(t, url), envtest.Connect(t, url)
	execute(t, one, `CREATE TABLE rows (id int PRIMARY KEY, n int) WITH (autovacuum_enabled = off)`)
	execute(t, one, `INSERT INTO rows SELECT i, 0 FROM generate_series(1, 500) i`)
	execute(t, one, `UPDATE rows SET n = 1`)
	value(t, source, "dead rows", "", is(500))
	value(t, source, "sessions", "running", is(0))
	value(t, source, "locks granted", "RowExclusive", is(0))

	execute(t, one, `BEGIN`)
	execute(t, one, `UPDATE rows SET n = 2 WHERE id = 1`)
	value(t, source, "sessions", "idle in a transaction", is(1))
	waited := make(chan error, 1)
	go func() {
		_, err := two.Exec(t.Context(), `UPDATE rows SET n = 3 WHERE id = 1`)
		waited <- err
	}()
	value(t, source, "sessions", "waiting for a lock", is(1))
	value(t, source, "locks granted", "RowExclusive", atLeast(2)) // the table's and its key's
	value(t, source, "locks granted", "Exclusive", atLeast(1))
	value(t, source, "locks waited for", "Share", is(1))
	execute(t, one, `ROLLBACK`)
	if err := <-waited; err != nil {
		t.Fatal(err)
	}
	value(t, source, "sessions", "waiting for a lock", is(0))
	value(t, source, "locks granted", "RowExclusive", is(0))
	value(t, source, "locks granted", "Exclusive", is(0)) // there was one, so it is told of
	value(t, source, "locks waited for", "Share", is(0))
	value(t, source, "transactions", "rolled back", atLeast(1))
	value(t, source, "transactions", "committed", atLeast(4))
	value(t, source, "WAL", "", atLeast(1))
}

// TestPostgresComesBack: a connection that was lost is an error once, and then made
// again.
func TestPostgresComesBack(t *testing.T) {
	url := stores.Namespace(t).PostgresURL
	source := telemetry.Postgres(url, stores.Cluster(t).Component(sut.Postgres).Addr)
	t.Cleanup(source.Close)
	value(t, source, "deadlocks", "", is(0))
	execute(t, envtest.Connect(t, url), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		WHERE application_name = 'stampede-telemetry' AND datname = current_database()`)
	if values, err := source.Read(t.Context()); err == nil {
		t.Fatalf("its connection was ended, and it said %+v", values)
	}
	value(t, source, "deadlocks", "", is(0))
}

func TestRedis(t *testing.T) {
	url := stores.Namespace(t).RedisURL
	source, err := telemetry.Redis(url, stores.Cluster(t).Component(sut.Redis).Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(source.Close)
	client := envtest.RedisClient(t, url)
	for range 30 {
		if err := client.Get(t.Context(), "nothing").Err(); !errors.Is(err, redis.Nil) {
			t.Fatal(err)
		}
	}
	value(t, source, "lookups", "missing", atLeast(30))
	value(t, source, "commands", "", atLeast(30))
	value(t, source, "memory", "", atLeast(1))
	value(t, source, "slow commands", "", atLeast(0))
	err = client.Eval(t.Context(), `for i = 1, 20000000 do end return 1`, nil).Err()
	if err != nil {
		t.Fatal(err)
	}
	value(t, source, "slow commands", "", atLeast(1))
	if _, err := telemetry.Redis("no url", nil); err == nil {
		t.Error("no URL was taken")
	}
}

func TestKafka(t *testing.T) {
	space := stores.Namespace(t)
	cfg := sut.Config{KafkaBrokers: space.KafkaBrokers, Kafka: sut.DefaultKafka(),
		Prefix: space.Prefix, Timeout: 10 * time.Second}
	cfg.Kafka.Partitions = 2
	source, err := telemetry.Kafka(cfg.KafkaBrokers, topics.Prefix(cfg.Prefix))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(source.Close)
	if values, err := source.Read(t.Context()); err != nil || len(values) > 0 {
		t.Errorf("of no topics it says %v, %v", values, err)
	}
	if err := topics.Create(t.Context(), cfg, topics.Topic{Name: "events"}); err != nil {
		t.Fatal(err)
	}
	opts, err := topics.Options(cfg)
	if err != nil {
		t.Fatal(err)
	}
	topic := topics.Name(cfg, "events")
	client, err := kgo.NewClient(append(opts, kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for i := range 10 {
		r := &kgo.Record{Topic: topic, Partition: int32(i / 7), Value: []byte("x")}
		if err := client.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	value(t, source, "records", "events", is(10))
	value(t, source, "partitions short of replicas", "", is(0))
	commit := kadm.Offsets{}
	commit.AddOffset(topic, 0, 2, -1)
	commit.AddOffset(topic, 1, 3, -1)
	_, err = kadm.NewClient(client).CommitOffsets(t.Context(), topics.Name(cfg, "counter"), commit)
	if err != nil {
		t.Fatal(err)
	}
	value(t, source, "counter lag", "0", is(5))
	value(t, source, "counter lag", "1", is(0))
	value(t, source, "groups in a rebalance", "", is(0))
	leave := join(t, client, topics.Name(cfg, "counter"))
	value(t, source, "groups in a rebalance", "", is(1))
	leave()
	value(t, source, "groups in a rebalance", "", is(0))
}

// join enters a group as its only member and never says who gets what, which the group
// waits for.
func join(t *testing.T, client *kgo.Client, group string) (leave func()) {
	t.Helper()
	protocol := kmsg.NewJoinGroupRequestProtocol()
	protocol.Name = "range"
	req := kmsg.NewPtrJoinGroupRequest()
	req.Group, req.ProtocolType = group, "consumer"
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 30_000, 30_000
	req.Protocols = append(req.Protocols, protocol)
	for range 2 { // the first answer says by which name it is known
		resp, err := req.RequestWith(t.Context(), client)
		if err != nil {
			t.Fatal(err)
		}
		if req.MemberID = resp.MemberID; resp.ErrorCode == 0 {
			return func() {
				member := kmsg.NewLeaveGroupRequestMember()
				member.MemberID = req.MemberID
				gone := kmsg.NewPtrLeaveGroupRequest()
				gone.Group, gone.MemberID = group, req.MemberID
				gone.Members = append(gone.Members, member)
				if _, err := gone.RequestWith(t.Context(), client); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	t.Fatalf("nobody can join %s", group)
	return nil
}

// TestCPUOfStores: their work can be seen, and that they are down.
func TestCPUOfStores(t *testing.T) {
	cluster := envtest.Start(t, sut.Redis)
	space, err := cluster.Namespace(t.Context(), "work")
	if err != nil {
		t.Fatal(err)
	}
	component, ok := cluster.Component(sut.Redis).(env.Metered)
	if !ok {
		t.Fatalf("nobody can tell what %T uses", cluster.Component(sut.Redis))
	}
	client := envtest.RedisClient(t, space.RedisURL)
	source := telemetry.CPU([]env.Metered{component})
	source.Whole(nil)
	if _, err := source.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	before, err := component.CPU(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	err = client.Eval(t.Context(), `for i = 1, 20000000 do end return 1`, nil).Err()
	if err != nil {
		t.Fatal(err)
	}
	value(t, source, "processor", string(sut.Redis), func(v float64) bool {
		return v > before.Seconds()+0.02
	})
	spent := source.Spent(t.Context())
	m, all := spent.Machine, runtime.GOMAXPROCS(0) == runtime.NumCPU()
	if (m == nil) == all || m != nil && m.SpanNS <= 0 || len(spent.Parts) != 2 ||
		spent.Parts[1].NS < (20*time.Millisecond).Nanoseconds() {
		t.Errorf("it spent %+v, foreign %+v", spent.Parts, m)
	}
	breakable := component.(env.Breakable)
	if _, err := breakable.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	values, err := source.Read(t.Context())
	if err != nil || slices.ContainsFunc(values, func(v telemetry.Value) bool {
		return strings.HasPrefix(v.Part, string(sut.Redis))
	}) {
		t.Errorf("of a dead store it says %+v, %v", values, err)
	}
	if m := source.Spent(t.Context()).Machine; (m == nil) == all {
		t.Errorf("one does not answer, and its foreign CPU time is %+v", m)
	}
}

// TestCPUOfEndedProcesses: what a backend used stays in the sum while it ends, and is not
// counted again.
func TestCPUOfEndedProcesses(t *testing.T) {
	url := stores.Namespace(t).PostgresURL
	component, ok := stores.Cluster(t).Component(sut.Postgres).(env.Metered)
	if !ok {
		t.Fatal("nobody can tell what Postgres uses")
	}
	ended, end := context.WithCancel(t.Context())
	var sessions sync.WaitGroup
	sessions.Go(func() {
		defer end()
		for range 60 {
			conn, err := pgx.Connect(t.Context(), url)
			if err != nil {
				t.Errorf("connecting: %v", err)
				return
			}
			_, err = conn.Exec(t.Context(), `SELECT count(*) FROM generate_series(1, 200000)`)
			if err := errors.Join(err, conn.Close(t.Context())); err != nil {
				t.Errorf("a session: %v", err)
			}
		}
	})
	defer sessions.Wait()
	for last := time.Duration(0); ended.Err() == nil; {
		used, err := component.CPU(t.Context())
		if err != nil || used < last {
			t.Fatalf("it had used %v, now %v, %v", last, used, err)
		}
		last = used
	}
}
