package views

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

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
// The parameters of cfg (a *Params or Params) go into the reset; MaxConns and
// Timeout bound connections and operations. The certificate of an https server
// is verified with RootCAs, or else the system's. Nothing is sent until Prepare.
func NewTarget(baseURL string, cfg sut.Config) (sut.Instance, error) {
	p, err := paramsOf(cfg.Params)
	if err != nil {
		return nil, fmt.Errorf("views target: %w", err)
	}
	cfg.Timeout = stores.Timeout(cfg)
	server, err := api.NewClient(baseURL, cfg, problems())
	if err != nil {
		return nil, fmt.Errorf("views target: %w", err)
	}
	return &Client{server, p}, nil
}

// Client is a Pipeline, and an instance, somewhere else.
type Client struct {
	*api.Client
	params Params
}

// Prepare asks the server to begin with an empty log.
func (c *Client) Prepare(ctx context.Context) error {
	return c.Reset(ctx, resetOf(c.params))
}

// Do performs one operation. See Pipeline for the errors.
func (c *Client) Do(ctx context.Context, op history.Op) (history.Reply, error) {
	return perform(ctx, c, op)
}

// Watch sends a heartbeat.
func (c *Client) Watch(ctx context.Context, h Heartbeat) (Position, error) {
	body, err := c.Operate(ctx, http.MethodPost, routeWatch, requestOf(h), http.StatusAccepted)
	if err != nil {
		return Position{}, err
	}
	reply, err := api.Decode[positionReply](body)
	if err != nil {
		return Position{}, err
	}
	at, err := ParsePosition(reply.Position)
	if err != nil {
		return Position{}, fmt.Errorf("%w: %w", api.ErrUnknownEffect, err)
	}
	return at, nil
}

// Views reads a count.
func (c *Client) Views(ctx context.Context, video string) (Views, error) {
	body, err := c.Operate(ctx, http.MethodGet, "/videos/"+url.PathEscape(video)+"/views", nil,
		http.StatusOK)
	if err != nil {
		return Views{}, err
	}
	views, err := api.Decode[Views](body)
	if err == nil && views.Video != video {
		err = fmt.Errorf("%w: asked for %s, the reply is about %q", api.ErrUnknownEffect, video,
			views.Video)
	}
	return views, err
}

// SetRules puts rules into force.
func (c *Client) SetRules(ctx context.Context, rules Rules) (int64, error) {
	body, err := c.Operate(ctx, http.MethodPut, routeRules, rules, http.StatusOK)
	if err != nil {
		return 0, err
	}
	reply, err := api.Decode[versionReply](body)
	return reply.Version, err
}

// Reprocess begins a generation.
func (c *Client) Reprocess(ctx context.Context) (int64, error) {
	body, err := c.Operate(ctx, http.MethodPost, routeReprocess, nil, http.StatusAccepted)
	if err != nil {
		return 0, err
	}
	reply, err := api.Decode[generationReply](body)
	return reply.Generation, err
}

// Quiesced asks the server what is left to do. A server that does not say has
// no background work.
func (c *Client) Quiesced(ctx context.Context) (pending string, err error) {
	pending, err = c.Client.Quiesced(ctx)
	if errors.Is(err, api.ErrNoRoute) {
		return "", nil
	}
	return pending, err
}
