package sqlbroker

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"stampede/harness/api"
	"stampede/harness/history"
	"stampede/harness/stores"
	"stampede/harness/sut"
)

// NewTarget makes an instance that speaks the HTTP API at baseURL, such as
// "http://127.0.0.1:8080", whoever wrote the server. It sends every request once: a
// request whose answer is lost has an unknown outcome, and what to do about it is for
// the workload to say.
//
// The parameters of cfg (a *Params or Params) go into the reset, and their token into
// each request; MaxConns and Timeout bound connections and operations. The certificate
// of an https server is verified with RootCAs, or else the system's. Nothing is sent
// until Prepare.
func NewTarget(baseURL string, cfg sut.Config) (sut.Instance, error) {
	p, err := paramsOf(cfg.Params)
	if err != nil {
		return nil, fmt.Errorf("sqlbroker target: %w", err)
	}
	cfg.Timeout = stores.Timeout(cfg)
	server, err := api.NewClient(baseURL, cfg, problems())
	if err != nil {
		return nil, fmt.Errorf("sqlbroker target: %w", err)
	}
	return &Client{server.WithToken(p.Token), p}, nil
}

// Client is a Broker, and an instance, somewhere else.
type Client struct {
	*api.Client
	params Params
}

// Prepare asks the server to begin with empty queues.
func (c *Client) Prepare(ctx context.Context) error {
	return c.Reset(ctx, resetOf(c.params))
}

// Do performs one operation. See Broker for the errors.
func (c *Client) Do(ctx context.Context, op history.Op) (history.Reply, error) {
	return perform(ctx, c, op)
}

// to fills in the queue of a route.
func to(route, queue string) string {
	return strings.Replace(route, "{queue}", url.PathEscape(queue), 1)
}

// Publish publishes messages.
func (c *Client) Publish(ctx context.Context, queue string, p Publication) (int, error) {
	return c.count(ctx, http.MethodPut, to(routeMessages, queue),
		manyMessages{OpID: p.OpID, Messages: p.Messages})
}

// count sends what is answered with a number of messages.
func (c *Client) count(ctx context.Context, method, path string, body any) (int, error) {
	text, err := c.Operate(ctx, method, path, body, http.StatusOK)
	if err != nil {
		return 0, err
	}
	reply, err := api.Decode[struct {
		Messages *int64 `json:"messages"`
	}](text)
	if err == nil && reply.Messages == nil {
		err = fmt.Errorf("%w: the reply does not say how many messages", api.ErrUnknownEffect)
	}
	if err != nil {
		return 0, err
	}
	return int(*reply.Messages), nil
}

// Receive receives messages.
func (c *Client) Receive(ctx context.Context, queue string, d Demand) ([]Delivery, error) {
	query := url.Values{"n": {strconv.Itoa(d.Most)}}
	if d.WaitMS > 0 {
		query.Set("wait_ms", strconv.FormatInt(d.WaitMS, 10))
	}
	if d.OpID > 0 {
		query.Set("op_id", strconv.FormatUint(d.OpID, 10))
	}
	if d.Consumer != "" {
		query.Set("consumer", d.Consumer)
	}
	text, err := c.Operate(ctx, http.MethodGet, to(routeMessages, queue)+"?"+query.Encode(), nil,
		http.StatusOK)
	if err != nil {
		return nil, err
	}
	got, err := api.Decode[[]Delivery](text)
	if err == nil && len(got) > d.Most {
		err = fmt.Errorf("%w: asked for %d messages, the reply has %d", api.ErrUnknownEffect, d.Most,
			len(got))
	}
	return got, err
}

// Settle acknowledges, extends or releases.
func (c *Client) Settle(
	ctx context.Context, queue string, how string, s Settlement,
) (Settled, error) {
	route := map[string]string{KindAck: routeAck, KindExtend: routeExtend, KindRelease: routeRelease}
	text, err := c.Operate(ctx, http.MethodPost, to(route[how], queue), s, http.StatusOK)
	if err != nil {
		return Settled{}, err
	}
	done, err := api.Decode[Settled](text)
	if err == nil && (len(done.Done) == 0 || len(done.Done)+len(done.Stale) != len(s.Receipts)) {
		err = fmt.Errorf("%w: of %d receipts, the reply calls %d good and %d stale",
			api.ErrUnknownEffect, len(s.Receipts), len(done.Done), len(done.Stale))
	}
	return done, err
}

// Create makes a queue or changes its settings.
func (c *Client) Create(ctx context.Context, queue string, s QueueSettings) error {
	_, err := c.Operate(ctx, http.MethodPut, to(routeQueue, queue), s, http.StatusNoContent)
	return err
}

// Purge deletes what is in a queue.
func (c *Client) Purge(ctx context.Context, queue string) (int, error) {
	return c.count(ctx, http.MethodDelete, to(routePurge, queue), nil)
}

// Redrive puts dead letters back.
func (c *Client) Redrive(ctx context.Context, queue string) (int, error) {
	return c.count(ctx, http.MethodPost, to(routeRedrive, queue), nil)
}

// List lists the queues.
func (c *Client) List(ctx context.Context) ([]QueueInfo, error) {
	text, err := c.Operate(ctx, http.MethodGet, routeQueues, nil, http.StatusOK)
	if err != nil {
		return nil, err
	}
	return api.Decode[[]QueueInfo](text)
}

// Quiesced asks the server what is left to do. One that does not say is at rest when its
// queues have nothing that consumers work off. This is no operation: it does not wait for
// connections that operations without an answer hold.
func (c *Client) Quiesced(ctx context.Context) (pending string, err error) {
	pending, err = c.Client.Quiesced(ctx)
	if !errors.Is(err, api.ErrNoRoute) {
		return pending, err
	}
	text, err := c.Ask(ctx, routeQueues)
	if err != nil {
		return "", fmt.Errorf("listing the queues at %s: %w", c.Base(), err)
	}
	list, err := api.Decode[[]QueueInfo](text)
	if err != nil {
		return "", err
	}
	return c.params.waiting(list), nil
}
