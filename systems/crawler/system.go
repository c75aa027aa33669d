package crawler

import (
	"context"
	_ "embed" // the schema
	"errors"
	"fmt"
	"time"

	"stampede/harness/design"
	"stampede/harness/stores"
	"stampede/harness/sut"
	"stampede/systems/crawler/web"
)

type (
	opened  = design.Stores[Params]
	role    = design.Role[Params]
	variant = design.Variant[Crawler, Params]
)

//go:embed schema.sql
var schema string

// System returns crawler with all its designs.
func System() sut.System {
	return systemOf(diskFrontier(), postgresFrontier(), redisFrontier(), seenThenAdd(),
		politePerWorker(), forgetsInFlight())
}

func systemOf(designs ...variant) sut.System {
	for i := range designs {
		designs[i].KeepsFiles, designs[i].Places = true, []string{placeKept}
	}
	s := design.System[Crawler, Params]{
		Name: "crawler",
		Question: "a hostile web, and crawlers that die: which designs fetch every page that they " +
			"may, once, and ask no host too often?",
		API: API(), Defaults: DefaultParams, Workload: newWorkload,
		GoesOn: func(p Params) time.Duration {
			return time.Duration(p.Recrawls)*2*p.RecrawlAfter.D() + p.Delay.D()*time.Duration(p.PerHost)
		},
		State: design.State[Params]{Schema: schema, Empty: []string{"seeds", "pages", "bodies"},
			Pending: pendingPages, Audit: auditTables},
		Roles: []role{{Name: "web", Single: true,
			Summary: "is the web: a proxy that serves all hosts, and keeps the log that judges",
			Do: func(ctx context.Context, st *opened) error {
				return web.Serve(ctx, st.Params.Web(), st.Config.Folder, func(string) error {
					// It works whether anybody asks or not.
					return st.Config.Every(ctx, time.Second, func() error { return nil })
				})
			}}},
		Designs: designs, Invariants: invariants,
		NoRaces: "seeds do not compete; what competes are requests for pages, which the web's log " +
			"shows: polite and once need those that overlapped",
	}.Sut()
	s.Target = target
	return s
}

// inStore completes a design by a frontier in a store, of whose pages each fetcher remembers so
// many.
func inStore(v variant, remembers int, front func(*opened) frontier) variant {
	v.Roles = fetcherRole(false, func(ctx context.Context, st *opened) error {
		return newFetcher(st, front(st), remembers).run(ctx)
	})
	v.Open = func(_ context.Context, st *opened) (Crawler, error) {
		return newDesk(st, front(st)), nil
	}
	return v
}

// withLog adds the web's log to an audit.
func withLog(a Audit, folder string) (any, error) {
	var err error
	a.Log, err = web.ReadLog(folder)
	return a, err
}

// placeKept is the fail point of an API: a seed is durable, and nobody was told.
const placeKept = "kept"

// desk is the API of a design.
type desk struct {
	*opened
	front  frontier
	client *client
}

func newDesk(st *opened, front frontier) *desk {
	return &desk{st, front, newClient(st)}
}

// Seed makes a seed durable. It waits a little for a web that has just been started.
func (d *desk) Seed(ctx context.Context, req SeedRequest) (Seeded, error) {
	patience, cancel := context.WithTimeout(ctx, stores.Timeout(d.Config)/2)
	defer cancel()
	f, err := d.client.find(patience, req.URL)
	if errors.Is(err, errNoWeb) {
		err = fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	if err != nil {
		return Seeded{}, err
	}
	f.Priority, f.Op = req.Priority, req.ID
	if err := d.front.add(ctx, []found{f}); err != nil {
		return Seeded{}, err
	}
	d.Config.Passed(placeKept)
	return Seeded{URL: f.URL}, nil
}

// Look reads what is known of a page.
func (d *desk) Look(ctx context.Context, req LookRequest) (Page, error) {
	return d.front.look(ctx, req.URL)
}
