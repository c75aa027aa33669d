package views

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"stampede/harness/api"
	"stampede/harness/history"
	"stampede/harness/stores"
	"stampede/harness/sut"
)

// design is a variant before it is opened: what it does differently from the
// pipeline that all of them are.
type design struct {
	name, idea, guarantees, givesUp string
	breaks                          []sut.Break
	// notApplicable adds reasons to those that follow from the design.
	notApplicable map[string]string
	// composite spreads a video over the partitions by its sessions and merges
	// the counts of the partitions.
	composite bool
	// gather is how long the API gathers heartbeats of one video.
	gather   time.Duration
	counting counting
	// mend changes a filter, in tests.
	mend func(*filter)
	// books opens other books than those in Postgres, in tests.
	books func(context.Context, sut.Config) (books, error)
}

// variant is the design as the harness sees it.
func (d design) variant() sut.Variant {
	v := sut.Variant{
		Name: d.name, Idea: d.idea, Guarantees: d.guarantees, GivesUp: d.givesUp,
		Needs:  []sut.Service{sut.Postgres, sut.Redis, sut.Kafka},
		Breaks: d.breaks, NotApplicable: d.notApplicable,
		Roles: []sut.Role{d.filterer(), d.counterRole()},
		Gauge: d.gauge,
		Open: func(ctx context.Context, cfg sut.Config) (sut.Instance, error) {
			return d.instance(ctx, cfg)
		},
	}
	if d.composite {
		v.Roles = append(v.Roles, d.merger())
	}
	v.Roles = append(v.Roles, d.reprocessor())
	return v
}

const (
	// roleConns is how many connections a role opens to each store.
	roleConns = 2
	// roleTimeout bounds one operation of a role on a store.
	roleTimeout = 5 * time.Second
)

// gear is what every role needs.
type gear struct {
	cfg    sut.Config
	params Params
	books  books
	// db is the books if they are in Postgres.
	db database
}

// settings completes a configuration.
func settings(cfg sut.Config) (sut.Config, Params, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	params, err := sut.ParamsOf[Params](cfg.Params)
	if err == nil {
		err = params.Validate()
	}
	if err != nil {
		return cfg, params, fmt.Errorf("views parameters: %w", err)
	}
	return cfg, params, nil
}

func (d design) gear(ctx context.Context, cfg sut.Config) (*gear, error) {
	cfg, params, err := settings(cfg)
	if err != nil {
		return nil, err
	}
	g := &gear{cfg: cfg, params: params}
	if d.books != nil {
		g.books, err = d.books(ctx, cfg)
		return g, err
	}
	if g.db, err = openDatabase(ctx, cfg); err != nil {
		return nil, err
	}
	g.books = g.db
	return g, nil
}

// worker is a role at work.
type worker interface {
	// step does what there is to do, and waits a little if there is nothing.
	step(ctx context.Context) error
	// close stores what can be stored and closes the connections.
	close(ctx context.Context)
	// joined says whether it is where its work comes to it: in its group.
	joined(ctx context.Context) bool
}

// work opens a role's own connections and lets it work until ctx is cancelled.
// Errors are logged and survived.
func (d design) work(
	ctx context.Context, cfg sut.Config, role string,
	open func(context.Context, *gear) (worker, error),
) error {
	cfg.MaxConns, cfg.Timeout = roleConns, min(stores.Timeout(cfg), roleTimeout)
	var g *gear
	var w worker
	defer func() {
		if w != nil {
			end, cancel := context.WithTimeout(context.WithoutCancel(ctx), cfg.Timeout)
			defer cancel()
			w.close(end)
		}
		if g != nil {
			g.books.Close()
		}
	}()
	for ctx.Err() == nil {
		var err error
		if g == nil {
			g, err = d.gear(ctx, cfg)
			if err != nil {
				g = nil
			}
		}
		switch {
		case err != nil:
		case w == nil:
			opened, failed := open(ctx, g)
			if err = failed; err == nil {
				w = opened
			}
		default:
			if err = w.step(ctx); err == nil && w.joined(ctx) {
				cfg.Worked()
			}
		}
		if err == nil || ctx.Err() != nil {
			continue
		}
		cfg.Warn("views "+d.name+" "+role+" goes on after an error", err)
		sut.Pause(ctx, sut.AfterError)
	}
	return nil
}

// instance is an opened design: its API. It is a Pipeline too.
type instance struct {
	design
	api     *api.Table[Pipeline]
	cfg     sut.Config
	params  Params
	db      database
	windows *windows
	client  *kgo.Client
	gate    *gateway

	closing sync.Once
	closed  error
}

var _ Pipeline = (*instance)(nil)

func (d design) instance(ctx context.Context, cfg sut.Config) (_ *instance, err error) {
	i := &instance{design: d, api: API()}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("opening views %s: %w", d.name, err), i.Close())
		}
	}()
	if i.cfg, i.params, err = settings(cfg); err != nil {
		return nil, err
	}
	if i.db, err = openDatabase(ctx, i.cfg); err != nil {
		return nil, err
	}
	if i.windows, err = openWindows(ctx, i.cfg, i.params); err != nil {
		return nil, err
	}
	if i.client, err = openKafka(ctx, i.cfg); err != nil {
		return nil, err
	}
	i.gate = newGateway(i.client, i.cfg, newRuleBook(i.db, i.params, i.cfg.Logger), d)
	return i, nil
}

// Prepare makes the tables, the videos, the first rules and the topics. Where
// any of them exists already it fails.
func (i *instance) Prepare(ctx context.Context) error {
	switch found, err := i.windows.empty(ctx); {
	case err != nil:
		return err
	case found != "":
		return fmt.Errorf("there is already %s", found)
	}
	if err := i.db.prepare(ctx, i.params, i.cfg.Kafka.Partitions); err != nil {
		return err
	}
	return createTopics(ctx, i.cfg, i.params)
}

// Do performs one operation.
func (i *instance) Do(ctx context.Context, op history.Op) (history.Reply, error) {
	return i.api.Do(ctx, i, op)
}

// Watch writes a heartbeat into the log.
func (i *instance) Watch(ctx context.Context, h Heartbeat) (Position, error) {
	ctx, cancel := context.WithTimeout(ctx, stores.Timeout(i.cfg))
	defer cancel()
	return i.gate.watch(ctx, h)
}

// Views reads a video's count in the live generation.
func (i *instance) Views(ctx context.Context, video string) (Views, error) {
	return i.db.views(ctx, video, i.composite)
}

// SetRules adds a version.
func (i *instance) SetRules(ctx context.Context, rules Rules) (int64, error) {
	if err := rules.Check(); err != nil {
		return 0, fmt.Errorf("%w: %w", sut.ErrRefused, err)
	}
	version, err := i.db.addRules(ctx, rules)
	if err != nil {
		return 0, fmt.Errorf("adding rules: %w", err)
	}
	return version, nil
}

// Reprocess begins a generation.
func (i *instance) Reprocess(ctx context.Context) (int64, error) {
	return i.db.addGeneration(ctx, i.cfg.Kafka.Partitions)
}

// Quiesced says what the roles have still to read or to merge.
func (i *instance) Quiesced(ctx context.Context) (pending string, err error) {
	lags, err := i.lags(ctx)
	if err != nil {
		return "", err
	}
	for _, l := range lags {
		if l.behind != 0 {
			return fmt.Sprintf("the %s (generation %d) is %d records behind in partition %d of %s",
				l.Stage, l.Generation, l.behind, l.Partition, l.topic), nil
		}
	}
	pending, _, err = i.db.unmerged(ctx, i.composite)
	return pending, err
}

// Backlog counts the records that a stage has not come to, and the videos whose counts
// are not merged. What the filter is behind with becomes one for each generation's counter.
func (i *instance) Backlog(ctx context.Context) (left int64, err error) {
	lags, err := i.lags(ctx)
	if err != nil {
		return 0, err
	}
	generations := map[int64]bool{}
	for _, l := range lags {
		if l.Stage != stageFilter {
			generations[l.Generation] = true
		}
	}
	for _, l := range lags {
		behind := max(l.behind, -l.behind)
		if l.Stage == stageFilter {
			behind *= int64(1 + len(generations))
		}
		left += behind
	}
	pending, videos, err := i.db.unmerged(ctx, i.composite)
	if pending != "" {
		left += max(1, videos)
	}
	return left, err
}

// lag is how many records a stage is behind in a partition of its topic.
type lag struct {
	ProgressAudit
	topic  string
	behind int64
}

// lags are those of all stages in all partitions. How far they are is read before the ends:
// who had come by then to where the log ends now is at rest, and so is who reads from it.
func (i *instance) lags(ctx context.Context) (list []lag, err error) {
	stands, err := i.db.stands(ctx)
	if err != nil {
		return nil, err
	}
	ends, err := ends(ctx, i.client, i.cfg)
	if err != nil {
		return nil, err
	}
	for _, s := range stands {
		topic := topicValid
		if s.Stage == stageFilter {
			topic = topicWatch
		}
		if int(s.Partition) >= len(ends[topic]) {
			return nil, fmt.Errorf("the table progress has a partition %d, %s has not",
				s.Partition, topic)
		}
		list = append(list, lag{s, topic, ends[topic][s.Partition] - s.Next})
	}
	return list, nil
}

// Empty says what there is in the log before the load.
func (i *instance) Empty(ctx context.Context) (string, error) {
	ends, err := ends(ctx, i.client, i.cfg)
	if err != nil {
		return "", err
	}
	for _, topic := range []string{topicWatch, topicValid} {
		for p, end := range ends[topic] {
			if end > 0 {
				return fmt.Sprintf("%d records in partition %d of %s", end, p, topic), nil
			}
		}
	}
	return i.windows.empty(ctx)
}

// Audit reads the topics as a whole, and the tables in one snapshot.
func (i *instance) Audit(ctx context.Context) (json.RawMessage, error) {
	a, err := i.audit(ctx)
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(a)
	if err != nil {
		return nil, fmt.Errorf("encoding the audit: %w", err)
	}
	return raw, nil
}

// Close closes the connections. Further calls return what the first one did.
func (i *instance) Close() error {
	i.closing.Do(func() {
		if i.client != nil {
			i.client.Close()
		}
		if i.windows != nil {
			i.closed = i.windows.close()
		}
		if i.db.Postgres != nil {
			i.db.Close()
		}
	})
	return i.closed
}
