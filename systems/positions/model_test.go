package positions_test

import (
	"cmp"
	"context"
	"slices"
	"time"

	"stampede/harness/api"
	"stampede/harness/history"
	"stampede/harness/sut"
	"stampede/harness/suttest"
	"stampede/systems/positions"
)

const ms = time.Millisecond

type evidence = suttest.Evidence[positions.Params, positions.Audit]

// book is the smallest correct tracker: what each driver has sent, until it is torn out.
type book struct {
	p      *positions.Params
	api    *api.Table[positions.Tracker]
	pings  map[uint64][]positions.PingRow // by ascending number
	erased map[uint64]bool
}

func newBook(_ *suttest.World, p *positions.Params) *book {
	return &book{p: p, api: positions.API(), pings: map[uint64][]positions.PingRow{},
		erased: map[uint64]bool{}}
}

// Do performs an operation.
func (b *book) Do(op history.Op, answer func(history.Reply, error)) {
	answer(b.api.Do(context.Background(), b, op))
}

// open says why a driver has no page.
func (b *book) open(driver uint64) error {
	if driver > uint64(b.p.Drivers) {
		return positions.ErrUnknownDriver
	}
	if b.erased[driver] {
		return positions.ErrErased
	}
	return nil
}

// Ping writes a position down, unless it is there.
func (b *book) Ping(_ context.Context, req positions.PingRequest) (positions.Pinged, error) {
	if err := b.open(req.Driver); err != nil {
		return positions.Pinged{}, err
	}
	list := b.pings[req.Driver]
	at, there := slices.BinarySearchFunc(list, req.Seq, func(p positions.PingRow, seq int64) int {
		return cmp.Compare(p.Seq, seq)
	})
	if !there {
		b.pings[req.Driver] = slices.Insert(list, at, positions.PingRow(req))
	}
	return positions.Pinged{Seq: req.Seq}, nil
}

// Latest reads the last line.
func (b *book) Latest(
	ctx context.Context, req positions.DriverRequest,
) (positions.Point, error) {
	t, err := b.Track(ctx, positions.TrackRequest{Driver: req.Driver, Most: 1})
	if err != nil || t.Found == 0 {
		return positions.Point{}, err
	}
	return t.Points[0], nil
}

// Track reads the last lines.
func (b *book) Track(_ context.Context, req positions.TrackRequest) (positions.Track, error) {
	t := positions.Track{Points: []positions.Point{}}
	if err := b.open(req.Driver); err != nil {
		return t, err
	}
	for _, p := range slices.Backward(b.pings[req.Driver]) {
		if t.Found < req.Most {
			t.Points = append(t.Points, positions.Point{Seq: p.Seq, Lat: p.Lat, Lon: p.Lon})
			t.Found++
		}
	}
	return t, nil
}

// Erase tears a page out.
func (b *book) Erase(_ context.Context, req positions.DriverRequest) (api.Nothing, error) {
	if req.Driver > uint64(b.p.Drivers) {
		return api.Nothing{}, positions.ErrUnknownDriver
	}
	delete(b.pings, req.Driver)
	b.erased[req.Driver] = true
	return api.Nothing{}, nil
}

// Audit copies the book.
func (b *book) Audit() positions.Audit {
	a := positions.Audit{History: []positions.PingRow{}, Newest: []positions.NewestRow{},
		Places: []string{"archive", "log", "letters"}, Partial: []string{"letters"},
		Copies: []positions.CopyRow{}}
	for driver := uint64(1); driver <= uint64(b.p.Drivers); driver++ {
		list := b.pings[driver]
		if len(list) == 0 {
			continue
		}
		a.History = append(a.History, list...)
		a.Newest = append(a.Newest, shown(list[len(list)-1]))
		n := int64(len(list))
		a.Copies = append(a.Copies, positions.CopyRow{Place: "archive", Driver: driver, Readable: n},
			positions.CopyRow{Place: "log", Driver: driver, Readable: n},
			positions.CopyRow{Place: "letters", Driver: driver, Readable: (n + 1) / 2})
	}
	return a
}

// shown is a position where riders look.
func shown(p positions.PingRow) positions.NewestRow {
	return positions.NewestRow{Driver: p.Driver, Seq: p.Seq, Lat: p.Lat, Lon: p.Lon}
}

// fleet is of ordinary size.
func fleet() *positions.Params {
	p := positions.DefaultParams()
	p.Drivers, p.Erase, p.Late, p.Reads, p.Tracks = 40, 0.03, 0.4, 0.5, 0.3
	p.FreshWithin = sut.Duration(100 * ms)
	return &p
}

// anyFleet is one of any kind.
func anyFleet(d suttest.Draw) *positions.Params {
	p := fleet()
	p.Drivers = d.Int("drivers", 2, 30)
	p.Late, p.Reads, p.Tracks = d.Share("late"), d.Share("reads"), d.Share("tracks")
	p.Erase, p.Resend = d.Share("erase")/5, d.Share("resend")
	p.Retry = d.Int("retry", 0, 3)
	return p
}
