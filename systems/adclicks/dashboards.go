package adclicks

import (
	"encoding/json"
	"slices"
	"time"

	"stampede/harness/check"
	"stampede/harness/history"
)

// read is a look at a dashboard.
type read struct {
	Figures
	op         uint64
	campaign   string
	start, end time.Duration
}

func readsOf(r *check.Run) *[]read {
	list := &[]read{}
	r.See(func(rec *history.Record) {
		if rec.Outcome != history.OK {
			return
		}
		is := read{op: rec.Op.ID, campaign: rec.Op.Key, start: rec.Start, end: rec.End}
		if err := json.Unmarshal(rec.Reply.Body, &is.Figures); err != nil {
			r.ViolateAt(rec.End, []uint64{is.op}, "a dashboard cannot be read: %v", err)
		}
		*list = append(*list, is)
	}, KindDashboard)
	return list
}

// dashboardTrue is the clause that figures are not ahead of what may be in the log, and not behind
// what they say of themselves.
func dashboardTrue(r *check.Run, a *Audit, t *truth) func() {
	sent, times := map[string]time.Duration{}, []moment{}
	eachClick(r, func(req ClickRequest, rec *history.Record) {
		at, known := sent[req.Click]
		if rec.Outcome != history.Refused && (!known || rec.Start < at) {
			sent[req.Click] = rec.Start
			times = append(times, moment{at: rec.Start, through: req.AtMS})
		}
	})
	reads := readsOf(r)
	return func() {
		slices.SortFunc(times, moment.compare)
		for i := 1; i < len(times); i++ {
			times[i].through = max(times[i].through, times[i-1].through)
		}
		ends, through := t.ends(), false
		begun, users := t.moments(sent), t.users(sent)
		closed, loyal := t.moments(ends), t.users(ends)
		for _, read := range *reads {
			r.Checked(1)
			of, until := read.campaign, time.Duration(read.ThroughMS)
			clicks, cents := upTo(begun[of], read.end)
			_, latest := upTo(times, read.end)
			least, price := upTo(closed[of], until)
			most, _ := upTo(users[of], read.end)
			few, _ := upTo(loyal[of], until)
			wrong := func(format string, args ...any) {
				r.ViolateAt(read.end, []uint64{read.op}, "the dashboard of "+of+" showed "+format, args...)
			}
			switch {
			case read.Clicks > int64(clicks) || read.Cents > cents:
				wrong("%d clicks for %d cents when at most %d for %d had been sent that count", read.Clicks,
					read.Cents, clicks, cents)
			case read.ThroughMS > max(0, latest-t.p.Lateness.D().Milliseconds()):
				wrong("that windows until %d are closed when the latest click was of %d", read.ThroughMS,
					latest)
			case read.Clicks < int64(least) || read.Cents < price:
				wrong("%d clicks for %d cents; closed windows, until %d, have %d for %d, with corrections of "+
					"those that take no more", read.Clicks, read.Cents, read.ThroughMS, least, price)
			case float64(read.Users) > float64(most)+usersWrong(most),
				float64(read.Users) < float64(few)-usersWrong(few):
				wrong("%d users; there were %d at most, and %d in closed windows", read.Users, most, few)
			}
			through = through || read.ThroughMS > 0
		}
		r.Need(through, "no dashboard showed until when windows are closed")
	}
}

// ends are when windows end for clicks, in milliseconds of event time: for a correction a horizon
// later, when the window takes no more. The click with which the watermark passes an end, and all
// before it, are decided when a dashboard shows the window as closed.
func (t *truth) ends() map[string]time.Duration {
	window, horizon := t.p.Window.D().Milliseconds(), t.p.Horizon.D().Milliseconds()
	after := map[string]int64{counted: window, corrected: window + horizon}
	list := map[string]time.Duration{}
	for click, at := range t.counts {
		d := t.decisions[at]
		list[click] = time.Duration(d.WindowMS + after[d.Verdict])
	}
	return list
}

// users are the moments of the users of the clicks that count, by campaign and in order: of each
// user the first one.
func (t *truth) users(of map[string]time.Duration) map[string][]moment {
	first, list := map[[2]string]time.Duration{}, map[string][]moment{}
	for click, at := range t.counts {
		who := [2]string{t.log[at].Campaign, t.log[at].User}
		when, is := of[click]
		if was, known := first[who]; is && (!known || when < was) {
			first[who] = when
		}
	}
	for who, at := range first {
		list[who[0]] = append(list[who[0]], moment{at: at})
	}
	for _, l := range list {
		addUp(l)
	}
	return list
}
