package checkout

import (
	"context"
	_ "embed" // the script
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"stampede/harness/stores"
	"stampede/harness/sut"
)

// waitingRoom is the whole pipeline.
//
// The idea: at the edge each user and each address has a token bucket in Redis. Who gets past it
// takes a place in the waiting room of a product, and a token in which the place is written. An
// admitter admits as many as the checkout has room for, in the order of their places, and shows in
// Redis how far it is; so a poll of somebody who waits is one question to Redis. Admitted attempts
// go through a queue in Kafka; a worker reserves units in Redis and makes orders in Postgres, which
// decides again; the payer captures payments or compensates; the reconciler repairs Redis.
//
// The guarantee: no more orders than units, limits for bots, first come first served, positions
// that never go back, and one end of each attempt, whatever crashes or forgets.
//
// It gives up: simplicity, and time: an attempt passes three stores and four roles.
func waitingRoom() variant {
	return variant{
		Name: "waiting_room",
		Idea: "token buckets, a waiting room, a queue, reservations in Redis, orders in Postgres, and " +
			"repairs",
		Guarantees: "no oversell, limits for bots, first come first served, one end of each attempt",
		GivesUp:    "simplicity and time: an attempt passes three stores and four roles",
		Needs:      []sut.Service{sut.Redis, sut.Kafka},
		Roles: []role{payer(), reconciler(unheld),
			admitter(func(p Params) (batch, room int) { return p.Batch, p.Room }, selectNext, showRooms),
			worker(decideThenCommit, decideReserved, placeReserved, placeOrdered)},
		State: state{
			Ready: func(ctx context.Context, st *opened) error {
				if err := makeTopic(ctx, st); err != nil {
					return err
				}
				return mendAll(ctx, st)
			},
			Reset: emptyRedis, Pending: openOrDrifted, Audit: auditGated},
		Open: func(_ context.Context, st *opened) (Shop, error) {
			return roomShop{&counter{st}, edgeLua}, nil
		},
		Model: modelled(func(m *shopModel) {
			q, s := m.queues(), m.reserves()
			r := m.opensRoom()
			q.admits(m.p.Batch, m.p.Room, r.show)
			q.works(thenCommits, s.decideReserved)
			m.pays((*payerModel).compensate)
		}),
	}
}

//go:embed edge.lua
var edgeLua string

type roomShop struct {
	*counter
	edge string // the script of the limits
}

// Join passes the edge and takes a place.
func (s roomShop) Join(ctx context.Context, req JoinRequest) (t Ticket, err error) {
	if !s.Params.has(req.Product) {
		return t, ErrUnknownProduct
	}
	passed, err := s.pass(ctx, req)
	if err != nil {
		return t, err
	}
	full := false
	if s.Params.Longest > 0 {
		err := s.DB.Row(ctx, `SELECT count(*) >= $2 FROM (SELECT FROM attempts WHERE product = $1
			AND state = 'waiting' LIMIT $2) AS w`, []any{req.Product, s.Params.Longest}, &full)
		if err != nil {
			return t, stores.Failed("looking whether the waiting room is full", err)
		}
	}
	if full {
		t, err = s.earlier(ctx, req, ErrQueueFull)
	} else {
		t, err = s.wait(ctx, req, passed)
	}
	if err != nil {
		return t, err
	}
	admittedTo, err := s.admittedTo(ctx, req.Product)
	t.Position = max(1, t.Position-admittedTo)
	if err != nil {
		return t, stores.Unknown("looking how far the waiting room is", err)
	}
	return t, nil
}

// pass takes a token of the user's bucket and one of the address's. It returns when.
func (s roomShop) pass(ctx context.Context, req JoinRequest) (ns int64, err error) {
	p := s.Params
	buckets := []string{s.Key("edge:user:" + req.User), s.Key("edge:ip:" + req.IP)}
	us, err := redis.NewScript(s.edge).Run(ctx, s.Redis, buckets,
		p.UserRate, p.UserBurst, p.IPRate, p.IPBurst).Int64()
	switch {
	case err != nil:
		return 0, stores.Failed("asking the edge", err)
	case us == 0:
		return 0, ErrRateLimited
	}
	return us * int64(time.Microsecond), nil
}

// Poll compares the place in the token with how far the room is. Only an attempt whose turn has
// come is looked at in Postgres.
func (s roomShop) Poll(ctx context.Context, req PollRequest) (Progress, error) {
	product, place, is := s.Params.placeIn(req.Token)
	if !is {
		return Progress{}, ErrUnknownToken
	}
	admittedTo, err := s.admittedTo(ctx, product)
	if err != nil {
		return Progress{}, stores.Failed("looking how far the waiting room is", err)
	}
	if place > admittedTo {
		return Progress{waiting, place - admittedTo}, nil
	}
	p, err := s.counter.Poll(ctx, req)
	if p.State == waiting {
		p.Position = 1 // it took its place early, and was written late: it is among the next
	}
	return p, err
}

// placeIn is what a token says, if it is one.
func (p Params) placeIn(token string) (product uint64, place int64, is bool) {
	words := strings.Split(token, ".")
	if len(words) != 3 {
		return 0, 0, false
	}
	product, bad := strconv.ParseUint(words[0], 10, 64)
	place, worse := strconv.ParseInt(words[1], 10, 64)
	return product, place, errors.Join(bad, worse) == nil && product > 0 && p.has(product)
}

// How far a room is stands in Redis as the identity of the server process and the place: what a
// server has read back from its disk was shown by another one, and may be old, so that positions
// would go back. Nobody believes it.

func roomKey(st *opened, product uint64) string {
	return st.Key("room:" + strconv.FormatUint(product, 10))
}

// showPlace shows a place, unless a later one is shown already.
const showPlace = `
	local shown = redis.call('GET', KEYS[1]) or ''
	local by, place = string.match(shown, '^(%w+):(%d+)$')
	if by == ARGV[1] and tonumber(place) >= tonumber(ARGV[2]) then return 0 end
	redis.call('SET', KEYS[1], ARGV[1] .. ':' .. ARGV[2])
	return 1`

// serverIn is the identity of the process, in what Redis says of itself.
func serverIn(info string) string {
	_, id, _ := strings.Cut(info, "run_id:")
	id, _, _ = strings.Cut(id, "\r")
	return id
}

// admittedTo is the place up to which attempts at a product were admitted.
func (c *counter) admittedTo(ctx context.Context, product uint64) (int64, error) {
	key := roomKey(c.opened, product)
	pipe := c.Redis.Pipeline()
	info, shown := pipe.Info(ctx, "server"), pipe.Get(ctx, key)
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return 0, err
	}
	server := serverIn(info.Val())
	if by, place, _ := strings.Cut(shown.Val(), ":"); by == server && server != "" {
		return strconv.ParseInt(place, 10, 64)
	}
	var place int64
	err := c.DB.Row(ctx, `SELECT admitted_to FROM room WHERE product = $1`, []any{product}, &place)
	if err == nil {
		// It is shown before it is told, so that nobody is told less later.
		err = redis.NewScript(showPlace).Run(ctx, c.Redis, []string{key}, server, place).Err()
	}
	return place, err
}

// showRooms shows how far all rooms are.
func showRooms(ctx context.Context, st *opened) error {
	info, err := st.Redis.Info(ctx, "server").Result()
	if err != nil {
		return fmt.Errorf("asking Redis who it is: %w", err)
	}
	places := map[uint64]int64{}
	err = st.DB.Rows(ctx, `SELECT product, admitted_to FROM room`, nil, func(row pgx.CollectableRow) error {
		var product uint64
		var place int64
		err := row.Scan(&product, &place)
		places[product] = place
		return err
	})
	if err != nil {
		return fmt.Errorf("reading how far the rooms are: %w", err)
	}
	pipe := st.Redis.Pipeline()
	for product, place := range places {
		redis.NewScript(showPlace).Eval(ctx, pipe, []string{roomKey(st, product)}, serverIn(info), place)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return fmt.Errorf("showing how far the rooms are: %w", err)
	}
	return nil
}

// decideReserved reserves a unit in Redis for each attempt, in their order, and decides those that
// have one in Postgres. The others are refused.
func decideReserved(ctx context.Context, st *opened, product uint64, list []attempt) error {
	s, reserved := reservations{st}, map[uint64]bool{}
	list, err := undecided(ctx, st, list)
	if err != nil {
		return err
	}
	for _, v := range list {
		err := s.reserve(ctx, product, v.ID)
		if err != nil && !errors.Is(err, ErrSoldOut) {
			return err
		}
		reserved[v.ID] = err == nil
	}
	st.Config.Passed(placeReserved)
	err = decideAmong(ctx, st, product, list, func(v attempt) bool { return reserved[v.ID] })
	if err != nil {
		return err
	}
	_, err = s.mend(ctx, unheld, product) // which ends the holds
	return err
}

// undecided leaves out attempts that were read before, so that they take no unit from others.
func undecided(ctx context.Context, st *opened, list []attempt) (open []attempt, err error) {
	ids := make([]int64, len(list))
	for i, v := range list {
		ids[i] = int64(v.ID)
	}
	_, decided, err := reservations{st}.stock(ctx, nil, ids)
	for _, v := range list {
		if !decided[strconv.FormatUint(v.ID, 10)] {
			open = append(open, v)
		}
	}
	return open, err
}
