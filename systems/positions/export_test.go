package positions

import (
	"context"
	"errors"

	"stampede/harness/api"
	"stampede/harness/stores"
	"stampede/harness/sut"
)

// Mutants are crypto_shred and one_table with a planted error each.
func Mutants() map[string]sut.Variant {
	planted := func(plant func(*plan)) sut.Variant {
		d := shredding()
		if plant != nil {
			plant(&d)
		}
		return systemOf(twoPaths(variant{Name: "mutant"}, d)).Variants[0]
	}
	unpacking := oneTable()
	unpacking.Open = func(_ context.Context, st *opened) (Tracker, error) {
		return forgetful{table{st, "pings"}}, nil
	}
	racing := oneTable()
	racing.Open = func(_ context.Context, st *opened) (Tracker, error) {
		return unlocked{table{st, oldSide}}, nil
	}
	return map[string]sut.Variant{
		"paths": planted(nil),
		"table": systemOf(oneTable()).Variants[0],
		"M215":  planted(func(d *plan) { d.rewinds = true }),
		"M218":  systemOf(viewsErased()).Variants[0],
		"cdc":   systemOf(migrateByCDC()).Variants[0],
		"M219":  systemOf(slotAfterSnapshot()).Variants[0],
		"pings dropped": planted(func(d *plan) {
			d.insert = `INSERT INTO pings
				SELECT driver, seq, op, body, true
				FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bytea[]) AS p (driver, seq, op, body)
				WHERE seq % 7 <> 3 ON CONFLICT (driver, seq) DO NOTHING`
		}),
		"a neighbour is erased": planted(func(d *plan) {
			d.erase = func(ctx context.Context, st *opened, driver uint64) error {
				_, err := st.DB.Exec(ctx, `UPDATE drivers SET key = NULL WHERE driver = $1 + 1`, driver)
				return err
			}
		}),
		"the archive is forgotten": systemOf(unpacking).Variants[0],
		"no lock":                  systemOf(racing).Variants[0],
		"letters":                  systemOf(lettered(true)).Variants[0],
		"M217":                     systemOf(lettered(false)).Variants[0],
	}
}

// forgetful does not erase from the archive.
type forgetful struct{ table }

func (f forgetful) Erase(ctx context.Context, req DriverRequest) (none api.Nothing, err error) {
	_, err = f.DB.Exec(ctx, `WITH gone AS (DELETE FROM pings WHERE driver = $1)
		UPDATE drivers SET key = NULL WHERE driver = $1`, req.Driver)
	return none, err
}

// unlocked asks whether a driver is erased, and inserts a ping afterwards.
type unlocked struct{ table }

func (u unlocked) Ping(ctx context.Context, req PingRequest) (Pinged, error) {
	if _, err := keyOf(ctx, u.DB, req.Driver); err != nil {
		return Pinged{}, err
	}
	_, err := u.DB.Exec(ctx, `INSERT INTO pings VALUES ($1, $2, $3, $4, false)
		ON CONFLICT (driver, seq) DO NOTHING`, req.Driver, req.Seq, req.ID, plain(req.Lat, req.Lon))
	return Pinged{req.Seq}, err
}

// lettered is crypto_shred with dead letters: every other ping fails at first and is kept as a dead
// letter, sealed or as it came, from which it is sent again. The letter stays.
func lettered(sealed bool) variant {
	d := shredding()
	v := twoPaths(variant{Name: "mutant"}, d)
	open, audited := v.Open, v.State.Audit
	v.State.Schema = `CREATE TABLE dead_letters (driver bigint, seq bigint, op bigint, body bytea)`
	v.Open = func(ctx context.Context, st *opened) (Tracker, error) {
		t, err := open(ctx, st)
		return buries{t, st, sealed}, err
	}
	v.State.Audit = func(ctx context.Context, st *opened) (any, error) {
		raw, err := audited(ctx, st)
		if err != nil {
			return nil, err
		}
		// A letter is read with the driver's key, and as it is.
		f := &found{Audit: raw.(Audit), open: func(key []byte, p ping) (Point, error) {
			if at, err := unsealed(p); err == nil {
				return at, nil
			}
			return unseal(key, p)
		}}
		if f.keys, err = keysNow(ctx, st); err != nil {
			return nil, err
		}
		list, err := stores.Collect[ping](ctx, st.DB, `SELECT driver, seq, op, body FROM dead_letters`)
		f.Places, f.Partial = append(f.Places, "dead letters"), []string{"dead letters"}
		f.count("dead letters", list)
		return f.Audit, err
	}
	return v
}

// buries keeps every other ping as a dead letter.
type buries struct {
	Tracker
	*opened
	sealed bool
}

func (b buries) Ping(ctx context.Context, req PingRequest) (Pinged, error) {
	p := ping{Driver: req.Driver, Seq: req.Seq, Op: req.ID, Body: plain(req.Lat, req.Lon)}
	if b.sealed {
		key, err := keyOf(ctx, b.DB, req.Driver)
		if err == nil {
			p, err = seal(key, p)
		}
		if err != nil {
			return Pinged{}, err
		}
	}
	if req.Seq/numbersPerPing%2 == 1 {
		_, err := b.DB.Exec(ctx, `INSERT INTO dead_letters VALUES ($1, $2, $3, $4)`, p.Driver, p.Seq,
			p.Op, p.Body)
		if err != nil {
			return Pinged{}, err
		}
	}
	return b.Tracker.Ping(ctx, req)
}

// Decoders decodes bytes as everything that is stored; each is an error or is encoded to the same.
func Decoders(raw []byte) error {
	if p, rest, err := readPing(raw); err == nil &&
		string(appendPing(nil, p))+string(rest) != string(raw) {
		return errors.New("a ping changed")
	}
	if at, err := point(1, raw); err == nil && string(plain(at.Lat, at.Lon)) != string(raw) {
		return errors.New("a position changed")
	}
	if list, err := unpacked(raw); err == nil {
		if _, again, err := packed(list); err != nil || len(again) == 0 {
			return errors.New("an object changed")
		}
	}
	_, _ = newest(1, string(raw))
	if _, err := unseal(make([]byte, keySize), ping{Body: raw}); err == nil {
		return errors.New("something nobody sealed was opened")
	}
	return nil
}

// Sealed seals a position, and opens it under its own key and number, another key and another
// number.
func Sealed(key, other []byte) (own Point, errs []error) {
	p := ping{Driver: 1, Seq: 2, Body: plain(3, -4)}
	sealed, err := seal(key, p)
	own, wrong := unseal(key, sealed)
	_, otherKey := unseal(other, sealed)
	sealed.Seq++
	_, otherSeq := unseal(key, sealed)
	return own, []error{errors.Join(err, wrong), otherKey, otherSeq}
}
