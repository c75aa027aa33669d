package scheduler

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"stampede/harness/api"
	"stampede/harness/history"
	"stampede/harness/stores"
	"stampede/harness/sut"
)

// NewTarget makes an instance that speaks the HTTP API at baseURL, such as
// "http://127.0.0.1:8080", whoever wrote the server. It sends every request
// once: a request whose answer is lost has an unknown outcome, and what to do
// about it is for the workload to say.
//
// The parameters of cfg (a *Params or Params) go into the reset, their token into
// every request; MaxConns and Timeout bound connections and operations. The
// certificate of an https server is verified with RootCAs, or else the system's.
// Nothing is sent until Prepare.
func NewTarget(baseURL string, cfg sut.Config) (sut.Instance, error) {
	p, err := paramsOf(cfg.Params)
	if err != nil {
		return nil, fmt.Errorf("scheduler target: %w", err)
	}
	cfg.Timeout = stores.Timeout(cfg)
	server, err := api.NewClient(baseURL, cfg, problems())
	if err != nil {
		return nil, fmt.Errorf("scheduler target: %w", err)
	}
	return &Client{Client: server.WithToken(p.Token), params: p}, nil
}

// Client is a Scheduler, and an instance, somewhere else.
type Client struct {
	*api.Client
	params Params

	// What was left by the latest audit, and until when that is good enough.
	mu               sync.Mutex
	waiting, running int64
	next             time.Time
}

var (
	_ Scheduler      = (*Client)(nil)
	_ sut.Backlogger = (*Client)(nil)
)

// Prepare asks the server to begin without tasks.
func (c *Client) Prepare(ctx context.Context) error {
	return c.Reset(ctx, resetOf(c.params))
}

// Do performs one operation. See Scheduler for the errors.
func (c *Client) Do(ctx context.Context, op history.Op) (history.Reply, error) {
	return perform(ctx, c, op)
}

// Schedule sends a task.
func (c *Client) Schedule(ctx context.Context, req Request) (Scheduled, error) {
	reply, err := ask[scheduledReply](ctx, c, http.MethodPost, routeTasks, taskRequest(req),
		http.StatusCreated)
	if err == nil && reply.ID != req.ID {
		err = fmt.Errorf("%w: asked for %d, the reply is about %d", api.ErrUnknownEffect, req.ID,
			reply.ID)
	}
	return Scheduled{time.Duration(reply.DueUS) * time.Microsecond}, err
}

// Change sends a change.
func (c *Client) Change(ctx context.Context, change Change) (State, error) {
	path := taskPath(change.Task) + "/" + change.What
	reply, err := ask[stateReply](ctx, c, http.MethodPost, path, changeRequest{change.ID},
		http.StatusOK)
	return reply.State, err
}

// Task reads a task.
func (c *Client) Task(ctx context.Context, id uint64) (Task, error) {
	return ask[Task](ctx, c, http.MethodGet, taskPath(id), nil, http.StatusOK)
}

// Tasks lists the tasks of a queue. How many is for the server to say.
func (c *Client) Tasks(ctx context.Context, queue string, _ int) ([]Task, error) {
	path := routeTasks + "?queue=" + url.QueryEscape(queue)
	return ask[[]Task](ctx, c, http.MethodGet, path, nil, http.StatusOK)
}

// Await waits for a start.
func (c *Client) Await(ctx context.Context, id uint64) (time.Duration, error) {
	reply, err := ask[startReply](ctx, c, http.MethodGet, taskPath(id)+"/start", nil, http.StatusOK)
	return time.Duration(reply.LateUS) * time.Microsecond, err
}

func taskPath(id uint64) string { return routeTasks + "/" + taskName(id) }

// ask sends a request and reads the answer.
func ask[R any](
	ctx context.Context, c *Client, method, path string, body any, want int,
) (R, error) {
	answer, err := c.Operate(ctx, method, path, body, want)
	if err != nil {
		var none R
		return none, err
	}
	return api.Decode[R](answer)
}

// Quiesced asks the server what is left to do. One that does not say is at rest when its
// audit has no task that is to run.
func (c *Client) Quiesced(ctx context.Context) (pending string, err error) {
	pending, err = c.Client.Quiesced(ctx)
	if !errors.Is(err, api.ErrNoRoute) {
		return pending, err
	}
	waiting, running, err := c.left(ctx)
	return stillToRun(waiting, running), err
}

// Backlog asks the server how much is left to do, or counts it in the audit.
func (c *Client) Backlog(ctx context.Context) (int64, error) {
	left, err := c.Client.Backlog(ctx)
	if !errors.Is(err, api.ErrNoRoute) {
		return left, err
	}
	waiting, running, err := c.left(ctx)
	return waiting + running, err
}

// auditRest is the least time between two audits of a server that has work left, auditShare
// how many times as long as an audit took: an audit is work for it as well.
const (
	auditRest  = 500 * time.Millisecond
	auditShare = 4
)

// left counts the tasks that are to run in the server's audit, or repeats the latest count.
func (c *Client) left(ctx context.Context) (waiting, running int64, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	began := time.Now()
	if began.Before(c.next) {
		return c.waiting, c.running, nil
	}
	raw, err := c.Audit(ctx)
	if err != nil {
		return 0, 0, err
	}
	a, err := DecodeAudit(raw)
	if err != nil {
		return 0, 0, fmt.Errorf("what is pending at %s: %w", c.Base(), err)
	}
	c.waiting, c.running = a.left()
	if now := time.Now(); c.waiting+c.running > 0 {
		c.next = now.Add(max(auditRest, auditShare*now.Sub(began)))
	}
	return c.waiting, c.running, nil
}
