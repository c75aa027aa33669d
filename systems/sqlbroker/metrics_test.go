package sqlbroker_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"stampede/harness/history"
	"stampede/harness/sut"
	"stampede/systems/sqlbroker"
)

// TestMetricsOfQueues: whoever scrapes a server sees what is in each queue.
func TestMetricsOfQueues(t *testing.T) {
	for _, v := range right() {
		t.Run(v.Name, func(t *testing.T) {
			t.Parallel()
			all := openDesk(t, v)
			s := lasting()
			name, label := `a "queue"`, `{queue="a \"queue\""}`
			if v.Name == "river" { // which takes letters only
				name, label = "orders", `{queue="orders"}`
			}
			d, worn := all.at(t, name, s), all.at(t, "worn", s)
			d.publish(t, sqlbroker.Message{Body: "a"})
			d.publish(t, sqlbroker.Message{Body: "b"}, sqlbroker.Message{Body: "c"})
			d.publish(t, sqlbroker.Message{Body: "later", DelayMS: 3_600_000})
			got := d.receive(t, "a", "b")
			d.settle(t, sqlbroker.KindAck, true, got[0])
			s.MaxReceives = 1
			worn.at(t, "worn", s)
			worn.publish(t, sqlbroker.Message{Body: "dies"})
			worn.settle(t, sqlbroker.KindRelease, true, worn.receive(t, "dies")...)
			worn.holds(t, "0 ready, 0 delayed, 0 picked, 1 dead")
			text := scrape(t, d.url)
			for _, line := range []string{
				`sqlbroker_published_per_minute` + label + ` 4`, // by three publications
				`sqlbroker_published_per_minute{queue="worn"} 1`,
				`sqlbroker_pending` + label + ` 1`, `sqlbroker_pending{queue="worn"} 0`,
				`sqlbroker_delayed` + label + ` 1`,
				`sqlbroker_with_consumers` + label + ` 1`,
				`sqlbroker_stuck` + label + ` 0`, `sqlbroker_dead_letters{queue="worn"} 1`,
				`sqlbroker_claim_seconds_count `, `sqlbroker_scrape_failed 0`, `sqlbroker_queues `,
			} {
				if !strings.Contains(text, line+"\n") && !strings.HasSuffix(line, " ") ||
					!strings.Contains(text, line) {
					t.Errorf("%s is missing from\n%s", line, text)
				}
			}
			if !strings.Contains(text, "sqlbroker_deletion_seconds"+label) ||
				strings.Contains(text, "sqlbroker_deletion_seconds"+label+" 0\n") ||
				strings.Contains(text, `sqlbroker_deletion_seconds{queue="worn"}`) ||
				strings.Contains(text, "sqlbroker_claim_seconds_count 0\n") {
				t.Errorf("what took time took none, or nothing took time:\n%s", text)
			}
		})
	}
}

// scrape reads the metrics of a server.
func scrape(t *testing.T, url string) string {
	t.Helper()
	reply, err := http.Get(url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(reply.Body)
	if err := reply.Body.Close(); err != nil {
		t.Fatal(err)
	}
	if err != nil || reply.StatusCode != http.StatusOK {
		t.Fatalf("%d %s, %v", reply.StatusCode, text, err)
	}
	return string(text)
}

// TestGaugeSeesConsumers: what consumers claim and work off, wherever they run, is what
// the gauge sees.
func TestGaugeSeesConsumers(t *testing.T) {
	for _, v := range sqlbroker.System().Variants {
		t.Run(v.Name, func(t *testing.T) {
			t.Parallel()
			p := rush()
			p.Queues, p.Worked, p.Visibility = 1, 1, sut.Duration(time.Hour)
			if v.Name == "claim_without_marking" {
				p.Workers = 1
			}
			cfg := configOf(t, *p)
			inst, err := v.Open(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = inst.Close() }() // nothing is left to lose
			if err := inst.Prepare(t.Context()); err != nil {
				t.Fatal(err)
			}
			var working sync.WaitGroup
			ctx, stop := context.WithCancel(t.Context())
			defer working.Wait()
			defer stop()
			for _, r := range v.Roles {
				if r.Name == sqlbroker.RoleConsumer {
					working.Go(func() { _ = r.Run(ctx, cfg) }) // it survives errors
				}
			}
			for n := range uint64(3) {
				_, err := inst.Do(t.Context(), history.Op{ID: n + 1, Kind: sqlbroker.KindPublish,
					Key: labQueue, Body: text(publicationOf(4, 0))})
				if err != nil {
					t.Fatal(err)
				}
			}
			gauge, err := v.Gauge(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = gauge.Close() }() // nothing is left to lose
			var look sqlbroker.Look
			for until := time.Now().Add(20 * time.Second); look.Consumed < 12; {
				raw, err := gauge.Sample(t.Context())
				if err == nil {
					err = json.Unmarshal(raw, &look)
				}
				if err != nil || time.Now().After(until) {
					t.Fatalf("the gauge sees %+v, %v", look, err)
				}
				sut.Pause(t.Context(), 5*time.Millisecond)
			}
			if look.Published != 12 || look.Consumed != 12 || look.Claims < 1 || look.Claims > 12 ||
				look.ClaimingUS <= 0 {
				t.Errorf("the gauge sees %+v", look)
			}
		})
	}
}

// TestWatched: what the gauge sees is shown beside the invariants.
func TestWatched(t *testing.T) {
	e := goodBroker()
	e.params.ReportFor = sut.Duration(14 * ms)
	for n := range int64(9) { // four times a second
		look := sqlbroker.Look{Published: 1 + n, Pending: 2, Stuck: 3, Dead: 4, DeletionNS: 5e6,
			DeadRows: 6 * n, SnapshotNS: 7e6, Consumed: 25 * n, Claims: 2 * n, ClaimingUS: 1000 * n}
		at := time.Duration(n) * 250 * ms
		e.samples = append(e.samples, history.Sample{From: at, To: at + ms, Body: text(look)})
	}
	verdicts := e.judge(t)
	for name, want := range map[string]struct {
		quantity        string
		points          int
		lowest, highest int64
	}{
		sqlbroker.NoPhantom: {"age of the oldest snapshot", 9, 7, 7},
		sqlbroker.NoLoss:    {"messages published in the last minute", 9, 1, 9},
		sqlbroker.WorkedOff: {"messages pending", 9, 2, 2},
		sqlbroker.VisibilityKept: {"messages with consumers for more than half of the visibility " +
			"timeout", 9, 3, 3},
		sqlbroker.DeadLetters:  {"dead letters", 9, 4, 4},
		sqlbroker.AckFinal:     {"mean time from publication to acknowledgement", 9, 5, 5},
		sqlbroker.OncePlaced:   {"dead versions of rows", 9, 0, 48},
		sqlbroker.EffectsOnce:  {"messages processed by consumers", 2, 100, 100},
		sqlbroker.ReceiveCount: {"mean time of a consumer's claim", 2, 500, 500},
	} {
		w := verdicts[name].Watched
		if w == nil || w.Quantity != want.quantity || len(w.Points) != want.points ||
			w.Lowest != want.lowest || w.Highest != want.highest {
			t.Errorf("%s shows %+v, want %+v", name, w, want)
		}
	}
	if v := verdicts[sqlbroker.OncePlaced]; v.Status != pass {
		t.Errorf("with an old snapshot %s is %s: %s", sqlbroker.OncePlaced, v.Status, v.Reason)
	}
	e.params.ReportFor += 2
	v := e.judge(t)[sqlbroker.OncePlaced]
	if want := "no old snapshot was held"; v.Status != maybe || !strings.Contains(v.Reason, want) {
		t.Errorf("without one it is %s: %s, want %s: %s", v.Status, v.Reason, maybe, want)
	}
}

// TestScrapesAreFew: within a second Postgres is asked once, and not for more than so many
// queues; what it does not answer is told as that.
func TestScrapesAreFew(t *testing.T) {
	l, err := sqlbroker.OpenLab(t.Context(), "batched", configOf(t, *rush()), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	first := time.Unix(1, 0)
	tell := func(after time.Duration) string {
		var text strings.Builder
		l.WriteMetrics(&text, first.Add(after))
		return text.String()
	}
	const none, one = `sqlbroker_pending{queue="a"} 0` + "\n", `sqlbroker_pending{queue="a"} 1` + "\n"
	for i := range 101 {
		name := "a"
		if i > 0 {
			name = "z" + number(uint64(1000+i))
		}
		if err := l.Create(t.Context(), name, lasting()); err != nil {
			t.Fatal(err)
		}
	}
	if text := tell(0); !strings.Contains(text, none) ||
		strings.Count(text, "\nsqlbroker_pending{") != 100 || strings.Contains(text, "z1100") {
		t.Errorf("of 100 queues and some:\n%s", text)
	}
	if _, err := l.Publish(t.Context(), "a",
		sqlbroker.Publication{OpID: 1, Messages: say("a")}); err != nil {
		t.Fatal(err)
	}
	if text := tell(time.Second - 1); !strings.Contains(text, none) {
		t.Errorf("asked again within a second:\n%s", text)
	}
	if text := tell(time.Second); !strings.Contains(text, one) {
		t.Errorf("not asked again after a second:\n%s", text)
	}
	l.Close()
	if text := tell(2 * time.Second); strings.Contains(text, "sqlbroker_pending") ||
		!strings.Contains(text, "sqlbroker_scrape_failed 1\n") {
		t.Errorf("without Postgres:\n%s", text)
	}
}

// TestMetricsGoByIndex: a scrape reads no table as a whole.
func TestMetricsGoByIndex(t *testing.T) {
	for _, name := range []string{"batched", "partitioned", "river"} {
		l, err := sqlbroker.OpenLab(t.Context(), name, configOf(t, *rush()), nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(l.Close)
		plan, err := l.MetricsPlan(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, table := range []string{"messages", "published", "river_job", "dead_letters"} {
			if strings.Contains(plan, "Seq Scan on "+table) {
				t.Errorf("%s reads %s as a whole\n%s", name, table, plan)
			}
		}
		if name != "river" && (!strings.Contains(plan, "messages_ready") &&
			!strings.Contains(plan, "queue_priority_id_idx") || !strings.Contains(plan, "published_age")) {
			t.Errorf("%s: not by the indexes\n%s", name, plan)
		}
	}
}
