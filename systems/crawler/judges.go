package crawler

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
	"stampede/systems/crawler/web"
)

// The names of the invariants.
const (
	SeedsKept      = "seeds-kept"
	AllFetched     = "all-fetched"
	FetchedOnce    = "fetched-once"
	Polite         = "polite"
	RobotsHeeded   = "robots-heeded"
	WithinLimits   = "within-limits"
	StoredAsServed = "stored-as-served"
	AllCounted     = "all-counted"
)

// The tables of facts.
const (
	seedFact    = "seed"
	hostFact    = "host"      // the pages of a host, as a design counted them
	countedFact = "host page" // as they are
)

// invariants are what must be true of every design. See
// docs/decisions/2026-11-28-the-web-s-own-log-is-the-judge.md.
func invariants(p Params) []check.Invariant {
	s := check.Subject{Read: check.Audited(api.DecodeAudit[Audit], func(a *Audit) check.Facts {
		return facts(a, p)
	})}
	seeds := check.Effects{Table: seedFact, Kind: check.Named(KindSeed)}
	return []check.Invariant{
		s.State(SeedsKept, "a seed that is a page is not refused as none, and no other is taken; one "+
			"that is acknowledged is kept once, and nothing is that nobody asked for; from then on its "+
			"page is known, and what is said of a page is so and never becomes less",
			check.AckedDurable(seeds), check.NoPhantom(seeds), check.AtMostOnce(seedFact, check.ByOp),
			judging(lookedAt)),
		s.State(AllFetched, "every page that seeds lead to is fetched, but for those that are "+
			"disallowed, beyond the limits or out of reach; and no other page is",
			judging(allFetched)),
		s.State(FetchedOnce, "a page is kept once, and again only if it says how long it is fresh "+
			"and its time has come; every other request for it failed, or was under way when something "+
			"broke", judging(fetchedOnce)),
		s.State(Polite, "by the web's clock, between an answer of a host or an address and the next "+
			"request to it passes as long as it wants", judging(polite)),
		s.State(RobotsHeeded, "a page is asked for only if a robots.txt allows it that was handed "+
			"out shortly before", judging(robotsHeeded)),
		s.State(WithinLimits, "no page is asked for that is beyond the limits of paths, of redirects "+
			"or of a host, or more often in vain than it may be", judging(withinLimits)),
		s.State(StoredAsServed, "the body of a page is one that the web sent whole, and each is "+
			"stored once", judging(storedAsServed)),
		s.State(AllCounted, "at rest the pages of each host that were heard of are as many as were "+
			"counted", check.AtMostOnce(hostFact, check.ByKey), check.Agree(check.Pair{A: hostFact,
			B: countedFact, By: check.ByKey | check.ByThing,
			AtRest: true, OfA: func(f *check.Fact) bool { return f.Thing > 0 }})),
	}
}

// facts reads an audit as tables.
func facts(a *Audit, p Params) check.Facts {
	a.seen = readLog(a, p)
	var tables []*check.Table
	if a.Seeds != nil {
		tables = append(tables, check.Rows(seedFact, a.Seeds))
	}
	if a.Hosts != nil {
		tables = append(tables, check.Rows(hostFact, a.Hosts))
	}
	if a.Pages != nil {
		counts := map[string]int64{}
		for _, row := range a.Pages {
			counts[hostOf(keyOf(row.URL))]++
		}
		counted := make([]check.Fact, 0, len(counts))
		for _, host := range slices.Sorted(maps.Keys(counts)) {
			counted = append(counted, check.Fact{Key: host, Thing: counts[host]})
		}
		tables = append(tables, check.TableOf(countedFact, counted))
	}
	return check.Facts{Tables: tables}
}

// keyOf is the key of an address.
func keyOf(url string) string { return strings.TrimPrefix(url, "http://") }

// hostOf is the host of a key.
func hostOf(key string) string {
	host, _ := web.Split(key)
	return host
}

// seen is what the web's log says, by page and by who was asked.
type seen struct {
	p     Params
	shape web.Shape
	pages map[string][]*web.Exchange // by key, in order
	hosts map[string][]*web.Exchange // all of a host
	ips   map[string][]*web.Exchange
	rows  map[string]*PageRow // by key
	// heard is when each process asked for the last time, latest what it asked of each address last.
	heard  map[string]int64
	latest map[[2]string]*web.Exchange
	// room is the time between the request before one to its address, as long as the web knows that
	// somebody waited for its answer, and the one after it.
	room map[*web.Exchange]time.Duration
	// raced is how many requests were under way while another one was.
	raced int64

	// What follows is the history's, which the first of the clauses reads.
	read  bool
	seeds map[string]uint64 // the keys that were asked for, and not refused, with an operation
	acked map[string]uint64
	asked time.Duration // for the first seed
	// What replies have said of pages, by address; and of those that cannot be so, by operation.
	changes map[string][]check.VersionChange
	sights  map[string][]check.VersionSight
	misread map[uint64]string
	hasty   int // pages that were given up although nobody waited for their answers
	*closure
	// The web's clock is so far ahead of that of the history, at least and at most.
	least, most time.Duration
}

func readLog(a *Audit, p Params) *seen {
	s := &seen{p: p, shape: p.Web(), pages: map[string][]*web.Exchange{},
		hosts: map[string][]*web.Exchange{}, ips: map[string][]*web.Exchange{},
		rows: map[string]*PageRow{}, heard: map[string]int64{},
		latest: map[[2]string]*web.Exchange{}, room: map[*web.Exchange]time.Duration{},
		seeds: map[string]uint64{}, acked: map[string]uint64{}, asked: history.Never,
		changes: map[string][]check.VersionChange{}, sights: map[string][]check.VersionSight{},
		misread: map[uint64]string{}}
	for i := range a.Pages {
		s.rows[keyOf(a.Pages[i].URL)] = &a.Pages[i]
	}
	slices.SortStableFunc(a.Log, func(x, y web.Exchange) int { return cmp.Compare(x.AtNS, y.AtNS) })
	spans := make([]check.Span, 0, len(a.Log))
	for i := range a.Log {
		e := &a.Log[i]
		s.pages[e.Key] = append(s.pages[e.Key], e)
		if e.Stale {
			continue // nobody knows when it was sent
		}
		s.heard[e.Agent], s.latest[[2]string{e.Agent, e.IP}] = e.AtNS, e
		s.hosts[hostOf(e.Key)] = append(s.hosts[hostOf(e.Key)], e)
		if e.IP != "" {
			s.ips[e.IP] = append(s.ips[e.IP], e)
		}
		spans = append(spans, check.Span{Who: e.Key, From: time.Duration(e.AtNS),
			To: time.Duration(e.SeenNS) + 1})
	}
	s.raced = check.Together(spans).Raced
	for _, list := range s.ips {
		seen := int64(0)
		for i, e := range list {
			s.room[e] = math.MaxInt64
			if i+1 < len(list) {
				s.room[e] = time.Duration(list[i+1].AtNS - seen)
			}
			seen = max(seen, e.SeenNS)
		}
	}
	return s
}

// answered says whether a request was answered by a page, or by that there is none.
func answered(e *web.Exchange) bool { return e.Status > 0 && e.Status < 500 }

// judged is an audit that is judged.
type judged struct {
	*check.Run
	*Audit
	*seen
}

// see takes a record in. The times at which a page was fetched are its versions, from 1 on.
func (s *seen) see(rec *history.Record) {
	url, op, look := rec.Op.Key, rec.Op.ID, rec.Op.Kind == KindLook
	if !look && rec.Outcome != history.Refused {
		s.asked = min(s.asked, rec.Start)
		s.seeds[keyOf(url)] = op
	}
	if rec.Outcome != history.OK {
		_, is := s.shape.Find(keyOf(url))
		if is && rec.Code == sut.Code(ErrNoPage) && !s.p.Filtered(keyOf(url)) {
			s.misread[op] = fmt.Sprintf("%s is a page, and was refused because it is none", url)
		}
		return
	}
	if _, is := s.shape.Number(hostOf(keyOf(url))); !is {
		s.misread[op] = fmt.Sprintf("%s is no page, and was taken as one", url)
		return
	}
	if !look {
		s.acked[keyOf(url)] = op
	}
	var page Page
	if wrong := check.Misread(rec, &page); wrong != "" {
		s.misread[op] = wrong
		return
	}
	if page.URL != url {
		s.misread[op] = fmt.Sprintf("who asked about %s was told of %s", url, page.URL)
	}
	c := check.VersionChange{Op: op, Start: rec.Start, End: rec.End, Version: 1}
	if look {
		if c.Version += page.Fetched; page.State == "" {
			c.Version = 0
		}
		s.sights[url] = append(s.sights[url], check.VersionSight{Op: op, Start: c.Start, End: c.End,
			Version: c.Version})
		if wrong := s.untrue(keyOf(url), page); wrong != "" {
			s.misread[op] = fmt.Sprintf("%s was shown as %+v: %s", url, page, wrong)
		}
	}
	s.changes[url] = append(s.changes[url], c)
}

// untrue says why a page cannot be what a look says, given what there is in the end: it is fetched
// once, and stays as it is then, unless it says how long it is fresh.
func (s *seen) untrue(key string, p Page) string {
	row := s.rows[key]
	page, is := s.shape.Find(key)
	fetched := slices.Contains([]string{done, moved, large, gone}, p.State)
	switch {
	case p.State == "":
	case row == nil:
		return "in the end nobody has heard of it"
	case p.Fetched > row.Fetched:
		return fmt.Sprintf("in the end it was fetched %d times", row.Fetched)
	case fetched && is && p.Status != page.Status, fetched && !is && p.Status != 404:
		return "the web has another status"
	case page.News && p.Hash != "" && !s.sent(key, p.Hash):
		return "the web never sent that"
	case page.News || p.State != waiting && p.State == row.State && p.Hash == row.Hash:
	case p.State != waiting || p.Fetched > 0 || p.Hash != "":
		return fmt.Sprintf("in the end it is %s with the body %q", row.State, row.Hash)
	}
	return ""
}

// sent says whether the web has sent a body of a page whole.
func (s *seen) sent(key, hash string) bool {
	return slices.ContainsFunc(s.pages[key], func(e *web.Exchange) bool { return e.Hash == hash })
}

// judging is a clause about the pages of an audit and the web's log.
func judging(judge func(j *judged)) check.Clause {
	return check.OnAudit(func(r *check.Run, a *Audit) func() {
		if !a.seen.read {
			a.seen.read = true
			r.See(a.seen.see, KindSeed, KindLook)
		}
		return func() {
			r.Need(a.Log != nil, "the audit has no log of the web")
			r.Need(a.Pages != nil, "the audit has no pages")
			if a.Log != nil && a.Pages != nil {
				j := &judged{r, a, a.seen}
				if j.closure == nil {
					j.closure = j.follow()
					j.clocks()
				}
				judge(j)
			}
		}
	})
}

// lookedAt judges that a page is known once its seed was acknowledged, that the times at which it
// was fetched only become more, and that what is said of it is so. Who looks makes no version, and
// is promised that later ones see no older one.
func lookedAt(j *judged) {
	for _, op := range slices.Sorted(maps.Keys(j.misread)) {
		j.Violate([]uint64{op}, "%s", j.misread[op])
	}
	f, fetched, had, due := &check.Freshness{Collector: j.Collector}, 0, 0, 0
	for _, url := range slices.Sorted(maps.Keys(j.sights)) {
		f.Look(url, j.changes[url], j.sights[url])
		kept := j.keptBy(keyOf(url))
		for _, s := range j.sights[url] {
			shows := count(s.Version > 1)
			fetched += shows
			if kept < s.Start+j.least {
				had, due = had+shows, due+1
			}
		}
	}
	j.Need(fetched > 0, "nobody saw that a page was fetched")
	j.Need(4*had >= due, "%d of %d looks show that a page was fetched that the web had answered "+
		"long before; a quarter is needed", had, due)
}

// keptBy is when a page that the web answered should be known as fetched, by the web's clock. No
// time is promised, and an answer may be lost, so that not every look has to show it.
func (j *judged) keptBy(key string) time.Duration {
	page, _ := j.shape.Find(key)
	for _, e := range j.pages[key] {
		if answered(e) && !page.Torn {
			return time.Duration(e.SeenNS) + j.p.Lease.D() + j.p.FetchTimeout.D()
		}
	}
	return history.Never
}

// overlapped asks for requests at the same time.
func (j *judged) overlapped() {
	const least = 20
	j.Need(j.raced >= least, "%d requests were under way while another one was; at least %d are "+
		"needed", j.raced, least)
}

// opOf is a seed that leads to a page, or else to its host.
func (j *judged) opOf(key string) []uint64 {
	return []uint64{j.seeds[cmp.Or(j.root[key], j.host[hostOf(key)])]}
}

// clockSlack is by how much the clock of a design's store may differ from the web's over a time:
// both are of one machine, but one of them is being set right.
func clockSlack(d time.Duration) time.Duration { return time.Millisecond + d/100 }

// polite judges gaps. It never blames a design that keeps them, however late the machine makes
// things:
//
// The web notes when a request has arrived (at), and later, before it answers, once more (seen);
// and each time it looks whether the client's side of the connection is open. A design asks a host
// again only when it has an answer, or has closed the connection, and has waited. So at "seen",
// with the connection open, the wait had not begun; and the next request arrives after it was sent.
// Of a request whose client has gone "seen" is when it arrived; and one that nobody waited for even
// then is left out, because it may have been sent at any time before.
func polite(j *judged) {
	j.gaps("host", j.hosts)
	j.gaps("address", j.ips)
	j.overlapped()
}

func (j *judged) gaps(what string, by map[string][]*web.Exchange) {
	for _, who := range slices.Sorted(maps.Keys(by)) {
		wants := j.p.Delay.D()
		host, is := j.shape.Number(who)
		var last *web.Exchange // the one that was seen last
		ruled := false         // a crawl delay was handed out; who asks for a page knows it
		for _, e := range by[who] {
			if last != nil {
				j.Checked(1)
				gap := time.Duration(e.AtNS - last.SeenNS)
				least := wants
				if is && ruled && !strings.HasSuffix(last.Key, "/robots.txt") {
					least = max(wants, j.shape.Delay(host))
				}
				if gap < least-clockSlack(least) {
					when := fmt.Sprintf("%v after it was still", gap)
					if gap < 0 {
						when = "while it was"
					}
					j.Violate(append(j.opOf(last.Key), j.opOf(e.Key)...), "%s %s was asked for %s %s being "+
						"asked for %s; it wants a pause of %v", what, who, e.Key, when, last.Key, least)
				}
			}
			if last == nil || e.SeenNS > last.SeenNS {
				last = e
			}
			ruled = ruled || answered(e) && strings.HasSuffix(e.Key, "/robots.txt")
		}
	}
}

// robotsHeeded holds each request against the rules that its host had handed out by then. A copy's
// time begins when it is stored, which may be a lease later if the store is away. A design
// may heed for their time those that it has, and some longer if the machine is busy.
func robotsHeeded(j *judged) {
	version := func(e *web.Exchange) int { return j.shape.Version(time.Duration(e.AtNS)) }
	for _, name := range slices.Sorted(maps.Keys(j.hosts)) {
		var handed []*web.Exchange
		for _, e := range j.hosts[name] {
			if strings.HasSuffix(e.Key, "/robots.txt") {
				handed = append(handed, e)
				continue
			}
			j.Checked(1)
			allowed, last := false, (*web.Exchange)(nil)
			for _, r := range handed {
				if !answered(r) || r.SeenNS > e.AtNS {
					continue
				}
				last = r
				age := time.Duration(e.AtNS - r.SeenNS)
				fresh := age <= j.p.RobotsTTL.D()+j.p.Lease.D()+j.p.FetchTimeout.D()
				allowed = allowed || fresh && j.shape.Allowed(e.Key, version(r))
			}
			switch {
			case allowed:
			case last == nil:
				j.Violate(j.opOf(e.Key), "%s was asked for at %v of the web's clock, before a robots.txt "+
					"of its host was handed out", e.Key, time.Duration(e.AtNS))
			default:
				j.Violate(j.opOf(e.Key), "%s was asked for at %v of the web's clock; the robots.txt of "+
					"its host was handed out at %v in version %d, and nothing that is as new allows it",
					e.Key, time.Duration(e.AtNS), time.Duration(last.SeenNS), version(last))
			}
		}
	}
	j.Need(slices.ContainsFunc(j.Pages, func(row PageRow) bool { return row.State == disallowed }),
		"no page was disallowed")
}

// storedAsServed compares bodies with what the web has sent.
func storedAsServed(j *judged) {
	bodies, sizes := map[string]bool{}, map[string]int64{}
	of, shared := map[string]string{}, map[string]int{} // a page of each body, and how many it has
	for _, row := range j.Pages {
		of[row.Hash] = keyOf(row.URL)
		shared[row.Hash]++
	}
	delete(shared, "")
	for i := range j.Log {
		sizes[j.Log[i].Hash] = j.Log[i].Bytes
	}
	delete(sizes, "") // of what was not sent whole
	for _, b := range j.Bodies {
		j.Checked(1)
		ops := j.opOf(of[b.Hash])
		if bodies[b.Hash] {
			j.Violate(ops, "the body %.12s is stored twice", b.Hash)
		}
		bodies[b.Hash] = true
		if b.Hash != b.Is {
			j.Violate(ops, "a body is stored as %.12s and is %.12s", b.Hash, b.Is)
		}
		if size, sent := sizes[b.Hash]; !sent {
			j.Violate(ops, "the body %.12s is stored, and the web never sent it whole", b.Hash)
		} else if size != b.Bytes {
			j.Violate(ops, "the body %.12s has %d bytes, and was sent with %d", b.Hash, b.Bytes, size)
		}
	}
	for _, row := range j.Pages {
		key := keyOf(row.URL)
		if row.Hash == "" {
			if row.State == done {
				j.Violate(j.opOf(key), "%s is done, and no body of it is stored", key)
			}
			continue
		}
		j.Checked(1)
		if !j.sent(key, row.Hash) {
			j.Violate(j.opOf(key), "the body of %s is %.12s, and the web never sent it whole", key,
				row.Hash)
		}
		if !bodies[row.Hash] {
			j.Violate(j.opOf(key), "the body of %s, %.12s, is not stored", key, row.Hash)
		}
	}
	j.Need(len(bodies) > 0, "no body is stored")
	j.Need(slices.ContainsFunc(slices.Collect(maps.Values(shared)), func(n int) bool { return n > 1 }),
		"no two pages had the same text")
}
