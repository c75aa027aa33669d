package index

import (
	"cmp"
	"maps"
	"math"
	"runtime"
	"slices"

	"stampede/systems/textsearch/analysis"
)

// Search finds the n best documents that match. The longer a query's lists are, the longer it
// takes; in segments it leaves out whole blocks of them whose documents cannot be among the best,
// as Block-Max MAXSCORE does (Dimopoulos, Nepomnyachiy, Suel: Optimizing Top-k Document Retrieval
// Strategies for Block-Max Indexes, WSDM 2013).
func (s *Snapshot) Search(q analysis.Query, n int) Result {
	defer runtime.KeepAlive(s)
	r := Result{Hits: []analysis.Hit{}, N: s.docs, DF: map[string]int64{}}
	if r.N > 0 {
		r.Length = float64(s.length) / float64(r.N)
	}
	f := s.finding(q, &r)
	f.most = max(n, 0)
	f.find(s.leaves)
	return r
}

// finding is a search.
type finding struct {
	*Result
	wrong  Wrong
	most   int
	count  int64 // of documents that match
	terms  []string
	groups [][]string // each term of the phrase is one, too
	phrase []analysis.Placed
	scale
	weights []float64 // of terms
}

// finding looks up the terms of a query, once each and in the order of their bytes.
func (s *Snapshot) finding(q analysis.Query, r *Result) *finding {
	f := &finding{Result: r, wrong: s.x.opt.Wrong, phrase: q.Phrase}
	f.scale = scale{r.Length, f.wrong.RoundedBounds}
	for _, g := range q.Must {
		terms := slices.Clone(g.Terms)
		if g.Prefix != "" {
			terms = append(terms, s.prefixed(g.Prefix)...)
		}
		f.groups = append(f.groups, terms)
	}
	for _, p := range q.Phrase {
		if p.Place < 0 || p.Place >= analysis.MaxPlace {
			f.groups = append(f.groups, nil) // which no document has
		}
		f.groups = append(f.groups, []string{p.Term})
	}
	for _, g := range f.groups {
		for _, term := range g {
			r.DF[term] = 0
		}
	}
	f.terms = slices.Sorted(maps.Keys(r.DF))
	return f
}

// find goes through all leaves, the largest first, so that the best hits are found early.
func (f *finding) find(leaves []leaf) {
	cursors := make([][]*cursor, len(leaves))
	for i := range leaves {
		cursors[i] = make([]*cursor, len(f.terms))
		for j, term := range f.terms {
			if c := leaves[i].cursor(term); c != nil {
				cursors[i][j] = c
				f.DF[term] += int64(c.n)
			}
		}
	}
	order := make([]int, len(leaves))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(leaves[b].entries(), leaves[a].entries())
	})
	for _, term := range f.terms {
		f.DF[term] = min(f.DF[term], f.N)
		df := float64(f.DF[term])
		idf := math.Log(1 + (float64(f.N)-df+0.5)/(df+0.5))
		f.weights = append(f.weights, idf*(K1+1))
	}
	for _, i := range order {
		f.in(&leaves[i], cursors[i])
	}
}

// search is a search in one leaf.
type search struct {
	*finding
	l      *leaf
	all    []*cursor   // in the order of their terms
	groups [][]*cursor // of those: a match has one of each group; the first group is the rarest
	phrase []*cursor
	pruned bool

	// A window, once there are enough hits: up to entry end, bounds are what each of all adds to a
	// score at most, and a hit has one of leading, which are of the first group.
	windows bool
	end     uint32
	bounds  []float64
	leading []*cursor
	without []bool // see competes
}

// in searches a leaf.
func (f *finding) in(l *leaf, cursors []*cursor) {
	s := &search{finding: f, l: l, end: none, pruned: f.most > 0 && l.seg != nil}
	byTerm := map[string]*cursor{}
	for i, c := range cursors {
		if c != nil {
			c.weight, c.scale, c.slot = f.weights[i], &f.scale, len(s.all)
			byTerm[f.terms[i]] = c
			s.all = append(s.all, c)
		}
	}
	for _, terms := range f.groups {
		var group []*cursor
		for _, term := range terms {
			if c := byTerm[term]; c != nil && !slices.Contains(group, c) {
				group = append(group, c)
			}
		}
		if group == nil {
			return
		}
		s.groups = append(s.groups, group)
	}
	if len(s.groups) == 0 {
		return
	}
	for _, p := range f.phrase {
		s.phrase = append(s.phrase, byTerm[p.Term])
	}
	slices.SortStableFunc(s.groups, func(a, b []*cursor) int { return cmp.Compare(sum(a), sum(b)) })
	s.leading = slices.Clone(s.groups[0])
	s.bounds, s.without = make([]float64, len(s.all)), make([]bool, len(s.all))
	s.run()
}

// sum is how many postings some cursors have.
func sum(list []*cursor) (n int) {
	for _, c := range list {
		n += c.n
	}
	return n
}

// nearest is the first entry from at on that one of some cursors has.
func nearest(list []*cursor, at uint32) uint32 {
	first := uint32(none)
	for _, c := range list {
		first = min(first, c.seek(at))
	}
	return first
}

// behind is the entry after another.
func behind(at uint32) uint32 { return at + min(1, none-at) }

// run goes from one entry that may match to the next.
func (s *search) run() {
	for at := uint32(0); at != none; {
		if s.pruned && len(s.Hits) == s.most && (!s.windows || at > s.end) {
			if len(s.groups) > 1 {
				at = nearest(s.groups[0], at)
			}
			if s.windows = true; !s.window(at) {
				at = behind(s.end)
				continue
			}
		}
		found := nearest(s.leading, at)
		if found == none && s.end == none {
			return
		}
		if found > s.end {
			at = behind(s.end)
			continue
		}
		at = s.consider(found)
	}
}

// window begins a window at an entry. It returns false if no entry of it can be a hit.
func (s *search) window(at uint32) bool {
	s.end = none
	for i, c := range s.all {
		var until uint32
		s.bounds[i], until = c.look(at)
		s.end = min(s.end, until)
	}
	clear(s.without)
	if !s.competes(at) {
		return false
	}
	s.leading = append(s.leading[:0], s.groups[0]...)
	if len(s.leading) == 1 {
		return true
	}
	slices.SortFunc(s.leading, func(a, b *cursor) int {
		return cmp.Compare(s.bounds[b.slot], s.bounds[a.slot])
	})
	for i, c := range s.leading {
		if s.without[c.slot] = true; !s.competes(at) { // without the first ones there is no hit
			s.leading = s.leading[:i+1]
			break
		}
	}
	return true
}

// competes says whether entries from at on can be hits, even without those cursors that are marked.
// Bounds are added in the order of scores, so they are not below these by rounding either.
func (s *search) competes(at uint32) bool {
	var bound float64
	for i, b := range s.bounds {
		if !s.without[i] {
			bound += b
		}
	}
	return s.may(bound, at)
}

// may says whether an entry from at on can be a hit with a score.
func (s *search) may(score float64, at uint32) bool {
	if len(s.Hits) < s.most {
		return true
	}
	worst := s.Hits[s.most-1]
	if score == worst.Score && !s.wrong.TiesPruned {
		return int64(at) < int64(s.l.entries()) && s.l.row(at).doc < worst.Doc
	}
	return score > worst.Score
}

// consider adds an entry to the hits if it is one, and says which is the next that may be.
func (s *search) consider(at uint32) uint32 {
	if s.l.isOld(at) {
		return behind(at)
	}
	long := s.l.len(at)
	if s.windows {
		var bound float64
		for i, c := range s.all {
			switch {
			case !c.placed || c.at < at:
				bound += s.bounds[i]
			case c.at == at:
				bound += c.score(c.tfs[c.i], long)
			}
		}
		if !s.may(bound, at) {
			return behind(at)
		}
	}
	for _, g := range s.groups[1:] {
		if next := nearest(g, at); next > at {
			return next
		}
	}
	if len(s.phrase) > 0 && !s.occurs(at) {
		return behind(at)
	}
	s.count++
	if s.most > 0 {
		s.add(at, long)
	}
	return behind(at)
}

// add adds an entry that matches to the hits, if it is among the best.
func (s *search) add(at, long uint32) {
	var score float64
	for _, c := range s.all {
		if c.seek(at) == at {
			score += c.score(c.tfs[c.i], long)
		}
	}
	r := s.l.row(at)
	hit := analysis.Hit{Doc: r.doc, Version: r.Version, Score: score}
	i, _ := slices.BinarySearchFunc(s.Hits, hit, func(a, b analysis.Hit) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Doc, b.Doc))
	})
	if i < s.most {
		s.Hits = slices.Insert(s.Hits, i, hit)
		s.Hits = s.Hits[:min(s.most, len(s.Hits))]
	}
}

// occurs says whether an entry that has all terms of the phrase has the phrase.
func (s *search) occurs(at uint32) bool {
	for _, c := range s.phrase {
		c.seek(at)
	}
	for _, from := range s.phrase[0].line() {
		from := int64(from) - int64(s.finding.phrase[0].Place)
		is := true
		for i := 1; i < len(s.phrase) && is; i++ {
			place := from + int64(s.finding.phrase[i].Place)
			_, is = slices.BinarySearchFunc(s.phrase[i].line(), place,
				func(a uint32, b int64) int { return cmp.Compare(int64(a), b) })
		}
		if is {
			return true
		}
	}
	return false
}
