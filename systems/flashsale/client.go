package flashsale

import (
	"context"
	"encoding/json"
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
		return nil, fmt.Errorf("flashsale target: %w", err)
	}
	cfg.Timeout = stores.Timeout(cfg)
	server, err := api.NewClient(baseURL, cfg, problems())
	if err != nil {
		return nil, fmt.Errorf("flashsale target: %w", err)
	}
	return &Client{server, p}, nil
}

// Client is a Shop, and an instance, somewhere else.
type Client struct {
	*api.Client
	params Params
}

// Prepare asks the server for a new sale.
func (c *Client) Prepare(ctx context.Context) error {
	return c.Reset(ctx, resetOf(c.params))
}

// Do performs one operation. See Shop for the errors.
func (c *Client) Do(ctx context.Context, op history.Op) (history.Reply, error) {
	return perform(ctx, c, op)
}

// Buy asks for a unit.
func (c *Client) Buy(ctx context.Context, req BuyRequest) (Order, error) {
	body, err := c.Operate(ctx, http.MethodPost, routeBuy, req, http.StatusCreated)
	if err != nil {
		return Order{}, err
	}
	order, err := api.Decode[Order](body)
	if err == nil && order.ID == "" {
		err = errors.New("the reply names no order")
	}
	return order, err
}

// PaymentResult delivers a webhook.
func (c *Client) PaymentResult(ctx context.Context, p Payment) (PaymentState, error) {
	body, err := c.Operate(ctx, http.MethodPost, routePayments, p, http.StatusOK)
	if err != nil {
		return "", err
	}
	reply, err := api.Decode[paymentReply](body)
	if err != nil {
		return "", err
	}
	switch reply.State {
	case PaymentSold, PaymentReleased, PaymentRefunded:
		return reply.State, nil
	default:
		return "", fmt.Errorf("the reply has an undocumented payment state %q", reply.State)
	}
}

// Stock reads a snapshot.
func (c *Client) Stock(ctx context.Context, item string) (Stock, error) {
	body, err := c.Operate(ctx, http.MethodGet, stockPath(item), nil, http.StatusOK)
	if err != nil {
		return Stock{}, err
	}
	return api.Decode[Stock](body)
}

func stockPath(item string) string { return "/v1/items/" + url.PathEscape(item) + "/stock" }

// Quiesced asks the server what is left to do. A server that does not say is
// at rest when no unit is in a cart, by its stock or else by its audit. These
// are no operations: they do not wait for connections that operations without
// an answer hold.
func (c *Client) Quiesced(ctx context.Context) (pending string, err error) {
	pending, err = c.Client.Quiesced(ctx)
	if errors.Is(err, api.ErrNoRoute) {
		return c.unitsInCarts(ctx)
	}
	return pending, err
}

func (c *Client) unitsInCarts(ctx context.Context) (pending string, err error) {
	for n := range c.params.Items {
		stock, err := c.askStock(ctx, ItemKey(n+1))
		if errors.Is(err, ErrNoStock) {
			return c.ordersInCarts(ctx)
		}
		if err != nil {
			return "", fmt.Errorf("reading the stock at %s: %w", c.Base(), err)
		}
		if stock.Held > 0 {
			return fmt.Sprintf("%s: %d units are in carts", ItemKey(n+1), stock.Held), nil
		}
	}
	return "", nil
}

func (c *Client) askStock(ctx context.Context, item string) (Stock, error) {
	body, err := c.Ask(ctx, stockPath(item))
	if err != nil {
		return Stock{}, err
	}
	return api.Decode[Stock](body)
}

func (c *Client) ordersInCarts(ctx context.Context) (pending string, err error) {
	text, err := c.Audit(ctx)
	if err != nil {
		return "", err
	}
	var a Audit
	if err := json.Unmarshal(text, &a); err != nil {
		return "", fmt.Errorf("reading the audit at %s: %w", c.Base(), err)
	}
	held := 0
	for _, o := range a.Orders {
		if o.State == OrderHeld {
			held++
		}
	}
	if held > 0 {
		return fmt.Sprintf("orders in carts: %d", held), nil
	}
	return "", nil
}
