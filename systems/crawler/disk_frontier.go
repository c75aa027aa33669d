package crawler

import (
	"cmp"
	"container/heap"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/bits-and-blooms/bloom/v3"

	"stampede/harness/design"
	"stampede/systems/crawler/journal"
	"stampede/systems/crawler/robots"
)

// diskFrontier is one process with a frontier in its memory and on its disk.
//
// The idea: memory has every page, and two levels of queues: addresses that rest in a heap by
// time, those that may be asked by priority. Each change is a record of what things are from then
// on, with the body that it brings, in a log that many changes share a flush of. A Bloom filter
// says of most addresses of pages that they are new, and the exact set is asked about the rest.
// What is being fetched is noted nowhere: after a crash it waits.
//
// The guarantee: what was acknowledged is on the disk; a crash costs what was being fetched, again,
// and a rest for every host.
//
// It gives up: a second process; memory for every page; and a log that is never shortened.
func diskFrontier() variant {
	return variant{Name: "disk_frontier",
		Idea: "one process has the frontier in memory, and a log on its disk whose flushes many " +
			"changes share",
		Guarantees: "what was acknowledged survives a crash, and what was being fetched is fetched " +
			"again",
		GivesUp: "a second process, memory for every page, and a log that is never shortened",
		Roles:   fetcherRole(true, serveFrontier),
		State: design.State[Params]{Pending: pendingOnDisk, Audit: auditDisk,
			Found: func(_ context.Context, st *opened) (string, error) {
				m, err := readMemory(st)
				if len(m.pages) == 0 || err != nil {
					return "", err
				}
				return fmt.Sprintf("%d pages", len(m.pages)), nil
			}},
		Open: func(_ context.Context, st *opened) (Crawler, error) {
			return &remote{opened: st}, nil
		},
	}
}

// entry is a record of the log: what things are from then on.
type entry struct {
	Seeds []SeedRow  `json:"s,omitempty"`
	Hosts []diskHost `json:"h,omitempty"`
	Pages []diskPage `json:"p,omitempty"`
	// Body is that of one of the pages, which is found by Hash.
	Hash string `json:"i,omitempty"`
	Body []byte `json:"b,omitempty"`
}

type diskHost struct {
	Name, IP  string
	Pages     int
	Rules     *robots.Rules `json:",omitempty"`
	RulesAt   int64         `json:",omitempty"` // nanoseconds of the process's clock
	Failures  int           `json:",omitempty"`
	NotBefore int64         `json:",omitempty"`
}

type diskPage struct {
	Task   task
	Host   string
	State  string
	DueAt  int64 `json:",omitempty"`
	Failed int64 `json:",omitempty"`
	Status int   `json:",omitempty"`
}

// memory is the frontier of one process.
type memory struct {
	params Params

	mu     sync.Mutex
	log    *journal.Journal
	began  time.Time
	failed error // of the log: what is in memory means nothing any more
	seeds  map[uint64]string
	hosts  map[string]*diskHost
	pages  map[string]*diskPage
	bodies map[string]BodyRow
	maybe  *bloom.BloomFilter
	left   int

	addresses map[string]*address
	resting   resting
	ready     [lowest + 1][]*address // by priority
}

// address is one of the first level of the frontier.
type address struct {
	ip      string
	waiting []*diskPage
	freeAt  int64
	at      int64 // when it may be asked, as long as it rests; 0 if it does not
	fence   int64
	busy    bool // a fetcher has it, or it is ready
}

// The size of the Bloom filter: beyond so many pages more of them are asked about exactly.
const (
	bloomPages = 1_000_000
	bloomWrong = 0.01
)

func newMemory(p Params) *memory {
	return &memory{params: p, seeds: map[uint64]string{}, hosts: map[string]*diskHost{},
		pages: map[string]*diskPage{}, bodies: map[string]BodyRow{}, addresses: map[string]*address{},
		maybe: bloom.NewWithEstimates(bloomPages, bloomWrong)}
}

// readMemory reads the frontier of a folder that another process may have.
func readMemory(st *opened) (*memory, error) {
	m := newMemory(st.Params)
	return m, journal.Read(st.Config.Folder, m.restore)
}

// restore takes a record in.
func (m *memory) restore(raw []byte) error {
	var e entry
	if err := json.Unmarshal(raw, &e); err != nil {
		return fmt.Errorf("reading a record: %w", err)
	}
	m.apply(e)
	return nil
}

func (m *memory) apply(e entry) {
	for _, s := range e.Seeds {
		m.seeds[s.ID] = s.URL
	}
	for _, h := range e.Hosts {
		m.hosts[h.Name] = &h
	}
	if e.Hash != "" {
		m.bodies[e.Hash] = BodyRow{e.Hash, hashOf(e.Body), int64(len(e.Body))}
	}
	for _, p := range e.Pages {
		old := m.pages[p.Task.URL]
		m.left += count(p.State == waiting)
		if old == nil {
			m.pages[p.Task.URL] = &p
			m.maybe.AddString(p.Task.URL)
			continue
		}
		m.left -= count(old.State == waiting)
		*old = p
	}
}

// openMemory reads the frontier of a folder and goes on from there. Nobody knows what was asked for
// last: every address rests first.
func openMemory(p Params, folder string) (*memory, error) {
	m := newMemory(p)
	log, err := journal.Open(folder, m.restore)
	if err != nil {
		return nil, err
	}
	m.log, m.began = log, time.Now()
	rest := p.Delay.D()
	for _, h := range m.hosts {
		if h.Rules != nil {
			rest = max(rest, h.Rules.Delay)
		}
	}
	for _, h := range m.hosts {
		m.address(h.IP).freeAt = m.now() + int64(rest)
	}
	for _, page := range m.pages {
		if page.State == waiting {
			a := m.address(m.hosts[page.Host].IP)
			a.waiting = append(a.waiting, page)
		}
	}
	for _, a := range m.addresses {
		m.lay(a)
	}
	return m, nil
}

// now is the time in nanoseconds. It begins as what the clock says, for what is read from the disk;
// from then on nobody can set it.
func (m *memory) now() int64 { return m.began.UnixNano() + int64(time.Since(m.began)) }

func (m *memory) address(ip string) *address {
	a := m.addresses[ip]
	if a == nil {
		a = &address{ip: ip}
		m.addresses[ip] = a
	}
	return a
}

// lay lets an address rest until it may be asked, if there is anything to ask for. It may shorten a
// rest, and never lengthens one.
func (m *memory) lay(a *address) {
	if a.busy || len(a.waiting) == 0 {
		return
	}
	at := int64(math.MaxInt64)
	for _, p := range a.waiting {
		at = min(at, max(p.DueAt, m.hosts[p.Host].NotBefore))
	}
	if at = max(at, a.freeAt, 1); at != a.at {
		a.at = at
		heap.Push(&m.resting, turn{at, a})
	}
}

// onDisk does what holds the mutex, and then waits for the disk.
func (m *memory) onDisk(ctx context.Context, do func() (journal.Wait, error)) error {
	m.mu.Lock()
	wait, err := do()
	m.mu.Unlock()
	if err != nil {
		return err
	}
	if err = wait(ctx); err != nil && ctx.Err() == nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.fail("flushing the frontier", err)
	}
	return err
}

// change writes an entry, and applies it. The mutex is held.
func (m *memory) change(e entry) (wait journal.Wait, err error) {
	record, err := json.Marshal(e)
	if err == nil {
		wait, err = m.log.Begin(record)
	}
	if err != nil {
		return nil, m.fail("writing the frontier", err)
	}
	m.apply(e)
	return wait, nil
}

// fail ends the frontier: its process reads the disk anew. The mutex is held.
func (m *memory) fail(doing string, err error) error {
	m.failed = cmp.Or(m.failed, fmt.Errorf("%s: %w", doing, err))
	return fmt.Errorf("%w: %w", errLost, m.failed)
}

func hashOf(body []byte) string { return fmt.Sprintf("%x", sha256.Sum256(body)) }

// take takes addresses that are ready, the most urgent first.
func (m *memory) take(_ context.Context, n int) ([]*job, time.Duration, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.failed != nil {
		return nil, 0, m.failed
	}
	now := m.now()
	for len(m.resting) > 0 && m.resting[0].at <= now {
		next := heap.Pop(&m.resting).(turn)
		a := next.address
		if a.busy || a.at != next.at {
			continue // it had an earlier one
		}
		a.busy, a.at = true, 0
		class := lowest
		for _, p := range a.waiting {
			class = min(class, p.Task.Priority)
		}
		m.ready[class] = append(m.ready[class], a)
	}
	var jobs []*job
	for class := range m.ready {
		for len(m.ready[class]) > 0 && len(jobs) < n {
			a := m.ready[class][0]
			m.ready[class] = m.ready[class][1:]
			jobs = append(jobs, m.job(a, now))
		}
	}
	wait := idle
	if len(m.resting) > 0 {
		wait = time.Duration(m.resting[0].at - now)
	}
	return jobs, wait, nil
}

// job is what to ask an address for that has something due.
func (m *memory) job(a *address, now int64) *job {
	a.fence++
	due := slices.DeleteFunc(slices.Clone(a.waiting), func(p *diskPage) bool {
		return max(p.DueAt, m.hosts[p.Host].NotBefore) > now
	})
	slices.SortFunc(due, func(a, b *diskPage) int {
		return cmp.Or(cmp.Compare(a.Task.Priority, b.Task.Priority),
			cmp.Compare(a.Task.Seq, b.Task.Seq))
	})
	h := m.hosts[due[0].Host]
	j := &job{IP: a.ip, Host: h.Name, Fence: a.fence, Failures: h.Failures,
		Until: time.Now().Add(m.params.Lease.D() * leases)}
	if h.Rules != nil {
		j.Rules = &rules{*h.Rules, (now - h.RulesAt) / int64(time.Millisecond)}
	}
	for _, p := range due {
		if p.Host == j.Host && len(j.Pages) < candidates {
			j.Pages = append(j.Pages, p.Task)
		}
	}
	return j
}

// leases is how many leases a job lasts where no other process waits for its end.
const leases = 100

// add makes pages known, and seeds durable.
func (m *memory) add(ctx context.Context, list []found) error {
	return m.onDisk(ctx, func() (journal.Wait, error) { return m.added(list) })
}

// added writes one record. There is none of nothing, but what is known may still be on its way.
func (m *memory) added(list []found) (journal.Wait, error) {
	var e entry
	hosts := map[string]*diskHost{}
	fresh := map[string]bool{}
	for _, f := range list {
		if f.Op != 0 && m.seeds[f.Op] == "" {
			e.Seeds = append(e.Seeds, SeedRow{f.Op, f.URL})
		}
		if m.maybe.TestString(f.URL) && m.pages[f.URL] != nil || fresh[f.URL] {
			continue
		}
		h := hosts[f.Host]
		if h == nil {
			h = &diskHost{Name: f.Host, IP: f.IP}
			if old := m.hosts[f.Host]; old != nil {
				*h = *old
			}
			hosts[f.Host] = h
		}
		if h.Pages >= m.params.PerHost && f.Op == 0 {
			continue
		}
		h.Pages++
		fresh[f.URL] = true
		e.Pages = append(e.Pages, diskPage{Host: f.Host, State: waiting, Task: task{URL: f.URL,
			Seq: int64(len(m.pages) + len(e.Pages)), Priority: f.Priority, Hops: f.Hops}})
	}
	for _, name := range slices.Sorted(maps.Keys(hosts)) {
		e.Hosts = append(e.Hosts, *hosts[name])
	}
	if len(e.Pages) == 0 && len(e.Seeds) == 0 {
		return m.log.Begin(nil)
	}
	wait, err := m.change(e)
	if err != nil {
		return nil, err
	}
	for _, p := range e.Pages {
		a := m.address(m.hosts[p.Host].IP)
		a.waiting = append(a.waiting, m.pages[p.Task.URL])
		m.lay(a)
	}
	return wait, nil
}

// finish stores what a job has led to.
func (m *memory) finish(ctx context.Context, j *job, r *result) error {
	return m.onDisk(ctx, func() (journal.Wait, error) { return m.finished(j, r) })
}

func (m *memory) finished(j *job, r *result) (wait journal.Wait, err error) {
	a := m.addresses[j.IP]
	if a.fence != j.Fence {
		return m.log.Begin(nil) // it is stored: only the wait for the disk was cut short
	}
	now := m.now()
	h := *m.hosts[j.Host]
	h.Failures, h.NotBefore = r.Failures, now+int64(r.Quarantine)
	if r.Rules != nil {
		h.Rules, h.RulesAt = r.Rules, now
	}
	e := entry{Hosts: []diskHost{h}}
	for _, o := range r.Pages {
		p := *m.pages[o.URL]
		p.State, p.Status, p.Task.Hash, p.Task.EveryMS = o.State, o.Status, o.Hash, o.EveryMS
		p.DueAt = now + int64(o.Again)
		if o.Kept {
			p.Task.Tries = 0
			p.Task.Fetched++
		} else if o.Asked {
			p.Task.Tries++
			p.Failed++
		}
		e.Pages = append(e.Pages, p)
		if _, has := m.bodies[o.Hash]; o.Body != nil && !has {
			e.Hash, e.Body = o.Hash, o.Body
		}
	}
	if wait, err = m.change(e); err != nil {
		return nil, err
	}
	a.waiting = slices.DeleteFunc(a.waiting, func(p *diskPage) bool { return p.State != waiting })
	a.fence++
	a.busy, a.freeAt = false, now+int64(r.Rest)
	m.lay(a)
	return wait, nil
}

// look tells only what is on the disk: a crash must not take it back.
func (m *memory) look(ctx context.Context, url string) (page Page, err error) {
	page.URL = url
	err = m.onDisk(ctx, func() (journal.Wait, error) {
		if p := m.pages[url]; p != nil {
			page = Page{URL: url, State: p.State, Fetched: p.Task.Fetched, Status: p.Status,
				Hash: p.Task.Hash}
		}
		return m.log.Begin(nil)
	})
	return page, err
}

func (m *memory) waits() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.left
}

// pendingOnDisk asks the process that has the frontier, or reads its disk.
func pendingOnDisk(ctx context.Context, st *opened) (n int64, what string, err error) {
	if n, err = left(ctx, st); err != nil {
		var m *memory
		m, err = readMemory(st)
		n = int64(m.left)
	}
	return n, fmt.Sprintf("%d pages wait to be fetched", n), err
}

// auditDisk reads the disk.
func auditDisk(_ context.Context, st *opened) (any, error) {
	m, err := readMemory(st)
	if err != nil {
		return nil, err
	}
	a := Audit{Seeds: []SeedRow{}, Pages: []PageRow{}, Hosts: []HostRow{}, Bodies: []BodyRow{}}
	for _, id := range slices.Sorted(maps.Keys(m.seeds)) {
		a.Seeds = append(a.Seeds, SeedRow{id, m.seeds[id]})
	}
	for _, url := range slices.Sorted(maps.Keys(m.pages)) {
		p := m.pages[url]
		a.Pages = append(a.Pages, PageRow{URL: url, State: p.State, Hash: p.Task.Hash,
			Fetched: p.Task.Fetched, Failed: p.Failed})
	}
	for _, name := range slices.Sorted(maps.Keys(m.hosts)) {
		a.Hosts = append(a.Hosts, HostRow{name, int64(m.hosts[name].Pages)})
	}
	for _, hash := range slices.Sorted(maps.Keys(m.bodies)) {
		a.Bodies = append(a.Bodies, m.bodies[hash])
	}
	return withLog(a, st.Config.Folder)
}

// turn is when an address may be asked. If that becomes earlier it has two, and the earlier counts.
type turn struct {
	at      int64
	address *address
}

// resting is a heap of turns, the next one on top.
type resting []turn

func (r resting) Len() int           { return len(r) }
func (r resting) Less(i, k int) bool { return r[i].at < r[k].at }
func (r resting) Swap(i, k int)      { r[i], r[k] = r[k], r[i] }
func (r *resting) Push(x any)        { *r = append(*r, x.(turn)) }
func (r *resting) Pop() any {
	last := (*r)[len(*r)-1]
	*r = (*r)[:len(*r)-1]
	return last
}
