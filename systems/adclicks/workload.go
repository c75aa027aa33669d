package adclicks

import (
	"fmt"
	"time"

	"stampede/harness/api"
	"stampede/harness/history"
	"stampede/harness/keys"
	"stampede/harness/sut"
)

// Operation identities. Click i owns the 8 identities from (i+1)<<3, one for each step.
const (
	idBits   = 3
	stepMask = 1<<idBits - 1

	stepClick     = 0
	stepReplayed  = 1
	stepDashboard = 2
	stepReconcile = 3
	stepReplay    = 4
)

// firstMS is the event time of the first click: a round one, so that windows begin with it.
const firstMS = 1_700_000_000_000

// retryPause is the pause before a click of unknown outcome is sent again.
const retryPause = 200 * time.Millisecond

// newWorkload makes the operations as a pure function of the seed. Scheduled operations click, in
// the order of event time but for what comes late; looks at dashboards, reconciliations, replays of
// the log and replayed clicks follow from some. A click of unknown outcome is sent again; Op.Arg
// counts the attempts.
func newWorkload(s *keys.Streams, p Params) sut.Workload {
	w := &workload{p: p, table: API(), campaigns: s.Uniform(p.Campaigns), users: s.Uniform(p.Users),
		ads: s.Uniform(p.Ads)}
	w.late, w.by, w.farm, w.ip, w.price = s.Coin(), s.Coin(), s.Coin(), s.Coin(), s.Coin()
	w.replayed, w.dashboard, w.disorder, w.twice = s.Coin(), s.Coin(), s.Coin(), s.Coin()
	w.Resends = sut.Resends{Share: p.Resend, Coin: s.Coin().At, Kinds: []string{KindClick}}
	return w
}

// workload decides every question by its own stream of random numbers.
type workload struct {
	sut.Resends
	p                     Params
	table                 *api.Table[Clicks]
	campaigns, users, ads keys.Source

	late, by, farm, ip, price, replayed, dashboard, disorder, twice keys.Coin
}

// Kinds lists the operation kinds, the main one first.
func (w *workload) Kinds() []string {
	return []string{KindClick, KindDashboard, KindReconcile, KindReplay}
}

// Op returns scheduled operation i, which is click i, or the one before it again.
func (w *workload) Op(i uint64) history.Op {
	for i > 0 && w.twice.At(i) < w.p.Twice {
		i--
	}
	return w.table.Op(KindClick, w.click(i, stepClick))
}

// click is click i. A click farm's are all on one ad of the first campaign.
func (w *workload) click(i, step uint64) ClickRequest {
	user := w.users.At(i) + 1
	c := ClickRequest{ID: (i+1)<<idBits | step, Click: fmt.Sprint("click-", i+1),
		Campaign: campaignName(int(w.campaigns.At(i)) + 1), User: fmt.Sprint("user-", user),
		IP:    fmt.Sprintf("10.%d.%d.%d", user>>16&255, user>>8&255, user&255),
		Cents: 1 + int64(w.price.At(i)*float64(w.p.Price)), AtMS: firstMS + w.since(i)}
	ad := w.ads.At(i)
	if w.farm.At(i) < w.p.Farm {
		c.Campaign, ad = campaignName(1), 0
		c.IP = fmt.Sprint("192.0.2.", 1+int(w.ip.At(i)*float64(w.p.FarmIPs)))
	}
	c.Ad = fmt.Sprintf("%s/ad-%d", c.Campaign, ad+1)
	return c
}

// since is the event time of click i after the first one, in milliseconds. That of one that is
// late is earlier.
func (w *workload) since(i uint64) int64 {
	at := float64(i)/w.p.EventRate*1000 - w.disorder.At(i)*float64(w.p.Disorder.D().Milliseconds())
	if w.late.At(i) < w.p.LateShare {
		at -= w.by.At(i) * float64(w.p.LateBy.D().Milliseconds())
	}
	return max(0, int64(at))
}

// Follow returns what an operation brings about.
func (w *workload) Follow(
	op history.Op, outcome history.Outcome, _ history.Reply,
) (next []sut.FollowUp) {
	i, step := op.ID>>idBits-1, op.ID&stepMask
	if op.Kind != KindClick {
		return nil
	}
	if outcome == history.Unknown && op.Arg < int64(w.p.Retry) {
		op.Arg++
		return []sut.FollowUp{{After: retryPause, Op: op}}
	}
	if step != stepClick {
		return nil
	}
	if outcome == history.OK && w.replayed.At(i) < w.p.Replayed {
		next = append(next, sut.FollowUp{After: w.p.ReplayAfter.D(),
			Op: w.table.Op(KindClick, w.click(i, stepReplayed))})
	}
	other := func(step uint64, kind string, request any) {
		op := w.table.Op(kind, request)
		op.ID = (i+1)<<idBits | step
		next = append(next, sut.FollowUp{Op: op})
	}
	if outcome == history.OK && w.dashboard.At(i) < w.p.Dashboards {
		other(stepDashboard, KindDashboard, CampaignRequest{w.click(i, stepClick).Campaign})
	}
	if w.due(i, w.p.Reconcile) {
		other(stepReconcile, KindReconcile, struct{}{})
	}
	if w.due(i, w.p.Reprocess) {
		other(stepReplay, KindReplay, ReplayRequest{(i+1)<<idBits | stepReplay})
	}
	return next
}

// due says whether click i is every n-th scheduled operation, or in the place of one.
func (w *workload) due(i uint64, n int) bool {
	for n > 0 && (i+1)%uint64(n) > 0 {
		if i++; w.twice.At(i) >= w.p.Twice {
			return false
		}
	}
	return n > 0
}
