package adclicks_test

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"

	"stampede/harness/api"
	"stampede/harness/history"
	"stampede/harness/sut"
	"stampede/harness/suttest"
	"stampede/systems/adclicks"
)

// counter is the smallest correct design: a list of clicks for each partition, each decided at
// once by a look at all that came before it.
type counter struct {
	p       adclicks.Params
	api     *api.Table[adclicks.Clicks]
	pick    func(n int) int
	log     [2][]adclicks.LogRow
	was     [2][]adclicks.DecisionRow
	spent   map[string]int64        // given out, by campaign
	left    map[string]*[2]int64    // of two holders
	used    map[string]map[int]bool // which of them was given anything
	replays []adclicks.ReplayRow
}

func newCounter(p adclicks.Params, pick func(n int) int) *counter {
	return &counter{p: p, api: adclicks.API(), pick: pick, spent: map[string]int64{},
		left: map[string]*[2]int64{}, used: map[string]map[int]bool{}}
}

// counterIn is a counter in a world, at which a gauge looks.
func counterIn(w *suttest.World, p *adclicks.Params) *counter {
	c := newCounter(*p, w.Rand.IntN)
	w.Every(50*ms, func() bool {
		body, _ := json.Marshal(c.look()) // numbers and texts
		w.Samples = append(w.Samples, history.Sample{From: w.Now, To: w.Now, Body: body})
		return false
	})
	return c
}

// Do performs an operation.
func (c *counter) Do(op history.Op, answer func(history.Reply, error)) {
	answer(c.api.Do(context.Background(), c, op))
}

// take spends a price from the slice of one of two holders.
func (c *counter) take(campaign string, cents int64) bool {
	if c.left[campaign] == nil {
		c.left[campaign], c.used[campaign] = &[2]int64{}, map[int]bool{}
	}
	holder := c.pick(2)
	left := &c.left[campaign][holder]
	for *left < cents {
		if c.spent[campaign] >= int64(c.p.Budget) {
			return false
		}
		c.spent[campaign] += int64(c.p.Slice)
		*left += int64(c.p.Slice)
		c.used[campaign][holder] = true
	}
	*left -= cents
	return true
}

// Click appends a click to its partition, unless it is there and the edge happens to know that.
func (c *counter) Click(
	_ context.Context, req adclicks.ClickRequest,
) (adclicks.Clicked, error) {
	part := len(req.Campaign) + int(req.Campaign[len(req.Campaign)-1])
	part %= len(c.log)
	at := func(offset int64) (adclicks.Clicked, error) {
		return adclicks.Clicked{Position: fmt.Sprintf("%d/%d", part, offset)}, nil
	}
	for _, row := range c.log[part] {
		if row.Click == req.Click && c.pick(2) == 0 {
			return at(row.Offset)
		}
	}
	if !c.take(req.Campaign, req.Cents) {
		return adclicks.Clicked{}, adclicks.ErrOverBudget
	}
	row := adclicks.LogRow{Part: int32(part), Offset: int64(len(c.log[part])), ID: req.ID,
		Click: req.Click, Campaign: req.Campaign, Ad: req.Ad, User: req.User, IP: req.IP,
		AtMS: req.AtMS, Cents: req.Cents}
	c.was[part] = append(c.was[part], c.decide(part, row))
	c.log[part] = append(c.log[part], row)
	return at(row.Offset)
}

// mark is the watermark of a partition.
func (c *counter) mark(part int) (ms int64) {
	for _, row := range c.log[part] {
		ms = max(ms, row.AtMS)
	}
	return ms - c.p.Lateness.D().Milliseconds()
}

// decide looks at everything that came before.
func (c *counter) decide(part int, row adclicks.LogRow) adclicks.DecisionRow {
	window := c.p.Window.D().Milliseconds()
	d := adclicks.DecisionRow{Part: row.Part, Offset: row.Offset, Click: row.Click,
		WindowMS: row.AtMS - row.AtMS%window}
	end, mark := d.WindowMS+window, c.mark(part)
	same, known := 0, false
	for i, other := range c.log[part] {
		was := c.was[part][i]
		known = known || other.Click == row.Click && was.Verdict != "late"
		if other.IP == row.IP && other.Ad == row.Ad && was.WindowMS == d.WindowMS && counts(was) {
			same++
		}
	}
	switch {
	case end+c.p.Horizon.D().Milliseconds() <= mark:
		d.Verdict = "late"
	case known:
		d.Verdict = "duplicate"
	case same >= c.p.FraudMost:
		d.Verdict = "fraud"
	case end <= mark:
		d.Verdict = "corrected"
	default:
		d.Verdict = "counted"
	}
	return d
}

func counts(d adclicks.DecisionRow) bool {
	return d.Verdict == "counted" || d.Verdict == "corrected"
}

// Dashboard counts.
func (c *counter) Dashboard(
	_ context.Context, req adclicks.CampaignRequest,
) (adclicks.Figures, error) {
	f, users := adclicks.Figures{Campaign: req.Campaign}, map[string]bool{}
	for part := range c.log {
		for i, row := range c.log[part] {
			if row.Campaign == req.Campaign && counts(c.was[part][i]) {
				f.Clicks++
				f.Cents += row.Cents
				users[row.User] = true
				f.Users = int64(len(users))
				f.ThroughMS = max(0, c.mark(part))
			}
		}
	}
	return f, nil
}

// Reconcile finds no difference.
func (c *counter) Reconcile(context.Context, struct{}) (adclicks.Reconciliation, error) {
	return adclicks.Reconciliation{Compared: int64(len(c.log[0]) + len(c.log[1])),
		Examples: []string{}}, nil
}

// Replay is done at once.
func (c *counter) Replay(
	_ context.Context, req adclicks.ReplayRequest,
) (none api.Nothing, err error) {
	for part := range c.log {
		if !slices.ContainsFunc(c.replays, func(r adclicks.ReplayRow) bool {
			return r.ID == req.ID && r.Part == int32(part)
		}) {
			digest := fmt.Sprintf("%x", sha256.Sum256(fmt.Append(nil, c.log[part])))
			c.replays = append(c.replays, adclicks.ReplayRow{ID: req.ID, Part: int32(part),
				Next: int64(len(c.log[part])), Live: digest, Again: digest})
		}
	}
	return none, nil
}

// windows are those with clicks that count, of which users are exact.
func (c *counter) windows() (live []adclicks.WindowRow) {
	type key struct {
		ad string
		ms int64
	}
	byKey, users := map[key]*adclicks.WindowRow{}, map[key]map[string]bool{}
	for part := range c.log {
		for i, row := range c.log[part] {
			d := c.was[part][i]
			k := key{row.Ad, d.WindowMS}
			if !counts(d) {
				continue
			}
			if byKey[k] == nil {
				byKey[k] = &adclicks.WindowRow{Campaign: row.Campaign, Ad: row.Ad, WindowMS: d.WindowMS}
				users[k] = map[string]bool{}
			}
			w := byKey[k]
			w.Clicks++
			w.Cents += row.Cents
			users[k][row.User] = true
			w.Users = int64(len(users[k]))
			if d.Verdict == "counted" {
				w.OnTime++
			}
		}
	}
	for _, w := range byKey {
		live = append(live, *w)
	}
	slices.SortFunc(live, func(a, b adclicks.WindowRow) int {
		return cmp.Or(cmp.Compare(a.Ad, b.Ad), cmp.Compare(a.WindowMS, b.WindowMS))
	})
	return live
}

// look is what a gauge sees. A click is consumed as soon as it is in the log.
func (c *counter) look() (l adclicks.Look) {
	l.Consumed = []int64{int64(len(c.log[0])), int64(len(c.log[1]))}
	for _, w := range c.windows() {
		part := (len(w.Campaign) + int(w.Campaign[len(w.Campaign)-1])) % len(c.log)
		if w.WindowMS+c.p.Window.D().Milliseconds() <= c.mark(part) {
			l.Closed = append(l.Closed, adclicks.ClosedRow{Campaign: w.Campaign, Ad: w.Ad,
				WindowMS: w.WindowMS, Clicks: w.Clicks, OnTime: w.OnTime})
		}
	}
	return l
}

// Audit copies all rows.
func (c *counter) Audit() adclicks.Audit {
	a := adclicks.Audit{Log: slices.Concat(c.log[:]...), Decisions: slices.Concat(c.was[:]...),
		Windows: c.windows(), Replays: c.replays}
	a.Recount = slices.Clone(a.Windows)
	for i := range c.p.Campaigns {
		name := fmt.Sprint("campaign-", i+1)
		a.Budgets = append(a.Budgets, adclicks.BudgetRow{Campaign: name, Budget: int64(c.p.Budget),
			Allotted: c.spent[name], Holders: int64(len(c.used[name]))})
	}
	return a
}

// street is of ordinary size.
func street() *adclicks.Params {
	p := crowd()
	p.Campaigns, p.Budget, p.Slice, p.EventRate = 4, 2000, 100, 150
	p.FreshWithin, p.LagWithin = sut.Duration(100*ms), sut.Duration(100*ms)
	p.Reprocess, p.Reconcile = 60, 80
	return p
}
