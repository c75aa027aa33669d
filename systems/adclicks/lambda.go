package adclicks

import (
	"context"

	"github.com/bits-and-blooms/bloom/v3"
	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"stampede/harness/stores"
)

// lambdaSchema is the speed layer: clicks of the log by ranges of offsets.
const lambdaSchema = `CREATE TABLE speed (
		part int, from_offset bigint, campaign text, ad text, clicks bigint NOT NULL,
		cents bigint NOT NULL, PRIMARY KEY (part, from_offset, campaign, ad));
	CREATE INDEX speed_campaign ON speed (campaign);`

// lambda has both: a batch that is exact and a speed layer for what no batch has seen yet.
//
// The idea: the speed layer adds clicks up as they come, drops repeated ones by a Bloom filter
// alone, and knows neither fraud nor late clicks. A batch recounts the archive and, in the
// transaction that stores its results, deletes what the speed layer has of the same clicks. A
// dashboard shows the sum of both.
//
// The guarantee: what a batch has seen is exact, and what none has is there, about right.
//
// It gives up: one code for one count. Two counts must agree on what a click is, and between two
// batches a dashboard may show too much.
func lambda() variant {
	const estimate = "between two batches the speed layer counts without the rules, and estimates"
	r := aggregatorRole(func(a *aggregator) {
		a.group, a.load, a.take, a.store = "speed", loadSpeed, takeSpeed, storeSpeed
	})
	r.Name, r.Summary = "speed", "adds clicks up that no batch has seen yet, without the rules"
	v := streaming(variant{
		Name:          "lambda",
		Idea:          "a batch recounts the archive, and a speed layer adds what came after it",
		Guarantees:    "exact up to the last batch, and fresh",
		GivesUp:       "one count: two codes do it, and until the next batch figures are an estimate",
		NotApplicable: map[string]string{DashboardTrue: estimate},
		Open: func(_ context.Context, st *opened) (Clicks, error) {
			return merged{newEdge(st)}, nil
		},
	}, r, batchRole(decided, func(p *partition, ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `DELETE FROM speed WHERE part = $1 AND from_offset < $2`, p.number,
			p.decider.next)
		return err
	}))
	v.State.Schema = lambdaSchema
	return v
}

// merged shows the sum of both layers.
type merged struct{ *edge }

// Dashboard adds up the windows of a campaign and what came after them.
func (m merged) Dashboard(ctx context.Context, req CampaignRequest) (Figures, error) {
	return m.figures(ctx, req.Campaign, `SELECT clicks, cents, on_time, sketch FROM windows
			WHERE campaign = $1
		UNION ALL SELECT clicks, cents, clicks, '' FROM speed JOIN progress USING (part)
			WHERE campaign = $1 AND from_offset >= next_offset`)
}

// loadSpeed goes on where the speed layer was, or the last batch if that has come further.
func loadSpeed(
	ctx context.Context, st *opened, numbers []int32,
) (map[int32]*partition, error) {
	list, filter := map[int32]*partition{}, bloom.NewWithEstimates(uint(st.Params.BloomClicks),
		st.Params.BloomFalse)
	err := st.DB.Rows(ctx, `SELECT part, speed_next, greatest(speed_next, next_offset) FROM progress
		WHERE part = ANY ($1)`, []any{numbers}, func(row pgx.CollectableRow) error {
		var n int32
		var from, next int64
		err := row.Scan(&n, &from, &next)
		p := newPartition(n, st.Params.rules())
		p.from, p.read, p.decider.next = from, next, next
		p.decider.forgets = true
		p.known = filter.TestOrAddString
		list[n] = p
		return err
	})
	return list, stores.Failed("taking partitions over", err)
}

// takeSpeed adds a click up, unless it seems to have come before.
func takeSpeed(p *partition, r *kgo.Record) error {
	var e event
	if err := e.decode(r.Value, r.Offset); err != nil {
		return err
	}
	p.read, p.decider.next = r.Offset+1, r.Offset+1
	d := decision{event: e, LogOffset: e.Offset, Verdict: counted}
	if p.known(e.Click) {
		d.Verdict = duplicate
	}
	return p.apply(d)
}

// storeSpeed stores sums and how far the speed layer is in one transaction.
func storeSpeed(ctx context.Context, st *opened, list []*partition) error {
	return inOne(ctx, st, list, func(p *partition, ctx context.Context, tx pgx.Tx) error {
		clear(p.windows) // nobody reads them
		return p.move(ctx, tx, `UPDATE progress SET speed_next = $3
			WHERE part = $1 AND speed_next = $2`, p.number, p.from, p.decider.next)
	}, func(p *partition, ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO speed SELECT $1, $2, campaign, ad, count(*), sum(cents)
			FROM jsonb_to_recordset($3) AS d (campaign text, ad text, cents bigint, verdict text)
			WHERE verdict = 'counted' GROUP BY campaign, ad`, p.number, p.pending[0].LogOffset, p.pending)
		return err
	})
}
