package commentary

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"sync/atomic"

	"stampede/harness/api"
	"stampede/harness/edge"
	"stampede/harness/stores"
	"stampede/harness/sut"
)

// edgeCache answers most viewers before they reach the API.
//
// The idea: a shared HTTP cache stands between the viewers and redis_etag, as the node of a content
// delivery network does. Answers are public and fresh for a few seconds, during which no look
// reaches the origin; then the edge asks whether its answer is still the same. Commentators speak
// to the origin.
//
// The guarantee: what is acknowledged is kept, and seen when the edge's answer and the copy are too
// old, at the latest.
//
// It gives up: that a change is seen at once. When an answer becomes too old, all who look at that
// moment go to the origin, each for itself. Two edges do not agree: a viewer who has no version and
// goes from one to the other may see an older one.
func edgeCache() variant {
	return edged(variant{Name: "edge",
		Idea: "an HTTP cache answers for a few seconds without asking the API, and then asks whether " +
			"its answer is still the same",
		Guarantees: "what is acknowledged is kept, and seen when the edge's answer is too old at the " +
			"latest",
		GivesUp: "that a change is seen at once; when an answer becomes too old, all who look then go " +
			"to the API",
	}, edge.Config{}, func(p Params) string {
		return fmt.Sprintf("public, max-age=%d", int(p.MaxAge.D().Seconds()))
	})
}

// edged puts an edge before redis_etag's API, whose answers say that they may be kept.
func edged(v variant, cfg edge.Config, cache func(Params) string) variant {
	d := copiesPlan()
	d.cache = cache
	d.within = func(p Params) int64 { return (p.MaxAge.D() + p.CopyFor.D()).Milliseconds() }
	v.State = copiesPending()
	v = inPostgres(v, d)
	v.Needs = []sut.Service{sut.Redis}
	v.Open = func(_ context.Context, st *opened) (Commentary, error) {
		return newEdge(st, newServer(st, d), cfg)
	}
	return v
}

// behindEdge is an API whose viewers are answered by an edge.
type behindEdge struct {
	Commentary
	edge   *edge.Edge
	closed *atomic.Bool
	latest func(context.Context, LatestRequest) (Latest, error)
}

func newEdge(st *opened, origin Commentary, cfg edge.Config) (behindEdge, error) {
	handler, err := API().HandlerOf(origin, st.Config)
	if err != nil {
		return behindEdge{}, fmt.Errorf("serving an origin: %w", err)
	}
	cfg.Transport, cfg.Timeout = api.Transport(handler), stores.Timeout(st.Config)
	e, err := edge.New(&url.URL{Scheme: "http", Host: "origin"}, cfg)
	return behindEdge{origin, e, &atomic.Bool{},
		api.Via[LatestRequest, Latest](API(), KindLatest, e)}, err
}

// Latest asks the edge, which has answers even when everything else is closed.
func (b behindEdge) Latest(ctx context.Context, req LatestRequest) (Latest, error) {
	if b.closed.Load() || ctx.Err() != nil {
		return Latest{}, ErrUnavailable
	}
	return b.latest(ctx, req)
}

// WriteMetrics writes what the edge has done: what background validations cost shows nowhere else.
func (b behindEdge) WriteMetrics(out io.Writer) {
	c := b.edge.Counts()
	for _, m := range []struct {
		name, help string
		value      int64
	}{
		{"edge_requests", "Looks that the edge answered.", c.Requests()},
		{"edge_origin_requests", "Requests of the edge to the API.", c.OriginRequests},
		{"edge_viewer_bytes", "Bodies that viewers were sent.", c.BytesToViewers},
		{"edge_origin_bytes", "Bodies that the edge was sent.", c.BytesFromOrigin},
	} {
		fmt.Fprintf(out, "# HELP commentary_%[1]s %[2]s\n# TYPE commentary_%[1]s counter\n"+
			"commentary_%[1]s_total %[3]d\n", m.name, m.help, m.value)
	}
}

// Close ends what the edge does in the background.
func (b behindEdge) Close() error {
	b.closed.Store(true)
	b.edge.Close()
	return nil
}
