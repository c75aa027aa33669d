package crawler

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"stampede/systems/crawler/web"
)

// The web has no end, so nobody can list all that seeds lead to. But whether a set of pages is all
// of it can be told page by page: every seed is in it, and what each page leads to that was
// fetched; and nothing else is. What a page leads to the graph knows, which made it.
//
// Two things depend on the order in which a crawler goes. A host has more pages than may be
// fetched: then which ones is its own affair, as long as there are so many. And rules that change
// forbid what others were allowed: then a page may be either, and what an answer leads to that
// nobody kept need not be known.

// closure is the set of pages that follow from what was fetched.
type closure struct {
	from map[string]string // a page that leads to each; "" of a seed
	must map[string]bool   // one whose answer was kept, or a robots.txt, leads to each
	root map[string]string // a seed that leads to each
	host map[string]string // and one that leads to each host
	hops map[string]int    // the fewest redirects that lead there
	full map[string]bool   // hosts that have as many pages as they may
}

// follow follows all links from the seeds on.
func (j *judged) follow() *closure {
	c := &closure{map[string]string{}, map[string]bool{}, map[string]string{}, map[string]string{},
		map[string]int{}, map[string]bool{}}
	counts := map[string]int{}
	for key := range j.rows {
		host := hostOf(key)
		counts[host]++
		c.full[host] = counts[host] >= j.p.PerHost
	}
	var queue []string
	reach := func(key, from string, hops int) {
		old, known := c.hops[key]
		if hops > j.p.Redirects || j.p.Filtered(key) {
			return
		}
		if c.from[key] == "" {
			c.from[key] = from
		}
		if row := j.rows[from]; row != nil && row.Fetched > 0 || strings.HasSuffix(from, "/robots.txt") {
			c.must[key] = true
		}
		if known && old <= hops {
			return
		}
		if c.root[key] = c.root[from]; from == "" {
			c.root[key] = key
		}
		if host := hostOf(key); c.host[host] == "" {
			c.host[host] = c.root[key]
		}
		c.hops[key] = hops
		queue = append(queue, key)
	}
	for _, key := range slices.Sorted(maps.Keys(j.seeds)) {
		reach(key, "", 0)
	}
	for _, name := range slices.Sorted(maps.Keys(j.hosts)) {
		host, _ := j.shape.Number(name)
		for _, e := range j.pages[name+"/robots.txt"] {
			if e.Status == 200 {
				for _, key := range j.shape.Sitemaps(host) {
					reach(key, name+"/robots.txt", 0)
				}
			}
		}
	}
	for len(queue) > 0 {
		key := queue[0]
		queue = queue[1:]
		if !slices.ContainsFunc(j.pages[key], answered) {
			continue
		}
		page, is := j.shape.Find(key)
		switch {
		case !is || page.Status == 404 || page.Huge || page.Bomb || page.Torn:
		case page.Redirect != nil:
			reach(page.Redirect.Key, key, c.hops[key]+1)
		default:
			for _, l := range page.Links {
				if !l.NoFollow {
					reach(l.Key, key, 0)
				}
			}
		}
	}
	return c
}

// allFetched compares the pages that are known, and those that were asked for, with the closure.
func allFetched(j *judged) {
	c := j.closure
	states := map[string]int{}
	for _, key := range slices.Sorted(maps.Keys(c.hops)) {
		row := j.rows[key]
		if row == nil { // a seed of unknown outcome may be lost; acknowledged ones are never too many
			if j.acked[key] != 0 || c.must[key] && !c.full[hostOf(key)] {
				j.Unfinished(j.opOf(key), "nobody has heard of %s, to which %s leads", key,
					cmp.Or(c.from[key], "a seed"))
			}
			continue
		}
		j.Checked(1)
		states[row.State]++
		if !slices.Contains([]string{waiting, done, moved, large, gone, disallowed, failed}, row.State) {
			j.Violate(j.opOf(key), "%s is %q, which is no state", key, row.State)
		} else if wrong := j.wrong(key, row); wrong != "" {
			j.Unfinished(j.opOf(key), "%s is %s: %s", key, row.State, wrong)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(j.rows)) {
		if _, follows := c.hops[key]; !follows {
			j.Violate(nil, "%s is known, and nothing leads to it", key)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(j.pages)) {
		if j.rows[key] == nil && !strings.HasSuffix(key, "/robots.txt") {
			j.Unfinished(nil, "%s was asked for, and is not known", key)
		}
	}
	j.Need(j.hasty == 0, "%d pages were given up because the web did not answer, and it would have "+
		"answered in less than half of %v: either nobody waited or the machine was late", j.hasty,
		j.p.FetchTimeout.D())
	for _, state := range []string{done, moved, disallowed, failed} {
		j.Need(states[state] > 0, "no page is %s", state)
	}
	j.Figure("pages done", "", float64(states[done]))
	first, last := int64(math.MaxInt64), int64(0)
	for _, list := range j.pages {
		first, last = min(first, list[0].AtNS), max(last, list[len(list)-1].SeenNS)
	}
	j.Figure("pages done a second", "/s", float64(states[done])/time.Duration(last-first).Seconds())
}

// wrong says why a page cannot be in its state, "" if it can.
func (j *judged) wrong(key string, row *PageRow) string {
	shape := j.shape
	page, is := shape.Find(key)
	allowed := []bool{shape.Allowed(key, 0), shape.Allowed(key, 1)}
	if shape.RobotsChange == 0 {
		allowed[1] = allowed[0]
	}
	switch want := stateOf(page, is); {
	case row.State == disallowed:
		if allowed[0] && allowed[1] && !j.vain(hostOf(key)+"/robots.txt") {
			return "robots.txt allows it"
		}
	case !allowed[0] && !allowed[1]:
		return "robots.txt forbids it"
	case row.State == failed:
		if !j.vain(key) {
			return "it was not tried as often as it may be"
		}
	case row.State != want:
		return "it should be " + want
	case want == done && allowed[0] && allowed[1] && row.Fetched < j.mostFetched(page):
		return "it should be fetched again"
	}
	return ""
}

// vain says whether a page was asked for as often in vain as it may be. It notes whether that is
// so only because clients left before a web that would have answered soon.
func (j *judged) vain(key string) bool {
	page, _ := j.shape.Find(key)
	host, _ := j.shape.Number(hostOf(key))
	soon := j.shape.Answers(host) && j.shape.Takes(host) <= j.p.FetchTimeout.D()/2
	n, left := 0, 0
	for _, e := range j.pages[key] {
		n += count(!answered(e) || page.Torn || j.gaveUp(e))
		left += count(soon && e.Status == 0 && !page.Torn && len(j.reasons(e)) == 0)
	}
	j.hasty += count(n >= j.p.Attempts && n-left < j.p.Attempts)
	return n >= j.p.Attempts
}

// stateOf is what becomes of a page that is asked for until it answers.
func stateOf(page web.Page, is bool) string {
	switch {
	case !is || page.Status == 404:
		return gone
	case page.Fails == web.Never:
		return failed
	case page.Redirect != nil:
		return moved
	case page.Huge || page.Bomb:
		return large
	}
	return done
}

// withinLimits looks for requests that should not have been made. Of requests in vain there may be
// twice as many as attempts: one that is noted after the lease, on a slow machine, is made again. A
// robots.txt may be tried anew, once it was given up for a while.
func withinLimits(j *judged) {
	c := j.closure
	pages, seeds := map[string]int{}, map[string]int{}
	for key := range j.seeds {
		seeds[hostOf(key)]++
	}
	tried := false
	for _, key := range slices.Sorted(maps.Keys(j.pages)) {
		if strings.HasSuffix(key, "/robots.txt") {
			continue
		}
		j.Checked(1)
		pages[hostOf(key)]++
		_, follows := c.hops[key]
		switch {
		case j.p.Filtered(key):
			j.Violate(j.opOf(key), "%s was asked for, whose path is beyond the limits", key)
		case !follows:
			j.Violate(j.opOf(key), "%s was asked for, to which nothing leads within %d redirects", key,
				j.p.Redirects)
		}
		page, _ := j.shape.Find(key)
		if vain, most := j.noted(key), 2*j.p.Attempts*int(j.mostFetched(page)); vain > most {
			j.Violate(j.opOf(key), "%s was asked for %d times in vain, and is to be given up after %d", key,
				vain, j.p.Attempts)
		}
		most := int64(j.p.Attempts) * j.mostFetched(page)
		if row := j.rows[key]; row != nil && row.Failed > most {
			j.Violate(j.opOf(key), "%s is said to have been asked for %d times in vain, and is to be given "+
				"up after %d", key, row.Failed, most)
		}
		tried = tried || page.Huge || page.Bomb
	}
	for _, host := range slices.Sorted(maps.Keys(pages)) {
		if most := j.p.PerHost + seeds[host]; pages[host] > most {
			j.Violate(nil, "%d pages of %s were asked for, and %d may be", pages[host], host, most)
		}
	}
	j.Need(tried, "no page was larger than may be read")
}
