package adclicks_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/sut"
	"stampede/harness/suttest"
	"stampede/systems/adclicks"
)

// firstMS is when the small run begins in event time: windows begin then, too.
const firstMS = 1_700_000_000_000

// smallRun is a run that every invariant accepts, with windows of a second: ten clicks on two ads
// of campaign 1 use its budget up, so that an eleventh is refused, and one is on campaign 2. Click
// 1 is in the log twice, click 5 is one too many of its address, click 7 corrects the first window,
// and click 9 comes too late for that. A dashboard is read, all is reconciled, and replayed twice.
func smallRun() *evidence {
	p := crowd()
	p.Campaigns, p.Budget, p.Slice, p.FraudMost = 2, 500, 100, 2
	p.Window, p.Lateness = sut.Duration(time.Second), sut.Duration(500*ms)
	p.Horizon, p.FreshWithin = sut.Duration(2*time.Second), sut.Duration(time.Second)
	p.LagWithin = sut.Duration(time.Second)
	e := &evidence{suttest.NewEvidence[adclicks.Audit](adclicks.System(), p)}
	c, now := newCounter(*p, func(int) int { return 1 }), time.Duration(0)
	do := func(kind string, id uint64, request any) {
		op := c.api.Op(kind, request)
		op.ID = id
		reply, err := c.api.Do(context.Background(), c, op)
		e.add(history.Record{Op: op, Outcome: history.OK, Reply: reply, Start: now, End: now + 10*ms})
		if err != nil {
			suttest.Deny(&e.Records[len(e.Records)-1], err)
		}
		now += 20 * ms
	}
	click := func(id uint64, name, ad, ip string, at int64) {
		do(adclicks.KindClick, id, adclicks.ClickRequest{ID: id, Click: name, Campaign: ad[:10], Ad: ad,
			User: "user-" + name, IP: ip, AtMS: firstMS + at, Cents: 50})
	}
	click(8, "click-1", "campaign-1/ad-1", "10.0.0.1", 100)
	click(16, "click-2", "campaign-1/ad-1", "10.0.0.2", 200)
	click(9, "click-1", "campaign-1/ad-1", "10.0.0.1", 100)
	click(24, "click-3", "campaign-1/ad-2", "10.0.0.3", 300)
	click(32, "click-4", "campaign-1/ad-2", "10.0.0.3", 400)
	click(40, "click-5", "campaign-1/ad-2", "10.0.0.3", 500)
	click(48, "click-6", "campaign-1/ad-1", "10.0.0.6", 2600)
	e.look(c, now)
	click(56, "click-7", "campaign-1/ad-1", "10.0.0.7", 900)
	e.look(c, now)
	click(64, "click-8", "campaign-1/ad-1", "10.0.0.8", 4000)
	click(72, "click-9", "campaign-1/ad-1", "10.0.0.9", 300)
	click(80, "click-10", "campaign-1/ad-1", "10.0.0.10", 4100)
	click(88, "click-11", "campaign-2/ad-1", "10.0.0.11", 4200)
	do(adclicks.KindReconcile, 91, struct{}{})
	do(adclicks.KindReplay, 92, adclicks.ReplayRequest{ID: 92})
	now += 2 * time.Second
	do(adclicks.KindDashboard, 90, adclicks.CampaignRequest{Campaign: "campaign-1"})
	e.look(c, now)
	do(adclicks.KindReplay, 93, adclicks.ReplayRequest{ID: 93})
	e.op(9).Start = 5 * ms // while click 1 is under way
	e.Audit = c.Audit()
	return e
}

func (e *evidence) add(r history.Record) {
	r.Seq, r.Intended = uint64(len(e.Records)), r.Start
	e.Records = append(e.Records, r)
}

// look lets a gauge look.
func (e *evidence) look(c *counter, at time.Duration) {
	body, err := json.Marshal(c.look())
	if err != nil {
		panic(err)
	}
	e.Samples = append(e.Samples, history.Sample{From: at, To: at, Body: body})
}

// op is the record of an operation.
func (e *evidence) op(id uint64) *history.Record {
	i := slices.IndexFunc(e.Records, func(r history.Record) bool { return r.Op.ID == id })
	return &e.Records[i]
}

// decision is that of a click's first copy in the log.
func (e *evidence) decision(click string) *adclicks.DecisionRow {
	i := slices.IndexFunc(e.Audit.Decisions, func(d adclicks.DecisionRow) bool {
		return d.Click == click
	})
	return &e.Audit.Decisions[i]
}

// logged is the first copy of a click in the log.
func (e *evidence) logged(click string) *adclicks.LogRow {
	i := slices.IndexFunc(e.Audit.Log, func(d adclicks.LogRow) bool { return d.Click == click })
	return &e.Audit.Log[i]
}

// forget removes operations of a kind.
func forget(kind string) func(*evidence) {
	return func(e *evidence) {
		e.Records = slices.DeleteFunc(e.Records, func(r history.Record) bool { return r.Op.Kind == kind })
	}
}

// unknown has the answer of an operation lost.
func unknown(id uint64) func(*evidence) {
	return func(e *evidence) { e.op(id).Outcome, e.op(id).Reply = history.Unknown, history.Reply{} }
}

// closed is a dashboard of so many clicks and users on which windows until 3 s are closed.
func closed(clicks string, users int) string {
	return fmt.Sprintf(`{"clicks":%s,"users":%d,"through_ms":1700000003000}`, clicks, users)
}

// figures changes what a dashboard showed.
func figures(body string) func(*evidence) {
	return func(e *evidence) { e.op(90).Reply.Body = []byte(body) }
}

func nothing(*evidence) {}

// seen changes what the gauge saw last.
func seen(change func(*adclicks.Look)) func(*evidence) {
	return func(e *evidence) { e.saw(len(e.Samples)-1, change) }
}

// saw changes what the gauge saw in a sample.
func (e *evidence) saw(i int, change func(*adclicks.Look)) {
	var l adclicks.Look
	err := json.Unmarshal(e.Samples[i].Body, &l)
	change(&l)
	body, wrong := json.Marshal(l)
	if err = errors.Join(err, wrong); err != nil {
		panic(err)
	}
	e.Samples[i].Body = body
}

type verdictCase suttest.Case[*evidence]

const (
	pass  = check.Held
	fail  = check.Broken
	maybe = check.Undecided
)

// TestClauses: every clause accepts what is right, and refuses what is wrong.
func TestClauses(t *testing.T) {
	suttest.Clauses(t, proof(), smallRun, slices.Concat(logCases(), countCases(), otherCases()))
}

// TestWindowOfNothing: clicks of its ad are the witnesses.
func TestWindowOfNothing(t *testing.T) {
	e := smallRun()
	one := e.Audit.Windows[0]
	one.WindowMS += 7
	e.Audit.Windows = append(e.Audit.Windows, one)
	v := proof().Judge(e, t)[adclicks.RecountAgrees]
	if v.Status != check.Broken || len(v.Witness) == 0 {
		t.Errorf("%s with witnesses %v: %s", v.Status, v.Witness, v.Reason)
	}
}

func logCases() []verdictCase {
	const of = adclicks.AcksInLog
	return []verdictCase{
		{of, "a lost answer", pass, unknown(16), ""},
		{of, "no position of a repeated click", pass, func(e *evidence) { e.op(9).Reply.Key = "" }, ""},
		{of, "no position of the first one", fail, func(e *evidence) { e.op(16).Reply.Key = "" },
			"click-2 was acknowledged without a position, and nobody had sent it before"},
		{of, "no position before it was repeated", fail, func(e *evidence) {
			e.op(8).Reply.Key, e.op(9).Start = "", time.Second
		}, "click-1 was acknowledged without a position"},
		{of, "a click is lost", fail, func(e *evidence) { e.logged("click-2").Click = "click-12" },
			"click-2 was acknowledged at 30ms and is not in the log"},
		{of, "another position", fail, func(e *evidence) { e.op(16).Reply.Key = "1/0" },
			`click-2 was acknowledged at 1/0, where the log has "click-1"`},
		{of, "a position of nothing", fail, func(e *evidence) { e.op(16).Reply.Key = "1/99" },
			`click-2 was acknowledged at 1/99, where the log has ""`},
		{of, "a click that nobody sent", fail, func(e *evidence) { e.logged("click-2").ID = 1024 },
			"click-2 is in the log at 1/1, and nobody has sent it"},
		{of, "a refused click", fail, func(e *evidence) {
			suttest.Deny(e.op(16), adclicks.ErrOverBudget)
		}, "click-2 is in the log at 1/1, and nobody has sent it"},
		{of, "another price", fail, func(e *evidence) { e.logged("click-2").Cents = 1 },
			"click-2 is in the log at 1/1 as it was not sent"},
		{of, "an offset twice", fail, func(e *evidence) {
			e.Audit.Log = append(e.Audit.Log, e.Audit.Log[0])
		}, "the log has 12 clicks at 11 offsets"},
		{of, "in another order than by offset", fail, func(e *evidence) { slices.Reverse(e.Audit.Log) },
			"the log of partition 1 has offset 8 after 9"},
		{of, "a campaign in two partitions", fail, func(e *evidence) { e.logged("click-2").Part = 7 },
			"and campaign-1 was in 7"},
		{of, "nobody clicks", maybe, func(e *evidence) {
			forget(adclicks.KindClick)(e)
			e.Audit.Log = nil
		}, "no click was acknowledged"},
	}
}

func countCases() []verdictCase {
	const once, all = adclicks.ClicksOnce, adclicks.AllAccounted
	const recount, closed = adclicks.RecountAgrees, adclicks.ClosedStays
	lose := func(e *evidence) {
		e.Audit.Decisions = slices.DeleteFunc(e.Audit.Decisions, func(d adclicks.DecisionRow) bool {
			return d.Click == "click-2"
		})
	}
	return []verdictCase{
		{once, "a copy counts too", fail, func(e *evidence) {
			e.Audit.Decisions[slices.IndexFunc(e.Audit.Decisions, func(d adclicks.DecisionRow) bool {
				return d.Verdict == "duplicate"
			})].Verdict = "counted"
		}, "click-1 counts 2 times"},
		{once, "a late click counts", fail, func(e *evidence) {
			e.decision("click-9").Verdict = "counted"
		}, "click-9 counts 1 times"},
		{once, "a click is not decided", fail, lose, "click-2 at 1/1 should count, and does not"},
		{once, "the last one is not decided", fail, func(e *evidence) {
			e.Audit.Decisions = slices.DeleteFunc(e.Audit.Decisions, func(d adclicks.DecisionRow) bool {
				return d.Click == "click-11"
			})
		}, "click-11 at 0/0 is not decided"},
		{once, "a decision about nothing", fail, func(e *evidence) { e.decision("click-2").Offset = 99 },
			"click-2 was decided at 1/99, where the log has nothing"},
		{once, "nothing is sent twice", maybe, func(e *evidence) {
			e.Records = slices.DeleteFunc(e.Records, func(r history.Record) bool { return r.Op.ID == 9 })
		}, "no click was in flight twice at once"},

		{all, "all is well", pass, nothing, "7 counted, 1 corrected, 1 late, 1 duplicates, 1 fraud"},
		{all, "fraud is counted", fail, func(e *evidence) { e.decision("click-5").Verdict = "counted" },
			"click-5 at 1/5 is fraud in the window 1700000000000, and was counted"},
		{all, "another window", fail, func(e *evidence) { e.decision("click-2").WindowMS += 1000 },
			"click-2 at 1/1 is counted in the window 1700000000000"},
		{all, "one is missing", fail, lose, "partition 1 of the log: 5 counted + 1 corrected + 1 late"},
		{all, "one twice and another never", fail, func(e *evidence) {
			*e.decision("click-2") = *e.decision("click-1")
		}, "click-1 at 1/0 is decided twice"},
		{all, "nothing is late", maybe, func(e *evidence) {
			e.P.Horizon, e.decision("click-9").Verdict = sut.Duration(time.Hour), "corrected"
		}, "no click was late"},
		{all, "nothing is corrected", maybe, func(e *evidence) {
			e.P.Horizon, e.decision("click-7").Verdict = 0, "late"
		}, "no window was corrected"},
		{all, "no fraud", maybe, func(e *evidence) {
			e.P.FraudMost, e.decision("click-5").Verdict = 10, "counted"
		}, "nothing was fraud"},

		{recount, "another count", fail, func(e *evidence) { e.Audit.Windows[0].Clicks++ },
			"real time has 4 clicks, 2 of them on time, for 150 cents; the log has 3, 2 and 150"},
		{recount, "users that are not there", fail, func(e *evidence) { e.Audit.Windows[0].Users = 40 },
			"real time has 40 users; the log has 3"},
		{recount, "a window of nothing", fail, func(e *evidence) { e.Audit.Windows[0].WindowMS += 7 },
			"real time has 3 clicks in a window that should not be there"},
		{recount, "a window of zeros", pass, func(e *evidence) {
			e.Audit.Windows = append(e.Audit.Windows, adclicks.WindowRow{Ad: "ad", Users: 1})
		}, ""},
		{recount, "the archive has less", fail, func(e *evidence) { e.Audit.Recount[0].Clicks-- },
			"the archive has 2 clicks, 2 of them on time, for 150 cents; the log has 3, 2 and 150"},
		{recount, "a window is missing", fail, func(e *evidence) {
			e.Audit.Recount = e.Audit.Recount[1:]
		}, "the archive has no such window; the log has 3 clicks"},
		{recount, "a difference", fail, func(e *evidence) {
			e.op(91).Reply.Body = []byte(`{"unexplained":2}`)
		}, "a reconciliation has 2 differences that nothing explains"},
		{recount, "more than there is", fail, func(e *evidence) {
			e.op(91).Reply.Body = []byte(`{"compared":9,"pending":3}`)
		}, "a reconciliation has compared 9 clicks, 3 are pending, and the log has 11"},
		{recount, "no answer", fail, func(e *evidence) { e.op(91).Reply.Body = nil },
			"a reconciliation cannot be read"},
		{recount, "none is answered", maybe, unknown(91), "no reconciliation compared a click"},
		{recount, "nothing is there", maybe, func(e *evidence) {
			e.op(91).Reply.Body = []byte(`{}`)
			e.Audit.Log, e.Audit.Windows, e.Audit.Recount = nil, nil, nil
		}, "no reconciliation compared a click"},

		{closed, "all is well", pass, nothing,
			"1 windows were seen closed and were corrected after that"},
		{closed, "no gauge", pass, func(e *evidence) { e.Samples = nil }, "no gauge looked"},
		{closed, "seen too late", maybe, func(e *evidence) { e.Samples = e.Samples[1:] },
			"no window was seen closed and was corrected after that"},
		{closed, "a correction that is not logged", fail, func(e *evidence) {
			e.decision("click-7").Verdict = "counted"
		}, "it has 3 clicks, 2 of them on time, and 0 corrections are logged"},
		{closed, "a correction that is hidden", fail, func(e *evidence) { e.Audit.Windows[0].OnTime++ },
			"it has 3 clicks, 3 of them on time, and 1 corrections are logged"},
		{closed, "it had more", fail, seen(func(l *adclicks.Look) { l.Closed[0].Clicks-- }),
			"was closed with 3 clicks, 2 of them on time, and has 2, 2 of them on time"},
		{closed, "it has less at the end", fail, seen(func(l *adclicks.Look) { l.Closed[0].Clicks += 2 }),
			"was closed with 5 clicks, 2 of them on time, which it has not at the end"},
		{closed, "nothing is corrected", maybe, func(e *evidence) {
			e.P.Horizon, e.Audit.Windows[0].Clicks = 0, 2
			e.decision("click-7").Verdict, e.Samples = "late", nil
		}, "no window was corrected"},
	}
}

func otherCases() []verdictCase {
	const budget, same = adclicks.BudgetKept, adclicks.ReplaySame
	const shown, fresh = adclicks.DashboardTrue, adclicks.DashboardFresh
	const lag = adclicks.ConsumerLag
	still := seen(func(l *adclicks.Look) { l.Consumed, l.Lag = []int64{1, 1}, 9 })
	killed := []history.Window{{Kind: history.FaultWindow, Fault: "kill postgres",
		Start: 2 * time.Second, End: 2100 * ms, Recovered: 2100 * ms}}
	of := func(change func(*adclicks.BudgetRow)) func(*evidence) {
		return func(e *evidence) { change(&e.Audit.Budgets[0]) }
	}
	return []verdictCase{
		{budget, "more is given out", fail, of(func(b *adclicks.BudgetRow) { b.Allotted = 601 }),
			"campaign-1: 350 cents were spent and 601 given out, of a budget of 500"},
		{budget, "a whole slice more", pass, of(func(b *adclicks.BudgetRow) { b.Allotted = 600 }), ""},
		{budget, "more is spent", fail, of(func(b *adclicks.BudgetRow) { b.Allotted = 300 }),
			"campaign-1: 350 cents were spent and 300 given out, of a budget of 500"},
		{budget, "half a slice", pass, of(func(b *adclicks.BudgetRow) { b.Allotted = 451 }), ""},
		{budget, "the price was left", fail, of(func(b *adclicks.BudgetRow) { b.Allotted = 450 }),
			"campaign-1: a click of 50 cents was refused, though of 500 only 450 were given out"},
		{budget, "spent after a refusal", fail, func(e *evidence) {
			suttest.Deny(e.op(24), adclicks.ErrOverBudget)
		}, "campaign-1: a click of 50 cents was refused, though of 500 only 350 were given out"},
		{budget, "spent in each of two", pass, func(e *evidence) {
			suttest.Deny(e.op(24), adclicks.ErrOverBudget)
			e.Audit.Budgets[0].Holders = 2
		}, ""},
		{budget, "clicks were under way", pass, func(e *evidence) {
			suttest.Deny(e.op(24), adclicks.ErrOverBudget)
			e.op(24).End = time.Second
		}, ""},
		{budget, "another budget", fail, of(func(b *adclicks.BudgetRow) { b.Budget = 5000 }),
			"campaign-1 has a budget of 5000 cents, once more or other than 500"},
		{budget, "given to nobody", fail, func(e *evidence) {
			e.Audit.Budgets[1].Allotted, e.Audit.Budgets[1].Holders = 400, 0
		}, "campaign-2: 400 cents were given out to 0, for clicks of 50"},
		{budget, "no budget", fail, func(e *evidence) { e.Audit.Budgets = e.Audit.Budgets[:1] },
			"campaign-2 has spent 50 cents and has no budget"},
		{budget, "given back after a refusal", pass, of(func(b *adclicks.BudgetRow) {
			b.Allotted, b.Returned = 400, 51
		}), ""},
		{budget, "little is given back", fail, of(func(b *adclicks.BudgetRow) {
			b.Allotted, b.Returned = 400, 50
		}), "a click of 50 cents was refused, though of 500 only 450 were given out"},
		{budget, "no campaign", fail, func(e *evidence) {
			suttest.Deny(e.op(80), adclicks.ErrUnknownCampaign)
		}, "1 clicks of campaign-1 were refused as if it were not there"},
		{budget, "a campaign that nobody has named", pass, func(e *evidence) {
			e.P.Campaigns = 1
			suttest.Deny(e.op(88), adclicks.ErrUnknownCampaign)
		}, ""},
		{budget, "refused from the first click on", maybe, of(func(b *adclicks.BudgetRow) {
			b.Allotted, b.Holders = 500, 3
		}), "what the holders of slices may have left excuses every refusal"},
		{budget, "nothing is used up", maybe, func(e *evidence) {
			e.P.Budget = 1000
			e.Records = slices.DeleteFunc(e.Records, func(r history.Record) bool { return r.Op.ID == 80 })
			e.Audit.Budgets[0].Budget, e.Audit.Budgets[1].Budget = 1000, 1000
		}, "no budget was used up"},

		{same, "a lost answer", pass, unknown(92), ""},
		{same, "other bytes", fail, func(e *evidence) {
			e.Audit.Replays[1].Again = e.Audit.Replays[0].Again
		}, "partition 1 up to offset 10: the digest of real time is"},
		{same, "no digest", fail, func(e *evidence) {
			e.Audit.Replays[1].Live, e.Audit.Replays[1].Again = "", ""
		}, `partition 1: "" is no SHA-256`},
		{same, "another digest of the same clicks", fail, func(e *evidence) {
			other := e.Audit.Replays[0].Live
			e.Audit.Replays[3].Live, e.Audit.Replays[3].Again = other, other
		}, "partition 1: the digest is"},
		{same, "the same digest of fewer clicks", fail, func(e *evidence) { e.Audit.Replays[3].Next-- },
			" up to 9"},
		{same, "a partition that was not there yet", pass, func(e *evidence) {
			e.op(92).Start, e.Audit.Replays = e.op(88).End, e.Audit.Replays[1:]
		}, ""},
		{same, "nobody asked", fail, forget(adclicks.KindReplay),
			"nobody has asked for a replay of partition 0"},
		{same, "more than there is", fail, func(e *evidence) { e.Audit.Replays[1].Next = 11 },
			"a replay read 11 clicks of partition 1, which has 10"},
		{same, "not made", fail, func(e *evidence) { e.Audit.Replays = e.Audit.Replays[:1] },
			"a replay of partition 1 was asked for, and was not made"},
		{same, "nothing to replay", maybe, func(e *evidence) {
			for i := range e.Audit.Replays {
				e.Audit.Replays[i].Next = 0
			}
		}, "no click was replayed"},

		{shown, "too many", fail, figures(`{"clicks":9,"cents":350,"through_ms":1}`),
			"the dashboard of campaign-1 showed 9 clicks for 350 cents when at most 7 for 350"},
		{shown, "too dear", fail, figures(`{"clicks":7,"cents":351,"through_ms":1}`),
			"the dashboard of campaign-1 showed 7 clicks for 351 cents when at most 7 for 350"},
		{shown, "no answer", fail, figures(""), "a dashboard cannot be read"},
		{shown, "no window is closed", maybe, figures(`{"clicks":7,"cents":350}`),
			"no dashboard showed until when windows are closed"},
		{shown, "before they happened", fail, func(e *evidence) { e.op(90).Start, e.op(90).End = 0, ms },
			"the dashboard of campaign-1 showed 7 clicks for 350 cents when at most 1 for 50 had been sent"},
		{shown, "less than closed windows have", fail, figures(closed("5,\"cents\":300", 6)),
			"showed 5 clicks for 300 cents; closed windows, until 1700000003000, have 6 for 300"},
		{shown, "cheaper than closed windows", fail, figures(closed("6,\"cents\":299", 6)),
			"showed 6 clicks for 299 cents"},
		{shown, "what closed windows have", pass, figures(closed("6,\"cents\":300", 6)), ""},
		{shown, "without a correction, and the window takes no more", fail,
			figures(closed("5,\"cents\":250", 5)), "with corrections of those that take no more"},
		{shown, "without a correction, and the window may take more", pass, figures(
			`{"clicks":4,"cents":200,"users":4,"through_ms":1700000002999}`), ""},
		{shown, "users that nobody has seen", fail, figures(closed("7,\"cents\":350", 11)),
			"showed 11 users; there were 7 at most, and 6 in closed windows"},
		{shown, "fewer users than in closed windows", fail, figures(closed("7,\"cents\":350", 1)),
			"showed 1 users"},
		{shown, "closed before it may be", fail, figures(
			`{"clicks":7,"cents":350,"users":7,"through_ms":1700000003701}`),
			"showed that windows until 1700000003701 are closed when the latest click was of 1700000004200"},
		{shown, "no campaign", fail, func(e *evidence) {
			suttest.Deny(e.op(90), adclicks.ErrUnknownCampaign)
		}, "dashboard of campaign-1 at 2.28s was refused as if there were no such thing"},
		{shown, "nobody looks", maybe, forget(adclicks.KindDashboard), "no dashboard showed"},

		{lag, "a consumer stands still", fail, still,
			"a click has waited for 2.27s in the log, and so have others: consumers are 9 clicks behind"},
		{lag, "a consumer stands still in a fault", maybe, func(e *evidence) {
			still(e)
			e.Windows = killed
		}, "no click was acknowledged 1s before a sample, outside faults"},
		{lag, "no gauge", maybe, func(e *evidence) { e.Samples = nil }, "no click was acknowledged"},

		{fresh, "old figures", fail, figures(`{"clicks":3,"cents":350}`),
			"campaign-1 showed 3 clicks for 350 cents; 7 for 350 had been acknowledged 1.045s before"},
		{fresh, "old prices", fail, figures(`{"clicks":7,"cents":349}`),
			"campaign-1 showed 7 clicks for 349 cents; 7 for 350 had been acknowledged"},
		{fresh, "old figures in a fault", maybe, func(e *evidence) {
			figures(`{"clicks":3,"cents":350}`)(e)
			e.Windows = killed
		}, "nobody looked at a dashboard long enough after a click"},
	}
}
