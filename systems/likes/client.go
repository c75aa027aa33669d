package likes

import (
	"context"
	"errors"
	"fmt"
	"net/http"

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
		return nil, fmt.Errorf("likes target: %w", err)
	}
	cfg.Timeout = stores.Timeout(cfg)
	server, err := api.NewClient(baseURL, cfg, problems())
	if err != nil {
		return nil, fmt.Errorf("likes target: %w", err)
	}
	return &Client{server, p}, nil
}

// Client is a Likes, and an instance, somewhere else.
type Client struct {
	*api.Client
	params Params
}

// Prepare asks the server to begin with nothing.
func (c *Client) Prepare(ctx context.Context) error {
	return c.Reset(ctx, resetOf(c.params))
}

// Do performs one operation. See Likes for the errors.
func (c *Client) Do(ctx context.Context, op history.Op) (history.Reply, error) {
	return perform(ctx, c, op)
}

// Like likes a video.
func (c *Client) Like(ctx context.Context, req Request) (Change, error) {
	return c.change(ctx, http.MethodPost, req)
}

// Unlike takes a like back.
func (c *Client) Unlike(ctx context.Context, req Request) (Change, error) {
	return c.change(ctx, http.MethodDelete, req)
}

func (c *Client) change(ctx context.Context, method string, req Request) (Change, error) {
	body, err := c.Operate(ctx, method, routeLikes, req, http.StatusOK)
	if err != nil {
		return Change{}, err
	}
	reply, err := api.Decode[struct {
		Changed *bool `json:"changed"`
	}](body)
	if err == nil && reply.Changed == nil {
		err = fmt.Errorf("%w: the reply does not say whether anything changed", api.ErrUnknownEffect)
	}
	if err != nil {
		return Change{}, err
	}
	return Change{*reply.Changed}, nil
}

// Count reads the likes of a video.
func (c *Client) Count(ctx context.Context, req Request) (Count, error) {
	path := fmt.Sprintf("/v1/likes/%d?user_id=%d", req.Video, req.User)
	body, err := c.Operate(ctx, http.MethodGet, path, nil, http.StatusOK)
	if err != nil {
		return Count{}, err
	}
	count, err := api.Decode[Count](body)
	if err == nil && count.Video != req.Video {
		err = fmt.Errorf("%w: asked for video %d, the reply is about %d", api.ErrUnknownEffect, req.Video,
			count.Video)
	}
	return count, err
}

// View says that a user sees a video.
func (c *Client) View(ctx context.Context, req Request) error {
	_, err := c.Operate(ctx, http.MethodPost, routeViews, req, http.StatusNoContent)
	return err
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
