// Package web is a synthetic web: hosts, pages, links, redirects, robots.txt and sitemaps, all a
// pure function of a seed, and a proxy that serves it on the loopback and keeps a log of its own.
//
// A page has a key: its host, path and query in their one normal form, such as "h3.test/p/4". What
// a link says is a key in one of the many spellings that RFC 3986 calls the same.
package web

import (
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"stampede/harness/sut"
	"stampede/systems/crawler/robots"
)

// Shape says what a web is like. Its shares are of hosts or of pages, from 0 to 1.
type Shape struct {
	WebSeed       int          `json:"web_seed" min:"0" max:"1000000" doc:"from which the web is made"`
	Hosts         int          `json:"hosts" min:"1" max:"1000000" doc:"number of hosts"`
	Island        int          `json:"island" min:"1" max:"1000" doc:"so many neighbouring hosts link to each other"`
	HostsPerIP    int          `json:"hosts_per_ip" min:"1" max:"100" doc:"so many neighbouring hosts share an address"`
	Pages         int          `json:"pages" min:"1" max:"10000" doc:"the most ordinary pages of a host; most have fewer"`
	SlowHosts     float64      `json:"slow_hosts" min:"0" max:"1" doc:"share of hosts that take slow_time for an answer"`
	DeadHosts     float64      `json:"dead_hosts" min:"0" max:"1" doc:"share of hosts that do not answer, or close the connection"`
	FlakyHosts    float64      `json:"flaky_hosts" min:"0" max:"1" doc:"share of hosts that fail twice for each page"`
	Traps         float64      `json:"traps" min:"0" max:"1" doc:"share of hosts with a calendar without end, paths that grow, or another session in each link"`
	HostilePages  float64      `json:"hostile_pages" min:"0" max:"1" doc:"share of pages that are huge, compressed bombs, cut off, mislabelled, copies, or missing; and a third of the share of hosts with chains and loops of redirects"`
	HostileRobots float64      `json:"hostile_robots" min:"0" max:"1" doc:"share of hosts whose robots.txt is huge, failing, changing, or hard to read"`
	RobotsChange  sut.Duration `json:"robots_change" min:"0s" max:"24h" doc:"when some robots.txt become stricter, since the web began; 0 is never"`
	News          float64      `json:"news" min:"0" max:"1" doc:"share of pages whose text is another one after each news_every"`
	NewsEvery     sut.Duration `json:"news_every" min:"100ms" max:"24h"`
	Hidden        int          `json:"hidden" min:"0" max:"1000" doc:"pages of a third of the hosts that only a sitemap tells of"`
	SlowTime      sut.Duration `json:"slow_time" min:"0s" max:"1m"`
	PageTime      sut.Duration `json:"page_time" min:"0s" max:"1m" doc:"what other hosts take for an answer"`
	CrawlDelay    sut.Duration `json:"crawl_delay" min:"1ms" max:"1m" doc:"what some robots.txt ask for"`
	HugeBytes     int          `json:"-"` // that a huge page has, at least
}

// flakyTimes is how often a flaky host fails for each page: less often than any crawler gives up.
const flakyTimes = 2

// Link is a link of a page: where it leads, and how that is written.
type Link struct {
	Key, Text string
	NoFollow  bool
}

// Page is what there is at a key.
type Page struct {
	Status   int
	Type     string // as it is declared
	Links    []Link // those that a crawler can find
	Redirect *Link
	// Fails is how often requests fail before one is answered; Never is always.
	Fails int
	// Torn pages declare more than they send, for ever.
	Torn bool
	// Huge pages are larger than any limit; Bomb is huge once it is decompressed.
	Huge, Bomb bool
	News       bool
	// Twin is the number of the text that several pages have, 0 for one of its own.
	Twin int
	// HTML says whether links are looked for: the declared type says so.
	HTML, Sitemap bool
	base          string
	words         string
}

// Never is more often than anybody asks.
const Never = math.MaxInt32

// Suffix ends the name of every host.
const Suffix = ".test"

// Host is the name of a host by its number from 0.
func (s Shape) Host(n int) string { return "h" + strconv.Itoa(n) + Suffix }

// Number is the number of a host, false if there is none of that name.
func (s Shape) Number(host string) (int, bool) {
	digits, is := strings.CutPrefix(strings.TrimSuffix(host, Suffix), "h")
	n, err := strconv.Atoi(digits)
	return n, is && err == nil && n >= 0 && n < s.Hosts && s.Host(n) == host
}

// IP is the address of a host.
func (s Shape) IP(n int) string {
	n /= s.HostsPerIP
	return fmt.Sprintf("10.%d.%d.%d", n>>16&255, n>>8&255, n&255)
}

// chance is a number in [0, 1) that depends on the seed and the arguments alone.
func (s Shape) chance(what string, at ...int) float64 {
	return float64(s.hash(what, at...)>>11) / (1 << 53)
}

func (s Shape) hash(what string, at ...int) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(what)) // it never fails
	x := h.Sum64() ^ uint64(s.WebSeed)
	for _, n := range at {
		x = mix(x + uint64(n) + 1)
	}
	return mix(x)
}

// mix is the finalizer of SplitMix64 (Steele, Lea and Flood, 2014).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func (s Shape) below(n int, what string, at ...int) int {
	return int(s.hash(what, at...) % uint64(n))
}

// HostKind is what a host is like.
type HostKind int

// The kinds of hosts. Dead ones answer nothing, and Shut ones close the connection.
const (
	Plain HostKind = iota
	Slow
	Dead
	Shut
	Flaky
	Calendar
	Loop
	Sessions
)

// Kind is the kind of a host.
func (s Shape) Kind(host int) HostKind {
	u := s.chance("kind of host", host)
	for _, k := range []struct {
		share float64
		kinds []HostKind
	}{
		{s.SlowHosts, []HostKind{Slow}}, {s.DeadHosts, []HostKind{Dead, Shut}},
		{s.FlakyHosts, []HostKind{Flaky}}, {s.Traps, []HostKind{Calendar, Loop, Sessions}},
	} {
		if u < k.share {
			return k.kinds[s.below(len(k.kinds), "trap", host)]
		}
		u -= k.share
	}
	return Plain
}

// pages is how many ordinary pages a host has, 1 at least: few have many.
func (s Shape) pages(host int) int {
	u := s.chance("pages", host)
	return 1 + int(u*u*float64(s.Pages))
}

// Path is the path of ordinary page j of a host. Page 0 is its front page.
func (s Shape) Path(host, j int) string {
	if j == 0 {
		return "/"
	}
	forms := []string{"/p/%d", "/docs/%d.html", "/~u/%d", "/q?id=%d", "/private/%d", "/caf%%C3%%A9/%d",
		"/a%%2Fb/%d"}
	return fmt.Sprintf(forms[s.below(len(forms), "form", host, j)], j)
}

// Key is the key of ordinary page j of a host.
func (s Shape) Key(host, j int) string { return s.Host(host) + s.Path(host, j) }

// Chosen is a page that somebody may be interested in, drawn by a number: an ordinary page of a
// host in an island.
func (s Shape) Chosen(island int, draw uint64) string {
	first := island * s.Island % s.Hosts
	host := first + int(draw%uint64(min(s.Island, s.Hosts-first)))
	if draw>>20%3 == 0 {
		return s.Key(host, 0)
	}
	return s.Key(host, int(draw>>32%uint64(s.pages(host))))
}

// Islands is how many islands there are.
func (s Shape) Islands() int { return (s.Hosts + s.Island - 1) / s.Island }

// neighbour is a host of the same island.
func (s Shape) neighbour(host int, what string, at ...int) int {
	first := host / s.Island * s.Island
	return first + s.below(min(s.Island, s.Hosts-first), what, append(at, host)...)
}

// Split takes a key apart.
func Split(key string) (host, path string) {
	host, path, _ = strings.Cut(key, "/")
	return host, "/" + path
}

// Find is the page of a key, false if there is none. The version of robots.txt does not matter.
func (s Shape) Find(key string) (p Page, is bool) {
	name, path := Split(key)
	host, is := s.Number(name)
	if !is {
		return Page{}, false
	}
	kind := s.Kind(host)
	p = Page{Status: 200, Type: "text/html; charset=utf-8", HTML: true, words: path}
	if p, is = s.special(host, path, p); !is {
		p, is = s.ordinary(host, path, p)
	}
	switch kind {
	case Dead, Shut:
		p.Fails = Never
	case Flaky:
		p.Fails = flakyTimes
	}
	return p, is
}

// ordinary is one of a host's numbered pages.
func (s Shape) ordinary(host int, path string, p Page) (Page, bool) {
	tail := path[strings.LastIndexAny(path, "/=")+1:]
	j, err := strconv.Atoi(strings.TrimSuffix(tail, ".html"))
	if path == "/" {
		j, err = 0, nil
	}
	if err != nil || j < 0 || j >= s.pages(host) || s.Path(host, j) != path {
		return p, false
	}
	add := func(host, j int) { p.Links = append(p.Links, Link{Key: s.Key(host, j)}) }
	for _, child := range []int{2*j + 1, 2*j + 2} { // all are reached from the first
		if child < s.pages(host) {
			add(host, child)
		}
	}
	add(host, s.below(s.pages(host), "own", host, j))
	for n := range 1 + s.below(2, "out", host, j) {
		other := s.neighbour(host, "neighbour", j, n)
		add(other, s.below(s.pages(other), "page", host, j, n)*s.below(2, "front", host, j, n))
	}
	if j == 0 {
		p.Links = append(p.Links, s.entrances(host)...)
	}
	p.News = s.chance("news", host, j) < s.News
	if j > 0 && s.chance("hostile", host, j) < s.HostilePages {
		s.hostile(host, j, &p)
	}
	if p.HTML && p.Twin == 0 {
		s.spell(host, j, &p)
	}
	return p, true
}

// hostile makes a page one that crawlers get wrong. The front page links to what it led to.
func (s Shape) hostile(host, j int, p *Page) {
	p.News = false
	switch s.below(8, "how", host, j) {
	case 0:
		p.Huge, p.Links = true, nil
	case 1:
		p.Bomb, p.Links = true, nil
	case 2:
		p.Torn, p.Fails, p.Links = true, Never, nil
	case 3: // HTML that says it is an image
		p.Type, p.HTML, p.Links = "image/png", false, nil
	case 4: // an image that says it is HTML
		p.Links, p.words = nil, "\x89PNG\r\n\x1a\n\x00<a hre"
	case 5, 6:
		p.Twin, p.Links = 1+s.below(3, "twin", host, j), nil
	case 7:
		p.Status, p.Links = 404, nil
	}
}

// redirects is how many there are from "/chain/0/0" or "/chain/1/0" on.
func redirects(chain int) int { return []int{4, 8}[chain] }

// entrances are links of a front page to what is hostile on a host, and what hostile pages hide.
func (s Shape) entrances(host int) (list []Link) {
	add := func(path string, no bool) {
		list = append(list, Link{Key: s.Host(host) + path, NoFollow: no})
	}
	switch s.Kind(host) {
	case Calendar:
		add("/calendar/0", false)
	case Loop:
		add("/loop/", false)
	}
	if s.chance("redirects", host) < s.HostilePages*3 {
		add("/chain/0/0", false)
		add("/chain/1/0", false)
		add("/turn/a", false)
		add("/out", false)
	}
	if s.chance("nofollow", host) < 0.5 {
		add("/unfollowed/1", true)
	}
	for j := range s.pages(host) { // the children of pages without links
		if j > 0 && s.chance("hostile", host, j) < s.HostilePages {
			for _, child := range []int{2*j + 1, 2*j + 2} {
				if child < s.pages(host) {
					add(s.Path(host, child), false)
				}
			}
		}
	}
	return list
}

// special are pages that have no number.
func (s Shape) special(host int, path string, p Page) (Page, bool) {
	name := s.Host(host)
	to := func(key, text string) (Page, bool) {
		p.Status, p.HTML, p.Redirect = []int{301, 302, 307, 308}[len(path)%4], false,
			&Link{Key: key, Text: text}
		return p, true
	}
	part := strings.Split(path, "/")[1:]
	switch {
	case path == "/turn/a":
		return to(name+"/turn/b", "b")
	case path == "/turn/b":
		return to(name+"/turn/a", "/turn/./a")
	case path == "/out": // to where robots are not welcome
		other := s.Host(s.neighbour(host, "out of here"))
		return to(other+"/private/1", "http://"+strings.ToUpper(other)+":80/private/1#x")
	case part[0] == "chain" && len(part) == 3:
		chain, step := numberOf(part[1]), numberOf(part[2])
		if chain < 0 || chain > 1 || step < 0 || step >= redirects(chain) {
			return p, false
		}
		if step == redirects(chain)-1 {
			return to(name+"/chained/"+part[1], "../../chained/"+part[1])
		}
		next := strconv.Itoa(step + 1)
		return to(name+"/chain/"+part[1]+"/"+next, next)
	case part[0] == "chained" && len(part) == 2 && numberOf(part[1]) >= 0 && numberOf(part[1]) < 2:
	case part[0] == "unfollowed" && path == "/unfollowed/1":
	case part[0] == "calendar" && len(part) == 2 && s.Kind(host) == Calendar:
		day := numberOf(part[1])
		if day < 0 {
			return p, false
		}
		for _, next := range []int{day + 1, day + 30} {
			text := strconv.Itoa(next)
			p.Links = append(p.Links, Link{Key: name + "/calendar/" + text, Text: text})
		}
	case part[0] == "loop" && s.Kind(host) == Loop &&
		strings.Repeat("/loop", len(part)-1)+"/" == path:
		p.Links = []Link{{Key: name + path + "loop/", Text: "loop/"}}
	case s.hasSitemap(host) && path == "/sitemap.xml":
		p.Links = []Link{{Key: name + "/sitemap-1.xml", Text: "http://" + name + "/sitemap-1.xml"}}
		p.Sitemap, p.HTML, p.Type, p.words = true, false, "application/xml", "sitemapindex"
	case s.hasSitemap(host) && path == "/sitemap-1.xml":
		for n := range s.Hidden {
			key := name + "/hidden/" + strconv.Itoa(n)
			p.Links = append(p.Links, Link{Key: key, Text: "http://" + key})
		}
		p.Sitemap, p.HTML, p.Type, p.words = true, false, "text/xml", "urlset"
	case s.hasSitemap(host) && part[0] == "hidden" && len(part) == 2 && numberOf(part[1]) >= 0 &&
		numberOf(part[1]) < s.Hidden:
	default:
		return p, false
	}
	return p, true
}

// numberOf is a number without leading zeros, -1 if a text is none.
func numberOf(text string) int {
	if n, err := strconv.Atoi(text); err == nil && strconv.Itoa(n) == text {
		return n
	}
	return -1
}

func (s Shape) hasSitemap(host int) bool {
	kind := s.RobotsOf(host)
	return s.Hidden > 0 && kind != NoRobots && kind != BrokenRobots && host%3 == 0
}

// spell writes the links of a page, each in some spelling of its key.
func (s Shape) spell(host, j int, p *Page) {
	base := s.below(6, "base", host, j) == 0
	if base {
		p.base = "http://" + s.Host(host) + "/base/dir/"
	}
	for i := range p.Links {
		l := &p.Links[i]
		if l.Text != "" {
			continue
		}
		name, path := Split(l.Key)
		if own := name == s.Host(host); own && base {
			l.Text = "../.." + path
			continue
		} else if own && s.below(3, "relative", host, j, i) > 0 {
			l.Text = []string{path, "/x/.." + path, "/." + path + "#top", "//" + name + path}[s.below(4,
				"spelling", host, j, i)]
			continue
		}
		path = strings.NewReplacer("~", "%7e", "%C3", "%c3", "%A9", "%a9", "/p/", "/%70/").Replace(path)
		l.Text = []string{"http://" + l.Key, "HTTP://" + strings.ToUpper(name) + ":80" + path,
			"http://" + name + path + "#a"}[s.below(3, "foreign", host, j, i)]
	}
}

// RobotsKind is what a host's robots.txt is like.
type RobotsKind int

// The kinds of robots.txt.
const (
	NoRobots RobotsKind = iota // 404
	PlainRobots
	Patterns     // with * and $, and percent-encoded otherwise than the pages
	BrokenRobots // 503 for ever
	FlakyRobots  // 503 for a while
	HugeRobots   // larger than a parser must take
	GroupedRobots
	ChangingRobots
	DelayedRobots // with a crawl delay
)

// RobotsOf is the kind of robots.txt that a host has.
func (s Shape) RobotsOf(host int) RobotsKind {
	if s.chance("robots", host) < s.HostileRobots {
		return Patterns + RobotsKind(s.below(7, "which robots", host))
	}
	return RobotsKind(s.below(2, "any robots", host))
}

// Agent is the product token that rules are written for.
const Agent = "stampede-crawler"

// Robots is the robots.txt of a host in a version: its status and text.
func (s Shape) Robots(host, version int) (status int, text string) {
	rules := "Disallow: /private/\nAllow: /private/2\n"
	var out strings.Builder
	if s.hasSitemap(host) { // it belongs to no group
		out.WriteString("Sitemap: http://" + s.Host(host) + "/sitemap.xml\n")
	}
	switch s.RobotsOf(host) {
	case NoRobots:
		return 404, "not here"
	case BrokenRobots:
		return 503, "not now"
	case Patterns:
		out.WriteString("User-agent: *\nDisallow: /*vate/\nAllow: /private/2\nDisallow: /*.html$\n" +
			"disallow : /caf%c3%a9/ # in lower case\nDisallow:\n")
	case GroupedRobots:
		out.WriteString("User-agent: other\nDisallow: /\n\nUser-agent: *\nDisallow: /\n\n" +
			"user-agent: STAMPEDE-crawler\nuser-agent: third\n" + rules)
	case HugeRobots:
		out.WriteString("User-agent: *\n" + rules)
		for out.Len() < 600<<10 {
			out.WriteString("# a comment that goes on and on, as comments of robots.txt sometimes do\n")
		}
	case ChangingRobots:
		out.WriteString("User-agent: *\n" + rules)
		if version > 0 {
			out.WriteString("Disallow: /docs/\n")
		}
	case DelayedRobots:
		fmt.Fprintf(&out, "User-agent: *\n%sCrawl-delay: %g\n", rules, s.CrawlDelay.D().Seconds())
	default:
		out.WriteString("User-agent: *\n" + rules)
	}
	return 200, out.String()
}

// Version is that of all robots.txt at a time since the web began.
func (s Shape) Version(at time.Duration) int {
	if s.RobotsChange > 0 && at >= s.RobotsChange.D() {
		return 1
	}
	return 0
}

// Allowed says whether robots.txt in a version lets a crawler ask for a key. It knows what was
// meant: it parses nothing.
func (s Shape) Allowed(key string, version int) bool {
	name, path := Split(key)
	host, is := s.Number(name)
	if !is || path == "/robots.txt" {
		return true
	}
	private := strings.HasPrefix(path, "/private/") && !strings.HasPrefix(path, "/private/2")
	switch s.RobotsOf(host) {
	case NoRobots:
		return true
	case BrokenRobots:
		return false
	case Patterns:
		return !private && !strings.HasSuffix(path, ".html") && !strings.HasPrefix(path, "/caf%C3%A9/")
	case ChangingRobots:
		return !private && (version == 0 || !strings.HasPrefix(path, "/docs/"))
	}
	return !private
}

// Delay is the crawl delay that a host asks for.
func (s Shape) Delay(host int) time.Duration {
	if s.RobotsOf(host) == DelayedRobots {
		return s.CrawlDelay.D()
	}
	return 0
}

// Sitemaps are the keys that a host's robots.txt names.
func (s Shape) Sitemaps(host int) []string {
	if s.hasSitemap(host) && s.Answers(host) {
		return []string{s.Host(host) + "/sitemap.xml"}
	}
	return nil
}

// Canonical is the key of a host, path and query as a request has them. But for percent-encoding it
// is not how crawlers do it: see package links.
func Canonical(host, path, query string) string {
	host = strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(host), ":80"), ":")
	trailing := strings.HasSuffix(path, "/") || strings.HasSuffix(path, "/.") ||
		strings.HasSuffix(path, "/..")
	var kept []string
	for _, part := range strings.Split(path, "/") {
		switch part = robots.Normal(part); part {
		case ".", "":
		case "..":
			kept = kept[:max(0, len(kept)-1)]
		default:
			kept = append(kept, part)
		}
	}
	out := host + "/" + strings.Join(kept, "/")
	if trailing && len(kept) > 0 {
		out += "/"
	}
	params := slices.DeleteFunc(strings.Split(query, "&"), func(p string) bool {
		return p == "" || strings.HasPrefix(p, SessionParam+"=")
	})
	if len(params) > 0 {
		out += "?" + robots.Normal(strings.Join(params, "&"))
	}
	return out
}

// SessionParam is a parameter of a query that is another one in each answer, and means nothing.
const SessionParam = "sid"

// Limits are what no crawler goes beyond.
type Limits struct {
	Segments  int `json:"segments" min:"1" max:"100" doc:"the most segments of a path; empty ones do not count"`
	Repeats   int `json:"repeats" min:"1" max:"100" doc:"how often a path may have the same segment, if it is not empty"`
	Redirects int `json:"redirects" min:"0" max:"20" doc:"how many are followed one after the other"`
	MaxBytes  int `json:"max_bytes" min:"1000" max:"10000000" doc:"the largest body of a page that is read, decoded; not of a robots.txt; at least 2000 and 200 for each of pages"`
	PerHost   int `json:"per_host" min:"1" max:"1000000" doc:"the most pages of a host; sitemaps and seeds count, and seeds are never too many"`
}

// Filtered says whether a key is beyond the limits by its form alone.
func (l Limits) Filtered(key string) bool {
	_, path := Split(key)
	path, _, _ = strings.Cut(path, "?")
	parts := strings.FieldsFunc(path, func(c rune) bool { return c == '/' })
	count := map[string]int{}
	for _, part := range parts {
		if count[part]++; count[part] > l.Repeats {
			return true
		}
	}
	return len(parts) > l.Segments
}
