package commentary

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"stampede/harness/api"
	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/sut"
)

// The invariants.
const (
	AckedKept    = "acked-kept"
	CommitOrder  = "commit-order"
	VersionShown = "version-shown"
	OneAnswer    = "one-answer"
	NeverBack    = "never-back"
	SeenInTime   = "seen-in-time"
	PastWhole    = "past-whole"
	Settled      = "settled"
)

// changeFact is the table of facts: all changes.
const changeFact = "change"

// invariants are what must be true of every design. See
// docs/decisions/2026-11-28-an-etag-stands-for-a-version.md.
func invariants(p Params) []check.Invariant {
	s := check.Subject{Read: check.Audited(api.DecodeAudit[Audit], facts)}
	kept := check.Effects{Table: changeFact, Kind: check.Named(KindPublish, KindCorrect), AtRest: true}
	return []check.Invariant{
		s.State(AckedKept, "an acknowledged comment or correction is kept once, as it was asked for and "+
			"under the version that it was given, however often it is sent, and nothing else is; one of "+
			"the newest comments can be corrected",
			check.AckedDurable(kept), check.NoPhantom(kept), check.AtMostOnce(changeFact, check.ByOp),
			check.AtMostOnce(changeFact, check.ByKey|check.ByThing), knowing(asAsked),
			check.SameReply(check.Replies{Kind: kept.Kind, What: "change", Same: check.ByThing,
				Denied: func(rec *history.Record) bool { return sut.RefusedFor(rec, ErrNoComment) }})),
		s.State(CommitOrder, "a change has a higher version than those of its match that were "+
			"acknowledged before it began", knowing(inOrder)),
		s.State(VersionShown, "what is shown is what follows from all changes up to its version: the "+
			"newest thirty comments, or those of them that have changed since the viewer's version; and "+
			"these changes had been asked for", knowing(latestFollows)),
		s.State(OneAnswer, "of the answers to one request each ETag stands for one, and who is told "+
			"that nothing has changed has had one of that name", knowing(tagsStand)),
		s.State(NeverBack, "who has a version is never shown an older one", knowing(neverBack)),
		s.State(SeenInTime, "what is shown has every change that was acknowledged as visible before, at "+
			"the latest when the promised time was over; so have what is said to be unchanged and what is "+
			"shown of the past", knowing(seenInTime(p))),
		s.State(PastWhole, "older comments are shown without a gap, archived ones too",
			knowing(pastFollows)),
		s.State(Settled, "when all is at rest, every viewer is shown what follows from all changes, and "+
			"all comments can be read", knowing(settled)),
	}
}

// facts reads an audit as tables.
func facts(a *Audit) check.Facts {
	a.seen = &seen{api: API(), matches: map[string]*seenMatch{}, hash: maphash.MakeSeed()}
	if a.Changes == nil {
		return check.Facts{}
	}
	rows := make([]check.Fact, len(a.Changes))
	for i, r := range a.Changes {
		rows[i] = check.Fact{Op: r.ID, Key: nameOf(r.Match), Thing: r.Version}
	}
	return check.Facts{Tables: []*check.Table{check.TableOf(changeFact, rows)}}
}

// nameOf is a match as Op.Key has it.
func nameOf(match uint64) string { return fmt.Sprintf("match-%d", match) }

// seen is what the history and the audit say of each match.
type seen struct {
	api     *api.Table[Commentary]
	matches map[string]*seenMatch
	slowest *time.Duration // how long a change took, outside faults
	read    bool
	hash    maphash.Seed
}

// seenMatch is what is known of a match.
type seenMatch struct {
	// changes are those that were asked for and not refused, denied the corrections of comments that
	// are said not to be there.
	changes map[uint64]*asked
	denied  []*asked
	// looks and pasts were shown, and tags are the answers to each request, by their ETags.
	looks, pasts []sighting
	tags         map[request]map[string]answered
	// kept are the changes of the audit by ascending version, and comments the comments by ascending
	// id.
	kept     []ChangeRow
	comments []texts
}

// texts are what a comment has said: the first, and its corrections, by ascending version.
type texts struct {
	ID   int64
	Ball string
	said []Comment
}

// request is what a cache tells requests of a match apart by.
type request struct{ since, wait int64 }

// answered is an answer with an ETag.
type answered struct {
	op      uint64
	version int64
	body    uint64
}

// asked is a change as its client knows it.
type asked struct {
	check.VersionChange
	row   ChangeRow
	wrong string
}

// sighting is an answer to a viewer.
type sighting struct {
	check.VersionSight
	request
	tag       string // without what says that it is weak
	said      string // the one that is unchanged, if the answer says that
	unchanged bool
	origin    bool // no cache answered it
	bytes     int  // of its body
	comments  int
	apart     uint64 // another answer under its ETag, which is not the same
	wrong     string // what is wrong with it
}

// match is what is known of one.
func (s *seen) match(key string) *seenMatch {
	if s.matches[key] == nil {
		s.matches[key] = &seenMatch{changes: map[uint64]*asked{},
			tags: map[request]map[string]answered{}}
	}
	return s.matches[key]
}

// see takes a record in. What was shown is compared with the changes of the audit at once, and not
// kept.
func (s *seen) see(rec *history.Record) {
	if rec.Outcome == history.Refused && rec.Code != sut.Code(ErrNoComment) {
		return
	}
	m := s.match(rec.Op.Key)
	switch shown := rec.Outcome == history.OK; {
	case rec.Op.Kind == KindPublish || rec.Op.Kind == KindCorrect:
		s.asked(m, rec)
	case shown && rec.Op.Kind == KindLatest:
		m.looks = append(m.looks, s.look(m, rec))
	case shown && rec.Op.Kind == KindPast:
		m.pasts = append(m.pasts, s.pastShown(m, rec))
	}
}

// asked takes an attempt at a change in.
func (s *seen) asked(m *seenMatch, rec *history.Record) {
	a := m.changes[rec.Op.ID]
	if denied := rec.Outcome == history.Refused; a == nil || denied {
		a = &asked{VersionChange: check.VersionChange{Op: rec.Op.ID, Start: rec.Start,
			End: history.Never}}
		var wrong error
		if a.row, wrong = s.rowOf(rec.Op); wrong != nil {
			a.wrong = wrong.Error()
		}
		if denied {
			a.End = rec.End
			m.denied = append(m.denied, a)
			return
		}
		m.changes[rec.Op.ID] = a
	}
	a.Start = min(a.Start, rec.Start)
	if rec.Outcome != history.OK {
		return
	}
	var reply Published
	a.wrong = cmp.Or(a.wrong, check.Misread(rec, &reply))
	if rec.End < a.End {
		a.End, a.Version = rec.End, reply.Version
		a.Within = time.Duration(reply.Within) * time.Millisecond
	}
}

// rowOf is a change as it was asked for.
func (s *seen) rowOf(op history.Op) (ChangeRow, error) {
	if op.Kind == KindPublish {
		req, err := api.RequestOf[PublishRequest](s.api, op)
		return ChangeRow{Ball: req.Ball, Text: req.Text}, err
	}
	req, err := api.RequestOf[CorrectRequest](s.api, op)
	return ChangeRow{Comment: req.Comment, Text: req.Text}, err
}

// look reads an answer to a viewer.
func (s *seen) look(m *seenMatch, rec *history.Record) sighting {
	var l Latest
	at := sighting{VersionSight: check.VersionSight{Op: rec.Op.ID, Start: rec.Start, End: rec.End}}
	req, err := api.RequestOf[LatestRequest](s.api, rec.Op)
	if at.wrong = check.Misread(rec, &l); at.wrong != "" || err != nil {
		return at
	}
	at.Version, at.tag, at.unchanged = l.Version, weak(l.ETag), l.Unchanged
	at.request = request{req.Since, req.Wait}
	at.origin = !byCache(l.Served)
	if l.Unchanged { // what is, is the answer that the viewer has
		at.tag, at.said = weak(req.Have), weak(l.ETag)
		return at
	}
	at.bytes = len(rec.Reply.Body)
	if l.ETag != "" {
		body, _ := json.Marshal(slices.Concat([]Comment{}, l.Comments)) // it never fails
		m.tag(&at, answered{at.Op, l.Version, maphash.Bytes(s.hash, body)})
	}
	want := view{l.Version, m.shown(l.Version, math.MaxInt64, newest)}.since(req.Since)
	at.wrong = differ(l.Version, l.Comments, want)
	return at
}

// weak is an ETag by which answers are compared that say the same, in whatever encoding (RFC 9110
// section 8.8.3.2).
func weak(tag string) string { return strings.TrimPrefix(tag, "W/") }

// byCache says whether a Cache-Status says that a cache had the answer, or got it for others too.
func byCache(served string) bool {
	parts := strings.FieldsFunc(served, func(r rune) bool { return r == ';' || r == ',' })
	return slices.ContainsFunc(parts, func(part string) bool {
		part = strings.TrimSpace(part)
		return part == "hit" || part == "collapsed"
	})
}

// tag takes in an answer that has a name. Of several that have it, the newest counts as what is
// unchanged.
func (m *seenMatch) tag(at *sighting, a answered) {
	if m.tags[at.request] == nil {
		m.tags[at.request] = map[string]answered{}
	}
	before, known := m.tags[at.request][at.tag]
	if known && (before.version != a.version || before.body != a.body) {
		at.apart = before.op
	}
	if !known || a.version > before.version {
		m.tags[at.request][at.tag] = a
	}
}

// pastShown reads an answer to who looks at what is older.
func (s *seen) pastShown(m *seenMatch, rec *history.Record) sighting {
	var p Past
	at := sighting{VersionSight: check.VersionSight{Op: rec.Op.ID, Start: rec.Start, End: rec.End}}
	req, err := api.RequestOf[PastRequest](s.api, rec.Op)
	if at.wrong = check.Misread(rec, &p); at.wrong != "" || err != nil {
		return at
	}
	at.Version, at.comments = p.Version, len(p.Comments)
	at.wrong = differ(p.Version, p.Comments, m.shown(p.Version, req.Before, req.Most))
	return at
}

// fold reads the changes of the audit.
func (s *seen) fold(changes []ChangeRow) {
	for _, c := range changes {
		m := s.match(nameOf(c.Match))
		m.kept = append(m.kept, c)
	}
	for _, m := range s.matches {
		slices.SortFunc(m.kept, func(a, b ChangeRow) int {
			return cmp.Or(cmp.Compare(a.Version, b.Version), cmp.Compare(a.ID, b.ID))
		})
		for _, c := range m.kept {
			i, is := slices.BinarySearchFunc(m.comments, c.Comment, func(t texts, id int64) int {
				return cmp.Compare(t.ID, id)
			})
			if !is {
				m.comments = slices.Insert(m.comments, i, texts{ID: c.Comment, Ball: c.Ball})
			}
			m.comments[i].said = append(m.comments[i].said,
				Comment{c.Comment, c.Version, m.comments[i].Ball, c.Text})
		}
	}
}

// shown are the newest comments below an id, as they are when all changes up to a version are made.
func (m *seenMatch) shown(version, before int64, most int) []Comment {
	i, _ := slices.BinarySearchFunc(m.comments, before, func(t texts, id int64) int {
		return cmp.Compare(t.ID, id)
	})
	list := []Comment{}
	for ; i > 0 && len(list) < most; i-- {
		said := m.comments[i-1].said
		k, _ := slices.BinarySearchFunc(said, version+1, func(c Comment, v int64) int {
			return cmp.Compare(c.Version, v)
		})
		if k > 0 {
			list = append(list, said[k-1])
		}
	}
	return list
}

// early says which change was shown before it was asked for, "" for none.
func (m *seenMatch) early(at check.VersionSight) string {
	k, _ := slices.BinarySearchFunc(m.kept, at.Version+1, func(c ChangeRow, v int64) int {
		return cmp.Compare(c.Version, v)
	})
	if k == 0 {
		return ""
	}
	last := m.kept[k-1]
	if a := m.changes[last.ID]; a != nil && a.Start > at.End {
		return fmt.Sprintf("version %d was shown at %v, and its change %d was asked for at %v",
			at.Version, at.End, last.ID, a.Start)
	}
	return ""
}

// differ says in what an answer of a version differs from what it should be, "" for nothing.
func differ(version int64, got, want []Comment) string {
	for i, c := range want {
		if i >= len(got) || got[i] != c {
			return fmt.Sprintf("%d comments of version %d, of which number %d is not %s", len(got),
				version, i+1, c)
		}
	}
	if len(got) > len(want) {
		return fmt.Sprintf("%d comments of version %d, which has %d: %s is too much", len(got),
			version, len(want), got[len(want)])
	}
	return ""
}

// String says what a comment is.
func (c Comment) String() string {
	return fmt.Sprintf("%d (%s, %q, changed by %d)", c.ID, c.Ball, c.Text, c.Version)
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
			a.seen.slowest = r.Slowest(KindPublish, KindCorrect, KindPast)
			r.See(a.seen.see)
		}
		return func() {
			r.Need(a.Changes != nil, "the audit has no changes")
			r.Need(a.Pages != nil, "the audit has no pages")
			if a.Changes != nil && a.Pages != nil {
				judge(judged{r, a})
			}
		}
	})
}

// each shows all matches, in order.
func (s *seen) each(see func(key string, m *seenMatch)) {
	for _, key := range slices.Sorted(maps.Keys(s.matches)) {
		see(key, s.matches[key])
	}
}

// asAsked compares what is kept with what was asked for.
func asAsked(j judged) {
	j.seen.each(func(key string, m *seenMatch) {
		versions := m.versions()
		for _, a := range versions {
			if wrong := m.changes[a.Op].wrong; wrong != "" {
				j.Violate([]uint64{a.Op}, "%s: %s", key, wrong)
			}
		}
		for _, d := range m.denied {
			if said := m.saidBefore(d, versions); said != 0 {
				j.Violate([]uint64{said, d.Op}, "%s: comment %d was acknowledged before %v, and its "+
					"correction was refused then because there is no such comment", key, d.row.Comment, d.Start)
			}
		}
		for _, c := range m.kept {
			a := m.changes[c.ID]
			j.Checked(1)
			switch {
			case a == nil: // nobody asked for it, which another clause says
			case a.row.Text != c.Text, a.row.Comment > 0 && a.row.Comment != c.Comment,
				a.row.Comment == 0 && (a.row.Ball != c.Ball || c.Comment != c.Version):
				j.Violate([]uint64{c.ID}, "%s: %+v was asked for, and %+v is kept", key, a.row, c)
			case a.Version > 0 && a.Version != c.Version:
				j.Violate([]uint64{c.ID}, "%s: a change was given the version %d, and is kept as %d", key,
					a.Version, c.Version)
			}
		}
	})
}

// versions are the changes that were asked for, by their identities. One that was kept, and of
// which nobody was told, has the version that it has.
func (m *seenMatch) versions() []check.VersionChange {
	kept := map[uint64]int64{}
	for _, c := range m.kept {
		kept[c.ID] = c.Version
	}
	list := make([]check.VersionChange, 0, len(m.changes))
	for _, op := range slices.Sorted(maps.Keys(m.changes)) {
		v := m.changes[op].VersionChange
		v.Version = cmp.Or(v.Version, kept[op])
		list = append(list, v)
	}
	return list
}

// saidBefore is the comment that was to be corrected, if it was acknowledged by then and is
// certainly one of the newest; else 0.
func (m *seenMatch) saidBefore(d *asked, versions []check.VersionChange) (op uint64) {
	newer := 0
	for _, v := range versions {
		switch {
		case m.changes[v.Op].row.Comment > 0 || v.Start > d.End:
		case v.Version == d.row.Comment && v.End < d.Start:
			op = v.Op
		case v.Version == 0 || v.Version > d.row.Comment:
			newer++
		}
	}
	if newer >= newest {
		return 0
	}
	return op
}

// inOrder compares versions with the order of time.
func inOrder(j judged) {
	pairs := 0
	j.seen.each(func(key string, m *seenMatch) { pairs += j.VersionsInOrder(key, m.versions()) })
	j.Need(pairs > 0, "nothing was said of a match after something else")
}

// follows tells what was wrong with an answer.
func (j judged) follows(key string, m *seenMatch, at sighting) {
	j.Checked(1)
	if wrong := cmp.Or(at.wrong, m.early(at.VersionSight)); wrong != "" {
		j.Violate([]uint64{at.Op}, "%s: %s", key, wrong)
	}
}

// latestFollows tells what was wrong with answers to viewers.
func latestFollows(j judged) {
	looks, since, corrected := 0, false, false
	j.seen.each(func(key string, m *seenMatch) {
		for _, at := range m.looks {
			j.follows(key, m, at)
			if !at.unchanged && at.Version > 0 {
				looks++
				since = since || at.request.since > 0 && at.Version > at.request.since
			}
		}
		corrected = corrected || len(m.comments) < len(m.kept)
	})
	j.Need(looks > 0, "nobody was shown a comment")
	j.Need(since, "nobody who had a version was shown a newer one")
	j.Need(corrected, "no comment was corrected")
}

// tagsStand tells ETags that stand for several answers, or for none.
func tagsStand(j judged) {
	tags, unchanged := 0, 0
	j.seen.each(func(key string, m *seenMatch) {
		for _, at := range m.looks {
			j.Checked(1)
			if at.tag == "" && !at.unchanged {
				continue
			}
			tags++
			if at.apart > 0 {
				j.Violate([]uint64{at.apart, at.Op}, "%s: two answers to a viewer with version %d have the "+
					"ETag %s, and are not the same", key, at.request.since, at.tag)
			}
			if !at.unchanged {
				continue
			}
			unchanged++
			if _, known := m.tags[at.request][at.tag]; !known {
				j.Violate([]uint64{at.Op}, "%s: a viewer with the ETag %q was told that nothing has changed, "+
					"and no answer has it", key, at.tag)
			}
			if at.said != "" && at.said != at.tag {
				j.Violate([]uint64{at.Op}, "%s: a viewer with the ETag %s was told that %s has not changed",
					key, at.tag, at.said)
			}
		}
	})
	if tags == 0 {
		j.Note("no answer has an ETag: everyone is sent everything")
		return
	}
	j.Need(unchanged > 0, "nobody was told that nothing has changed")
}

// version is what a viewer knows after an answer.
func (m *seenMatch) version(at sighting) check.VersionSight {
	if at.unchanged {
		at.Version = m.tags[at.request][at.tag].version
	}
	return at.VersionSight
}

// neverBack tells answers that are older than what the viewer has.
func neverBack(j judged) {
	with := 0
	j.seen.each(func(key string, m *seenMatch) {
		for _, at := range m.looks {
			if at.request.since == 0 {
				continue
			}
			with++
			j.Checked(1)
			if v := m.version(at).Version; v < at.request.since {
				j.Violate([]uint64{at.Op}, "%s: a viewer with version %d was shown version %d", key,
					at.request.since, v)
			}
		}
	})
	j.Need(with > 0, "no viewer who had a version looked again")
}

// seenInTime looks for changes that should have been shown, and says what viewers cost.
func seenInTime(p Params) func(judged) {
	return func(j judged) {
		f := &check.Freshness{Collector: j.Collector, Slack: *j.seen.slowest,
			Patience: p.MaxAge.D() + p.CopyFor.D() + *j.seen.slowest}
		looks, bytes, fromOrigin := 0, 0, 0
		j.seen.each(func(key string, m *seenMatch) {
			shown := make([]check.VersionSight, 0, len(m.looks)+len(m.pasts))
			for _, at := range m.looks {
				shown = append(shown, m.version(at))
				looks++
				bytes += at.bytes
				if at.origin {
					fromOrigin++
				}
			}
			for _, at := range m.pasts {
				shown = append(shown, at.VersionSight)
			}
			f.Look(key, m.versions(), shown)
		})
		j.NeedTimely(f.Looks > 0, "nobody looked at a match after a change was due")
		f.NeedMost()
		if looks > 0 {
			j.Figure("looks that reach the API", "%", 100*float64(fromOrigin)/float64(looks))
			j.Figure("answer to a look, mean", "bytes", float64(bytes)/float64(looks))
		}
	}
}

// pastFollows tells what was wrong with older comments.
func pastFollows(j judged) {
	pasts := 0
	j.seen.each(func(key string, m *seenMatch) {
		for _, at := range m.pasts {
			pasts += min(1, at.comments)
			j.follows(key, m, at)
		}
	})
	j.Need(pasts > 0, "nobody was shown older comments")
}

// settled compares what is shown at the end with what follows from all changes.
func settled(j judged) {
	j.AtRest()
	for _, rows := range []struct {
		what string
		list []PageRow
		most int
	}{{"page", j.Pages, newest}, {"whole match", j.Past, math.MaxInt}} {
		found := map[string]bool{}
		for _, r := range rows.list {
			key := nameOf(r.Match)
			m := j.seen.match(key)
			j.Checked(1)
			if found[key] {
				j.Violate(nil, "%s has two rows of a %s", key, rows.what)
			}
			found[key] = true
			want := m.shown(math.MaxInt64-1, math.MaxInt64, rows.most)
			if n := len(m.kept); n > 0 && r.Version < m.kept[n-1].Version {
				j.Violate(m.last(), "%s: the %s is of version %d, and there is a change %d", key, rows.what,
					r.Version, m.kept[n-1].Version)
			}
			if wrong := differ(r.Version, r.Comments, want); wrong != "" {
				j.Violate(m.last(), "%s: the %s has %s", key, rows.what, wrong)
			}
		}
		j.seen.each(func(key string, m *seenMatch) {
			if len(m.kept) > 0 && !found[key] {
				j.Violate(m.last(), "%s has comments, and no %s", key, rows.what)
			}
		})
	}
	j.Need(len(j.Pages) > 0, "nothing was said of any match")
}

// last is the last change of a match, as a witness.
func (m *seenMatch) last() []uint64 {
	if len(m.kept) == 0 {
		return nil
	}
	return []uint64{m.kept[len(m.kept)-1].ID}
}
