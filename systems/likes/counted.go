package likes

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/redis/go-redis/v9"

	"stampede/harness/api"
	"stampede/harness/sut"
)

// counted is what the designs have in common that count in Redis and keep a log.
type counted struct {
	// layout is how the design counts in Redis.
	layout func(Params) layout
	ledger ledgers
	// contract is what the design promises beyond what is in the log; nil is nothing.
	contract func(*Contract, Params)
	// settle is how long a rebuild waits before it asks anything.
	settle time.Duration
	// unrepaired: nobody compares Redis with the ledger.
	unrepaired bool
}

// backend is what a design is built on.
type backend struct {
	*opened
	ledger ledger
	store  *store
	log    *eventLog
}

func (c counted) on(st *opened) *backend {
	return &backend{opened: st, ledger: c.ledger(st), store: newStore(st, c.layout(st.Params)),
		log: newLog(st)}
}

// open is for those whom users call.
func (c counted) open(ctx context.Context, st *opened) (*counting, error) {
	b := c.on(st)
	if err := b.log.ping(ctx); err != nil {
		return nil, err
	}
	return &counting{b, newReadCache(st.Params.ReadTTL.D(), st.Params.EarlyBeta,
		uint64(st.Config.Replica))}, nil
}

// variant is a design without name and texts.
func (c counted) variant() variant {
	v := variant{
		Needs: []sut.Service{sut.Redis, sut.Kafka},
		Redis: func(st *opened, opts *redis.Options) {
			s := newStore(st, c.layout(st.Params))
			opts.OnConnect = func(ctx context.Context, conn *redis.Conn) error {
				_, err := s.connected(ctx, conn)
				return err
			}
		},
		Open: func(ctx context.Context, st *opened) (Likes, error) { return c.open(ctx, st) },
		State: state{
			Ready: func(ctx context.Context, st *opened) error {
				b := c.on(st)
				if err := b.store.prepare(ctx); err != nil {
					return err
				}
				return b.log.prepare(ctx)
			},
			Pending: func(ctx context.Context, st *opened) (int64, string, error) {
				return c.on(st).pending(ctx, !c.unrepaired)
			},
			Audit: func(ctx context.Context, st *opened) (any, error) { return c.audit(ctx, st) },
			Gauge: func(ctx context.Context, st *opened) (any, error) { return c.on(st).look(ctx) },
		},
		Roles: []role{c.ledgerRole(followLedger)},
	}
	if !c.unrepaired {
		v.Roles = append(v.Roles, c.repairer())
	}
	return v
}

// pending counts what is not in the ledger, and where somebody repairs them the users about
// whom Redis and the ledger differ, which is all that is left where Redis has lost its data.
func (b *backend) pending(ctx context.Context, repaired bool) (left int64, what string, err error) {
	ends, err := b.log.ends(ctx)
	if err != nil {
		return 0, "", err
	}
	if left, err = b.lag(ctx, ends); err != nil {
		return 0, "", err
	}
	if left > 0 {
		what = fmt.Sprintf("%d records of the log are not in the ledger", left)
	}
	for video := uint64(1); video <= b.store.videos && repaired; video++ {
		ahead, behind, err := b.unequal(ctx, video)
		if err != nil {
			return 0, "", err
		}
		missing, err := b.uncounted(ctx, video)
		if err != nil {
			return 0, "", err
		}
		users := int64(len(ahead) + len(behind))
		switch {
		case missing != "" && what == "":
			what = missing
		case users > 0 && what == "":
			what = fmt.Sprintf("video %d: Redis is ahead of the ledger with %d users and behind with %d",
				video, len(ahead), len(behind))
		}
		if missing != "" {
			users = max(1, users)
		}
		left += users
	}
	return left, what, nil
}

// uncounted says what is wrong with the counters of a video.
func (b *backend) uncounted(ctx context.Context, video uint64) (string, error) {
	ready, err := b.store.ready(ctx, video)
	if err != nil {
		return "", err
	}
	if !ready {
		return fmt.Sprintf("video %d has no counters in Redis", video), nil
	}
	if differ, err := b.store.differ(ctx, video); err != nil || differ {
		return fmt.Sprintf("the regions differ about video %d", video), err
	}
	return "", nil
}

// audit reads an Audit: the ledger in one snapshot, then Redis and the log.
func (c counted) audit(ctx context.Context, st *opened) (Audit, error) {
	b := c.on(st)
	a := Audit{Contract: Contract{Ack: AckLog, Regions: b.store.regions(),
		StalenessNS: st.Params.ReadTTL.D().Nanoseconds()}}
	if c.contract != nil {
		c.contract(&a.Contract, st.Params)
	}
	if err := a.read(ctx, b.ledger, st.Params, b.store.audit); err != nil {
		return a, err
	}
	var err error
	a.Log, err = b.log.contents(ctx)
	return a, err
}

// read fills in what the ledger has, and of each video what is counted.
func (a *Audit) read(
	ctx context.Context, l ledger, p Params, count func(context.Context, *VideoAudit) error,
) error {
	likers, ops, err := l.audit(ctx, p.Videos)
	if err != nil {
		return err
	}
	a.Logged = ops
	for n, users := range likers {
		v := VideoAudit{Video: uint64(n + 1), Ledger: users}
		if err := count(ctx, &v); err != nil {
			return fmt.Errorf("auditing video %d: %w", v.Video, err)
		}
		a.Videos = append(a.Videos, v)
	}
	return nil
}

// Look is what a gauge saw of the way from the log to the ledger, and the body of
// its history.Sample. The parts cannot be read at one instant; they were read in the
// order of the fields, and none of them ever falls.
type Look struct {
	// Before and After are how many records the log had.
	Before int64 `json:"before"`
	// Committed and Applied are, by partition, the offset from which the ledger's
	// worker would go on, and the one after the last in the ledger.
	Committed []int64 `json:"committed"`
	Applied   []int64 `json:"applied"`
	After     int64   `json:"after"`
}

// Lag bounds how many records of the log were not in the ledger when that was
// read.
func (l Look) Lag() (low, high int64) {
	applied := int64(0)
	for _, n := range l.Applied {
		applied += n
	}
	return max(0, l.Before-applied), max(0, l.After-applied)
}

// look reads the log's length, what is committed, what is applied, and the length again.
func (b *backend) look(ctx context.Context) (Look, error) {
	before, err := b.log.ends(ctx)
	if err != nil {
		return Look{}, err
	}
	committed, err := b.log.committed(ctx)
	if err != nil {
		return Look{}, err
	}
	applied, err := b.ledger.applied(ctx)
	if err != nil {
		return Look{}, err
	}
	after, err := b.log.ends(ctx)
	if err != nil {
		return Look{}, err
	}
	look := Look{Committed: make([]int64, len(before)), Applied: make([]int64, len(before))}
	for p := range int32(len(before)) {
		look.Before += before[p]
		look.After += after[p]
		look.Committed[p], look.Applied[p] = committed[p], applied[p]
	}
	return look, nil
}

// counting is the Likes of the designs that count in Redis.
type counting struct {
	*backend
	cache *readCache
}

// WriteMetrics writes how often counts were read anew.
func (c *counting) WriteMetrics(out io.Writer) { c.cache.writeRecomputations(out) }

// Change counts, then logs. Whoever repeats an interaction that was counted and
// not logged has it logged by that.
func (c *counting) Change(ctx context.Context, req Request, likes bool) (Change, error) {
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
