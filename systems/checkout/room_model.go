package checkout

import (
	"time"

	"stampede/harness/sim"
)

// roomModel is the edge and the waiting rooms in Redis.
type roomModel struct {
	*shopModel
	buckets *sim.Map[string, bucket]
	shown   *sim.Map[uint64, shownRoom]
}

// bucket is a bucket of tokens, as it was at a time in microseconds.
type bucket struct {
	tokens float64
	at     int64
}

// shownRoom is how far a room is, by a life of the server.
type shownRoom struct{ by, place int64 }

// opensRoom makes the rooms, and the shop before them.
func (m *shopModel) opensRoom() *roomModel {
	r := &roomModel{m, sim.NewMap[string, bucket](m.Redis), sim.NewMap[uint64, shownRoom](m.Redis)}
	m.join, m.poll = r.joins, r.polls
	return r
}

// joins is roomShop.Join.
func (r *roomModel) joins(p *sim.Process, req JoinRequest) (t Ticket, err error) {
	passed := int64(0)
	r.asks(p, func() { passed = r.pass(req) }, sim.Times{costEdge: 1})
	if passed == 0 {
		return t, ErrRateLimited
	}
	full := false
	if r.p.Longest > 0 {
		r.db.Exec(p, costNext, func() { full = r.waitsFor(req.Product) >= r.p.Longest })
	}
	if full {
		r.db.Exec(p, costBefore, func() {
			row, is := r.attempts.Get(req.ID)
			if t = row.ticket(); !is {
				err = ErrQueueFull
			}
		})
	} else {
		t, err = r.waits(p, req, passed*int64(time.Microsecond))
	}
	if err != nil {
		return t, err
	}
	t.Position = max(1, t.Position-r.admittedTo(p, req.Product))
	return t, nil
}

// waitsFor counts who waits for a product, as far as anybody asks.
func (r *roomModel) waitsFor(product uint64) (n int) {
	for _, a := range r.waiting.From(attemptRow{AttemptRow: AttemptRow{Product: product}}) {
		if n++; a.Product != product {
			return n - 1
		}
		if n == r.p.Longest {
			break
		}
	}
	return n
}

// pass is edge.lua.
func (r *roomModel) pass(req JoinRequest) int64 {
	now := r.Sim.Now().Microseconds()
	rate := []float64{r.p.UserRate, r.p.IPRate}
	burst := []int{r.p.UserBurst, r.p.IPBurst}
	var after [2]bucket
	keys := [2]string{"user:" + req.User, "ip:" + req.IP}
	for i, key := range keys {
		tokens := float64(burst[i])
		if b, is := r.buckets.Get(key); is {
			tokens = min(tokens, b.tokens+float64(float64(max(0, now-b.at))*rate[i]/1e6))
		}
		if tokens < 1 {
			return 0
		}
		after[i] = bucket{tokens - 1, now}
	}
	for i, key := range keys {
		r.buckets.Set(key, after[i])
	}
	return now
}

// polls is roomShop.Poll.
func (r *roomModel) polls(p *sim.Process, req PollRequest) (Progress, error) {
	product, place, is := r.p.placeIn(req.Token)
	if !is {
		return Progress{}, ErrUnknownToken
	}
	if admittedTo := r.admittedTo(p, product); place > admittedTo {
		return Progress{waiting, place - admittedTo}, nil
	}
	progress, err := r.polled(p, req)
	if progress.State == waiting {
		progress.Position = 1
	}
	return progress, err
}

// admittedTo is counter.admittedTo.
func (r *roomModel) admittedTo(p *sim.Process, product uint64) int64 {
	var shown shownRoom
	var by int64
	is := false
	r.asks(p, func() {
		by = r.Redis.RunID()
		shown, is = r.shown.Get(product)
	}, sim.Times{costShown: 1})
	if is && shown.by == by {
		return shown.place
	}
	var room roomRow
	r.db.Exec(p, costPlaces, func() { room, _ = r.rooms.Get(product) })
	r.asks(p, func() { r.raise(product, shownRoom{by, room.admittedTo}) }, sim.Times{costShow: 1})
	return room.admittedTo
}

// raise is showPlace.
func (r *roomModel) raise(product uint64, now shownRoom) {
	if was, is := r.shown.Get(product); !is || was.by != now.by || was.place < now.place {
		r.shown.Set(product, now)
	}
}

// show is showRooms.
func (r *roomModel) show(p *sim.Process, db *sim.Conns) {
	var by int64
	r.asks(p, func() { by = r.Redis.RunID() }, sim.Times{costShown: 1})
	products := r.p.all()
	rooms := make([]roomRow, len(products))
	db.Exec(p, costPlaces, func() {
		for i, product := range products {
			rooms[i], _ = r.rooms.Get(product)
		}
	})
	r.asks(p, func() {
		for i, product := range products {
			r.raise(product, shownRoom{by, rooms[i].admittedTo})
		}
	}, sim.Times{costShow: float64(len(products))})
}
