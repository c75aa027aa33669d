package autocomplete

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"stampede/harness/api"
	"stampede/harness/check"
	"stampede/harness/history"
)

// The invariants.
const (
	AckedLogged   = "acked-logged"
	AsTyped       = "as-typed"
	NeverBlocked  = "never-blocked"
	TopOfVersion  = "top-of-version"
	CountedInTime = "counted-in-time"
	Settled       = "settled"
)

// The tables of facts: the log, and what is blocked.
const (
	queryFact = "query"
	blockFact = "block"
)

// invariants are what must be true of every design. See
// docs/decisions/2026-11-28-an-index-is-a-position-of-the-log.md.
func invariants(p Params) []check.Invariant {
	s := check.Subject{Read: check.Audited(api.DecodeAudit[Audit], func(a *Audit) check.Facts {
		return facts(a, p)
	})}
	logged := check.Effects{Table: queryFact, Kind: check.Named(KindQuery)}
	blocked := check.Effects{Table: blockFact, Kind: check.Named(KindBlock)}
	return []check.Invariant{
		s.State(AckedLogged, "an acknowledged query is in the log once, as it was asked for, at the "+
			"position that it was given and after those that were acknowledged before it began; nothing "+
			"else is, and slots only rise, as time passes",
			check.AckedDurable(logged), check.NoPhantom(logged), check.AtMostOnce(queryFact, check.ByOp),
			check.AtMostOnce(queryFact, check.ByThing), knowing(asAsked), knowing(inOrder),
			knowing(slotsPass(p))),
		s.State(AsTyped, "each suggestion begins with what was typed, or differs from that by no more "+
			"characters than may be wrong; none comes twice, and no more come than were asked for",
			knowing(asTyped)),
		s.State(NeverBlocked, "a phrase whose block was acknowledged is in no suggestion that began "+
			"afterwards, and stays blocked",
			check.AckedDurable(blocked), check.NoPhantom(blocked), check.AtMostOnce(blockFact, check.ByOp),
			knowing(neverBlocked)),
		s.State(TopOfVersion, "suggestions are the user's own phrases and then the best ones of the log "+
			"up to their version, in their order and with their scores, and that had been asked for",
			knowing(topOfVersion)),
		s.State(CountedInTime, "suggestions are of a version that has every query that was acknowledged "+
			"before, at the latest when the promised time was over", knowing(inTime(p))),
		s.State(Settled, "when all is at rest, what is suggested for each first character is the best "+
			"of the whole log", knowing(settled)),
	}
}

// facts reads an audit as tables.
func facts(a *Audit, p Params) check.Facts {
	a.seen = &seen{api: API(), oracle: newOracle(p, a.Log), queries: map[uint64]asked{},
		blocks: map[string][]asked{}}
	var tables []*check.Table
	if a.Log != nil {
		rows := make([]check.Fact, len(a.Log))
		for i, r := range a.Log {
			rows[i] = check.Fact{Op: r.ID, Key: fmt.Sprintf("user-%d", r.User), Thing: r.Position}
		}
		tables = append(tables, check.TableOf(queryFact, rows))
	}
	if a.Blocked != nil {
		rows := make([]check.Fact, len(a.Blocked))
		for i, r := range a.Blocked {
			rows[i] = check.Fact{Op: r.ID, Key: r.Phrase}
		}
		tables = append(tables, check.TableOf(blockFact, rows))
	}
	return check.Facts{Tables: tables}
}

// seen is what the history and the audit say.
type seen struct {
	*oracle
	api     *api.Table[Suggester]
	queries map[uint64]asked   // that were not refused
	blocks  map[string][]asked // of each phrase, that were not refused
	looks   []look
	slowest *time.Duration // how long an operation took, outside faults
	read    bool
}

// asked is a query, whose version is its position, or a block, as its client knows it.
type asked struct {
	check.VersionChange
	phrase string
	wrong  string
}

// look is an answer with suggestions.
type look struct {
	check.VersionSight
	req     SuggestRequest
	phrases []Suggestion
	wrong   string
}

// see takes a record in.
func (s *seen) see(rec *history.Record) {
	if rec.Outcome == history.Refused {
		return
	}
	ok := rec.Outcome == history.OK
	a := asked{VersionChange: check.VersionChange{Op: rec.Op.ID, Start: rec.Start, End: history.Never}}
	if ok {
		a.End = rec.End
	}
	switch rec.Op.Kind {
	case KindQuery:
		req, err := api.RequestOf[QueryRequest](s.api, rec.Op)
		if a.phrase = req.Phrase; err != nil {
			a.wrong = err.Error()
		}
		if ok {
			var reply Kept
			a.wrong = cmp.Or(a.wrong, check.Misread(rec, &reply))
			a.Version, a.Within = reply.Position, time.Duration(reply.Within)*time.Millisecond
		}
		s.queries[a.Op] = a
	case KindBlock:
		s.blocks[rec.Op.Key] = append(s.blocks[rec.Op.Key], a)
	case KindSuggest:
		if ok {
			l := look{VersionSight: check.VersionSight{Op: rec.Op.ID, Start: rec.Start, End: rec.End}}
			var err error
			if l.req, err = api.RequestOf[SuggestRequest](s.api, rec.Op); err != nil {
				l.wrong = err.Error()
			}
			var reply Suggestions
			l.wrong = cmp.Or(l.wrong, check.Misread(rec, &reply))
			l.Version, l.phrases = reply.Version, reply.Phrases
			s.looks = append(s.looks, l)
		}
	}
}

// judged is a run that is judged, and what its history says.
type judged struct {
	*check.Run
	*Audit
}

// knowing is a clause about an audit, once the history is read.
func knowing(judge func(j judged)) check.Clause {
	return check.OnAudit(func(r *check.Run, a *Audit) func() {
		if !a.seen.read { // by the first of the clauses, which share one reading
			a.seen.read = true
			a.seen.slowest = r.Slowest(KindQuery, KindSuggest)
			r.See(a.seen.see)
		}
		return func() {
			r.Need(a.Log != nil, "the audit has no log")
			if a.Log != nil {
				judge(judged{r, a})
			}
		}
	})
}

// began are the queries by their start.
func (s *seen) began() []asked {
	list := make([]asked, 0, len(s.queries))
	for _, a := range s.queries {
		list = append(list, a)
	}
	slices.SortFunc(list, func(a, b asked) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.Op, b.Op))
	})
	return list
}

// changes are the queries as changes of the log.
func (s *seen) changes() []check.VersionChange {
	list := make([]check.VersionChange, 0, len(s.queries))
	for _, a := range s.queries {
		list = append(list, a.VersionChange)
	}
	return list
}

// asAsked compares the log with what was asked for.
func asAsked(j judged) {
	for _, a := range j.seen.began() {
		if a.wrong != "" {
			j.Violate([]uint64{a.Op}, "%s", a.wrong)
		}
	}
	for _, row := range j.Log {
		j.Checked(1)
		a, known := j.seen.queries[row.ID]
		switch {
		case !known:
		case a.phrase != row.Phrase:
			j.Violate([]uint64{row.ID}, "%q was searched for, and %q is in the log", a.phrase, row.Phrase)
		case !a.Unanswered() && a.Version != row.Position:
			j.Violate([]uint64{row.ID}, "a query was given the position %d, and is at %d", a.Version,
				row.Position)
		}
	}
}

// inOrder compares positions with the order of time, and of slots.
func inOrder(j judged) {
	positions := map[uint64]int64{}
	for _, row := range j.Log {
		positions[row.ID] = row.Position
	}
	changes := j.seen.changes()
	for i, c := range changes {
		if c.Unanswered() {
			changes[i].Version = positions[c.Op] // it may have been kept
		}
	}
	pairs := j.VersionsInOrder("the log", changes)
	for i, row := range j.seen.log {
		if i > 0 && row.Slot < j.seen.log[i-1].Slot {
			j.Violate([]uint64{j.seen.log[i-1].ID, row.ID}, "at position %d the log is in slot %d, and "+
				"before that it was in %d", row.Position, row.Slot, j.seen.log[i-1].Slot)
		}
	}
	j.Need(pairs > 0, "no query began after another one")
}

// clockSlack is by how much the log's clock may be set while a run lasts.
const clockSlack = time.Second

// slotsPass compares the slots of acknowledged queries with the time that passed since the first of
// them, by the client's clock: windows that roll in another time count what they should not.
func slotsPass(p Params) func(judged) {
	return func(j judged) {
		acked := slices.DeleteFunc(j.seen.began(), func(a asked) bool { return a.Unanswered() })
		slots := map[uint64]int64{}
		for _, row := range j.Log {
			slots[row.ID] = row.Slot
		}
		slot := time.Duration(p.SlotMS) * time.Millisecond
		for _, a := range acked {
			first := acked[0]
			from, has := slots[first.Op]
			to, too := slots[a.Op]
			if !has || !too {
				continue // said by another clause
			}
			j.Checked(1)
			passed, slack := time.Duration(to-from)*slot, 2*slot+clockSlack
			if passed < a.Start-first.End-slack || passed > a.End-first.Start+slack {
				j.Violate([]uint64{first.Op, a.Op}, "the log is in slot %d for a query of %v, and in %d for "+
					"one of %v; a slot is %v", from, first.Start, to, a.Start, slot)
			}
		}
	}
}

// asTyped looks at each suggestion for itself.
func asTyped(j judged) {
	right, nearby := false, false
	for _, l := range j.seen.looks {
		j.Checked(1)
		ops := []uint64{l.Op}
		if l.wrong != "" {
			j.Violate(ops, "%s", l.wrong)
			continue
		}
		if len(l.phrases) > l.req.Most {
			j.Violate(ops, "%d suggestions came, and %d were asked for", len(l.phrases), l.req.Most)
		}
		shown := map[string]bool{}
		for _, s := range l.phrases {
			if !nearly(s.Phrase, l.req.Prefix, l.req.Edits) {
				j.Violate(ops, "%q was suggested for %q with %d characters wrong", s.Phrase, l.req.Prefix,
					l.req.Edits)
			}
			if shown[s.Phrase] {
				j.Violate(ops, "%q was suggested twice for %q", s.Phrase, l.req.Prefix)
			}
			shown[s.Phrase] = true
			begins := strings.HasPrefix(s.Phrase, l.req.Prefix)
			right, nearby = right || begins, nearby || !begins
		}
	}
	j.Need(right, "nothing was suggested for a prefix")
	j.Need(nearby, "nothing was suggested for a prefix that was wrong")
}

// neverBlocked looks for phrases that were blocked.
func neverBlocked(j judged) {
	ended := map[string]asked{} // the first block of each phrase that was acknowledged
	for phrase, list := range j.seen.blocks {
		for _, b := range list {
			if first, has := ended[phrase]; !b.Unanswered() && (!has || b.End < first.End) {
				ended[phrase] = b
			}
		}
	}
	phrases := slices.Sorted(maps.Keys(ended))
	tried := false
	for _, l := range j.seen.looks {
		for _, s := range l.phrases {
			if b, blocked := ended[s.Phrase]; blocked && b.End < l.Start {
				j.ViolateAt(l.End, []uint64{b.Op, l.Op}, "%q was suggested at %v, and its block was "+
					"acknowledged at %v", s.Phrase, l.Start, b.End)
			}
		}
		i, _ := slices.BinarySearch(phrases, l.req.Prefix)
		for ; i < len(phrases) && strings.HasPrefix(phrases[i], l.req.Prefix); i++ {
			if ended[phrases[i]].End < l.Start {
				tried = true
				j.Checked(1)
				break
			}
		}
	}
	for _, row := range j.Lists {
		for _, s := range row.Phrases {
			i := slices.IndexFunc(j.Blocked, func(b BlockRow) bool { return b.Phrase == s.Phrase })
			if i >= 0 {
				j.Violate([]uint64{j.Blocked[i].ID}, "%q is suggested in the end, and is blocked", s.Phrase)
			}
		}
	}
	j.Need(tried, "nobody typed what had been blocked")
}

// topOfVersion compares suggestions with what they should be.
func topOfVersion(j judged) {
	full, personal, trending := false, false, false
	for _, l := range j.seen.looks {
		j.Checked(1)
		if l.wrong != "" {
			continue // said by asTyped
		}
		ops := []uint64{l.Op}
		n, is := j.seen.upTo(l.Version)
		if !is {
			j.Violate(ops, "suggestions are of version %d, and the log has no such position", l.Version)
			continue
		}
		if n > 0 {
			ops = append(ops, j.seen.log[n-1].ID)
			if a, known := j.seen.queries[j.seen.log[n-1].ID]; known && a.Start > l.End {
				j.Violate(ops, "suggestions of %v are of version %d, before that was asked for at %v", l.End,
					l.Version, a.Start)
			}
		}
		want := j.seen.all(l.req.User, l.req.Prefix, l.req.Edits, n)
		if wrong := differs(l.phrases, want, l.req.Most, func(phrase string) bool {
			return slices.ContainsFunc(j.seen.blocks[phrase], func(b asked) bool { return b.Start <= l.End })
		}); wrong != "" {
			j.Violate(ops, "%q of user %d at version %d: %s", l.req.Prefix, l.req.User, l.Version, wrong)
		}
		for _, s := range l.phrases {
			full, personal, trending = true, personal || s.Personal, trending || s.Trending
		}
	}
	if j.IndexBytes > 0 {
		j.Figure("memory of the index", "kB", float64(j.IndexBytes)/1000)
	}
	j.Need(full, "nothing was suggested")
	j.Need(personal, "nobody's own phrases were suggested")
	j.Need(trending, "nothing was trending")
}

// differs compares suggestions with all that there are, in order, of which those may be left out
// that may be blocked; "" if they are right.
func differs(got, want []Suggestion, atMost int, blocked func(string) bool) string {
	i := 0
	for _, w := range want {
		switch {
		case i == atMost:
		case i < len(got) && got[i] == w:
			i++
		case blocked(w.Phrase):
		case i < len(got):
			return fmt.Sprintf("number %d is %s, and should be %s", i+1, got[i].text(), w.text())
		default:
			return fmt.Sprintf("there are %d suggestions, and %s is missing", len(got), w.text())
		}
	}
	if i < len(got) {
		return fmt.Sprintf("number %d is %s, and nothing should be there", i+1, got[i].text())
	}
	return ""
}

func (s Suggestion) text() string {
	text := fmt.Sprintf("%q with a score of %d", s.Phrase, s.Score)
	if s.Trending {
		text += ", trending"
	}
	if s.Personal {
		text += ", the user's own"
	}
	return text
}

// inTime looks for queries that an index should have had, when that was promised or, if that is
// sooner, when the scenario wants them there. Those of unknown outcome promise nothing.
func inTime(p Params) func(judged) {
	return func(j judged) {
		f := &check.Freshness{Collector: j.Collector, Notice: p.SessionTimeout.D(),
			Slack: *j.seen.slowest, Patience: p.VisibleWithin.D() + *j.seen.slowest}
		changes := j.seen.changes()
		for i := range changes {
			changes[i].Within = min(changes[i].Within, p.VisibleWithin.D())
		}
		looks := make([]check.VersionSight, 0, len(j.seen.looks))
		for _, l := range j.seen.looks {
			if l.wrong == "" {
				looks = append(looks, l.VersionSight)
			}
		}
		f.Look("the index", changes, looks)
		j.age(looks)
		j.NeedTimely(f.Looks > 0, "nobody asked for suggestions after a query was due in them")
		f.NeedMost()
	}
}

// age measures for how long an answer had lacked a query that was acknowledged.
func (j judged) age(looks []check.VersionSight) {
	acked := slices.DeleteFunc(j.seen.changes(), check.VersionChange.Unanswered)
	slices.SortFunc(acked, func(a, b check.VersionChange) int {
		return cmp.Compare(a.Version, b.Version)
	})
	for i := len(acked) - 2; i >= 0; i-- { // the first end from each on
		acked[i].End = min(acked[i].End, acked[i+1].End)
	}
	ages := make([]time.Duration, 0, len(looks))
	for _, l := range looks {
		i, _ := slices.BinarySearchFunc(acked, l.Version+1, func(a check.VersionChange, v int64) int {
			return cmp.Compare(a.Version, v)
		})
		age := time.Duration(0)
		if i < len(acked) {
			age = max(0, l.Start-acked[i].End)
		}
		ages = append(ages, age)
	}
	if slices.Sort(ages); len(ages) > 0 {
		j.Figure("age of suggestions, p99", "ms", float64(ages[len(ages)*99/100].Milliseconds()))
	}
}

// settled compares the lists at the end with the whole log.
func settled(j judged) {
	j.Need(j.Lists != nil, "the audit has no lists")
	if j.Lists == nil {
		return
	}
	shown := map[string]bool{}
	blocked := func(phrase string) bool { // that one is not shown is said by neverBlocked
		return len(j.seen.blocks[phrase]) > 0
	}
	for _, row := range j.Lists {
		j.Checked(1)
		if shown[row.Prefix] {
			j.Violate(nil, "%q has two lists", row.Prefix)
		}
		shown[row.Prefix] = true
		var ops []uint64
		if row.Version != j.seen.last() {
			j.Unfinished(ops, "what is suggested for %q is of version %d, and the log ends at %d",
				row.Prefix, row.Version, j.seen.last())
			continue
		}
		want := j.seen.all(0, row.Prefix, 0, len(j.Log))
		if wrong := differs(row.Phrases, want, most, blocked); wrong != "" {
			j.Unfinished(ops, "in the end, %q: %s", row.Prefix, wrong)
		}
	}
	for _, first := range firsts(j.Log) {
		if !shown[first] {
			j.Unfinished(nil, "nothing is said of %q, with which phrases in the log begin", first)
		}
	}
	j.Need(len(shown) > 0, "the audit has no list of a prefix")
}
