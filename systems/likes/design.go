package likes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"stampede/harness/api"
	"stampede/harness/history"
	"stampede/harness/stores"
	"stampede/harness/sut"
)

// design is a variant as its file states it.
type design struct {
	name, idea, guarantees, givesUp string

	breaks []sut.Break
	// layout is how it counts in Redis, nil if it counts in Postgres.
	layout func(Params) layout
	// buffer is how many interactions wait for the log that were acknowledged before it has
	// them; nil if none do.
	buffer func(Params) int
	// likes makes what users call; nil makes a counting.
	likes func(*backend) (Likes, error)
	// worker makes what brings the log to the ledger; nil makes a ledgerWorker.
	worker func(*backend) worker
	// unrepaired: nobody compares Redis with the ledger.
	unrepaired bool
	// openLedger makes the ledger, where it is not Postgres: tests in virtual time
	// have one of their own.
	openLedger func(context.Context, sut.Config) (ledger, error)
}

// backend is what a design is built on.
type backend struct {
	cfg    sut.Config
	params Params
	ledger ledger
	// store and log are nil if the design needs none.
	store *store
	log   *eventLog
	// cache is nil where no count is read from Redis.
	cache *readCache
}

// variant is the design as the harness sees it.
func (d design) variant() sut.Variant {
	v := sut.Variant{
		Name: d.name, Idea: d.idea, Guarantees: d.guarantees, GivesUp: d.givesUp,
		Needs: []sut.Service{sut.Postgres}, Breaks: d.breaks, NotApplicable: map[string]string{},
		Open: func(ctx context.Context, cfg sut.Config) (sut.Instance, error) {
			return d.instance(ctx, cfg)
		},
	}
	if d.layout == nil {
		v.NotApplicable[LedgerIsLog] = "has no log"
		v.NotApplicable[AppliedFirst] = "has no log"
		return v
	}
	v.Needs = append(v.Needs, sut.Redis, sut.Kafka)
	v.Gauge = d.gauge
	v.Roles = []sut.Role{d.ledgerRole()}
	if !d.unrepaired {
		v.Roles = append(v.Roles, d.repairer())
	}
	if d.layout(DefaultParams()).regions > 1 {
		v.Roles = append(v.Roles, d.replicator())
	}
	return v
}

// backend opens the design's connections. They are closed by close.
func (d design) backend(ctx context.Context, cfg sut.Config) (_ *backend, err error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	b := &backend{cfg: cfg}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	if b.params, err = sut.ParamsOf[Params](cfg.Params); err != nil {
		return nil, err
	}
	if err := b.params.Validate(); err != nil {
		return nil, fmt.Errorf("likes parameters: %w", err)
	}
	if b.ledger, err = d.ledger(ctx, cfg); err != nil || d.layout == nil {
		return b, err
	}
	if b.store, err = openStore(ctx, cfg, b.params, d.layout(b.params)); err != nil {
		return nil, err
	}
	b.cache = newReadCache(b.params.ReadTTL.D(), b.params.EarlyBeta, uint64(b.cfg.Replica))
	buffer := 0
	if d.buffer != nil {
		buffer = d.buffer(b.params)
	}
	if b.log, err = openLog(cfg, buffer); err != nil {
		return nil, err
	}
	return b, b.log.ping(ctx)
}

// ledger opens the ledger. A design that counts in Redis needs few connections to
// it: none of its users waits for Postgres.
func (d design) ledger(ctx context.Context, cfg sut.Config) (ledger, error) {
	if d.openLedger != nil {
		return d.openLedger(ctx, cfg)
	}
	if d.layout != nil {
		cfg.MaxConns = min(stores.MaxConns(cfg), roleConns)
	}
	l, err := openPostgres(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return l, nil
}

// close closes what is open.
func (b *backend) close() error {
	var errs []error
	if b.log != nil {
		errs = append(errs, b.log.close())
	}
	if b.store != nil {
		errs = append(errs, b.store.close())
	}
	if b.ledger != nil {
		b.ledger.close()
	}
	return errors.Join(errs...)
}

func (d design) instance(ctx context.Context, cfg sut.Config) (*instance, error) {
	b, err := d.backend(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("opening likes %s: %w", d.name, err)
	}
	i := &instance{backend: b, design: d, api: API(), end: func() {}}
	i.Likes = &counting{b}
	if d.likes != nil {
		i.Likes, err = d.likes(b)
	}
	if err == nil && d.buffer != nil {
		err = i.startTelling(ctx)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening likes %s: %w", d.name, err), b.close())
	}
	return i, nil
}

// startTelling lets the repairer know what is in the buffer, until end is called.
func (i *instance) startTelling(ctx context.Context) error {
	own, err := i.store.teller(i.cfg)
	if err != nil {
		return err
	}
	ctx, i.end = context.WithCancel(context.WithoutCancel(ctx))
	i.telling.Go(func() {
		defer own.Close() // nothing is buffered in it
		i.tellBuffer(ctx, own)
	})
	return nil
}

// instance is an opened design. It is a Likes too.
type instance struct {
	Likes
	*backend
	design design
	api    *api.Table[Likes]
	// telling tells the repairer what is in the buffer, until end is called.
	telling sync.WaitGroup
	end     context.CancelFunc
	once    sync.Once
	closed  error
}

// Prepare makes the schema, the videos, their counters and the log. Where any of
// them exists already it fails.
func (i *instance) Prepare(ctx context.Context) error {
	if err := i.ledger.prepare(ctx, i.params.Videos); err != nil {
		return err
	}
	if i.store == nil {
		return nil
	}
	if err := i.store.prepare(ctx); err != nil {
		return err
	}
	return i.log.prepare(ctx)
}

// Do performs one operation.
func (i *instance) Do(ctx context.Context, op history.Op) (history.Reply, error) {
	return i.api.Do(ctx, i.Likes, op)
}

// Empty says what there is before the first like.
func (i *instance) Empty(ctx context.Context) (string, error) {
	events, err := i.ledger.events(ctx)
	if err != nil || events > 0 {
		return fmt.Sprintf("%d interactions in the ledger", events), err
	}
	if i.store == nil {
		return "", nil
	}
	ends, err := i.log.ends(ctx)
	if err != nil {
		return "", err
	}
	logged := int64(0)
	for _, end := range ends {
		logged += end
	}
	if logged > 0 {
		return fmt.Sprintf("%d interactions in the log", logged), nil
	}
	for video := uint64(1); video <= i.store.videos; video++ {
		if count, err := i.store.read(ctx, 0, video); err != nil || count.Count != 0 {
			return fmt.Sprintf("video %d with %d likes", video, count.Count), err
		}
	}
	return "", nil
}

// Quiesced says what the roles have still to do: events that are on their way to
// the ledger, counters to be rebuilt, repaired or exchanged.
func (i *instance) Quiesced(ctx context.Context) (pending string, err error) {
	if i.store == nil {
		return "", nil
	}
	if n := len(i.log.slots); n > 0 {
		return fmt.Sprintf("%d interactions wait to be logged", n), nil
	}
	behind, err := i.behind(ctx)
	if err != nil || behind > 0 {
		return fmt.Sprintf("%d records of the log are not in the ledger", behind), err
	}
	if i.design.unrepaired {
		return "", nil
	}
	for video := uint64(1); video <= i.store.videos; video++ {
		if pending, err := i.unsettled(ctx, video); err != nil || pending != "" {
			return pending, err
		}
	}
	return "", nil
}

// behind is how many records of the log are not in the ledger.
func (i *instance) behind(ctx context.Context) (int64, error) {
	ends, err := i.log.ends(ctx)
	if err != nil {
		return 0, err
	}
	return i.lag(ctx, ends)
}

// Backlog counts what is not logged, what is not in the ledger, and the users about whom
// Redis and the ledger differ, which is all that is left where Redis has lost its data.
func (i *instance) Backlog(ctx context.Context) (left int64, err error) {
	if i.store == nil {
		return 0, nil
	}
	left = int64(len(i.log.slots)) // before the log, which they go to
	behind, err := i.behind(ctx)
	if err != nil {
		return 0, err
	}
	left += behind
	for video := uint64(1); video <= i.store.videos && !i.design.unrepaired; video++ {
		ahead, behind, err := i.unequal(ctx, video)
		if err != nil {
			return 0, err
		}
		missing, err := i.uncounted(ctx, video)
		if err != nil {
			return 0, err
		}
		users := int64(len(ahead) + len(behind))
		if missing != "" {
			users = max(1, users)
		}
		left += users
	}
	return left, nil
}

// unsettled says what is left to do about a video.
func (i *instance) unsettled(ctx context.Context, video uint64) (string, error) {
	if missing, err := i.uncounted(ctx, video); err != nil || missing != "" {
		return missing, err
	}
	ahead, behind, err := i.unequal(ctx, video)
	if err != nil || len(ahead)+len(behind) == 0 {
		return "", err
	}
	return fmt.Sprintf("video %d: Redis is ahead of the ledger with %d users and behind with %d",
		video, len(ahead), len(behind)), nil
}

// uncounted says what is wrong with the counters of a video.
func (i *instance) uncounted(ctx context.Context, video uint64) (string, error) {
	ready, err := i.store.ready(ctx, video)
	if err != nil {
		return "", stores.Failed("looking for the counters", err)
	}
	if !ready {
		return fmt.Sprintf("video %d has no counters in Redis", video), nil
	}
	if i.store.layout.regions > 1 {
		if differ, err := i.store.differ(ctx, video); err != nil || differ {
			return fmt.Sprintf("the regions differ about video %d", video), err
		}
	}
	return "", nil
}

// differ says whether regions have different counters of a video.
func (s *store) differ(ctx context.Context, video uint64) (bool, error) {
	first, err := s.counterOf(ctx, 0, video)
	if err != nil {
		return false, err
	}
	for region := 1; region < s.regions(); region++ {
		other, err := s.counterOf(ctx, region, video)
		if err != nil || !other.equal(first) {
			return true, err
		}
	}
	return false, nil
}

// Audit reads an Audit: the ledger in one snapshot, then Redis and the log.
func (i *instance) Audit(ctx context.Context) (json.RawMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, auditTimeout)
	defer cancel()
	likers, ops, err := i.ledger.audit(ctx, i.params.Videos)
	if err != nil {
		return nil, err
	}
	a := Audit{Contract: i.contract(), Logged: ops}
	for n, users := range likers {
		v := VideoAudit{Video: uint64(n + 1), Ledger: users}
		if err := i.auditVideo(ctx, &v); err != nil {
			return nil, fmt.Errorf("auditing video %d: %w", v.Video, err)
		}
		a.Videos = append(a.Videos, v)
	}
	if i.log != nil {
		if a.Log, err = i.log.contents(ctx); err != nil {
			return nil, err
		}
	}
	raw, err := json.Marshal(a)
	if err != nil {
		return nil, fmt.Errorf("encoding the audit: %w", err)
	}
	return raw, nil
}

// contract is what the design promises.
func (i *instance) contract() Contract {
	c := Contract{Ack: AckLedger, Regions: 1}
	if i.store == nil {
		return c
	}
	c.Ack, c.Regions = AckLog, i.store.regions()
	c.StalenessNS = i.params.ReadTTL.D().Nanoseconds()
	if n := cap(i.log.slots); n > 0 {
		c.Ack, c.LossBound = AckBuffer, int64(n)
	}
	return c
}

// Close closes the connections. Further calls return what the first one did.
func (i *instance) Close() error {
	i.once.Do(func() {
		i.end()
		i.telling.Wait()
		i.closed = i.backend.close()
	})
	return i.closed
}

// counting is the Likes of the designs that count in Redis.
type counting struct{ *backend }

// Like counts a like.
func (c *counting) Like(ctx context.Context, req Request) (Change, error) {
	return c.change(ctx, req, true)
}

// Unlike takes one back.
func (c *counting) Unlike(ctx context.Context, req Request) (Change, error) {
	return c.change(ctx, req, false)
}

// change counts, then logs. Whoever repeats an interaction that was counted and
// not logged has it logged by that.
func (c *counting) change(ctx context.Context, req Request, likes bool) (Change, error) {
	began := time.Now()
	done, err := c.store.change(ctx, req, likes)
	if err != nil {
		return Change{}, err
	}
	if err := c.log.append(ctx, eventOf(req, likes, done)); err != nil {
		return Change{}, err
	}
	if took := time.Since(began); took > settleTime {
		return Change{}, fmt.Errorf("logging an interaction took %v: the counters may have been "+
			"rebuilt without it", took)
	}
	return Change{done.changed}, nil
}

func eventOf(req Request, likes bool, done applied) Event {
	return Event{OpID: req.OpID, Video: req.Video, User: req.User, Liked: likes,
		Version: done.version}
}

// Count reads the likes as the reader's region has them.
func (c *counting) Count(ctx context.Context, req CountRequest) (Count, error) {
	key := cacheKey{home(req.User, c.store.regions()), req.Video}
	return c.cache.get(ctx, key, func(ctx context.Context) (Count, error) {
		return c.store.read(ctx, key.region, key.video)
	})
}

// View adds a viewer.
func (c *counting) View(ctx context.Context, req Request) (api.Nothing, error) {
	return api.Nothing{}, c.store.view(ctx, req)
}
