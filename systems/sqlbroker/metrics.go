package sqlbroker

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"stampede/harness/stores"
)

// metricsTimeout bounds what a scrape asks of Postgres.
const metricsTimeout = 2 * time.Second

const (
	// scrapeAge is for how long a scrape's answer is given again, however many ask.
	scrapeAge = time.Second
	// scrapedQueues is of how many queues at most a scrape tells.
	scrapedQueues = 100
	// deletionSeconds is the metric that a queue may not have.
	deletionSeconds = "deletion_seconds"
)

// metric is what is told of every queue.
type metric struct{ name, help string }

// The metrics, in the order in which they are told.
func queueMetrics() []metric {
	most := fmt.Sprintf("; counting stops at %d.", CountMost)
	return []metric{
		{"published_per_minute", fmt.Sprintf("Messages published in the last minute, by the last %d "+
			"publications to all queues together.", CountMost)},
		{"pending", "Messages that can be received" + most},
		{"delayed", "Messages that cannot be received yet" + most},
		{"with_consumers", "Messages that consumers have" + most},
		{"stuck", "Messages that consumers have had for more than half their time" + most},
		{"dead_letters", "Dead letters" + most},
		{deletionSeconds, "Mean time from publication to acknowledgement of those of the queue that " +
			"are among the last 1,000 of all queues together; none is left out."},
	}
}

// metricsSQL asks for the metrics of the first queues by name, and how many queues there are.
// Each part reads an index, and no more of it than CountMost entries, in all queues or in each.
// Parameters: CountMost, scrapedQueues.
func metricsSQL(own string) string {
	return `
WITH first AS MATERIALIZED (SELECT queue, visibility FROM queues ORDER BY queue LIMIT $2)
SELECT 'queues', '', count(*)::float8 FROM queues
UNION ALL
SELECT 'pending', q.queue, (SELECT count(*) FROM (SELECT FROM messages m
        WHERE m.queue = q.queue AND m.state = 'ready' {slots} LIMIT $1) AS m)::float8
    FROM first q
UNION ALL
SELECT 'dead_letters', q.queue, (SELECT count(*) FROM (SELECT FROM dead_letters d
        WHERE d.queue = q.queue LIMIT $1) AS d)::float8
    FROM first q
UNION ALL
SELECT 'published_per_minute', queue, sum(messages)::float8
    FROM (SELECT queue, messages FROM published
        WHERE published_at > statement_timestamp() - interval '1 minute'
        ORDER BY published_at DESC LIMIT $1) AS p GROUP BY queue
UNION ALL
SELECT 'deletion_seconds', queue, avg(extract(epoch FROM acked_at - created_at))::float8
    FROM (SELECT queue, acked_at, created_at FROM messages m WHERE m.state = 'acked' {slots}
        ORDER BY acked_at DESC LIMIT 1000) AS m GROUP BY queue
UNION ALL` + own
}

// tableMetricsSQL are the metrics that the sweeper's index has.
const tableMetricsSQL = `
SELECT 'delayed', queue, count(*)::float8 FROM (SELECT queue FROM messages m
        WHERE m.state = 'delayed' {slots} ORDER BY visible_at LIMIT $1) AS m GROUP BY queue
UNION ALL
SELECT 'with_consumers', queue, count(*)::float8 FROM (SELECT queue FROM messages m
        WHERE m.state = 'picked' {slots} ORDER BY visible_at LIMIT $1) AS m GROUP BY queue
UNION ALL
SELECT 'stuck', queue, count(*) FILTER (WHERE statement_timestamp() - picked_at >
        (visible_at - picked_at) / 2)::float8 FROM (SELECT queue, picked_at, visible_at FROM messages m
        WHERE m.state = 'picked' {slots} ORDER BY visible_at LIMIT $1) AS m GROUP BY queue`

// scraped is what a scrape has read of the queues.
type scraped struct {
	values map[string]map[string]float64
	queues []string
	err    error
}

// scrapes remembers the last one. Those who ask meanwhile wait for it.
type scrapes struct {
	read func(ctx context.Context) scraped
	now  func() time.Time

	mu   sync.Mutex
	last scraped
	at   time.Time
}

// lately is what was read last, or is read now if that was too long ago. What failed is
// remembered too: Postgres is not asked more often when it does not answer.
func (s *scrapes) lately() scraped {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at.IsZero() || s.now().Sub(s.at) >= scrapeAge {
		ctx, cancel := context.WithTimeout(context.Background(), metricsTimeout)
		defer cancel()
		s.last = s.read(ctx)
		s.at = s.now()
	}
	return s.last
}

// writeMetrics appends, in the OpenMetrics text format, what one would watch of each
// queue, and what claims of this server take. If Postgres does not answer it says so, and
// of the queues nothing.
func (l *limited) writeMetrics(w io.Writer) {
	b := l.base()
	write := func(format string, args ...any) {
		_, _ = fmt.Fprintf(w, format, args...) // whoever goes away misses the rest
	}
	head := func(name, kind, format string, args ...any) {
		write("# TYPE sqlbroker_%s %s\n", name, kind)
		if strings.HasSuffix(name, "_seconds") {
			write("# UNIT sqlbroker_%s seconds\n", name)
		}
		write("# HELP sqlbroker_"+name+" "+format+"\n", args...)
	}
	head("claim_seconds", "summary", "Time of claims of this server that got messages.")
	write("sqlbroker_claim_seconds_count %d\nsqlbroker_claim_seconds_sum %g\n",
		b.tally.claims.Load(), time.Duration(b.tally.claiming.Load()).Seconds())
	got, failed := l.scrapes.lately(), 0
	if got.err != nil {
		b.Config.Warn("the metrics of queues are left out", got.err)
		failed = 1
	}
	head("scrape_failed", "gauge", "1 if the queues could not be read, which are left out then.")
	write("sqlbroker_scrape_failed %d\n", failed)
	if got.err != nil {
		return
	}
	head("queues", "gauge", "Queues; those after the first %d by name are left out below.",
		scrapedQueues)
	write("sqlbroker_queues %g\n", got.values["queues"][""])
	for _, m := range queueMetrics() {
		head(m.name, "gauge", "%s", m.help)
		for _, queue := range got.queues {
			value, is := got.values[m.name][queue]
			if is || m.name != deletionSeconds {
				write("sqlbroker_%s{queue=\"%s\"} %g\n", m.name, label(queue), value)
			}
		}
	}
}

// label writes a value as OpenMetrics wants it between its quotation marks.
func label(text string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(text)
}

// scrape reads the metrics by name and queue. What a queue has none of is left out.
func (l *limited) scrape(ctx context.Context) scraped {
	_, sql := l.looks()
	got := scraped{values: map[string]map[string]float64{}}
	if sql, got.err = l.base().narrow(ctx, sql); got.err != nil {
		return got
	}
	list, err := stores.Collect[struct {
		Name, Queue string
		Value       float64
	}](ctx, l.base().DB, sql, CountMost, scrapedQueues)
	got.err = err
	for _, one := range list {
		if got.values[one.Name] == nil {
			got.values[one.Name] = map[string]float64{}
		}
		got.values[one.Name][one.Queue] = one.Value
		if one.Name == "pending" {
			got.queues = append(got.queues, one.Queue)
		}
	}
	slices.Sort(got.queues)
	return got
}
