package design

import (
	"context"
	"encoding/json"
	"fmt"

	"stampede/harness/api"
	"stampede/harness/history"
	"stampede/harness/sim"
	"stampede/harness/sut"
)

// model makes the design's model.
func (o *opener[S, P]) model(c *sim.Cluster, cfg sut.Config) (sut.Instance, error) {
	p, err := sut.ParamsOf[P](cfg.Params)
	if err != nil {
		return nil, o.opening("the model of ", err)
	}
	i := &simulated[S]{model: o.variant.Model(c, p, cfg), api: o.system.API}
	n := max(1, cfg.Replicas[sut.APIRole])
	i.domains = make([]S, n)
	i.servers = c.Role(sut.APIRole, n, sut.AfterError, i.begin)
	if i.model.Gauge != nil {
		return &watched[S]{i}, nil
	}
	return i, nil
}

// simulated is a model as an instance.
type simulated[S any] struct {
	model Model[S]
	api   *api.Table[S]
	// The processes of the API, what users call of each, and whose turn it is.
	servers []*sim.Replica
	domains []S
	turn    int
}

// begin begins a life of a process of the API.
func (i *simulated[S]) begin(r *sim.Replica) (works []func(*sim.Process)) {
	i.domains[r.Number] = i.model.Domain
	if i.model.Open != nil {
		i.domains[r.Number], works = i.model.Open(r)
	}
	return works
}

// Prepare does nothing: a model is ready.
func (*simulated[S]) Prepare(context.Context) error { return nil }

// Do performs one operation, each on the next of the API's processes.
func (i *simulated[S]) Do(
	ctx context.Context, op history.Op,
) (reply history.Reply, err error) {
	r := i.servers[i.turn]
	i.turn = (i.turn + 1) % len(i.servers)
	failed := r.Serve(sim.In(ctx), func() {
		reply, err = i.api.Do(ctx, i.domains[r.Number], op)
	})
	if failed != nil {
		return history.Reply{}, failed
	}
	return reply, err
}

// Quiesced says what background work has still to do.
func (i *simulated[S]) Quiesced(context.Context) (string, error) {
	if i.model.Pending == nil {
		return "", nil
	}
	left, what := i.model.Pending()
	if left == 0 {
		return "", nil
	}
	return what, nil
}

// Audit is the final truth.
func (i *simulated[S]) Audit(context.Context) (json.RawMessage, error) {
	raw, err := json.Marshal(i.model.Audit())
	if err != nil {
		return nil, fmt.Errorf("encoding the audit: %w", err)
	}
	return raw, nil
}

// watched is a model with a gauge.
type watched[S any] struct{ *simulated[S] }

// Sample asks the gauge.
func (i *watched[S]) Sample(ctx context.Context) (json.RawMessage, error) {
	raw, err := json.Marshal(i.model.Gauge(sim.In(ctx)))
	if err != nil {
		return nil, fmt.Errorf("encoding what the gauge saw: %w", err)
	}
	return raw, nil
}

// Close does nothing: the simulation ends what is under way.
func (*simulated[S]) Close() error { return nil }
