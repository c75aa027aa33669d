package textsearch

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"stampede/harness/api"
	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/sut"
	"stampede/systems/textsearch/analysis"
	"stampede/systems/textsearch/exact"
)

// The invariants.
const (
	ChangesKept   = "changes-kept"
	OneGeneration = "one-generation"
	GoneForGood   = "gone-for-good"
	HitsMatch     = "hits-match"
	Ranked        = "ranked-as-declared"
	NeverBack     = "never-back"
	SegmentsWhole = "segments-whole"
)

// changeFact is the table of changes.
const changeFact = "change"

// noSegments is why a design has no segments.
func noSegments() map[string]string {
	return map[string]string{SegmentsWhole: "it keeps no segments"}
}

// invariants are what must be true of every design. See
// docs/decisions/2026-11-28-a-search-names-its-generation.md.
func invariants(Params) []check.Invariant {
	s := check.Subject{Read: check.Audited(api.DecodeAudit[Audit], facts)}
	made := check.Effects{Table: changeFact, Kind: check.Named(KindIndex, KindDelete)}
	return []check.Invariant{
		s.State(ChangesKept, "an acknowledged change is in the log once, with the number that it was "+
			"given and after those that were acknowledged before it began; nothing else is; versions of "+
			"a document only rise; and in the end the documents are what follows from the log",
			check.AckedDurable(made), check.NoPhantom(made), check.AtMostOnce(changeFact, check.ByOp),
			check.AtMostOnce(changeFact, check.ByThing), knowing(inOrder), knowing(refusedRightly),
			knowing(finally)),
		s.State(OneGeneration, "each hit is the version that its document has at the answer's "+
			"generation, and what matches is missing only if there are as many hits as were asked for",
			knowing(oneGeneration)),
		s.State(GoneForGood, "a document that is deleted at the answer's generation is no hit",
			knowing(goneForGood)),
		s.State(HitsMatch, "each hit matches the query by its text, none comes twice, and no more come "+
			"than were asked for", knowing(hitsMatch)),
		s.State(Ranked, "hits are ordered by their scores; where BM25F is declared, each score follows "+
			"from the answer's figures, these are right, and nothing better is left out",
			knowing(ranked)),
		s.State(NeverBack, "a search is of a generation that has each change which was promised to be "+
			"in it by then, and none is of an earlier one than its client has seen",
			knowing(neverBack)),
		s.State(SegmentsWhole, "each file that the index consists of is whole, and no more documents "+
			"are in them than there are", knowing(segmentsWhole)),
	}
}

// facts reads an audit as tables.
func facts(a *Audit) check.Facts {
	a.seen = &seen{api: API(), changes: map[uint64]*made{}}
	var tables []*check.Table
	if a.Log != nil {
		rows := make([]check.Fact, len(a.Log))
		for i, r := range a.Log {
			rows[i] = check.Fact{Op: r.Version, Key: fmt.Sprintf("doc-%d", r.Doc), Thing: r.Seq}
		}
		tables = append(tables, check.TableOf(changeFact, rows))
	}
	return check.Facts{Tables: tables}
}

// seen is what the history says, and what follows from it and the log.
type seen struct {
	api     *api.Table[Library]
	changes map[uint64]*made // that were not refused, by version
	stale   []*made          // refused because of a newer version
	looks   []*look
	all     []*look        // those of these that can be read, and what is found in the end
	slowest *time.Duration // how long an operation took, outside faults
	read    bool
	known   *exact.Corpus
}

// made is a change, as its client knows it.
type made struct {
	check.VersionChange
	doc   uint64
	text  *analysis.Text // nil deletes
	wrong string
}

// look is an answer to a search, or what is found in the end.
type look struct {
	check.VersionSight
	final bool
	req   SearchRequest
	Found
	wrong string

	// What follows from the log: the corpus at the answer's generation, and the query in terms.
	m      exact.Moment
	wanted exact.Wanted
	meant  string
}

// see takes a record in.
func (s *seen) see(rec *history.Record) {
	if rec.Outcome == history.Dropped {
		return
	}
	ok := rec.Outcome == history.OK
	if rec.Op.Kind == KindSearch {
		if ok {
			s.looks = append(s.looks, s.looked(rec))
		}
		return
	}
	m := &made{VersionChange: check.VersionChange{Op: rec.Op.ID, Start: rec.Start,
		End: history.Never}}
	var err error
	switch rec.Op.Kind {
	case KindIndex:
		var req IndexRequest
		req, err = api.RequestOf[IndexRequest](s.api, rec.Op)
		m.doc, m.text = req.Doc, &req.Text
	case KindDelete:
		var req DeleteRequest
		req, err = api.RequestOf[DeleteRequest](s.api, rec.Op)
		m.doc = req.Doc
	}
	if err != nil {
		m.wrong = err.Error()
	}
	if ok {
		var reply Changed
		m.wrong = cmp.Or(m.wrong, check.Misread(rec, &reply))
		m.End, m.Version = rec.End, reply.Seq
		m.Within = time.Duration(reply.Within) * time.Millisecond
	}
	switch {
	case rec.Outcome != history.Refused:
		s.changes[m.Op] = m
	case rec.Code == sut.Code(ErrStale):
		m.End = rec.End
		s.stale = append(s.stale, m)
	}
}

// looked reads an answer.
func (s *seen) looked(rec *history.Record) *look {
	l := &look{VersionSight: check.VersionSight{Op: rec.Op.ID, Start: rec.Start, End: rec.End}}
	var err error
	if l.req, err = api.RequestOf[SearchRequest](s.api, rec.Op); err != nil {
		l.wrong = err.Error()
	}
	l.wrong = cmp.Or(l.wrong, check.Misread(rec, &l.Found))
	l.Version = l.Generation
	return l
}

// judged is a run that is judged, and what its history says.
type judged struct {
	*check.Run
	*Audit
}

// knowing is a clause about an audit, once the history is read.
func knowing(judge func(judged)) check.Clause {
	return check.OnAudit(func(r *check.Run, a *Audit) func() {
		if !a.seen.read { // by the first of the clauses, which share one reading
			a.seen.read = true
			a.seen.slowest = r.Slowest(KindIndex, KindDelete, KindSearch)
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

// oracle is what follows from the log and from the texts that were asked for. It shares nothing
// with the designs that index but the analysis of texts.
func (j judged) oracle() *exact.Corpus {
	if j.seen.known == nil {
		j.seen.known = exact.NewCorpus()
		for _, row := range slices.SortedFunc(slices.Values(j.Log), func(a, b LogRow) int {
			return cmp.Compare(a.Seq, b.Seq)
		}) {
			var text *analysis.Text
			if m := j.seen.changes[row.Version]; m != nil {
				text = m.text
			}
			j.seen.known.Add(exact.Version{Doc: row.Doc, Version: row.Version, Seq: row.Seq,
				Deleted: row.Deleted}, text)
		}
	}
	return j.seen.known
}

// looks are the answers of the history that can be read and, after them, those of the end.
func (j judged) looks() []*look {
	if j.seen.all != nil {
		return j.seen.all
	}
	list := slices.DeleteFunc(slices.Clone(j.seen.looks), func(l *look) bool { return l.wrong != "" })
	for _, row := range j.Finds {
		l := &look{final: true, Found: row.Found, req: inTheEnd(row.Query, row.Most)}
		l.Version = row.Generation
		list = append(list, l)
	}
	for _, l := range list {
		l.m = j.oracle().At(l.Generation)
		var v analysis.Vocabulary // a design that does not correct words needs none
		if j.Corrects {
			v = l.m
		}
		var q analysis.Query
		q, l.meant = analysis.Parse(l.req.Query, l.req.Mode, v)
		l.wanted = l.m.Resolve(q)
	}
	j.seen.all = list
	return list
}

// ops are the operations that an answer is proved by.
func (l *look) ops(more ...uint64) []uint64 { return append([]uint64{l.Op}, more...) }

// text says which answer it is.
func (l *look) text() string {
	when := fmt.Sprintf("of %v", check.TimeText(l.End))
	if l.final {
		when = "in the end"
	}
	return fmt.Sprintf("%s of %q, %s, at generation %d", l.req.Mode, l.req.Query, when, l.Generation)
}

// began are the changes by their start.
func (s *seen) began() []*made {
	return slices.SortedFunc(maps.Values(s.changes), func(a, b *made) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.Op, b.Op))
	})
}

// inOrder compares the log with what was asked for, with time, and with itself.
func inOrder(j judged) {
	numbers := map[uint64]int64{}
	for _, row := range j.Log {
		j.Checked(1)
		numbers[row.Version] = row.Seq
		m, known := j.seen.changes[row.Version]
		if known && !m.Unanswered() && m.VersionChange.Version != row.Seq {
			j.Violate([]uint64{row.Version}, "document %d: version %d was acknowledged as change %d, and "+
				"is change %d in the log", row.Doc, row.Version, m.VersionChange.Version, row.Seq)
		}
		if known && row.Deleted != (m.text == nil) {
			j.Violate([]uint64{row.Version}, "change %d of document %d is in the log as the wrong kind",
				row.Seq, row.Doc)
		}
	}
	var list []check.VersionChange
	for _, m := range j.seen.began() {
		if m.wrong != "" {
			j.Violate([]uint64{m.Op}, "%s", m.wrong)
		}
		c := m.VersionChange
		if c.Unanswered() {
			c.Version = numbers[c.Op] // it may have been made
		}
		list = append(list, c)
	}
	pairs := j.VersionsInOrder("the log", list)
	last := map[uint64]*exact.Version{}
	for _, v := range j.oracle().Log {
		if before := last[v.Doc]; before != nil && before.Version >= v.Version {
			j.Violate([]uint64{before.Version, v.Version}, "document %d: change %d is of version %d, and "+
				"change %d was of version %d", v.Doc, v.Seq, v.Version, before.Seq, before.Version)
		}
		last[v.Doc] = v
	}
	j.Need(pairs > 0, "no change began after another one")
}

// refusedRightly looks for refusals without a reason. One of unknown outcome that is not in the log
// was never made, and none can be refused because of it.
func refusedRightly(j judged) {
	for _, m := range j.seen.stale {
		j.Checked(1)
		right := slices.ContainsFunc(j.oracle().Docs[m.doc], func(v *exact.Version) bool {
			by, known := j.seen.changes[v.Version]
			return v.Version > m.Op && (!known || by.Start <= m.End)
		})
		if !right {
			j.Violate([]uint64{m.Op}, "document %d: version %d was refused at %v because a newer one is "+
				"known, and there was none", m.doc, m.Op, m.End)
		}
	}
}

// finally compares what there is in the end with the log.
func finally(j judged) {
	j.Need(j.Documents != nil, "the audit has no documents")
	if j.Documents == nil {
		return
	}
	m := j.oracle().At(j.Generation)
	if n := len(m.Log); n > 0 && j.Generation < m.Log[n-1].Seq {
		j.Unfinished(nil, "in the end the documents are of generation %d, and the log ends at %d",
			j.Generation, m.Log[n-1].Seq)
		return
	}
	there := map[uint64]bool{}
	for _, row := range j.Documents {
		j.Checked(1)
		v := m.Of[row.Version]
		switch {
		case there[row.Doc]:
			j.Violate([]uint64{row.Version}, "in the end document %d is there twice", row.Doc)
		case v == nil || v.Doc != row.Doc || !m.There(v):
			j.Violate([]uint64{row.Version}, "in the end document %d is there with version %d, which does "+
				"not follow from the log", row.Doc, row.Version)
		}
		there[row.Doc] = true
	}
	for _, v := range m.Log {
		if m.There(v) && !there[v.Doc] {
			j.Violate([]uint64{v.Version}, "in the end document %d is not there, and the log has "+
				"its version %d", v.Doc, v.Version)
		}
	}
	j.searchedFor(m)
}

// inTheEnd is a search of the end.
func inTheEnd(query string, most int) SearchRequest {
	return SearchRequest{Query: query, Mode: analysis.And, Most: cmp.Or(most, fewHits)}
}

// askedInTheEnd are the searches for a version, after those for n newer ones.
func askedInTheEnd(title string, n int) []SearchRequest {
	words := strings.Fields(title)
	if len(words) == 0 || n >= mostFinds {
		return nil
	}
	few := inTheEnd(words[0], fewHits)
	all := []SearchRequest{inTheEnd(words[len(words)-1], fewHits), few,
		inTheEnd(words[0], manyHits), few}
	if n >= mostFirst {
		return all[:1]
	}
	return all
}

// searchedFor requires that the newest versions were searched for in the end, at its generation.
func (j judged) searchedFor(m exact.Moment) {
	asked := map[SearchRequest]bool{}
	for _, row := range j.Finds {
		asked[inTheEnd(row.Query, row.Most)] = true
		if row.Generation != j.Generation {
			j.Unfinished(nil, "what is found for %q in the end is of generation %d, and the last is %d",
				row.Query, row.Generation, j.Generation)
		}
	}
	n := 0
	for _, v := range slices.Backward(m.Log) {
		c := j.seen.changes[v.Version]
		if v.Deleted || c == nil || c.text == nil {
			continue
		}
		for _, want := range askedInTheEnd(c.text.Title, n) {
			if !asked[want] {
				j.Unfinished([]uint64{c.Op}, "nothing is said of what is found in the end for %q, %d hits "+
					"of it", want.Query, want.Most)
			}
		}
		n++
	}
}

// oneGeneration compares hits with the documents of their generation.
func oneGeneration(j judged) {
	found, whole, raced := false, false, false
	changed := j.seen.began()
	for _, l := range j.looks() {
		j.Checked(1)
		m := l.m
		if !j.possible(l) {
			continue
		}
		shown := map[uint64]bool{}
		for _, h := range l.Hits {
			found, shown[h.Doc] = true, true
			switch v := m.Of[h.Version]; {
			case v == nil || v.Doc != h.Doc || v.Deleted:
				j.Violate(l.ops(h.Version), "%s: document %d was found with version %d, which it never had",
					l.text(), h.Doc, h.Version)
			case v.Seq > m.Generation:
				j.Violate(l.ops(h.Version), "%s: document %d was found with version %d, which is of "+
					"change %d", l.text(), h.Doc, h.Version, v.Seq)
			case v.Until <= m.Generation && !m.Gone(h.Doc):
				j.Violate(l.ops(h.Version), "%s: document %d was found with version %d, which was "+
					"replaced by change %d", l.text(), h.Doc, h.Version, v.Until)
			}
		}
		raced = raced || len(l.Hits) > 0 && overlapping(l, changed)
		if len(l.Hits) >= l.req.Most {
			continue
		}
		whole = true
		for _, v := range m.Matching(l.wanted) {
			if !shown[v.Doc] {
				j.Violate(l.ops(v.Version), "%s: document %d matches with version %d, and was not "+
					"found", l.text(), v.Doc, v.Version)
			}
		}
	}
	j.Need(found, "nothing was found")
	j.Need(whole, "no search found all that there was")
	j.Need(raced, "nothing was searched for while documents changed")
}

// possible says whether an answer's generation was there when it came; it is a violation if not.
func (j judged) possible(l *look) bool {
	_, v := l.m.UpTo() // numbers may be left out, so that it need not be the answer's
	if l.final || v == nil {
		return true
	}
	if c, known := j.seen.changes[v.Version]; known && c.Start > l.End {
		j.Violate(l.ops(c.Op), "%s: change %d was only asked for at %v", l.text(), v.Seq, c.Start)
		return false
	}
	return true
}

// overlapping says whether a change was under way during a search. Changes are by their start.
func overlapping(l *look, changes []*made) bool {
	i, _ := slices.BinarySearchFunc(changes, l.Start, func(m *made, at time.Duration) int {
		return cmp.Compare(m.Start, at)
	})
	return i < len(changes) && changes[i].Start <= l.End || i > 0 && changes[i-1].End >= l.Start
}

// goneForGood looks for documents that are deleted.
func goneForGood(j judged) {
	tried := false
	for _, l := range j.looks() {
		m := l.m
		for _, h := range l.Hits {
			if v := m.Of[h.Version]; v != nil && v.Doc == h.Doc && v.Seq <= m.Generation &&
				m.Gone(h.Doc) {
				j.Violate(l.ops(h.Version), "%s: document %d was found with version %d, and is deleted",
					l.text(), h.Doc, h.Version)
			}
		}
		j.Checked(1)
		tried = tried || l.soughtInVain()
	}
	j.Need(tried, "nobody searched for what had been deleted")
}

// soughtInVain says whether a search was for a document that is deleted.
func (l *look) soughtInVain() bool {
	terms := analysis.Terms(l.req.Query)
	if len(terms) != 1 {
		return false
	}
	return slices.ContainsFunc(l.m.Having(terms[0]), func(v *exact.Version) bool {
		return v.Until <= l.m.Generation && l.m.Gone(v.Doc)
	})
}

// hitsMatch looks at each hit for itself.
func hitsMatch(j judged) {
	phrases, beginnings, corrected := false, false, false
	for _, l := range j.seen.looks {
		if l.wrong != "" {
			j.Checked(1)
			j.Violate(l.ops(), "%s", l.wrong)
		}
	}
	for _, l := range j.looks() {
		j.Checked(1)
		if len(l.Hits) > l.req.Most {
			j.Violate(l.ops(), "%s: %d hits came, and %d were asked for", l.text(), len(l.Hits), l.req.Most)
		}
		if l.DidYouMean != l.meant {
			j.Violate(l.ops(), "%s: %q was searched instead, and should have been %q", l.text(),
				l.DidYouMean, l.meant)
		}
		shown := map[uint64]bool{}
		for _, h := range l.Hits {
			if shown[h.Doc] {
				j.Violate(l.ops(h.Version), "%s: document %d was found twice", l.text(), h.Doc)
			}
			shown[h.Doc] = true
			if v := l.m.Of[h.Version]; v != nil && !l.wanted.Fits(v.Text) {
				j.Violate(l.ops(h.Version), "%s: document %d was found, and its version %d does not match",
					l.text(), h.Doc, h.Version)
			}
		}
		some := len(l.Hits) > 0
		phrases = phrases || some && len(l.wanted.Phrase) > 1
		beginnings = beginnings || some && l.req.Mode == analysis.Prefix
		corrected = corrected || some && l.meant != ""
	}
	j.Need(phrases, "no phrase was found")
	j.Need(beginnings, "nothing was found that begins like a word")
	j.Need(corrected || !j.Corrects, "nothing was found for a word that was mistyped")
}

// How scores are compared: sums in another order differ by some units in the last place.
const (
	scoreError  = 1e-9
	rankedAtOne = 4000 // answers whose scores are reckoned again at most
)

// near says whether two figures are equal but for rounding.
func near(a, b float64) bool {
	return math.Abs(a-b) <= scoreError*max(math.Abs(a), math.Abs(b))
}

// ranked compares scores.
func ranked(j judged) {
	looks := j.looks()
	every := 1 + len(looks)/rankedAtOne
	several, tied := false, false
	for i, l := range looks {
		j.Checked(1)
		for k := 1; k < len(l.Hits); k++ {
			a, b := l.Hits[k-1], l.Hits[k]
			several = several || j.Scoring == scoringBM25F || !near(a.Score, b.Score)
			if b.Score > a.Score || b.Score == a.Score && b.Doc <= a.Doc && j.Scoring == scoringBM25F {
				j.Violate(l.ops(), "%s: document %d with the score %v comes after %d with %v", l.text(),
					b.Doc, b.Score, a.Doc, a.Score)
			}
		}
		if j.Scoring == scoringBM25F && i%every == 0 {
			tied = j.reckoned(l) || tied
		}
	}
	j.Need(several, "no search told two documents apart")
	if j.Scoring == scoringBM25F {
		j.Need(tied, "no search had to choose between documents of equal scores")
	} else {
		j.moreOfTheSame(looks)
		j.Note("it ranks in its own way, and only the order by its own scores is judged")
	}
}

// moreOfTheSame compares answers of the end to one query, of which one has more hits: the scores of
// the others are the highest of these. If a merge came between them, these differ from each other.
func (j judged) moreOfTheSame(looks []*look) {
	same := func(a, b *look) bool {
		return slices.EqualFunc(a.Hits, b.Hits[:min(a.req.Most, len(b.Hits))], func(a, b Hit) bool {
			return near(a.Score, b.Score)
		})
	}
	compared := false
	for i := 1; i+1 < len(looks); i++ {
		less, l, again := looks[i-1], looks[i], looks[i+1]
		if !less.final || l.req.Most <= less.req.Most || again.req != less.req ||
			l.req.Query != less.req.Query || !same(less, again) {
			continue
		}
		j.Checked(1)
		compared = true
		if !same(less, l) {
			j.Violate(nil, "%s: the scores of %d hits are not the highest of the %d that there are",
				less.text(), len(less.Hits), len(l.Hits))
		}
	}
	j.Need(compared, "nothing was searched for in the end with more hits and with fewer")
}

// reckoned reckons the scores of an answer again, and says whether one that was left out is as good
// as the last hit.
func (j judged) reckoned(l *look) (tied bool) {
	w, m := l.wanted, l.m
	n, mean := m.Size()
	if len(w.Terms) > 0 && (l.Found.Documents != n || !near(l.Length, mean)) {
		j.Violate(l.ops(), "%s: there are %d documents of the mean length %v, and the answer says %d "+
			"of %v",
			l.text(), n, mean, l.Found.Documents, l.Length)
		return false
	}
	df := map[string]int64{}
	for _, f := range l.Frequencies {
		df[f.Term] = f.Documents
	}
	for _, term := range w.Terms {
		least, most := m.Frequency(term), min(n, m.Most(term))
		if l.final { // a merge since then has left even fewer
			most = min(most, least+j.Gone)
		}
		if df[term] < least || df[term] > most {
			j.Violate(l.ops(), "%s: %q is in %d documents, or %d with those that are gone, and the answer "+
				"says %d", l.text(), term, least, most, df[term])
			return false
		}
	}
	return j.best(l, func(v *exact.Version) float64 { return w.Score(v.Text, n, mean, df) })
}

// best compares hits with what they should be.
func (j judged) best(l *look, score func(*exact.Version) float64) (tied bool) {
	shown := map[uint64]bool{}
	for _, h := range l.Hits {
		shown[h.Doc] = true
		if v := l.m.Of[h.Version]; v != nil && !near(score(v), h.Score) {
			j.Violate(l.ops(h.Version), "%s: document %d has the score %v, and should have %v", l.text(),
				h.Doc, h.Score, score(v))
		}
	}
	if len(l.Hits) < l.req.Most {
		return false // oneGeneration says what is missing
	}
	last := l.Hits[len(l.Hits)-1]
	for _, v := range l.m.Matching(l.wanted) {
		if shown[v.Doc] {
			continue
		}
		s := score(v)
		switch equal := near(s, last.Score); {
		case !equal && s > last.Score, s == last.Score && v.Doc < last.Doc:
			j.Violate(l.ops(v.Version), "%s: document %d with the score %v was not found, and %d "+
				"with %v was", l.text(), v.Doc, s, last.Doc, last.Score)
		case equal:
			tied = true
		}
	}
	return tied
}

// patience is how long changes may be missing, whatever is promised, before they count as missing
// from what was shown.
const patience = 5 * time.Second

// neverBack compares generations with what was acknowledged, and with what clients have seen.
func neverBack(j judged) {
	var changes []check.VersionChange
	for _, m := range j.seen.changes {
		changes = append(changes, m.VersionChange)
	}
	var all []check.VersionSight
	clients := map[uint64][]check.VersionSight{}
	for _, l := range j.seen.looks {
		if l.wrong == "" {
			all = append(all, l.VersionSight)
			clients[l.req.Client] = append(clients[l.req.Client], l.VersionSight)
		}
	}
	f := &check.Freshness{Collector: j.Collector, Slack: *j.seen.slowest,
		Patience: patience + *j.seen.slowest}
	f.Look("a search", changes, all)
	j.NeedTimely(f.Looks > 0, "nobody searched after a change was due")
	f.NeedMost()
	again := &check.Freshness{Collector: j.Collector}
	for client, sights := range clients {
		had := make([]check.VersionChange, len(sights))
		for i, s := range sights {
			had[i] = check.VersionChange{Op: s.Op, Start: s.Start, End: s.End, Version: s.Version}
		}
		again.Look(fmt.Sprintf("client %d", client), had, sights)
	}
	j.Need(again.Looks > 0, "no client searched twice")
}

// segmentsWhole looks at the files in the end.
func segmentsWhole(j judged) {
	documents, named := int64(0), map[uint64]bool{}
	var last []uint64 // the newest change, for want of one that a file names
	if log := j.Log; len(log) > 0 {
		last = []uint64{log[len(log)-1].Version}
	}
	for _, s := range j.Segments {
		j.Checked(1)
		if named[s.ID] {
			j.Violate(last, "segment %d is there twice", s.ID)
		}
		named[s.ID] = true
		documents += s.Documents
		if !s.Whole {
			j.Violate(last, "segment %d of %d documents is not whole", s.ID, s.Documents)
		}
	}
	if j.Documents != nil && documents > int64(len(j.Documents)) {
		j.Violate(last, "%d documents are in segments, and there are %d", documents, len(j.Documents))
	}
	j.Need(len(j.Segments) > 0, "there is no segment")
}
