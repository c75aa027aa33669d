// Package design makes a sut.System of its parts: what users call, the stores that a design is
// built on, opened, warmed and closed for it, and the background work, step by step. What is
// the same in every system is here once.
package design

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"stampede/harness/api"
	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/keys"
	"stampede/harness/sim"
	"stampede/harness/stores"
	"stampede/harness/sut"
)

// System is a system with its designs. S is what users call, its domain interface, and P its
// parameters. What is wrong with these says their method Validate, every bad field at once; of
// parameters without one, package bounds does.
type System[S, P any] struct {
	// Name is the folder's name; Question is one line.
	Name, Question string
	// API is the table of what users can ask for. If it says nothing of a reset, that sends
	// the parameters.
	API *api.Table[S]
	// Defaults are the parameters of which a scenario says nothing.
	Defaults func() P
	// Workload makes the operations of valid parameters. Whatever is random in them comes from
	// the streams, or from their seed.
	Workload func(s *keys.Streams, p P) sut.Workload
	// GoesOn is that of sut.System.
	GoesOn func(P) time.Duration
	// State is what the system keeps, in all designs that do not say otherwise.
	State State[P]
	// Roles is the background work of every design, beside its own.
	Roles   []Role[P]
	Designs []Variant[S, P]
	// Costs and Calibration are those of sut.System.
	Costs       func() sim.Costs
	Calibration *sut.Calibration

	Invariants func(P) []check.Invariant
	// Races and NoRaces are those of sut.System, and so are the reasons in Unseen, why an
	// invariant cannot be judged of a foreign server.
	Races   *sut.Races
	NoRaces string
	Unseen  map[string]string
}

// State is how a system begins, comes to rest and is read at the end. A design's own wins,
// part by part; Schema is added to the system's.
type State[P any] struct {
	// Schema makes the tables, in one transaction with Seed, which makes what is there before
	// the first operation. They fail where there is something already.
	Schema string
	Seed   func(ctx context.Context, tx pgx.Tx, p P) error
	// Ready makes what is not in Postgres, after Seed.
	Ready func(context.Context, *Stores[P]) error
	// Reset is Ready for an instance that begins anew, whatever has happened: it replaces what
	// is not in Postgres, once all tables are emptied and Seed has run again. Without it an
	// instance is prepared once.
	Reset func(context.Context, *Stores[P]) error
	// Empty lists the tables that have no rows before the first operation. Found says what there
	// is elsewhere, such as "3 holds", "" for nothing.
	Empty []string
	Found func(context.Context, *Stores[P]) (string, error)
	// Pending counts what background work has still to do, and says what that is: "3 holds
	// have run out and are not released". Nil: there is never any.
	Pending func(context.Context, *Stores[P]) (left int64, what string, err error)
	// Audit reads the final truth, a value of the type that the API has for it.
	Audit func(context.Context, *Stores[P]) (any, error)
	// Gauge looks at what no reply can show while there is load: see sut.Gauge. What it
	// returns is kept as JSON.
	Gauge func(context.Context, *Stores[P]) (any, error)
}

// Variant is one design. Its name says store and trick, the other texts are a sentence each.
type Variant[S, P any] struct {
	Name, Idea, Guarantees, GivesUp string
	// Needs are the stores beside Postgres.
	Needs []sut.Service
	// KeepsFiles is that of sut.Variant.
	KeepsFiles bool
	// Settings are what its connections set in Postgres, Redis changes the options of those to
	// Redis. The stores that are being opened have a Config and Params by then.
	Settings map[string]string
	Redis    func(*Stores[P], *redis.Options)
	// Breaks, NotApplicable and Places are those of sut.Variant.
	Breaks        []sut.Break
	NotApplicable map[string]string
	Places        []string
	// Open makes what users call. If that is an io.Closer, it is closed before the stores; if it
	// is a Waiter, what it says is pending too; if it is a Measured, the server shows its metrics.
	Open  func(context.Context, *Stores[P]) (S, error)
	Roles []Role[P]
	State State[P]
	// Model makes the design's model on simulated stores; nil if it has none. See
	// sut.Variant.Model.
	Model func(c *sim.Cluster, p P, cfg sut.Config) Model[S]
}

// Model is a design in virtual time.
type Model[S any] struct {
	// Domain is what users call, in a process of the simulation. Where a process of the API has
	// something in memory, Open makes it in place of Domain, for each life of each of them, with
	// their background work.
	Domain S
	Open   func(*sim.Replica) (S, []func(*sim.Process))
	// Pending counts what background work has still to do, and says what that is. Nil: there is
	// never any.
	Pending func() (left int64, what string)
	// Audit is the final truth, a value of the type that the API has for it.
	Audit func() any
	// Gauge is State's, and takes time as an operation does. Nil: it has none.
	Gauge func(*sim.Process) any
}

// Waiter has work in its own memory, and says how much and what that is.
type Waiter interface {
	Waiting() (left int64, what string)
}

// Measured writes metrics of its own in the OpenMetrics text format.
type Measured interface{ WriteMetrics(out io.Writer) }

// Sut is the system as the harness sees it.
func (s System[S, P]) Sut() sut.System {
	if s.API.Metrics == nil {
		s.API.Metrics = func(inst sut.Instance) func(io.Writer) {
			if own, is := inst.(*instance[S, P]); is {
				if m, measured := any(own.domain).(Measured); measured {
					return m.WriteMetrics
				}
			}
			return nil
		}
	}
	if s.API.Begin == nil {
		var params P
		s.API.Reset = params
		s.API.Begin = func(given any) (any, error) { return sut.ParamsOf[P](given) }
	}
	return sut.System{
		Name: s.Name, Summary: s.Question,
		Params:     func() any { p := s.Defaults(); return &p },
		Workload:   s.workload,
		GoesOn:     s.goesOn(),
		Variants:   s.variants(),
		Invariants: s.invariants,
		Costs:      s.Costs, Calibration: s.Calibration,
		Races: s.Races, NoRaces: s.NoRaces,
		Target: s.API.Target, Handler: s.API.Handler,
		TargetNotApplicable: s.Unseen,
	}
}

func (s System[S, P]) workload(seed uint64, params any) (sut.Workload, error) {
	p, err := sut.ParamsOf[P](params)
	if err != nil {
		return nil, err
	}
	if err := validate(p); err != nil {
		return nil, fmt.Errorf("%s parameters: %w", s.Name, err)
	}
	streams := keys.NewStreams(seed)
	w := s.Workload(streams, p)
	if err := streams.Err(); err != nil {
		return nil, fmt.Errorf("%s workload: %w", s.Name, err)
	}
	return w, nil
}

func (s System[S, P]) goesOn() func(any) time.Duration {
	if s.GoesOn == nil {
		return nil
	}
	return func(params any) time.Duration {
		p, err := sut.ParamsOf[P](params)
		if err != nil {
			return 0
		}
		return s.GoesOn(p)
	}
}

func (s System[S, P]) invariants(params any) []check.Invariant {
	p, err := sut.ParamsOf[P](params)
	if err == nil {
		return s.Invariants(p)
	}
	list := s.Invariants(s.Defaults())
	for i, inv := range list {
		list[i] = unjudged{inv, err}
	}
	return list
}

// unjudged is an invariant of a run whose parameters cannot be read.
type unjudged struct {
	check.Invariant
	why error
}

// Check leaves it undecided.
func (u unjudged) Check(context.Context, history.History, json.RawMessage) check.Verdict {
	return check.Verdict{Invariant: u.Name(), Reason: u.why.Error()}
}

func (s System[S, P]) variants() []sut.Variant {
	list := make([]sut.Variant, len(s.Designs))
	for i, v := range s.Designs {
		list[i] = s.variant(v)
	}
	return list
}

func (s System[S, P]) variant(v Variant[S, P]) sut.Variant {
	o := &opener[S, P]{system: &s, variant: v, state: v.State.over(s.State)}
	out := sut.Variant{
		Name: v.Name, Idea: v.Idea, Guarantees: v.Guarantees, GivesUp: v.GivesUp,
		Needs:      append([]sut.Service{sut.Postgres}, v.Needs...),
		KeepsFiles: v.KeepsFiles,
		Breaks:     v.Breaks, NotApplicable: v.NotApplicable, Places: v.Places,
		Open: o.open,
	}
	if o.state.Gauge != nil {
		out.Gauge = o.gauge
	}
	if v.Model != nil {
		out.Model = o.model
	}
	for _, r := range slices.Concat(s.Roles, v.Roles) {
		out.Roles = append(out.Roles, o.role(r))
	}
	return out
}

// over is the state with what another one has where it has nothing.
func (s State[P]) over(under State[P]) State[P] {
	s.Schema = under.Schema + s.Schema
	if s.Seed == nil {
		s.Seed = under.Seed
	}
	if s.Ready == nil {
		s.Ready = under.Ready
	}
	if s.Reset == nil {
		s.Reset = under.Reset
	}
	if s.Empty == nil {
		s.Empty = under.Empty
	}
	if s.Found == nil {
		s.Found = under.Found
	}
	if s.Pending == nil {
		s.Pending = under.Pending
	}
	if s.Audit == nil {
		s.Audit = under.Audit
	}
	if s.Gauge == nil {
		s.Gauge = under.Gauge
	}
	return s
}

// opener opens a design.
type opener[S, P any] struct {
	system  *System[S, P]
	variant Variant[S, P]
	state   State[P]
}

// stores opens Postgres and the stores that are needed.
func (o *opener[S, P]) stores(
	ctx context.Context, cfg sut.Config, needs []sut.Service,
) (*Stores[P], error) {
	return openStores[P](ctx, cfg, o.system.Name, needs, o.variant.Settings, o.variant.Redis)
}

func (o *opener[S, P]) open(ctx context.Context, cfg sut.Config) (sut.Instance, error) {
	st, err := o.stores(ctx, cfg, o.variant.Needs)
	if err != nil {
		return nil, o.opening("", err)
	}
	s, err := o.variant.Open(ctx, st)
	if err != nil {
		return nil, errors.Join(o.opening("", err), st.close())
	}
	return &instance[S, P]{opener: o, stores: st, domain: s}, nil
}

func (o *opener[S, P]) opening(what string, err error) error {
	return fmt.Errorf("opening %s%s %s: %w", what, o.system.Name, o.variant.Name, err)
}

// instance is an opened design.
type instance[S, P any] struct {
	*opener[S, P]
	stores *Stores[P]
	domain S
	once   sync.Once
	closed error
}

// Opened returns what users call of an instance that a System has opened, for what a table of
// calls says of an instance, and for tests; false if it is another's, such as a foreign server.
func Opened[S any](inst sut.Instance) (domain S, is bool) {
	if own, ours := inst.(interface{ users() any }); ours {
		domain, is = own.users().(S)
	}
	return domain, is
}

func (i *instance[S, P]) users() any { return i.domain }

// Prepare makes the schema and what is there before the first operation. Where any of it
// exists already it fails.
func (i *instance[S, P]) Prepare(ctx context.Context) error {
	return i.begin(ctx, "preparing", i.state.Schema, i.state.Ready)
}

// Reset begins anew, and is Prepare before that. Operations must not be under way. Roles may
// be: what they do meanwhile they must mend. Without State.Reset it does nothing while the design
// is still empty, and is refused afterwards.
func (i *instance[S, P]) Reset(ctx context.Context) error {
	var tables string
	err := i.stores.DB.Row(ctx, `SELECT coalesce(string_agg(quote_ident(tablename), ', '), '')
		FROM pg_tables WHERE schemaname = current_schema()`, nil, &tables)
	switch {
	case err != nil:
		return stores.Failed("looking for the tables of "+i.system.Name, err)
	case tables == "":
		return i.Prepare(ctx)
	case i.state.Reset == nil:
		found, err := i.Empty(ctx)
		if err == nil && found != "" {
			err = fmt.Errorf("%w: it has %s; start it again", api.ErrInUse, found)
		}
		return err
	}
	return i.begin(ctx, "resetting", `TRUNCATE `+tables+` RESTART IDENTITY`, i.state.Reset)
}

// begin makes empty tables by some statements, what is in them at first, and the rest.
func (i *instance[S, P]) begin(
	ctx context.Context, doing, empty string, rest func(context.Context, *Stores[P]) error,
) error {
	err := i.stores.DB.Prepare(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, empty); err != nil || i.state.Seed == nil {
			return err
		}
		return i.state.Seed(ctx, tx, i.stores.Params)
	})
	if err == nil && rest != nil {
		err = rest(ctx, i.stores)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", doing, i.system.Name, err)
	}
	return nil
}

// Do performs one operation.
func (i *instance[S, P]) Do(ctx context.Context, op history.Op) (history.Reply, error) {
	return i.system.API.Do(ctx, i.domain, op)
}

// Empty says what there is before the first operation.
func (i *instance[S, P]) Empty(ctx context.Context) (string, error) {
	var found []string
	for _, table := range i.state.Empty {
		var rows int64
		err := i.stores.DB.Row(ctx, `SELECT count(*) FROM `+pgx.Identifier{table}.Sanitize(), nil, &rows)
		if err != nil {
			return "", stores.Failed("looking whether "+table+" is empty", err)
		}
		if rows > 0 {
			found = append(found, fmt.Sprintf("%d %s", rows, table))
		}
	}
	if i.state.Found != nil {
		elsewhere, err := i.state.Found(ctx, i.stores)
		if err != nil {
			return "", stores.Failed("looking whether there is anything", err)
		}
		if elsewhere != "" {
			found = append(found, elsewhere)
		}
	}
	return strings.Join(found, " and "), nil
}

// Quiesced says what background work has still to do.
func (i *instance[S, P]) Quiesced(ctx context.Context) (string, error) {
	left, what, err := i.pending(ctx)
	if err != nil || left == 0 {
		return "", err
	}
	return what, nil
}

// Backlog counts it.
func (i *instance[S, P]) Backlog(ctx context.Context) (int64, error) {
	left, _, err := i.pending(ctx)
	return left, err
}

func (i *instance[S, P]) pending(ctx context.Context) (left int64, what string, err error) {
	waiting, inMemory := int64(0), ""
	if w, is := any(i.domain).(Waiter); is {
		waiting, inMemory = w.Waiting() // first: what waits here goes to the stores
	}
	if i.stores.Kafka != nil {
		// A record whose client has left is still sent, until it is there or its time is over.
		if n := i.stores.Kafka.BufferedProduceRecords(); n > 0 {
			waiting, inMemory = waiting+n, fmt.Sprintf("%d records are on their way to Kafka", n)
		}
	}
	if i.state.Pending != nil {
		if left, what, err = i.state.Pending(ctx, i.stores); err != nil {
			return 0, "", fmt.Errorf("looking for what is left to do: %w", err)
		}
	}
	if waiting > 0 {
		what = inMemory
	}
	return waiting + left, what, nil
}

// auditTimeout bounds the reading of an audit.
const auditTimeout = 2 * time.Minute

// Audit reads the final truth.
func (i *instance[S, P]) Audit(ctx context.Context) (json.RawMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, auditTimeout)
	defer cancel()
	audit, err := i.state.Audit(ctx, i.stores)
	if err != nil {
		return nil, fmt.Errorf("auditing: %w", err)
	}
	raw, err := json.Marshal(audit)
	if err != nil {
		return nil, fmt.Errorf("encoding the audit: %w", err)
	}
	return raw, nil
}

// Close closes what the design has opened and the stores. Further calls return what the first
// one did.
func (i *instance[S, P]) Close() error {
	i.once.Do(func() {
		if c, is := any(i.domain).(io.Closer); is {
			i.closed = c.Close()
		}
		i.closed = errors.Join(i.closed, i.stores.close())
	})
	return i.closed
}

// gaugeConns is how many connections a gauge has to each store.
const gaugeConns = 1

func (o *opener[S, P]) gauge(ctx context.Context, cfg sut.Config) (sut.Gauge, error) {
	cfg.MaxConns = gaugeConns
	st, err := o.stores(ctx, cfg, o.variant.Needs)
	if err != nil {
		return nil, o.opening("the gauge of ", err)
	}
	return gauge[P]{st, o.state.Gauge}, nil
}

type gauge[P any] struct {
	stores *Stores[P]
	look   func(context.Context, *Stores[P]) (any, error)
}

// Sample looks once.
func (g gauge[P]) Sample(ctx context.Context) (json.RawMessage, error) {
	seen, err := g.look(ctx, g.stores)
	if err != nil {
		return nil, err
	}
	return json.Marshal(seen)
}

// Close closes the gauge's connections.
func (g gauge[P]) Close() error { return g.stores.close() }
