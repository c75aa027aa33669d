package crawler

import (
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/sut"
	"stampede/systems/crawler/web"
)

// fetchedOnce compares the web's log with what a design says that it has kept. The log bounds each
// reason why an answer was not kept: a design may say that it had given up waiting (see gaveUp), or
// something broke (see reasons).
func fetchedOnce(j *judged) {
	rows := map[string]int{}
	for _, row := range j.Pages {
		key := keyOf(row.URL)
		if rows[key]++; rows[key] == 2 {
			j.Violate(j.opOf(key), "%s is a page twice", key)
		}
	}
	ips, quick, all := map[string]*unkept{}, 0, 0
	for _, key := range slices.Sorted(maps.Keys(j.rows)) { // others are said by allFetched
		if strings.HasSuffix(key, "/robots.txt") {
			continue
		}
		j.Checked(1)
		list, row := j.pages[key], j.rows[key]
		page, _ := j.shape.Find(key)
		if most := j.mostFetched(page); row.Fetched > most {
			j.Violate(j.opOf(key), "%s was kept %d times, and may be %d times", key, row.Fetched, most)
		}
		var good []*web.Exchange
		for _, e := range list {
			if answered(e) && !page.Torn {
				good = append(good, e)
			}
		}
		if row.Fetched > int64(len(good)) {
			j.Violate(j.opOf(key), "%s is said to be fetched %d times, and the web answered %d requests",
				key, row.Fetched, len(good))
		}
		if row.Fetched == 0 && slices.Contains([]string{done, moved, large, gone}, row.State) {
			j.Violate(j.opOf(key), "%s is %s and was never fetched", key, row.State)
		}
		j.early(key, page, list, row)
		lost := len(good) - int(row.Fetched)
		given, at, noted := 0, 0, j.noted(key) // given up, and of these by a machine that was late
		for _, e := range good {
			if given < min(lost, int(row.Failed)-noted) && j.gaveUp(e) {
				given++
				at += count(time.Duration(e.SeenNS-e.AtNS) < j.p.FetchTimeout.D()/2)
			}
		}
		if lost, quick = lost-given, quick+at; lost > 0 {
			all += lost
			j.unkept(ips, key, good, lost)
		}
	}
	j.bounded(ips, all)
	j.Need(quick == 0, "%d requests are said to have been given up after %v, and the web answered "+
		"them in less than half of it: either that is not so or the machine was late", quick,
		j.p.FetchTimeout.D())
	j.Figure("requests that came to nothing", "", float64(all))
	j.overlapped()
}

// noted counts the requests for a page that came to nothing, as a design must have noted because
// nothing broke meanwhile.
func (j *judged) noted(key string) (n int) {
	page, _ := j.shape.Find(key)
	for _, e := range j.pages[key] {
		n += count((!answered(e) || page.Torn) && len(j.reasons(e)) == 0)
	}
	return n
}

// gaveUp says whether a crawler that asks an address for one thing at a time may have waited in
// vain for an answer that the web has given: between its requests before and after there was time.
func (j *judged) gaveUp(e *web.Exchange) bool {
	wait := j.p.FetchTimeout.D()
	return j.room[e] >= wait-clockSlack(wait)
}

// unkept are the answers of an address that were not kept, and what may have cost one each.
type unkept struct {
	lost    int
	key     string
	reasons map[string]bool
}

// unkept notes so many answers that were not kept of those to requests for a page.
func (j *judged) unkept(ips map[string]*unkept, key string, good []*web.Exchange, lost int) {
	u := ips[good[0].IP]
	if u == nil {
		u = &unkept{key: key, reasons: map[string]bool{}}
		ips[good[0].IP] = u
	}
	u.lost += lost
	excused := 0
	for _, e := range good {
		reasons := j.reasons(e)
		excused += min(1, len(reasons))
		for _, reason := range reasons {
			u.reasons[reason] = true
		}
	}
	if lost > excused {
		u.lost -= lost - excused
		j.Unfinished(j.opOf(key), "%d answers of the web for %s were not kept; %d were under way when "+
			"something broke", lost, key, excused)
	}
}

// bounded compares what was not kept with what may have cost it. An address has one request at a
// time, so whatever breaks costs each one answer at most; and all of them together no more than
// processes ask for at once.
func (j *judged) bounded(ips map[string]*unkept, all int) {
	for _, ip := range slices.Sorted(maps.Keys(ips)) {
		if u := ips[ip]; u.lost > len(u.reasons) {
			j.Unfinished(j.opOf(u.key), "%d answers of address %s were not kept, one of them for %s; %d "+
				"were under way when something broke", u.lost, ip, u.key, len(u.reasons))
		}
	}
	excess := 0
	for _, w := range j.Faults() {
		deaths, broke := j.breaks(w)
		excess += (deaths + len(j.heard)*count(broke)) * j.p.Workers
	}
	if all > excess {
		j.Unfinished(nil, "%d answers of the web were not kept; %d requests at most were under way when "+
			"something broke", all, excess)
	}
}

// breaks says how many fetchers a fault killed, and whether it broke something that they use.
func (j *judged) breaks(w history.Window) (deaths int, broke bool) {
	if check.Strikes(w, sut.APIRole, "kill", "crash") {
		return 0, false // it fetches nothing
	}
	deaths = check.Deaths(w, fetcherName) // none if a crash's place was not reached
	return deaths, deaths == 0 && !check.Strikes(w, fetcherName, "crash")
}

// reasons are the faults during which an answer may have been lost, by the web's clock: it was
// given within a lease before, or while they lasted. Of a process that died then it is the last
// one that this had of the address, and nothing is heard of the process once the lease is over.
// Where a store was broken the end of that may be noticed a lease later.
func (j *judged) reasons(e *web.Exchange) (list []string) {
	lease := j.p.Lease.D()
	at, died := time.Duration(e.AtNS), "the end of "+e.Agent
	silent := j.latest[[2]string{e.Agent, e.IP}] == e &&
		time.Duration(j.heard[e.Agent]) <= at+lease
	for _, w := range j.Faults() {
		deaths, broke := j.breaks(w)
		switch from, to := w.Start+j.least, min(w.Over(), math.MaxInt64/4)+j.most; {
		case at+lease < from:
		case deaths > 0 && silent && at <= to:
			list = append(list, died)
		case broke && at <= to+lease:
			list = append(list, w.Fault+" at "+w.Start.String())
		}
	}
	return list
}

// clocks reckons how far the web's clock is ahead. No request is there before somebody asked for a
// seed, and no answer that was kept is given after somebody was told that it was.
func (j *judged) clocks() {
	j.least, j.most = math.MinInt64/4, math.MaxInt64/4
	for _, list := range j.pages {
		j.most = min(j.most, time.Duration(list[0].AtNS)-j.asked)
	}
	for url, list := range j.sights {
		for _, s := range list {
			n := int64(0)
			for _, e := range j.pages[keyOf(url)] {
				if n += int64(count(answered(e))); n == s.Version-1 && answered(e) {
					j.least = max(j.least, time.Duration(e.SeenNS)-s.End)
				}
			}
		}
	}
	j.least = min(j.least, j.most) // a design may tell what is not so
}

func (j *judged) mostFetched(page web.Page) int64 {
	if page.News {
		return int64(1 + j.p.Recrawls)
	}
	return 1
}

// early looks for pages that were fetched again too soon. Only where a design kept every answer is
// it known which requests were meant as another crawl.
func (j *judged) early(key string, page web.Page, list []*web.Exchange, row *PageRow) {
	if !page.News || row.Fetched != int64(len(list)) {
		return
	}
	for i := 1; i < len(list); i++ {
		gap := time.Duration(list[i].AtNS - list[i-1].SeenNS)
		if least := j.p.RecrawlAfter.D() - clockSlack(j.p.RecrawlAfter.D()); gap < least {
			j.Violate(j.opOf(key), "%s was fetched again after %v, and should be after %v", key, gap,
				j.p.RecrawlAfter.D())
		}
	}
}
