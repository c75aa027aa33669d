package adclicks_test

import (
	"testing"
	"time"

	"stampede/harness/history"
	"stampede/harness/suttest"
	"stampede/systems/adclicks"
)

const ms = time.Millisecond

// evidence is a history and an audit, which tests change.
type evidence struct {
	suttest.Evidence[adclicks.Params, adclicks.Audit]
}

// anyStreet is a street of any kind.
func anyStreet(d suttest.Draw) *adclicks.Params {
	p := street()
	p.Campaigns, p.Ads, p.Users = d.Int("campaigns", 1, 8), d.Int("ads", 1, 4), d.Int("users", 1, 300)
	p.Budget, p.Slice = d.Int("budget", 1, 5000), d.Int("slice", 50, 500)
	p.EventRate, p.Disorder = float64(d.Int("rate", 20, 400)), d.Millis("disorder", 0, 500)
	p.LateShare, p.LateBy, p.Farm = d.Share("late"), d.Millis("late by", 0, 3000), d.Share("farm")
	p.Resend, p.Replayed, p.Dashboards = d.Share("resend"), d.Share("replayed"), d.Share("dashboards")
	p.Twice = d.Share("twice") / 2
	p.ReplayAfter, p.Retry = d.Millis("replay after", 0, 800), d.Int("retry", 0, 4)
	p.Window, p.Lateness = d.Millis("window", 10, 500), d.Millis("lateness", 0, 500)
	p.Horizon, p.FraudMost = d.Millis("horizon", 0, 2000), d.Int("fraud", 1, 12)
	return p
}

// proof is what the judges of adclicks are proved by.
func proof() suttest.Proof[*evidence] {
	return suttest.Played(suttest.Proof[*evidence]{
		Unnoticed: map[string][]string{
			"who looks, and is refused, changes nothing": {"deny dashboard", "deny reconcile",
				"change client of dashboard", "change client of reconcile", "change key of reconcile",
				"change client of replay", "change key of replay"},
			"how much was compared is shown, and not judged": {"exchange answers to reconcile",
				"raise compared in answers to reconcile", "lower compared in answers to reconcile",
				"raise pending in answers to reconcile"},
			"the client takes no answer about another campaign": {
				"mistake campaign_id in answers to dashboard"},
			"the latest click may not be counted yet": {"lower clicks in answers to dashboard",
				"lower cents in answers to dashboard"},
			"nobody promises how soon a window is closed": {"lower through_ms in answers to dashboard"},
			"a budget is given out in parts of any size": {"raise allotted of budgets",
				"lower allotted of budgets"},
			"users are an estimate": {
				"raise users of windows", "lower users of windows",
				"raise users in answers to dashboard", "lower users in answers to dashboard"},
			"how many accept clicks nobody else knows": {
				"raise holders of budgets", "lower holders of budgets"},
			"how far real time was when a replay began nobody else knows": {
				"raise next_offset of replays", "lower next_offset of replays"},
		},
		Absent: map[string][]string{
			"nothing is given back": {"exchange returned of budgets", "raise returned of budgets",
				"lower returned of budgets"},
			"none is refused": {"invent dashboard", "invent reconcile", "invent replay"},
			"the answer says nothing, and budgets are alike": {"exchange answers to replay",
				"exchange budget of budgets", "exchange holders of budgets"},
		},
	}, adclicks.System(), street, anyStreet, 300, time.Second, counterIn)
}

// TestJudges: the judges are sound, a smoke run decides all of them, and none is vacuous.
func TestJudges(t *testing.T) {
	suttest.Prove(t, proof(), 50, []suttest.Corruption[*evidence]{
		{Name: "a click counts twice", Breaks: adclicks.ClicksOnce,
			Do: func(e *evidence, pick func(int) int) bool {
				return suttest.Change(e.Audit.Decisions, pick, func(d *adclicks.DecisionRow) bool {
					return d.Verdict == "duplicate"
				}, func(d *adclicks.DecisionRow) { d.Verdict = "counted" })
			}},
		{Name: "a consumer stands still", Breaks: adclicks.ConsumerLag,
			Do: func(e *evidence, _ func(int) int) bool {
				for i := range e.Samples {
					e.saw(i, func(l *adclicks.Look) { l.Consumed = []int64{0, 0} })
				}
				return len(e.Samples) > 0
			}},
		{Name: "a dashboard forgets everything", Breaks: adclicks.DashboardFresh,
			Do: func(e *evidence, _ func(int) int) bool {
				found := false
				for i := range e.Records {
					r := &e.Records[i]
					if r.Op.Kind == adclicks.KindDashboard && r.Outcome == history.OK && r.Reply.Value > 9 {
						r.Reply.Body, found = []byte(`{}`), true
					}
				}
				return found
			}},
	})
}
