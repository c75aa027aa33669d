package crawler

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"sync"
	"time"

	"stampede/harness/sut"
	"stampede/systems/crawler/links"
	"stampede/systems/crawler/robots"
	"stampede/systems/crawler/web"
)

// The fail points of a fetcher.
const (
	placeTaken   = "taken"   // a page is taken, and nobody has asked for it
	placeFetched = "fetched" // it is fetched, and not stored
	placeStored  = "stored"  // it is stored
)

const fetcherName = "fetcher"

// fetcherRole is the role of all designs that crawl.
func fetcherRole(single bool, do func(context.Context, *opened) error) []role {
	return []role{{Name: fetcherName, Single: single,
		Summary: "fetches pages, each address in its own time, and stores them with what they lead to",
		Places:  []string{placeTaken, placeFetched, placeStored},
		ConnsOf: func(p Params, instance int) int { return min(instance, p.Workers) }, Do: do}}
}

// fetcher is a process that fetches.
type fetcher struct {
	*opened
	client    *client
	front     frontier
	remembers int // at most so many pages, 0 of a frontier that forgets some

	mu    sync.Mutex
	known map[string]bool // pages that are certainly in the frontier: it is not asked about them
}

// remembered is how many pages a fetcher remembers of a frontier that forgets none.
const remembered = 200_000

func newFetcher(st *opened, front frontier, remembers int) *fetcher {
	return &fetcher{opened: st, client: newClient(st), front: front, remembers: remembers,
		known: map[string]bool{}}
}

// idle is how long a process waits at most until it looks for work again.
const idle = 50 * time.Millisecond

// run fetches until ctx is cancelled, so many pages at once.
func (f *fetcher) run(ctx context.Context) error {
	var busy sync.WaitGroup
	defer busy.Wait()
	free := make(chan struct{}, f.Params.Workers)
	for range f.Params.Workers {
		free <- struct{}{}
	}
	return f.Config.Steps(ctx, func() (time.Duration, error) {
		n := len(free) // only this goroutine takes
		if n == 0 {
			select {
			case <-ctx.Done():
			case one := <-free:
				free <- one
			}
			return 0, nil
		}
		jobs, wait, err := f.front.take(ctx, n)
		if err != nil {
			return 0, err
		}
		for _, j := range jobs {
			<-free
			busy.Go(func() {
				defer func() { free <- struct{}{} }()
				f.work(ctx, j)
			})
		}
		f.Config.Worked()
		if len(jobs) == n {
			return 0, nil
		}
		return min(max(wait, time.Millisecond), idle), nil
	})
}

// work does a job, and stores what came of it for as long as the address is this process's.
func (f *fetcher) work(ctx context.Context, j *job) {
	r, list := f.do(ctx, j)
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), j.Until)
	defer cancel()
	var retry sut.Retry
	for {
		err := f.store(ctx, j, r, list)
		if err == nil || errors.Is(err, errLost) {
			break
		}
		f.Config.Warn("a page is not stored", err)
		if !retry.Rest(ctx) {
			break // somebody else fetches it again
		}
	}
	f.Config.Passed(placeStored)
}

// store makes what a page leads to known, and then keeps the page: in the other order a crash
// between the two would lose pages.
func (f *fetcher) store(ctx context.Context, j *job, r *result, list []found) error {
	if len(list) > 0 {
		if err := f.front.add(ctx, list); err != nil {
			return err
		}
		f.remember(list)
	}
	return f.front.finish(ctx, j, r)
}

// remember notes pages that are in the frontier. A full set is emptied.
func (f *fetcher) remember(list []found) {
	if f.remembers == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.known) > f.remembers {
		clear(f.known)
	}
	for _, page := range list {
		f.known[page.URL] = true
	}
}

// do asks for one thing: robots.txt, if the host's rules are not known or too old, or the first
// page that these allow.
func (f *fetcher) do(ctx context.Context, j *job) (*result, []found) {
	f.Config.Passed(placeTaken)
	ctx, cancel := context.WithDeadline(ctx, j.Until) // from then on another process may ask
	defer cancel()
	r := &result{Failures: j.Failures}
	if j.Wait > 0 && !sut.Pause(ctx, j.Wait) {
		return r, nil
	}
	if time.Until(j.Until) < f.Params.FetchTimeout.D() || ctx.Err() != nil {
		r.Rest = f.Params.Delay.D() // there is no time for an answer
		return r, nil
	}
	if j.Rules == nil || j.Rules.AgeMS >= f.Params.RobotsTTL.D().Milliseconds() {
		return r, f.robots(ctx, j, r)
	}
	for _, t := range j.Pages {
		u, err := url.Parse(t.URL)
		if err == nil && j.Rules.Allowed(u.RequestURI()) {
			r.Rest = max(f.Params.Delay.D(), j.Rules.Delay)
			return r, f.page(ctx, r, t, u)
		}
		r.Pages = append(r.Pages, outcome{URL: t.URL, Seq: t.Seq, State: disallowed})
	}
	return r, nil
}

// robots asks for robots.txt. What cannot be had after so many attempts forbids everything.
func (f *fetcher) robots(ctx context.Context, j *job, r *result) []found {
	a := f.client.get(ctx, "http://"+j.Host+"/robots.txt", robots.Most)
	f.Config.Passed(placeFetched)
	r.Rest = f.Params.Delay.D()
	if j.Rules != nil {
		r.Rest = max(r.Rest, j.Rules.Delay)
	}
	got := robots.None() // it is not there
	switch {
	case errors.Is(a.err, errNoWeb) || ctx.Err() != nil:
		return nil
	case a.err != nil && !a.large || a.status >= http.StatusInternalServerError:
		if r.Failures++; r.Failures < f.Params.Attempts {
			r.Quarantine = f.Params.pause(r.Failures)
			return nil
		}
		got = robots.All()
	case a.status == http.StatusOK:
		got = robots.Parse(a.body, web.Agent)
	case a.status >= http.StatusMultipleChoices && a.status < http.StatusBadRequest:
		got = robots.All() // a redirect is not followed, and may hide rules
	}
	at := &url.URL{Scheme: "http", Host: j.Host, Path: "/robots.txt"}
	var addresses []string
	for _, text := range got.Sitemaps {
		if u, err := links.Normal(at, text, sessions()); err == nil && u.Host == j.Host {
			addresses = append(addresses, u.String())
		}
	}
	list, err := f.find(ctx, addresses, 0, lowest)
	if err != nil {
		return nil // it is asked for again
	}
	r.Rules, r.Failures, r.Rest = got, 0, max(r.Rest, got.Delay)
	return list
}

// page fetches a page and decides what becomes of it.
func (f *fetcher) page(ctx context.Context, r *result, t task, u *url.URL) (list []found) {
	a := f.client.get(ctx, t.URL, f.Params.MaxBytes)
	f.Config.Passed(placeFetched)
	if errors.Is(a.err, errNoWeb) || ctx.Err() != nil {
		return nil // it stays as it is
	}
	o := outcome{URL: t.URL, Seq: t.Seq, Asked: true, Status: a.status,
		EveryMS: t.EveryMS, Hash: t.Hash}
	var err error
	switch {
	case a.large:
		o.State, o.Kept, o.Hash = large, true, ""
	case a.err != nil || a.status >= http.StatusInternalServerError:
		r.Failures++
		r.Quarantine = f.Params.pause(r.Failures)
		if o.State, o.Again = waiting, f.Params.pause(t.Tries+1); t.Tries+1 >= f.Params.Attempts {
			o.State, r.Quarantine = failed, 0
		}
	case a.status >= http.StatusMultipleChoices && a.status < http.StatusBadRequest &&
		a.location != "":
		o.State, o.Kept = moved, true
		to, wrong := links.Normal(u, a.location, sessions())
		if wrong == nil && t.Hops < f.Params.Redirects {
			list, err = f.find(ctx, []string{to.String()}, t.Hops+1, t.Priority)
		}
	case a.status != http.StatusOK:
		o.State, o.Kept = gone, true
	default:
		o.State, o.Kept, o.Body, o.Hash = done, true, a.body, hashOf(a.body)
		if a.fresh && t.Fetched < int64(f.Params.Recrawls) {
			o.State, o.Again = waiting, f.Params.again(t, &o)
		}
		list, err = f.find(ctx, contents(a, u), 0, min(lowest, t.Priority+1))
	}
	if err != nil {
		return nil // who keeps it without its links has lost them
	}
	if o.Kept {
		r.Failures = 0
	}
	r.Pages = append(r.Pages, o)
	return list
}

// again is after how long a page is fetched again: sooner where its text was another one.
func (p Params) again(t task, o *outcome) time.Duration {
	least := p.RecrawlAfter.D().Milliseconds()
	every := cmp.Or(t.EveryMS, least)
	switch {
	case t.Fetched == 0:
	case o.Hash == t.Hash:
		every *= 2
	default:
		every = max(least, every/2)
	}
	o.EveryMS = every
	return time.Duration(every) * time.Millisecond
}

// contents lists what a page links to.
func contents(a answer, at *url.URL) []string {
	switch a.mediaType {
	case "text/html", "application/xhtml+xml":
		return links.Find(at, a.body, sessions())
	case "text/xml", "application/xml":
		return links.Sitemap(at, a.body, sessions())
	}
	return nil
}

// sessions are the parameters of queries that say whose session it is.
func sessions() []string {
	return []string{web.SessionParam, "phpsessid", "jsessionid", "sessionid"}
}

// find makes pages of addresses, without those that are known, beyond the limits, or of no host.
// An error says that of some nobody could tell.
func (f *fetcher) find(
	ctx context.Context, list []string, hops, priority int,
) (out []found, err error) {
	for _, address := range list {
		f.mu.Lock()
		old := f.known[address]
		f.mu.Unlock()
		if old {
			continue
		}
		one, err := f.client.find(ctx, address)
		switch {
		case err == nil:
			one.Hops, one.Priority = hops, priority
			out = append(out, one)
		case !errors.Is(err, ErrNoPage):
			return nil, err
		}
	}
	return out, nil
}
