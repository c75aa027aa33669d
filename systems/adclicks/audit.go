package adclicks

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"stampede/harness/stores"
	"stampede/systems/internal/partitions"
)

// Audit is the final truth: the log, what was decided, and what came of it.
type Audit struct {
	Log       []LogRow      `json:"log" doc:"every click in the log, each partition in order; those of a campaign are in one partition"`
	Decisions []DecisionRow `json:"decisions" doc:"what was decided of each"`
	Windows   []WindowRow   `json:"windows" doc:"what real time has counted"`
	Recount   []WindowRow   `json:"recount" doc:"what a recount of the archive finds"`
	Budgets   []BudgetRow   `json:"budgets" doc:"each campaign once; one that has spent and refused nothing may be left out"`
	Replays   []ReplayRow   `json:"replays" doc:"one row for each partition of each replay, however often that was sent; one that was empty then may be left out"`
}

// LogRow is a click in the log.
type LogRow struct {
	Part     int32  `json:"part" min:"0"`
	Offset   int64  `json:"offset" min:"0"`
	ID       uint64 `json:"op_id" min:"1"`
	Click    string `json:"click_id"`
	Campaign string `json:"campaign_id"`
	Ad       string `json:"ad_id"`
	User     string `json:"user_id"`
	IP       string `json:"ip"`
	AtMS     int64  `json:"at_ms" min:"1"`
	Cents    int64  `json:"cents"`
}

// DecisionRow is what became of a click in the log.
type DecisionRow struct {
	Part     int32  `json:"part" min:"0"`
	Offset   int64  `json:"offset" min:"0"`
	Click    string `json:"click_id"`
	WindowMS int64  `json:"window_ms" doc:"when its window begins"`
	Verdict  string `json:"verdict" enum:"counted,corrected,late,duplicate,fraud"`
}

// WindowRow is a window at the end.
type WindowRow struct {
	Campaign string `json:"campaign_id"`
	Ad       string `json:"ad_id"`
	WindowMS int64  `json:"window_ms"`
	Clicks   int64  `json:"clicks"`
	Cents    int64  `json:"cents"`
	OnTime   int64  `json:"on_time" doc:"clicks without corrections"`
	Users    int64  `json:"users" doc:"estimated, but exact in a recount"`
}

// BudgetRow is what a campaign may spend.
type BudgetRow struct {
	Campaign string `json:"campaign_id"`
	Budget   int64  `json:"budget"`
	Allotted int64  `json:"allotted" doc:"what was given to those who accept clicks, less what they gave back; at most a slice more than the budget"`
	Holders  int64  `json:"holders" doc:"how many they were, each with less than two slices left; 0 before the first, and where each price is taken from the budget itself"`
	Returned int64  `json:"returned,omitempty" doc:"what they gave back in all, such as the prices of clicks that turned out to be fraud"`
}

// ReplayRow is a partition of a replay.
type ReplayRow struct {
	ID    uint64 `json:"op_id" min:"1"`
	Part  int32  `json:"part" min:"0"`
	Next  int64  `json:"next_offset" doc:"up to where both were"`
	Live  string `json:"live" doc:"SHA-256, in hex, of the result of real time: of every decision up to there, and of the windows; in bytes of the server's choice, which are others at another next_offset"`
	Again string `json:"again" doc:"and of that of the replay"`
}

// audit reads everything.
func audit(ctx context.Context, st *opened) (any, error) {
	a := Audit{Log: []LogRow{}, Recount: []WindowRow{}}
	err := partitions.Each(ctx, st.Config, st.Kafka, topicClicks, func(r *kgo.Record) error {
		var e event
		err := e.decode(r.Value, r.Offset)
		a.Log = append(a.Log, LogRow{r.Partition, r.Offset, e.ID, e.Click, e.Campaign, e.Ad, e.User,
			e.IP, e.AtMS, e.Cents})
		return err
	})
	if err != nil {
		return nil, err
	}
	for part := range st.Config.Kafka.Partitions {
		if err := a.recount(ctx, st, int32(part)); err != nil {
			return nil, err
		}
	}
	return a, a.tables(ctx, st)
}

// recount counts the archive of a partition exactly.
func (a *Audit) recount(ctx context.Context, st *opened, part int32) error {
	events, err := archived(ctx, st, part)
	if err != nil {
		return err
	}
	decisions, w, err := process(st.Params.rules(), events)
	if err != nil {
		return err
	}
	type user struct {
		windowKey
		name string
	}
	seen, users := map[user]bool{}, map[windowKey]int64{}
	for _, d := range decisions {
		u := user{windowKey{d.Campaign, d.Ad, d.WindowMS}, d.User}
		if d.counts() && !seen[u] {
			seen[u] = true
			users[u.windowKey]++
		}
	}
	for _, k := range slices.SortedFunc(maps.Keys(w), windowKey.compare) {
		a.Recount = append(a.Recount, WindowRow{k.campaign, k.ad, k.startMS, w[k].Clicks, w[k].Cents,
			w[k].OnTime, users[k]})
	}
	return nil
}

// tables reads Postgres in one snapshot.
func (a *Audit) tables(ctx context.Context, st *opened) error {
	err := st.DB.Snapshot(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
		if a.Decisions, err = stores.CollectOn[DecisionRow](ctx, tx, `SELECT part, log_offset, click,
			window_ms, verdict FROM decisions ORDER BY 1, 2`); err != nil {
			return err
		}
		if a.Budgets, err = stores.CollectOn[BudgetRow](ctx, tx, `SELECT campaign, budget, allotted,
			(SELECT count(*) FROM allotments a WHERE a.campaign = b.campaign), 0::bigint
			FROM budgets b ORDER BY 1`); err != nil {
			return err
		}
		if a.Replays, err = stores.CollectOn[ReplayRow](ctx, tx, `SELECT op_id, part, next_offset,
			live, again FROM replayed ORDER BY 1, 2`); err != nil {
			return err
		}
		list, err := stores.CollectOn[named](ctx, tx, `SELECT campaign, ad, window_ms, clicks, cents,
			on_time, sketch FROM windows ORDER BY 1, 2, 3`)
		a.Windows = []WindowRow{}
		for _, w := range list {
			users, wrong := sketchOf(w.Sketch)
			err = errors.Join(err, wrong)
			a.Windows = append(a.Windows, WindowRow{w.Campaign, w.Ad, w.StartMS, w.Clicks, w.Cents,
				w.OnTime, int64(users.Estimate())})
		}
		return err
	})
	return stores.Failed("auditing Postgres", err)
}

// Look is what a gauge saw: the newest closed windows, the offset up to which each partition is
// consumed, and how many clicks of the log are after that.
type Look struct {
	Closed   []ClosedRow `json:"closed"`
	Consumed []int64     `json:"consumed"`
	Lag      int64       `json:"lag"`
}

// ClosedRow is a closed window.
type ClosedRow struct {
	Campaign string `json:"campaign_id"`
	Ad       string `json:"ad_id"`
	WindowMS int64  `json:"window_ms"`
	Clicks   int64  `json:"clicks"`
	OnTime   int64  `json:"on_time"`
}

// look reads up to 200 closed windows, as one statement sees them, and how far consumers are.
func look(ctx context.Context, st *opened) (_ any, err error) {
	var l Look
	stands, err := lags(ctx, st)
	if err != nil {
		return nil, err
	}
	for _, s := range stands {
		l.Consumed, l.Lag = append(l.Consumed, s.Consumed), l.Lag+s.end-s.Consumed
	}
	l.Closed, err = stores.Collect[ClosedRow](ctx, st.DB, `SELECT campaign, ad, window_ms, clicks,
			on_time FROM windows JOIN progress USING (part)
		WHERE window_ms + $1 <= max_ms - $2 ORDER BY window_ms DESC, campaign, ad LIMIT 200`,
		st.Params.Window.D().Milliseconds(), st.Params.Lateness.D().Milliseconds())
	return l, stores.Failed("reading closed windows", err)
}
