package adclicks

import "stampede/harness/check"

// The oracle decides the log of an audit by the definitions alone: it keeps everything, and shares
// no code with the designs.

// place is where a click is in the log.
type place struct {
	part   int32
	offset int64
}

// truth is what must have become of a log.
type truth struct {
	p         Params
	log       map[place]*LogRow
	decisions map[place]DecisionRow
	copies    map[string][]*LogRow // by click
	counts    map[string]place     // the one of a click that counts
	windows   map[check.Group]*found
	ofAd      map[string][]uint64 // some clicks of each ad
	spent     map[string]int64    // by campaign
	happened  map[string]int64    // how often each verdict is right
}

// found is a window as it must be.
type found struct {
	clicks, cents, onTime int64
	users                 map[string]bool
	ops                   []uint64 // that proves what is wrong with it: the latest of its clicks
}

// proof are operations of a window, or of its ad if there should be no such window.
func (t *truth) proof(key check.Group) []uint64 {
	if w := t.windows[key]; w != nil {
		return w.ops
	}
	return t.ofAd[key.Name]
}

// truthOf decides a log.
func (p Params) truthOf(a *Audit) *truth {
	t := &truth{p: p, log: map[place]*LogRow{}, decisions: map[place]DecisionRow{},
		copies: map[string][]*LogRow{}, counts: map[string]place{}, ofAd: map[string][]uint64{},
		windows: map[check.Group]*found{}, spent: map[string]int64{}, happened: map[string]int64{}}
	latest, fromOne := map[int32]int64{}, map[check.Group]int{}
	known := map[string]bool{}
	for i := range a.Log {
		row := &a.Log[i]
		at := place{row.Part, row.Offset}
		if t.log[at] != nil {
			continue // an offset is one click's, whatever an audit lists
		}
		t.log[at] = row
		t.copies[row.Click] = append(t.copies[row.Click], row)
		window := p.Window.D().Milliseconds()
		is := DecisionRow{row.Part, row.Offset, row.Click, row.AtMS / window * window, counted}
		age := latest[row.Part] - p.Lateness.D().Milliseconds() - is.WindowMS - window
		key := windowGroup(row.Campaign, row.Ad, is.WindowMS)
		farm := key
		farm.Owner = row.IP
		switch {
		case age >= p.Horizon.D().Milliseconds():
			is.Verdict = late
		case known[row.Click]:
			is.Verdict = duplicate
		case fromOne[farm] >= p.FraudMost:
			is.Verdict = fraud
		case age >= 0:
			is.Verdict = corrected
		}
		known[row.Click] = known[row.Click] || is.Verdict != late
		latest[row.Part] = max(latest[row.Part], row.AtMS)
		t.decisions[at] = is
		t.happened[is.Verdict]++
		if is.Verdict == counted || is.Verdict == corrected {
			fromOne[farm]++
			t.count(row, key, is.Verdict)
		}
	}
	return t
}

func windowGroup(campaign, ad string, ms int64) check.Group {
	return check.Group{Key: campaign, Name: ad, Thing: ms}
}

// count adds a click that counts.
func (t *truth) count(row *LogRow, key check.Group, verdict string) {
	w := t.windows[key]
	if w == nil {
		w = &found{users: map[string]bool{}}
		t.windows[key] = w
	}
	w.clicks++
	w.cents += row.Cents
	w.users[row.User] = true
	w.ops = append(w.ops[max(0, len(w.ops)-check.MaxProof+2):], row.ID)
	t.ofAd[row.Ad] = w.ops
	if verdict == counted {
		w.onTime++
	}
	t.counts[row.Click] = place{row.Part, row.Offset}
	t.spent[row.Campaign] += row.Cents
}
