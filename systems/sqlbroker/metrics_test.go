package sqlbroker

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"stampede/harness/sut"
)

// scraped is what a server tells at a time.
func (l *lab) scraped(at time.Time) string {
	var text strings.Builder
	l.users.scrapes.now = func() time.Time { return at }
	l.users.writeMetrics(&text)
	return text.String()
}

// TestMetricsOfQueues: whoever scrapes a server sees what is in each queue.
func TestMetricsOfQueues(t *testing.T) {
	for _, name := range rightNames() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := rush()
			p.Keep = sut.Duration(time.Hour)
			d := &desk{lab: openLab(t, name, configOf(t, p), nil), t: t}
			must(t, d.follow(`publish a
				publish b c
				publish later/d1h
				receive a.1 b.1
				ack a.1
				@worn set receives=1
				@worn publish dies
				@worn receive dies.1
				@worn release dies.1
				@worn holds 0 0 0 1`))
			text := d.scraped(time.Now())
			for line, is := range map[string]bool{
				`published_per_minute{queue="mine1"} 4` + "\n": true, // by three publications
				`published_per_minute{queue="worn1"} 1` + "\n": true,
				`pending{queue="mine1"} 1` + "\n":              true, `pending{queue="worn1"} 0` + "\n": true,
				`delayed{queue="mine1"} 1` + "\n": true, `with_consumers{queue="mine1"} 1` + "\n": true,
				`stuck{queue="mine1"} 0` + "\n": true, `dead_letters{queue="worn1"} 1` + "\n": true,
				"scrape_failed 0\n": true, "queues 4\n": true,
				"claim_seconds_count ": true, "claim_seconds_count 0\n": false, // it took time
				`deletion_seconds{queue="mine1"} `: true, `deletion_seconds{queue="mine1"} 0` + "\n": false,
				`deletion_seconds{queue="worn1"}`: false,
			} {
				if strings.Contains(text, "\nsqlbroker_"+line) != is {
					t.Errorf("%s is there: %v, in\n%s", line, !is, text)
				}
			}
		})
	}
}

// TestGaugeSeesConsumers: what consumers claim and work off, wherever they run, is what
// the gauge sees.
func TestGaugeSeesConsumers(t *testing.T) {
	for _, v := range System().Variants {
		t.Run(v.Name, func(t *testing.T) {
			t.Parallel()
			p := rush()
			p.Queues, p.Worked, p.Visibility = 1, 1, sut.Duration(time.Hour)
			if v.Name == "claim_without_marking" {
				p.Workers = 1
			}
			l := openLab(t, v.Name, configOf(t, p), nil)
			var working sync.WaitGroup
			ctx, stop := context.WithCancel(t.Context())
			defer working.Wait()
			defer stop()
			for _, r := range v.Roles {
				if r.Name == RoleConsumer {
					working.Go(func() { _ = r.Run(ctx, l.cfg) }) // it survives errors
				}
			}
			for id := uint64(1); id <= 3; id++ {
				must(t, l.publishes(ctx, id, Recipe{Messages: 4}, l.messages.Publish))
			}
			gauge, err := v.Gauge(t.Context(), l.cfg)
			must(t, err)
			defer func() { _ = gauge.Close() }() // nothing is left to lose
			var look Look
			for until := time.Now().Add(20 * time.Second); look.Consumed < 12; {
				raw, err := gauge.Sample(t.Context())
				must(t, err, json.Unmarshal(raw, &look))
				if time.Now().After(until) {
					break
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

// TestScrapesAreFew: within a second Postgres is asked once, and not for more than so many
// queues; what it does not answer is told as that.
func TestScrapesAreFew(t *testing.T) {
	const name = `a "queue"`
	l, first := openLab(t, "batched", configOf(t, rush()), nil), time.Unix(1, 0)
	pending := func(n int) string {
		return fmt.Sprintf("sqlbroker_pending{queue=\"a \\\"queue\\\"\"} %d\n", n)
	}
	must(t, l.users.Create(t.Context(), name, lasting()))
	for i := range scrapedQueues {
		must(t, l.users.Create(t.Context(), fmt.Sprintf("z%03d", i), lasting()))
	}
	if text := l.scraped(first); !strings.Contains(text, pending(0)) ||
		strings.Count(text, "\nsqlbroker_pending{") != scrapedQueues || strings.Contains(text, "z099") {
		t.Errorf("of 100 queues and some:\n%s", text)
	}
	_, err := l.messages.Publish(t.Context(), name, Publication{OpID: 1, Messages: make([]Message, 1)})
	must(t, err)
	if text := l.scraped(first.Add(time.Second - 1)); !strings.Contains(text, pending(0)) {
		t.Errorf("asked again within a second:\n%s", text)
	}
	if text := l.scraped(first.Add(time.Second)); !strings.Contains(text, pending(1)) {
		t.Errorf("not asked again after a second:\n%s", text)
	}
	must(t, l.inst.Close())
	if text := l.scraped(first.Add(2 * time.Second)); strings.Contains(text, "sqlbroker_pending") ||
		!strings.Contains(text, "sqlbroker_scrape_failed 1\n") {
		t.Errorf("without Postgres:\n%s", text)
	}
}
