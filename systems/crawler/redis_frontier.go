package crawler

import (
	"cmp"
	"context"
	_ "embed" // the scripts
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"stampede/harness/design"
	"stampede/harness/stores"
	"stampede/harness/sut"
)

var (
	//go:embed redis_frontier.lua
	beginLua string
	//go:embed redis_add.lua
	addLua string
	//go:embed redis_take.lua
	takeLua string
	//go:embed redis_finish.lua
	finishLua string
)

// redisFrontier keeps everything in Redis.
//
// The idea: a sorted set has the addresses by when they may be asked, and one for each address and
// class of priority has its pages by when they are due. Scripts take, store and add, each at once.
// An address that is taken is due when its lease is over, under a higher fence.
//
// The guarantee: each page is stored once, and each address is one process's, whoever dies but
// Redis.
//
// It gives up: what the append-only file has not flushed when the power fails, a second of it:
// seeds, which pages were fetched, and when hosts were asked last; memory for all bodies; and
// priorities between addresses, which are taken in the order of time.
func redisFrontier() variant {
	return inStore(variant{Name: "redis_frontier",
		Idea: "sorted sets of addresses and of their pages by time, and scripts that take, store and " +
			"add at once",
		Guarantees: "each page stored once, and each host asked by one process at a time, whoever " +
			"dies but Redis",
		GivesUp: "the last second when Redis loses power: seeds, what was fetched and who was asked; " +
			"memory for all bodies, and priorities between addresses",
		Needs: []sut.Service{sut.Redis},
		Breaks: slices.Concat(sut.Breaks(sut.PowerLoss, "", SeedsKept),
			sut.Breaks(sut.PowerLoss, sut.AtTimes, AllFetched, FetchedOnce, Polite)),
		State: design.State[Params]{Pending: pendingInRedis, Audit: auditRedis,
			Found: func(ctx context.Context, st *opened) (string, error) {
				n, err := st.Redis.HLen(ctx, st.Key("pages")).Result()
				if n == 0 || err != nil {
					return "", stores.Failed("counting pages", err)
				}
				return fmt.Sprintf("%d pages", n), nil
			}},
		// Redis may forget what it has confirmed, so nothing is remembered of it.
	}, 0, func(st *opened) frontier { return sets{st} })
}

// sets is a frontier in Redis.
type sets struct{ *opened }

func (s sets) keys() []string {
	return []string{s.Key("pages"), s.Key("hosts"), s.Key("due"), s.Key("fences"), s.Key("left"),
		s.Key("seeds"), s.Key("bodies")}
}

func (s sets) run(ctx context.Context, script string, args ...any) *redis.Cmd {
	ctx, cancel := context.WithTimeout(ctx, stores.Timeout(s.Config))
	defer cancel()
	return redis.NewScript(beginLua+script).Run(ctx, s.Redis, s.keys(),
		append([]any{s.Key("waits:")}, args...)...)
}

// redisPage is a page in JSON.
type redisPage struct {
	task
	State  string
	Failed int64
	Status int
}

func (s sets) take(ctx context.Context, n int) ([]*job, time.Duration, error) {
	until := time.Now().Add(s.Params.Lease.D()) // earlier than Redis's
	raw, err := s.run(ctx, takeLua, n, s.Params.Lease.D().Milliseconds(),
		ceilMS(s.Params.Delay.D()), candidates).Text()
	if err != nil {
		return nil, 0, stores.Failed("taking addresses", err)
	}
	var list []struct {
		job
		Text string // of the rules
		Age  int64
	}
	if err := json.Unmarshal([]byte(raw), &list); err != nil {
		return nil, 0, fmt.Errorf("reading jobs: %w", err)
	}
	jobs := make([]*job, len(list))
	for i := range list {
		one := &list[i]
		if jobs[i] = &one.job; one.Text != "" {
			one.Rules = &rules{AgeMS: one.Age}
			if err := json.Unmarshal([]byte(one.Text), &one.Rules.Rules); err != nil {
				return nil, 0, fmt.Errorf("reading rules: %w", err)
			}
		}
		one.Until = until
	}
	return jobs, idle, nil
}

// ceilMS is a time in milliseconds of a clock that has no finer ones: never less.
func ceilMS(d time.Duration) int64 {
	return int64((d+time.Millisecond-1)/time.Millisecond) + 1
}

func (s sets) add(ctx context.Context, list []found) error {
	raw, err := json.Marshal(list)
	if err != nil {
		return fmt.Errorf("adding pages: %w", err)
	}
	return stores.Failed("adding pages", s.run(ctx, addLua, s.Params.PerHost, raw).Err())
}

func (s sets) finish(ctx context.Context, j *job, r *result) error {
	out := struct {
		IP, Host string
		Fence    int64
		Text     string
		Delay    time.Duration
		*result
	}{j.IP, j.Host, j.Fence, "", 0, r}
	if r.Rules != nil {
		text, err := json.Marshal(r.Rules)
		if err != nil {
			return fmt.Errorf("storing rules: %w", err)
		}
		out.Text, out.Delay = string(text), r.Rules.Delay
	}
	hash, body := "", []byte{}
	for _, o := range r.Pages {
		if o.Body != nil {
			hash, body = o.Hash, o.Body
		}
	}
	raw, err := json.Marshal(out)
	if err != nil {
		return fmt.Errorf("storing a page: %w", err)
	}
	stored, err := s.run(ctx, finishLua, raw, hash, body).Int()
	if err == nil && stored == 0 {
		return errLost
	}
	return stores.Failed("storing a page", err)
}

func (s sets) look(ctx context.Context, url string) (Page, error) {
	p := Page{URL: url}
	raw, err := s.Redis.HGet(ctx, s.Key("pages"), url).Bytes()
	if errors.Is(err, redis.Nil) {
		return p, nil
	}
	if err != nil {
		return p, stores.Failed("looking for a page", err)
	}
	var page redisPage
	if err := json.Unmarshal(raw, &page); err != nil {
		return p, fmt.Errorf("reading a page: %w", err)
	}
	p.State, p.Fetched, p.Status, p.Hash = page.State, page.Fetched, page.Status, page.Hash
	return p, nil
}

func pendingInRedis(ctx context.Context, st *opened) (left int64, what string, err error) {
	left, err = st.Redis.Get(ctx, st.Key("left")).Int64()
	if errors.Is(err, redis.Nil) {
		err = nil
	}
	return left, fmt.Sprintf("%d pages wait to be fetched", left), stores.Failed("counting pages",
		err)
}

func auditRedis(ctx context.Context, st *opened) (any, error) {
	all := map[string]map[string]string{}
	for _, name := range []string{"seeds", "pages", "hosts", "bodies"} {
		var err error
		if all[name], err = st.Redis.HGetAll(ctx, st.Key(name)).Result(); err != nil {
			return nil, fmt.Errorf("reading %s: %w", name, err)
		}
	}
	a := Audit{Seeds: []SeedRow{}, Pages: []PageRow{}, Hosts: []HostRow{}, Bodies: []BodyRow{}}
	for op, url := range all["seeds"] {
		id, err := strconv.ParseUint(op, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("reading a seed: %w", err)
		}
		a.Seeds = append(a.Seeds, SeedRow{id, url})
	}
	for url, raw := range all["pages"] {
		var p redisPage
		if err := json.Unmarshal([]byte(raw), &p); err != nil {
			return nil, fmt.Errorf("reading a page: %w", err)
		}
		a.Pages = append(a.Pages, PageRow{URL: url, State: p.State, Hash: p.Hash, Fetched: p.Fetched,
			Failed: p.Failed})
	}
	for name, raw := range all["hosts"] {
		var h struct {
			Pages int64 `json:"pages"`
		}
		if err := json.Unmarshal([]byte(raw), &h); err != nil {
			return nil, fmt.Errorf("reading a host: %w", err)
		}
		a.Hosts = append(a.Hosts, HostRow{name, h.Pages})
	}
	for hash, body := range all["bodies"] {
		a.Bodies = append(a.Bodies, BodyRow{hash, hashOf([]byte(body)), int64(len(body))})
	}
	slices.SortFunc(a.Seeds, func(x, y SeedRow) int { return cmp.Compare(x.ID, y.ID) })
	slices.SortFunc(a.Pages, func(x, y PageRow) int { return strings.Compare(x.URL, y.URL) })
	slices.SortFunc(a.Hosts, func(x, y HostRow) int { return strings.Compare(x.Host, y.Host) })
	slices.SortFunc(a.Bodies, func(x, y BodyRow) int { return strings.Compare(x.Hash, y.Hash) })
	return withLog(a, st.Config.Folder)
}
