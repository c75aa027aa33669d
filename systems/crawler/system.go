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
		designs[i] = inWeb(designs[i])
	}
	s := design.System[Crawler, Params]{
		Name: "crawler",
		Question: "a hostile web, and crawlers that die: which designs fetch every page that they " +
			"may, once, and ask no host too often?",
		API: API(), Defaults: DefaultParams, Workload: NewWorkload,
		GoesOn: func(p Params) time.Duration {
			return time.Duration(p.Recrawls)*2*p.RecrawlAfter.D() + p.Delay.D()*time.Duration(p.PerHost)
		},
		Designs:    designs,
		Invariants: invariants,
		NoRaces: "seeds do not compete; what competes are requests for pages, which the web's log " +
			"shows: polite and once need those that overlapped",
	}.Sut()
	s.Target = target
	return s
}

// inWeb completes a design with the web, whose log is in the design's folder, and with tables.
func inWeb(v variant) variant {
	v.KeepsFiles = true
	v.Places = []string{placeKept}
	v.Roles = append(v.Roles, role{Name: "web", Single: true,
		Summary: "is the web: a proxy that serves all hosts, and keeps the log that judges",
		Do: func(ctx context.Context, st *opened) error {
			return web.Serve(ctx, st.Params.Web(), st.Config.Folder, func(string) error {
				// It works whether anybody asks or not.
				return st.Config.Every(ctx, time.Second, func() error { return nil })
			})
		}})
	if v.State.Schema == "" {
		v.State.Schema = schema
	}
	v.State.Empty = []string{"seeds", "pages", "bodies"}
	if v.State.Pending == nil {
		v.State.Pending = pendingPages
	}
	if v.State.Audit == nil {
		v.State.Audit = auditTables
	}
	return v
}

// shared is a frontier that many processes share, and their API too.
type shared interface {
	frontier
	book
}

// inStore completes a design by a frontier in a store, of whose pages each fetcher remembers so
// many.
func inStore(v variant, remembers int, front func(*opened) shared) variant {
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

// book is where an API keeps seeds, and reads what is known.
type book interface {
	// seed makes a seed durable, and its page known. The same op is the same seed.
	seed(ctx context.Context, op uint64, f found) error
	look(ctx context.Context, url string) (Page, error)
}

// desk is the API of a design.
type desk struct {
	*opened
	book   book
	client *client
}

func newDesk(st *opened, b book) *desk {
	return &desk{st, b, newClient(st.Params, st.Config.Folder, newAgent())}
}

// Close ends what is idle.
func (d *desk) Close() error {
	d.client.close()
	return nil
}

// Seed makes a seed durable.
func (d *desk) Seed(ctx context.Context, req SeedRequest) (Seeded, error) {
	f, err := d.find(ctx, req.URL)
	if err != nil {
		return Seeded{}, err
	}
	f.Priority, f.Seed = req.Priority, true
	if err := d.book.seed(ctx, req.ID, f); err != nil {
		return Seeded{}, err
	}
	d.Config.Passed(placeKept)
	return Seeded{URL: f.URL}, nil
}

// find waits a little for a web that has just been started.
func (d *desk) find(ctx context.Context, url string) (found, error) {
	patience, cancel := context.WithTimeout(ctx, stores.Timeout(d.Config)/2)
	defer cancel()
	f, err := d.Params.foundAt(patience, d.client, url)
	if errors.Is(err, errNoWeb) {
		err = fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return f, err
}

// Look reads what is known of a page.
func (d *desk) Look(ctx context.Context, req LookRequest) (Page, error) {
	return d.book.look(ctx, req.URL)
}
