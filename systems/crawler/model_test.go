package crawler_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"stampede/harness/api"
	"stampede/harness/history"
	"stampede/harness/sut"
	"stampede/harness/suttest"
	"stampede/systems/crawler"
	"stampede/systems/crawler/web"
)

type evidence = suttest.Evidence[crawler.Params, crawler.Audit]

// spider is the smallest correct crawler, in a web in virtual time: for each address one thing
// after the other. It reads no HTML and no robots.txt: the graph tells it what they mean.
type spider struct {
	api    *api.Table[crawler.Crawler]
	p      crawler.Params
	shape  web.Shape
	w      *suttest.World
	fault  []history.Window
	lost   map[string]bool // addresses of which an answer was not kept, because of the fault
	lives  int             // of the process
	nonce  uint64
	before map[string]int

	seeds  map[uint64]string
	pages  map[string]*leaf
	keys   []string
	counts map[string]int
	rules  map[string]ruling
	inVain map[string]int // robots.txt of a host
	busy   map[string]bool
	free   map[string]time.Duration
	bodies map[string]int
	log    []web.Exchange
}

type leaf struct {
	crawler.PageRow
	ip, host string
	status   int
	hops     int
	tries    int
	due      time.Duration
}

type ruling struct {
	at      time.Duration
	version int
	all     bool // everything is disallowed
}

// newSpider makes a crawler of which a fault loses answers of the web, or, with every other seed,
// which it kills.
func newSpider(w *suttest.World, p *crawler.Params) *spider {
	s := &spider{api: crawler.API(), p: *p, shape: p.Web(), w: w, before: map[string]int{},
		lost: map[string]bool{}, seeds: map[uint64]string{}, pages: map[string]*leaf{},
		counts: map[string]int{}, rules: map[string]ruling{},
		inVain: map[string]int{}, busy: map[string]bool{},
		free: map[string]time.Duration{}, bodies: map[string]int{}}
	if s.fault = w.Windows; len(s.fault) > 0 && w.Seed%2 == 1 {
		s.fault, w.Windows[0].Fault = nil, "kill fetcher"
		w.After(400*ms, func() { s.lives++ })
	}
	return s
}

// Do performs an operation.
func (s *spider) Do(op history.Op, answer func(history.Reply, error)) {
	answer(s.api.Do(context.Background(), s, op))
}

// Seed makes a page known.
func (s *spider) Seed(_ context.Context, req crawler.SeedRequest) (crawler.Seeded, error) {
	host, _ := web.Split(strings.TrimPrefix(req.URL, "http://"))
	if _, is := s.shape.Number(host); !is {
		return crawler.Seeded{}, crawler.ErrNoPage
	}
	s.seeds[req.ID] = req.URL
	s.add(strings.TrimPrefix(req.URL, "http://"), 0, true)
	return crawler.Seeded{URL: req.URL}, nil
}

// Look says what is known.
func (s *spider) Look(_ context.Context, req crawler.LookRequest) (crawler.Page, error) {
	page := crawler.Page{URL: req.URL}
	if l := s.pages[strings.TrimPrefix(req.URL, "http://")]; l != nil {
		page.State, page.Fetched, page.Hash, page.Status = l.State, l.Fetched, l.Hash, l.status
	}
	return page, nil
}

func (s *spider) add(key string, hops int, seed bool) {
	host, _ := web.Split(key)
	n, is := s.shape.Number(host)
	if s.pages[key] != nil || !is || s.p.Filtered(key) || hops > s.p.Redirects ||
		s.counts[host] >= s.p.PerHost && !seed {
		return
	}
	s.counts[host]++
	s.pages[key] = &leaf{PageRow: crawler.PageRow{URL: "http://" + key, State: "waiting"},
		ip: s.shape.IP(n), host: host, hops: hops}
	s.keys = append(s.keys, key)
	if ip := s.shape.IP(n); !s.busy[ip] {
		s.busy[ip] = true
		s.w.After(s.free[ip]-s.w.Now, func() { s.tick(ip) })
	}
}

// tick does one thing of an address.
func (s *spider) tick(ip string) {
	next := time.Duration(-1)
	for _, key := range s.keys {
		l := s.pages[key]
		switch {
		case l.ip != ip || l.State != "waiting":
		case l.due > s.w.Now:
			if next < 0 || l.due < next {
				next = l.due
			}
		default:
			s.visit(key, l)
			return
		}
	}
	if s.busy[ip] = next >= 0; next >= 0 {
		s.w.After(next-s.w.Now, func() { s.tick(ip) })
	}
}

func (s *spider) visit(key string, l *leaf) {
	again := func(rest time.Duration) {
		s.free[l.ip] = s.w.Now + rest
		s.w.After(rest, func() { s.tick(l.ip) })
	}
	r, has := s.rules[l.host]
	if !has || s.w.Now-r.at >= s.p.RobotsTTL.D() {
		s.ask(l.host+"/robots.txt", func(a web.Answer, ok bool) {
			if ok && a.Status < 500 {
				s.rules[l.host] = ruling{at: s.w.Now, version: s.shape.Version(s.clock())}
				n, _ := s.shape.Number(l.host)
				for _, sitemap := range s.shape.Sitemaps(n) {
					s.add(sitemap, 0, false)
				}
			} else if s.inVain[l.host]++; s.inVain[l.host] >= s.p.Attempts {
				s.rules[l.host] = ruling{at: s.w.Now, all: true}
			}
			again(s.rest(l.host))
		})
		return
	}
	if r.all || !s.shape.Allowed(key, r.version) {
		l.State = "disallowed"
		again(0)
		return
	}
	s.ask(key, func(a web.Answer, ok bool) {
		if s.loses(l.ip) {
			again(s.p.Lease.D())
			return
		}
		s.keep(key, l, a, ok)
		again(s.rest(l.host))
	})
}

// clock is the web's, which began before.
func (s *spider) clock() time.Duration { return s.w.Now + 5*time.Second }

func (s *spider) rest(host string) time.Duration {
	n, _ := s.shape.Number(host)
	return max(s.p.Delay.D(), s.shape.Delay(n))
}

// loses says whether an answer cannot be kept: under a fault, one of an address, and no more than
// may be on their way.
func (s *spider) loses(ip string) bool {
	for _, f := range s.fault {
		if s.w.Now >= f.Start && s.w.Now < f.End && len(s.lost) < s.p.Workers && !s.lost[ip] &&
			s.w.Rand.IntN(4) == 0 {
			s.lost[ip] = true
			return true
		}
	}
	return false
}

// ask sends a request, which travels for a while. Some answers come when nobody waits any more.
func (s *spider) ask(key string, then func(a web.Answer, ok bool)) {
	life, late := s.lives, s.w.Rand.IntN(50) == 0
	s.w.After(s.w.Some(2*ms), func() {
		host, _ := web.Split(key)
		n, _ := s.shape.Number(host)
		at, ip := s.clock(), s.shape.IP(n)
		a := s.shape.Answer(key, at, s.before[key], s.nonce)
		s.before[key]++
		s.nonce++
		// Of what a process asked for that died nobody hears, and the address rests.
		tell := func(in time.Duration, heard bool) {
			s.w.After(in, func() {
				if life == s.lives {
					then(a, heard)
					return
				}
				s.w.After(s.p.Lease.D(), func() { s.tick(ip) })
			})
		}
		e := web.Exchange{Agent: fmt.Sprint("spider ", life), Key: key, IP: ip, AtNS: int64(at),
			SeenNS: int64(at)}
		if a.Silent {
			s.log = append(s.log, e)
			tell(s.p.FetchTimeout.D(), false)
			return
		}
		takes := a.Takes + s.w.Some(ms)
		if late { // it is given just before nobody waits for it any more
			takes = s.p.FetchTimeout.D() - 2*ms
		}
		s.w.After(takes, func() {
			if life != s.lives {
				s.log = append(s.log, e)
				tell(0, false)
				return
			}
			e.SeenNS, e.Status, e.Hash = int64(s.clock()), a.Status, a.Hash
			if a.Hash != "" {
				e.Bytes = int64(len(a.Body))
			}
			s.log = append(s.log, e)
			heard := !a.Shut && a.Declared <= len(a.Body) && !late
			wait := s.w.Some(100*ms) / time.Duration(1+s.w.Rand.IntN(100)) // and it is stored
			if late {
				wait = 4 * ms
			}
			tell(wait, heard)
		})
	})
}

// keep decides what becomes of a page.
func (s *spider) keep(key string, l *leaf, a web.Answer, ok bool) {
	l.status = a.Status
	if !ok || a.Status >= 500 {
		l.Failed++
		l.due = s.w.Now + s.p.RetryPause.D()
		if l.tries++; l.tries >= s.p.Attempts {
			l.State = "failed"
		}
		return
	}
	l.Fetched++
	l.tries = 0
	page, _ := s.shape.Find(key)
	switch {
	case page.Redirect != nil:
		l.State = "moved"
		s.add(page.Redirect.Key, l.hops+1, false)
	case page.Huge || page.Bomb:
		l.State = "large"
	case a.Status != 200:
		l.State = "gone"
	default:
		l.State, l.Hash = "done", a.Hash
		s.bodies[a.Hash] = len(a.Body)
		if page.News && l.Fetched <= int64(s.p.Recrawls) {
			l.State, l.due = "waiting", s.w.Now+s.p.RecrawlAfter.D()
		}
		for _, link := range page.Links {
			if !link.NoFollow {
				s.add(link.Key, 0, false)
			}
		}
	}
}

// Audit copies what is known.
func (s *spider) Audit() crawler.Audit {
	a := crawler.Audit{Log: slices.Clone(s.log), Seeds: []crawler.SeedRow{},
		Pages: []crawler.PageRow{},
		Hosts: []crawler.HostRow{}, Bodies: []crawler.BodyRow{}}
	for _, id := range slices.Sorted(maps.Keys(s.seeds)) {
		a.Seeds = append(a.Seeds, crawler.SeedRow{ID: id, URL: s.seeds[id]})
	}
	for _, key := range s.keys {
		a.Pages = append(a.Pages, s.pages[key].PageRow)
	}
	for _, host := range slices.Sorted(maps.Keys(s.counts)) {
		a.Hosts = append(a.Hosts, crawler.HostRow{Host: host, Pages: int64(s.counts[host])})
	}
	for _, hash := range slices.Sorted(maps.Keys(s.bodies)) {
		a.Bodies = append(a.Bodies, crawler.BodyRow{Hash: hash, Is: hash, Bytes: int64(s.bodies[hash])})
	}
	return a
}

// anyCrowd is a web of any kind.
func anyCrowd(d suttest.Draw) *crawler.Params {
	p := crowd()
	p.WebSeed = d.Int("web", 0, 1_000_000)
	p.Hosts = d.Int("hosts", 1, 60)
	p.Island = d.Int("island", 1, 10)
	p.HostsPerIP = d.Int("hosts of an address", 1, 5)
	p.Pages = d.Int("pages", 1, 20)
	p.SlowHosts, p.DeadHosts = d.Share("slow")/3, d.Share("dead")/3
	p.FlakyHosts, p.Traps = d.Share("flaky")/3, d.Share("traps")/3
	p.HostilePages, p.HostileRobots, p.News = d.Share("hostile"), d.Share("robots"), d.Share("news")
	p.RobotsChange = p.RobotsTTL * sut.Duration(d.Int("change", 0, 5))
	p.PerHost = d.Int("most pages", 1, 40)
	p.Recrawls = d.Int("recrawls", 0, 3)
	p.Workers = p.Hosts // as many as the model asks for at once
	p.Redirects = d.Int("redirects", 0, 9)
	return p
}
