package deploy

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"stampede/harness/history"
	"stampede/harness/sut"
)

// doer performs operations on one of the servers of the API.
type doer struct {
	do    func(context.Context, history.Op) (history.Reply, error)
	close func() error // nil if it is the caller's
	// quiesced says what it has still to do; nil if it cannot, or is the caller's.
	quiesced func(context.Context) (string, error)
}

// startAPI makes what the load calls: the caller's instance, several in this
// process, or servers.
func (c *Crew) startAPI(ctx context.Context, inst sut.Instance) error {
	inside := c.plan.Way == InProcess || c.plan.Way == ""
	switch {
	case inside && c.plan.count(API) == 1:
		c.api = []doer{{do: inst.Do}}
		return nil
	case inside:
		return c.openAPI(ctx)
	}
	_, numbers := c.plan.names(API)
	servers := make([]*server, len(numbers))
	next := 0
	err := c.add(ctx, API, func(name string, replica int) unit {
		s := &server{plan: c.plan}
		servers[next] = s
		next++
		cfg, via := c.plan.config(API, replica)
		w := newWorker(c.plan, API, name, cfg, via)
		w.serving, s.quiesced = s.moved, w.Quiesced
		return w
	})
	c.servers = servers
	for _, s := range servers {
		c.api = append(c.api, doer{do: s.do, close: s.close, quiesced: s.quiesced})
	}
	return err
}

// openAPI opens several instances in this process.
func (c *Crew) openAPI(ctx context.Context) error {
	_, numbers := c.plan.names(API)
	for _, replica := range numbers {
		cfg, _ := c.plan.config(API, replica)
		inst, err := c.plan.Variant.Open(ctx, cfg)
		if err != nil {
			return fmt.Errorf("opening replica %d of %s: %w", replica, c.plan.Variant.Name, err)
		}
		one := doer{do: inst.Do, close: inst.Close}
		if q, can := inst.(sut.Quiescer); can {
			one.quiesced = q.Quiesced
		}
		c.api = append(c.api, one)
	}
	return nil
}

// Quiesced says what one of the servers of the API has still to do, "" if none has
// anything. What waits in the memory of a server is known to nobody else. The caller's own
// instance is not asked.
func (c *Crew) Quiesced(ctx context.Context) (pending string, err error) {
	for _, one := range c.api {
		if one.quiesced == nil {
			continue
		}
		if pending, err = one.quiesced(ctx); err != nil || pending != "" {
			return pending, err
		}
	}
	return "", nil
}

// Do performs an operation on the servers of the API in turn.
func (c *Crew) Do(ctx context.Context, op history.Op) (history.Reply, error) {
	if len(c.api) == 1 {
		return c.api[0].do(ctx, op)
	}
	turn := c.turn.Add(1) - 1
	return c.api[turn%uint64(len(c.api))].do(ctx, op)
}

// server is the client of one server of the API. Each of its lives has a client of its own, without
// connections to an earlier one.
type server struct {
	plan     Plan
	quiesced func(context.Context) (string, error)

	client atomic.Pointer[sut.Instance]
	mu     sync.Mutex
	all    []sut.Instance
	url    string // where it was at last
}

// moved turns to another life.
func (s *server) moved(address string) error {
	cfg := s.plan.Config
	cfg.MaxConns = s.plan.Clients
	url := "http://" + address
	client, err := s.plan.System.Target(url, cfg)
	if err != nil {
		return fmt.Errorf("making a client of %s: %w", address, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all, s.url = append(s.all, client), url
	s.client.Store(&client)
	return nil
}

// URLs are where the servers of the API are, or were before they went down; none if it is in this
// process.
func (c *Crew) URLs() (urls []string) {
	for _, s := range c.servers {
		s.mu.Lock()
		urls = append(urls, s.url)
		s.mu.Unlock()
	}
	return urls
}

// do performs an operation where the server was at last: nobody listens there
// while it is down, which is for the client to tell.
func (s *server) do(ctx context.Context, op history.Op) (history.Reply, error) {
	return (*s.client.Load()).Do(ctx, op)
}

// close closes the clients of all addresses.
func (s *server) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, client := range s.all {
		errs = append(errs, client.Close())
	}
	return errors.Join(errs...)
}
