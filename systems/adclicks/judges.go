package adclicks

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"stampede/harness/api"
	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/sut"
)

// The names of the invariants.
const (
	AcksInLog      = "acks-in-log"
	ClicksOnce     = "clicks-once"
	AllAccounted   = "all-accounted-for"
	RecountAgrees  = "recount-agrees"
	BudgetKept     = "budget-kept"
	ClosedStays    = "closed-stays"
	ReplaySame     = "replay-same"
	DashboardTrue  = "dashboard-true"
	ConsumerLag    = "consumer-lag"
	DashboardFresh = "dashboard-fresh"
)

// invariants are what must be true of every design.
func invariants(p Params) []check.Invariant {
	s := check.Subject{Read: check.Audited(api.DecodeAudit[Audit], func(*Audit) check.Facts {
		return check.Facts{}
	})}
	on := func(judge func(*check.Run, *Audit, *truth) func()) check.Clause {
		return check.OnAudit(func(r *check.Run, a *Audit) func() { return judge(r, a, p.truthOf(a)) })
	}
	return []check.Invariant{
		s.State(AcksInLog, "every acknowledged click is in the log where its answer says, and no other "+
			"click is", on(acksInLog)),
		s.State(ClicksOnce, "a click that should count counts once, however often it was sent",
			on(clicksOnce)),
		s.State(AllAccounted, "every click in the log is counted, corrected, late, a duplicate or "+
			"fraud, as the watermark of its partition says", on(allAccounted)),
		s.State(RecountAgrees, "windows have what a recount of the log finds in them, and so has a "+
			"recount of the archive; every reconciliation explains all differences", on(recountAgrees)),
		s.State(BudgetKept, "a campaign spends at most a slice more than its budget, and nobody is "+
			"refused while there is some left, or as if there were no such campaign", on(budgetKept)),
		s.State(ClosedStays, "a closed window changes by logged corrections only", on(closedStays)),
		s.State(ReplaySame, "a replay of the log from offset 0 comes to the same bytes",
			on(replaySame)),
		s.State(DashboardTrue, "every campaign has a dashboard, which shows no click that has not "+
			"happened, and all of the windows that it says are closed", on(dashboardTrue),
			check.Known(check.Named(KindDashboard), "campaign-", p.Campaigns, unknownCampaign)),
		s.State(ConsumerLag, "no acknowledged click waits in the log for its consumer for longer than "+
			"is promised", on(consumerLag)),
		s.State(DashboardFresh, "a dashboard shows what was acknowledged some time ago",
			on(dashboardFresh)),
	}
}

// eachClick shows every record of a click that was sent.
func eachClick(r *check.Run, visit func(ClickRequest, *history.Record)) {
	table := API()
	r.See(func(rec *history.Record) {
		req, err := api.RequestOf[ClickRequest](table, rec.Op)
		if err == nil && rec.Start != history.Never {
			visit(req, rec)
		}
	}, KindClick)
}

func unknownCampaign(rec *history.Record) bool { return sut.RefusedFor(rec, ErrUnknownCampaign) }

// acksInLog is the clause about the log and the answers.
func acksInLog(r *check.Run, a *Audit, t *truth) func() {
	asked, acked := map[uint64]ClickRequest{}, 0
	positions, sent, silent := map[string]string{}, map[string][]time.Duration{}, []*history.Record{}
	for at, row := range t.log {
		positions[fmt.Sprintf("%d/%d", at.part, at.offset)] = row.Click
	}
	eachClick(r, func(req ClickRequest, rec *history.Record) {
		if rec.Outcome == history.Refused {
			return
		}
		asked[req.ID] = req
		sent[req.Click] = append(sent[req.Click], rec.Start)
		if rec.Outcome != history.OK {
			r.AllowedUnknown(1)
			return
		}
		acked++
		switch is, there := positions[rec.Reply.Key]; {
		case len(t.copies[req.Click]) == 0:
			r.Violate([]uint64{req.ID}, "%s was acknowledged at %v and is not in the log", req.Click,
				check.TimeText(rec.End))
		case rec.Reply.Key != "" && (!there || is != req.Click):
			r.Violate([]uint64{req.ID}, "%s was acknowledged at %s, where the log has %q", req.Click,
				rec.Reply.Key, is)
		case rec.Reply.Key == "":
			is := *rec
			silent = append(silent, &is)
		}
	})
	return func() {
		for _, rec := range silent {
			starts := slices.Sorted(slices.Values(sent[rec.Op.Key]))
			if len(starts) < 2 || starts[1] >= rec.End {
				r.Violate([]uint64{rec.Op.ID}, "%s was acknowledged without a position, and nobody had sent "+
					"it before", rec.Op.Key)
			}
		}
		r.Checked(acked + len(a.Log))
		r.Need(acked > 0, "no click was acknowledged")
		last, home := map[int32]*LogRow{}, map[string]int32{}
		for i := range a.Log {
			row := &a.Log[i]
			if before := last[row.Part]; before != nil && before.Offset >= row.Offset {
				r.Violate([]uint64{row.ID}, "the log of partition %d has offset %d after %d", row.Part,
					row.Offset, before.Offset)
			}
			if part, is := home[row.Campaign]; is && part != row.Part {
				r.Violate([]uint64{row.ID}, "%s is in partition %d, and %s was in %d", row.Click, row.Part,
					row.Campaign, part)
			}
			last[row.Part], home[row.Campaign] = row, row.Part
			if req, may := asked[row.ID]; !may {
				r.Violate([]uint64{row.ID}, "%s is in the log at %d/%d, and nobody has sent it", row.Click,
					row.Part, row.Offset)
			} else if req != (ClickRequest{row.ID, row.Click, row.Campaign, row.Ad, row.User, row.IP,
				row.AtMS, row.Cents}) {
				r.Violate([]uint64{row.ID}, "%s is in the log at %d/%d as it was not sent", row.Click, row.Part,
					row.Offset)
			}
		}
		if len(t.log) < len(a.Log) {
			r.Violate(nil, "the log has %d clicks at %d offsets", len(a.Log), len(t.log))
		}
	}
}

// clicksOnce is the clause about each click, wherever in the log it counts.
func clicksOnce(r *check.Run, a *Audit, t *truth) func() {
	times, next := map[string]int{}, map[int32]int64{} // the offset after the last decided one
	for _, d := range a.Decisions {
		next[d.Part] = max(next[d.Part], d.Offset+1)
		if d.Verdict == counted || d.Verdict == corrected {
			times[d.Click]++
		}
		if t.log[place{d.Part, d.Offset}] == nil {
			r.Violate(nil, "%s was decided at %d/%d, where the log has nothing", d.Click, d.Part, d.Offset)
		}
	}
	for click, copies := range t.copies {
		r.Checked(1)
		at, must := t.counts[click]
		switch n := times[click]; {
		case n > 1 || n == 1 && !must:
			r.Violate(ids(copies), "%s counts %d times", click, n)
		case must && n == 0 && at.offset >= next[at.part]:
			r.Unfinished(ids(copies), "%s at %d/%d is not decided", click, at.part, at.offset)
		case must && n == 0:
			r.Violate(ids(copies), "%s at %d/%d should count, and does not", click, at.part, at.offset)
		}
	}
	flights := map[string][]check.Span{}
	eachClick(r, func(req ClickRequest, rec *history.Record) {
		flights[req.Click] = append(flights[req.Click],
			check.Span{Who: fmt.Sprint(rec.Seq), From: rec.Start, To: rec.End})
	})
	return func() {
		raced := int64(0)
		for _, list := range flights {
			raced += check.Together(list).Raced
		}
		r.Need(raced > 0, "no click was in flight twice at once")
		r.Note("%d requests of clicks that were in flight twice at once", raced)
	}
}

// ids are the requests that wrote clicks.
func ids(rows []*LogRow) (list []uint64) {
	for _, row := range rows {
		list = append(list, row.ID)
	}
	return list
}

// allAccounted is the clause about what was decided of each click.
func allAccounted(r *check.Run, a *Audit, t *truth) func() {
	have, logged, next := map[DecisionRow]int64{}, map[int32]int64{}, map[int32]int64{}
	seen := map[place]bool{}
	for _, d := range a.Decisions {
		r.Checked(1)
		at := place{d.Part, d.Offset}
		if seen[at] {
			r.Violate(ids(t.copies[d.Click]), "%s at %d/%d is decided twice", d.Click, d.Part, d.Offset)
			continue
		}
		seen[at] = true
		have[DecisionRow{Part: d.Part, Verdict: d.Verdict}]++
		next[d.Part] = max(next[d.Part], d.Offset+1)
		if want, row := t.decisions[at], t.log[at]; row != nil && d != want {
			r.Violate([]uint64{row.ID}, "%s at %d/%d is %s in the window %d, and was %s in the window %d",
				row.Click, d.Part, d.Offset, want.Verdict, want.WindowMS, d.Verdict, d.WindowMS)
		}
	}
	done := true
	for at := range t.log {
		logged[at.part]++
		done = done && at.offset < next[at.part]
	}
	if !done {
		r.AtRest() // what is missing may still be under way
	}
	for part, n := range logged {
		var terms []check.Term
		for _, v := range []string{counted, corrected, late, duplicate, fraud} {
			terms = append(terms, check.Term{Name: v, Count: have[DecisionRow{Part: part, Verdict: v}]})
		}
		check.Conserve(r.Collector, fmt.Sprintf("partition %d of the log", part), n, nil, terms...)
	}
	r.Need(t.happened[late] > 0, "no click was late")
	r.Need(t.happened[corrected] > 0, "no window was corrected")
	r.Need(t.happened[fraud] > 0, "nothing was fraud")
	r.Note("%d counted, %d corrected, %d late, %d duplicates, %d fraud", t.happened[counted],
		t.happened[corrected], t.happened[late], t.happened[duplicate], t.happened[fraud])
	return nil
}

// usersWrong is by how much an estimate may be wrong: six standard errors, and a few.
func usersWrong(n int) float64 { return 3 + 0.14*float64(n) }

// recountAgrees is the clause about windows, in real time and in the recount.
func recountAgrees(r *check.Run, a *Audit, t *truth) func() {
	compared := int64(0)
	r.See(func(rec *history.Record) {
		if rec.Outcome != history.OK {
			return
		}
		var is Reconciliation
		ops := []uint64{rec.Op.ID}
		switch err := json.Unmarshal(rec.Reply.Body, &is); {
		case err != nil:
			r.ViolateAt(rec.End, ops, "a reconciliation cannot be read: %v", err)
		case is.Unexplained != 0:
			r.ViolateAt(rec.End, ops, "a reconciliation has %d differences that nothing explains: %s",
				is.Unexplained, append(is.Examples, "none that it names")[0])
		case min(is.Compared, is.Pending) < 0 || is.Compared+is.Pending > int64(len(t.log)):
			r.ViolateAt(rec.End, ops, "a reconciliation has compared %d clicks, %d are pending, and the "+
				"log has %d", is.Compared, is.Pending, len(t.log))
		}
		compared = max(compared, is.Compared)
	}, KindReconcile)
	return func() {
		r.Need(compared > 0, "no reconciliation compared a click")
		r.AtRest()
		t.compare(r, "real time", a.Windows, usersWrong)
		t.compare(r, "the archive", a.Recount, func(int) float64 { return 0 })
	}
}

// compare holds windows against those of the log.
func (t *truth) compare(r *check.Run, who string, rows []WindowRow, wrong func(int) float64) {
	seen := map[check.Group]bool{}
	for _, w := range rows {
		r.Checked(1)
		key := windowGroup(w.Campaign, w.Ad, w.WindowMS)
		want := t.windows[key]
		switch {
		case want == nil && w.Clicks == 0 && w.Cents == 0 && w.OnTime == 0: // as if it were not there
		case want == nil || seen[key]:
			r.Violate(t.proof(key), "%v: %s has %d clicks in a window that should not be there", key, who,
				w.Clicks)
		case w.Clicks != want.clicks || w.Cents != want.cents || w.OnTime != want.onTime:
			r.Violate(want.ops, "%v: %s has %d clicks, %d of them on time, for %d cents; the log has %d, "+
				"%d and %d", key, who, w.Clicks, w.OnTime, w.Cents, want.clicks, want.onTime, want.cents)
		case math.Abs(float64(w.Users)-float64(len(want.users))) > wrong(len(want.users)):
			r.Violate(want.ops, "%v: %s has %d users; the log has %d", key, who, w.Users,
				len(want.users))
		}
		seen[key] = true
	}
	for key, want := range t.windows {
		if !seen[key] {
			r.Violate(want.ops, "%v: %s has no such window; the log has %d clicks", key, who,
				want.clicks)
		}
	}
}

// purchases are the clicks of a campaign that may have been paid for, and the refused ones.
type purchases struct {
	may     []moment // every click but those that were refused because nothing was left
	last    uint64   // the latest of these
	refused []refusal
	unknown []uint64 // clicks that were refused because there was no such campaign
}

// refusal is a click that was refused because nothing was left.
type refusal struct {
	op    uint64
	cents int64
	end   time.Duration
}

// left looks for a refused click whose price was left: if not in the end, then when it was
// refused, for which slack is what those may hold who accept clicks.
func (b *purchases) left(row BudgetRow, slack int64) (of refusal, given int64, is bool) {
	for _, of := range b.refused {
		_, most := upTo(b.may, of.end)
		given := min(row.Allotted+row.Returned, most+slack)
		if given+of.cents <= row.Budget {
			return of, given, true
		}
	}
	return refusal{}, 0, false
}

// purchasesOf are those of each campaign. Every attempt may have been paid for, also one that
// could not be written into the log: its price is given back, and may be held until then.
func purchasesOf(r *check.Run) map[string]*purchases {
	list := map[string]*purchases{}
	eachClick(r, func(req ClickRequest, rec *history.Record) {
		if list[req.Campaign] == nil {
			list[req.Campaign] = &purchases{}
		}
		switch b := list[req.Campaign]; {
		case sut.RefusedFor(rec, ErrOverBudget):
			b.refused = append(b.refused, refusal{req.ID, req.Cents, rec.End})
		case unknownCampaign(rec):
			b.unknown = append(b.unknown, req.ID)
		default:
			b.may, b.last = append(b.may, moment{at: rec.Start, cents: req.Cents}), req.ID
		}
	})
	return list
}

// budgetKept is the clause about budgets. Who is refused had less left than the price: all else,
// but for what those hold who accept clicks, was spent on clicks that may have been accepted.
func budgetKept(r *check.Run, a *Audit, t *truth) func() {
	bought := purchasesOf(r)
	return func() {
		slice, known, usedUp, lenient := int64(t.p.Slice), map[string]bool{}, false, false
		for _, b := range a.Budgets {
			r.Checked(1)
			of := bought[b.Campaign]
			if of == nil {
				of = &purchases{}
			}
			addUp(of.may)
			slack, spent := 2*slice*b.Holders, t.spent[b.Campaign]
			_, may := upTo(of.may, math.MaxInt64-1)
			refused, given, left := of.left(b, slack)
			switch {
			case known[b.Campaign] || b.Budget != int64(t.p.Budget):
				r.Violate(nil, "%s has a budget of %d cents, once more or other than %d", b.Campaign, b.Budget,
					t.p.Budget)
			case b.Allotted > b.Budget+slice || spent > b.Allotted:
				r.Violate([]uint64{of.last}, "%s: %d cents were spent and %d given out, of a budget of %d",
					b.Campaign, spent, b.Allotted, b.Budget)
			case b.Allotted > may+slack:
				r.Violate(nil, "%s: %d cents were given out to %d, for clicks of %d", b.Campaign,
					b.Allotted, b.Holders, may)
			case left:
				r.ViolateAt(refused.end, []uint64{refused.op}, "%s: a click of %d cents was refused, though "+
					"of %d only %d were given out", b.Campaign, refused.cents, b.Budget, given)
			}
			known[b.Campaign] = true
			lenient = lenient || len(of.refused) > 0 && slack+int64(t.p.Price) > b.Budget
			usedUp = usedUp || b.Allotted >= b.Budget || len(of.refused) > 0
		}
		for campaign := range t.spent {
			if !known[campaign] {
				r.Violate(nil, "%s has spent %d cents and has no budget", campaign, t.spent[campaign])
			}
		}
		for campaign, of := range bought {
			if len(of.unknown) > 0 && t.p.has(campaign) {
				r.Violate(of.unknown[:1], "%d clicks of %s were refused as if it were not there",
					len(of.unknown), campaign)
			}
			if !known[campaign] && len(of.refused) > 0 {
				r.Violate([]uint64{of.refused[0].op}, "%s has no budget at the end", campaign)
			}
		}
		r.Need(usedUp, "no budget was used up")
		r.Need(!lenient, "what the holders of slices may have left excuses every refusal")
	}
}

// closedStays is the clause about windows behind the watermark.
func closedStays(r *check.Run, a *Audit, t *truth) func() {
	r.AtRest()
	corrections := map[check.Group]int64{}
	for _, d := range a.Decisions {
		if row := t.log[place{d.Part, d.Offset}]; row != nil && d.Verdict == corrected {
			corrections[windowGroup(row.Campaign, row.Ad, d.WindowMS)]++
		}
	}
	ends := map[check.Group]*WindowRow{}
	for i := range a.Windows {
		w := &a.Windows[i]
		r.Checked(1)
		key := windowGroup(w.Campaign, w.Ad, w.WindowMS)
		ends[key] = w
		if w.Clicks-w.OnTime != corrections[key] {
			r.Violate(t.proof(key), "%v: it has %d clicks, %d of them on time, and %d corrections are "+
				"logged", key, w.Clicks, w.OnTime, corrections[key])
		}
	}
	r.Need(t.happened[corrected] > 0, "no window was corrected")
	return func() {
		if len(r.Samples()) == 0 {
			r.Note("no gauge looked at closed windows, only the end was judged")
			return
		}
		grew := closedSeen(r, ends, t)
		r.Need(grew > 0, "no window was seen closed and was corrected after that")
		r.Note("%d windows were seen closed and were corrected after that", grew)
	}
}

// closedSeen compares what a gauge saw of closed windows with what came after, and returns how many
// of them grew.
func closedSeen(r *check.Run, ends map[check.Group]*WindowRow, t *truth) int {
	seen, grew := map[check.Group]ClosedRow{}, map[check.Group]bool{}
	for _, s := range r.Samples() {
		var l Look
		if s.Body == nil || json.Unmarshal(s.Body, &l) != nil {
			continue
		}
		for _, c := range l.Closed {
			r.Checked(1)
			key := windowGroup(c.Campaign, c.Ad, c.WindowMS)
			was, again := seen[key]
			end, ops := ends[key], t.proof(key)
			switch {
			case again && (c.OnTime != was.OnTime || c.Clicks < was.Clicks):
				r.ViolateAt(s.To, ops, "%v was closed with %d clicks, %d of them on time, and has %d, %d of "+
					"them on time", key, was.Clicks, was.OnTime, c.Clicks, c.OnTime)
			case end == nil || end.OnTime != c.OnTime || end.Clicks < c.Clicks:
				r.ViolateAt(s.To, ops, "%v was closed with %d clicks, %d of them on time, which it has not at "+
					"the end", key, c.Clicks, c.OnTime)
			case end.Clicks > c.Clicks:
				grew[key] = true
			}
			seen[key] = c
		}
	}
	return len(grew)
}

// placed is where the log has the click of a record, by the answer.
func (t *truth) placed(rec *history.Record) (at place, is bool) {
	_, err := fmt.Sscanf(rec.Reply.Key, "%d/%d", &at.part, &at.offset)
	return at, err == nil && rec.Outcome == history.OK && t.log[at] != nil
}

// replaySame is the clause about replays. A replay is of every partition in which a click was
// acknowledged before the replay was sent.
func replaySame(r *check.Run, a *Audit, t *truth) func() {
	asked, first := check.Operations{}, map[int32]time.Duration{}
	r.See(asked.Add, KindReplay)
	r.See(func(rec *history.Record) {
		if at, is := t.placed(rec); is {
			first[at.part] = min(rec.End, cmp.Or(first[at.part], rec.End))
		}
	}, KindClick)
	ends := map[int32]int64{}
	for at := range t.log {
		ends[at.part] = max(ends[at.part], at.offset+1)
	}
	return func() {
		parts, there := map[place]bool{}, map[uint64]int64{} // of which a replay is
		known := map[check.Group]ReplayRow{}                 // by offset, and by digest
		for _, row := range a.Replays {
			r.Checked(1)
			there[row.ID] += row.Next
			at := place{row.Part, int64(row.ID)}
			sum, err := hex.DecodeString(row.Live)
			switch o, is := asked[row.ID]; {
			case !is || !o.May() || parts[at]:
				r.Violate([]uint64{row.ID}, "nobody has asked for a replay of partition %d", row.Part)
			case row.Next > ends[row.Part] || row.Next < 0:
				r.Violate([]uint64{row.ID}, "a replay read %d clicks of partition %d, which has %d", row.Next,
					row.Part, ends[row.Part])
			case row.Live != row.Again:
				r.Violate([]uint64{row.ID}, "partition %d up to offset %d: the digest of real time is %.12s, "+
					"that of the replay %.12s", row.Part, row.Next, row.Live, row.Again)
			case err != nil || len(sum) != sha256.Size:
				r.Violate([]uint64{row.ID}, "partition %d: %.12q is no SHA-256", row.Part, row.Live)
			}
			parts[at] = true
			for _, g := range []check.Group{{Thing: int64(row.Part), Version: row.Next},
				{Thing: int64(row.Part), Name: row.Live}} {
				if was, is := known[g]; is && (was.Next != row.Next || was.Live != row.Live) {
					r.Violate([]uint64{was.ID, row.ID}, "partition %d: the digest is %.12s up to offset %d, and "+
						"%.12s up to %d", row.Part, was.Live, was.Next, row.Live, row.Next)
				}
				known[g] = row
			}
		}
		r.AtRest()
		replayed := false
		for op, o := range asked {
			for part, since := range first {
				if o.Outcome == history.OK && since < o.Start && !parts[place{part, int64(op)}] {
					r.Violate([]uint64{op}, "a replay of partition %d was asked for, and was not made", part)
				}
			}
			replayed = replayed || there[op] > 0
		}
		r.Need(replayed, "no click was replayed")
	}
}

// moment is when something happened to a click. In order, through is the price of all until then.
type moment struct {
	at             time.Duration
	cents, through int64
}

func (m moment) compare(other moment) int { return cmp.Compare(m.at, other.at) }

// addUp sorts moments and adds them up.
func addUp(list []moment) {
	slices.SortFunc(list, moment.compare)
	sum := int64(0)
	for i := range list {
		sum += list[i].cents
		list[i].through = sum
	}
}

// moments are the moments of the clicks that count, by campaign and in order.
func (t *truth) moments(of map[string]time.Duration) map[string][]moment {
	list := map[string][]moment{}
	for click, at := range t.counts {
		if when, is := of[click]; is {
			row := t.log[at]
			list[row.Campaign] = append(list[row.Campaign], moment{at: when, cents: row.Cents})
		}
	}
	for _, l := range list {
		addUp(l)
	}
	return list
}

// upTo is how many moments there are until one, inclusive, and the price of all.
func upTo(moments []moment, at time.Duration) (n int, cents int64) {
	n, _ = slices.BinarySearchFunc(moments, at+1, func(m moment, at time.Duration) int {
		return cmp.Compare(m.at, at)
	})
	if n > 0 {
		cents = moments[n-1].through
	}
	return n, cents
}

// consumerLag is the clause about clicks that wait for their consumer. A gauge saw up to which
// offset each partition was consumed: an acknowledged click from there on has waited since its
// answer, at least. After a fault a consumer waits for its partitions, and what has piled up may
// take the promised time once more.
func consumerLag(r *check.Run, _ *Audit, t *truth) func() {
	type ack struct {
		place
		id uint64
		at time.Duration
	}
	var acks []ack
	r.See(func(rec *history.Record) {
		if at, is := t.placed(rec); is {
			acks = append(acks, ack{at, rec.Op.ID, rec.End})
		}
	}, KindClick)
	return func() {
		within := t.p.LagWithin.D()
		lag := check.Watched{Quantity: "consumer lag", Unit: "clicks"}
		longest, occasion := time.Duration(0), false
		for _, s := range r.Samples() {
			var l Look
			if !s.Seen() || json.Unmarshal(s.Body, &l) != nil {
				lag.Gaps++
				continue
			}
			excused := check.Disturbed(r.Faults(), t.p.SessionTimeout.D()+2*within, s.From, s.To)
			lag.Look(s.To, l.Lag, l.Lag, excused)
			oldest, waits := uint64(0), time.Duration(0)
			for _, a := range acks {
				occasion = occasion || !excused && s.From-a.at > within
				if int(a.part) < len(l.Consumed) && a.offset >= l.Consumed[a.part] && s.From-a.at > waits {
					oldest, waits = a.id, s.From-a.at
				}
			}
			if longest = max(longest, waits); waits > within && !excused {
				r.LateAt(s.To, []uint64{oldest}, "a click has waited for %v in the log, and so have others: "+
					"consumers are %d clicks behind", check.TimeText(waits), l.Lag)
			}
		}
		r.Checked(lag.Judged)
		if lag.Judged+lag.Excused > 0 {
			r.Watched(&lag)
			r.Figure("highest consumer lag", "clicks", float64(lag.Highest))
			r.Figure("longest wait for a consumer", "ms", float64(longest.Milliseconds()))
		}
		r.NeedTimely(occasion, "no click was acknowledged %v before a sample, outside faults", within)
	}
}

// dashboardFresh is the clause that figures are not older than promised, but for faults.
func dashboardFresh(r *check.Run, a *Audit, t *truth) func() {
	acked := map[string]time.Duration{}
	r.See(func(rec *history.Record) {
		if rec.Outcome != history.OK {
			return
		}
		if at, known := acked[rec.Op.Key]; !known || rec.End < at {
			acked[rec.Op.Key] = rec.End
		}
	}, KindClick)
	reads, slowest := readsOf(r), r.Slowest()
	return func() {
		known := t.moments(acked)
		within := t.p.FreshWithin.D() + *slowest
		judged := 0
		for _, read := range *reads {
			if check.Disturbed(r.Faults(), within, read.start-within, read.end) {
				continue
			}
			least, price := upTo(known[read.campaign], read.start-within)
			r.Checked(1)
			if least > 0 {
				judged++
			}
			if read.Clicks < int64(least) || read.Cents < price {
				r.LateAt(read.end, []uint64{read.op}, "the dashboard of %s showed %d clicks for %d cents; %d "+
					"for %d had been acknowledged %v before", read.campaign, read.Clicks, read.Cents, least, price,
					within)
			}
		}
		r.NeedTimely(judged > 0, "nobody looked at a dashboard long enough after a click")
	}
}
