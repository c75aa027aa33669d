package recentsearches

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"stampede/harness/api"
	"stampede/harness/check"
	"stampede/harness/history"
)

// The invariants.
const (
	AckedKept     = "acked-kept"
	CommitOrder   = "commit-order"
	ListOfHistory = "list-of-history"
	SeenByAll     = "seen-by-all"
	HistoryWhole  = "history-whole"
	Settled       = "settled"
)

// changeFact is the table of facts: all changes.
const changeFact = "change"

// invariants are what must be true of every design. See
// docs/decisions/2026-11-27-an-acknowledgement-says-when-it-is-seen.md.
func invariants(p Params) []check.Invariant {
	s := check.Subject{Read: check.Audited(api.DecodeAudit[Audit], facts)}
	kept := check.Effects{Table: changeFact, Kind: check.Named(KindSearch, KindForget), AtRest: true}
	return []check.Invariant{
		s.State(AckedKept, "an acknowledged change is kept once, as it was asked for and under the "+
			"version that it was given, archived or not, and nothing else is kept",
			check.AckedDurable(kept), check.NoPhantom(kept), check.AtMostOnce(changeFact, check.ByOp),
			check.AtMostOnce(changeFact, check.ByKey|check.ByThing), knowing(asAsked)),
		s.State(CommitOrder, "a change has a higher version than those of its user that were "+
			"acknowledged before it began", knowing(inOrder)),
		s.State(ListOfHistory, "each list that is shown is what follows from the changes up to its "+
			"version, and that change had been asked for", knowing(listsFollow)),
		s.State(SeenByAll, "a list that is shown has every change that was acknowledged as visible "+
			"before, at the latest when the promised time was over", knowing(listsFresh(p))),
		s.State(HistoryWhole, "a history that is shown has all the newest changes in their order, "+
			"archived ones too, and those that were acknowledged as visible", knowing(historiesFollow(p))),
		s.State(Settled, "when all is at rest, the list of each user is what follows from all changes; "+
			"if there is a log or if terms are counted, these agree with the changes too",
			knowing(listsSettled), knowing(logSettled)),
	}
}

// facts reads an audit as tables.
func facts(a *Audit) check.Facts {
	a.seen = &seen{api: API(), users: map[string]*seenUser{}}
	if a.Changes == nil {
		return check.Facts{}
	}
	rows := make([]check.Fact, len(a.Changes))
	for i, r := range a.Changes {
		rows[i] = check.Fact{Op: r.ID, Key: nameOf(r.User), Thing: r.Version}
	}
	return check.Facts{Tables: []*check.Table{check.TableOf(changeFact, rows)}}
}

// nameOf is a user as Op.Key has it.
func nameOf(user uint64) string { return fmt.Sprintf("user-%d", user) }

// seen is what the history and the audit say of each user.
type seen struct {
	api     *api.Table[Recents]
	users   map[string]*seenUser
	slowest *time.Duration // how long an operation took, outside faults
	read    bool
}

// seenUser is what is known of a user.
type seenUser struct {
	// changes are those that were asked for and not refused, by their start.
	changes map[uint64]asked
	// looks are lists, and pages histories, that were shown.
	looks, pages []sighting
	// kept are the changes of the audit, and lists those after each, by ascending version.
	kept  []ChangeRow
	lists []List
}

// asked is a change as its client knows it.
type asked struct {
	check.VersionChange
	term      string
	forgotten bool
	wrong     string
}

// sighting is something that was shown, of the version of the last change in it.
type sighting struct {
	check.VersionSight
	list  List
	page  []Change
	most  int // changes that were asked for
	wrong string
}

// user is what is known of one.
func (s *seen) user(key string) *seenUser {
	if s.users[key] == nil {
		s.users[key] = &seenUser{changes: map[uint64]asked{}}
	}
	return s.users[key]
}

// see takes a record in.
func (s *seen) see(rec *history.Record) {
	if rec.Outcome == history.Refused {
		return
	}
	u, ok := s.user(rec.Op.Key), rec.Outcome == history.OK
	at := sighting{VersionSight: check.VersionSight{Op: rec.Op.ID, Start: rec.Start, End: rec.End}}
	switch rec.Op.Kind {
	case KindSearch, KindForget:
		a := asked{forgotten: rec.Op.Kind == KindForget,
			VersionChange: check.VersionChange{Op: rec.Op.ID, Start: rec.Start, End: history.Never}}
		var wrong error
		if a.term, wrong = s.termOf(rec.Op); wrong != nil {
			a.wrong = wrong.Error()
		}
		if ok {
			var reply Kept
			a.wrong = cmp.Or(a.wrong, check.Misread(rec, &reply))
			a.End, a.Version = rec.End, reply.Version
			a.Within = time.Duration(reply.Within) * time.Millisecond
		}
		u.changes[a.Op] = a
	case KindRecent, KindLogin:
		if ok {
			at.wrong = check.Misread(rec, &at.list)
			at.Version = at.list.Version
			u.looks = append(u.looks, at)
		}
	case KindHistory:
		if ok {
			var reply History
			at.wrong = check.Misread(rec, &reply)
			at.page = reply.Changes
			if len(at.page) > 0 {
				at.Version = at.page[0].Version
			}
			req, err := api.RequestOf[HistoryRequest](s.api, rec.Op)
			if at.most = req.Most; err != nil || reply.Found != len(reply.Changes) {
				at.wrong = cmp.Or(at.wrong, fmt.Sprintf("%d changes were found, and %d shown", reply.Found,
					len(reply.Changes)))
			}
			u.pages = append(u.pages, at)
		}
	}
}

// termOf is the term of a change.
func (s *seen) termOf(op history.Op) (string, error) {
	if op.Kind == KindSearch {
		req, err := api.RequestOf[SearchRequest](s.api, op)
		return req.Term, err
	}
	req, err := api.RequestOf[ForgetRequest](s.api, op)
	return req.Term, err
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
			a.seen.fold(a.Changes)
			a.seen.slowest = r.Slowest(KindSearch, KindForget, KindRecent, KindLogin)
			r.See(a.seen.see)
		}
		return func() {
			r.Need(a.Changes != nil, "the audit has no changes")
			r.Need(a.Lists != nil, "the audit has no lists")
			if a.Changes != nil && a.Lists != nil {
				judge(judged{r, a})
			}
		}
	})
}

// fold makes the list after each change that is kept.
func (s *seen) fold(changes []ChangeRow) {
	for _, c := range changes {
		u := s.user(nameOf(c.User))
		u.kept = append(u.kept, c)
	}
	for _, u := range s.users {
		slices.SortFunc(u.kept, func(a, b ChangeRow) int { return cmp.Compare(a.Version, b.Version) })
		last := List{}
		for _, c := range u.kept {
			last = last.after(c.change())
			u.lists = append(u.lists, last)
		}
	}
}

// change is a change without whose it is.
func (c ChangeRow) change() Change { return Change{c.Version, c.Term, c.Forgotten} }

// at is the place of a version among the changes that are kept.
func (u *seenUser) at(version int64) (int, bool) {
	return slices.BinarySearchFunc(u.kept, version, func(c ChangeRow, v int64) int {
		return cmp.Compare(c.Version, v)
	})
}

// each shows all users, in order.
func (s *seen) each(see func(key string, u *seenUser)) {
	for _, key := range slices.Sorted(maps.Keys(s.users)) {
		see(key, s.users[key])
	}
}

// sorted are the changes that were asked for.
func (u *seenUser) sorted() []asked {
	return slices.SortedFunc(maps.Values(u.changes), func(a, b asked) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.Op, b.Op))
	})
}

// asAsked compares what is kept with what was asked for.
func asAsked(j judged) {
	j.seen.each(func(key string, u *seenUser) {
		for _, a := range u.sorted() {
			if a.wrong != "" {
				j.Violate([]uint64{a.Op}, "%s: %s", key, a.wrong)
			}
		}
		for _, c := range u.kept {
			a, known := u.changes[c.ID]
			j.Checked(1)
			switch {
			case !known:
			case a.term != c.Term || a.forgotten != c.Forgotten:
				j.Violate([]uint64{c.ID}, "%s asked for %s, and %s is kept", key, told(a.term, a.forgotten),
					told(c.Term, c.Forgotten))
			case !a.Unanswered() && a.Version != c.Version:
				j.Violate([]uint64{c.ID}, "%s: a change was given the version %d, and is kept as %d", key,
					a.Version, c.Version)
			}
		}
	})
}

// told says what a change is.
func told(term string, forgotten bool) string {
	if forgotten {
		return fmt.Sprintf("forgetting %q", term)
	}
	return fmt.Sprintf("a search for %q", term)
}

// inOrder compares versions with the order of time.
func inOrder(j judged) {
	pairs := 0
	j.seen.each(func(key string, u *seenUser) {
		versions := map[uint64]int64{}
		for _, c := range u.kept {
			versions[c.ID] = c.Version
		}
		changes := u.versions()
		for i, c := range changes {
			if c.Unanswered() {
				changes[i].Version = versions[c.Op] // it may have been kept
			}
		}
		pairs += j.VersionsInOrder(key, changes)
	})
	j.Need(pairs > 0, "no user made a change after another one")
}

// versions are the changes that were asked for.
func (u *seenUser) versions() []check.VersionChange {
	list := make([]check.VersionChange, 0, len(u.changes))
	for _, a := range u.changes {
		list = append(list, a.VersionChange)
	}
	return list
}

// listsFollow compares lists that were shown with what follows from the changes.
func listsFollow(j judged) {
	looks, forgot := 0, false
	j.seen.each(func(key string, u *seenUser) {
		for _, at := range u.looks {
			j.Checked(1)
			if at.wrong != "" {
				j.Violate([]uint64{at.Op}, "%s: %s", key, at.wrong)
				continue
			}
			j.follows(key, u, []uint64{at.Op}, at.list)
			if i, is := u.at(at.list.Version); is {
				looks++
				forgot = forgot || u.kept[i].Forgotten
				if a, known := u.changes[u.kept[i].ID]; known && a.Start > at.End {
					j.Violate([]uint64{a.Op, at.Op}, "%s was shown version %d at %v, before that was asked "+
						"for at %v", key, at.list.Version, at.End, a.Start)
				}
			}
		}
	})
	j.Need(looks > 0, "nobody looked at a list that was not empty")
	j.Need(forgot, "nobody looked at a list after a term was forgotten")
}

// follows looks whether a list is the one of its version.
func (j judged) follows(key string, u *seenUser, ops []uint64, l List) {
	want := List{Terms: []string{}}
	if l.Version > 0 {
		i, is := u.at(l.Version)
		if !is {
			j.Unfinished(ops, "%s has a list of version %d, and no such change is kept", key, l.Version)
			return
		}
		want = u.lists[i]
		ops = append(ops, u.kept[i].ID)
	}
	if !slices.Equal(l.Terms, want.Terms) {
		j.Violate(ops, "%s has the list %q of version %d; after that change it is %q", key, l.Terms,
			l.Version, want.Terms)
	}
}

// fresh begins to look for changes that should have been shown.
func (j judged) fresh(p Params) *check.Freshness {
	return &check.Freshness{Collector: j.Collector, Notice: p.SessionTimeout.D(),
		Slack: *j.seen.slowest, Patience: p.VisibleWithin.D() + *j.seen.slowest}
}

// sights are the versions that were shown.
func sights(list []sighting) []check.VersionSight {
	out := make([]check.VersionSight, len(list))
	for i, at := range list {
		out[i] = at.VersionSight
	}
	return out
}

// listsFresh looks for changes that a list should have shown.
func listsFresh(p Params) func(judged) {
	return func(j judged) {
		f := j.fresh(p)
		j.seen.each(func(key string, u *seenUser) { f.Look(key, u.versions(), sights(u.looks)) })
		j.NeedTimely(f.Looks > 0, "nobody looked at a list after a change was due in it")
		f.NeedMost()
	}
}

// historiesFollow compares histories that were shown with what is kept.
func historiesFollow(p Params) func(judged) {
	return func(j judged) {
		f := j.fresh(p)
		pages := 0
		j.seen.each(func(key string, u *seenUser) {
			for _, at := range u.pages {
				j.Checked(1)
				if at.wrong != "" {
					j.Violate([]uint64{at.Op}, "%s: %s", key, at.wrong)
					continue
				}
				pages += min(1, len(at.page))
				j.whole(key, u, at)
			}
			f.Look(key, u.versions(), sights(u.pages))
		})
		j.Need(pages > 0, "no history was shown")
		j.NeedTimely(f.Looks > 0, "nobody looked at a history after a change was due in it")
		f.NeedMost()
	}
}

// whole looks whether a history has all changes up to its newest, as many as were asked for.
func (j judged) whole(key string, u *seenUser, at sighting) {
	ops := []uint64{at.Op}
	i, is := u.at(at.Version)
	if !is && at.Version > 0 {
		j.Unfinished(ops, "%s was shown version %d, and no such change is kept", key, at.Version)
		return
	}
	if is {
		i++
	}
	want := slices.Clone(u.kept[:i])
	slices.Reverse(want)
	want = want[:min(at.most, len(want))]
	for k, c := range want {
		if k >= len(at.page) || at.page[k] != c.change() {
			j.Violate(append(ops, c.ID), "%s was shown a history of %d changes in which number %d is not "+
				"%s of version %d", key, len(at.page), k+1, told(c.Term, c.Forgotten), c.Version)
			return
		}
	}
	if len(at.page) > len(want) {
		j.Violate(ops, "%s was shown %d changes up to version %d, and was to be shown %d", key,
			len(at.page), at.Version, len(want))
	}
}

// listsSettled compares the lists at the end with all changes.
func listsSettled(j judged) {
	shown := map[string]bool{}
	for _, row := range j.Lists {
		key := nameOf(row.User)
		u := j.seen.user(key)
		j.Checked(1)
		if shown[key] {
			j.Violate(nil, "%s has two lists", key)
			continue
		}
		shown[key] = true
		last := List{Terms: []string{}}
		var ops []uint64
		if n := len(u.kept); n > 0 {
			last, ops = u.lists[n-1], []uint64{u.kept[n-1].ID}
		}
		if row.Version != last.Version || !slices.Equal(row.Terms, last.Terms) {
			j.Unfinished(ops, "%s has the list %q of version %d, and should have %q of version %d", key,
				row.Terms, row.Version, last.Terms, last.Version)
		}
	}
	j.seen.each(func(key string, u *seenUser) {
		if n := len(u.kept); n > 0 && !shown[key] {
			j.Unfinished([]uint64{u.kept[n-1].ID}, "%s has no list, and made %d changes", key, n)
		}
	})
	j.Need(len(shown) > 0, "nobody has a list")
}

// logSettled compares a log and counts of terms with the changes that are kept.
func logSettled(j judged) {
	counted, kept := map[string]int64{}, map[ChangeRow]bool{}
	for _, c := range j.Changes {
		kept[c] = true
		if !c.Forgotten {
			counted[c.Term]++
		}
	}
	for _, c := range j.Log {
		j.Checked(1)
		if !kept[c] {
			j.Unfinished([]uint64{c.ID}, "%s of user-%d is in the log as version %d, and not in the history",
				told(c.Term, c.Forgotten), c.User, c.Version)
		}
		delete(kept, c) // what is there twice has no other one
	}
	if j.Log != nil {
		for c := range kept {
			j.Unfinished([]uint64{c.ID}, "%s of user-%d is in the history as version %d, and not in the log",
				told(c.Term, c.Forgotten), c.User, c.Version)
		}
	}
	if j.Counts == nil {
		return
	}
	for _, row := range j.Counts {
		if n := counted[row.Term]; n != row.Searches {
			j.Unfinished(j.searches(row.Term), "%q is counted %d times, and was searched for %d times",
				row.Term, row.Searches, n)
		}
		delete(counted, row.Term)
	}
	for _, term := range slices.Sorted(maps.Keys(counted)) {
		j.Unfinished(j.searches(term), "%q is not counted, and was searched for %d times", term,
			counted[term])
	}
}

// searches are some searches for a term.
func (j judged) searches(term string) (ops []uint64) {
	for _, c := range j.Changes {
		if c.Term == term && !c.Forgotten && len(ops) < 3 {
			ops = append(ops, c.ID)
		}
	}
	return ops
}
