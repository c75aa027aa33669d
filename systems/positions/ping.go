package positions

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/jackc/pgx/v5"

	"stampede/harness/stores"
)

// ping is a ping as the log, the history and the archive have it.
type ping struct {
	Driver uint64
	Seq    int64
	Op     uint64
	Body   []byte // what plain makes, or that sealed
}

// pingHead is the size of what stands before the body: driver, number, operation, and the body's
// length.
const pingHead = 8 + 8 + 8 + 1

// appendPing encodes a ping.
func appendPing(to []byte, p ping) []byte {
	to = binary.BigEndian.AppendUint64(to, p.Driver)
	to = binary.BigEndian.AppendUint64(to, uint64(p.Seq))
	to = binary.BigEndian.AppendUint64(to, p.Op)
	return append(append(to, byte(len(p.Body))), p.Body...)
}

var errMalformed = errors.New("malformed ping")

// readPing decodes the ping that some bytes begin with, and returns the rest of them.
func readPing(from []byte) (p ping, rest []byte, err error) {
	if len(from) < pingHead || len(from) < pingHead+int(from[pingHead-1]) {
		return p, nil, errMalformed
	}
	end := pingHead + int(from[pingHead-1])
	return ping{Driver: binary.BigEndian.Uint64(from), Seq: int64(binary.BigEndian.Uint64(from[8:])),
		Op: binary.BigEndian.Uint64(from[16:]), Body: slices.Clone(from[pingHead:end])}, from[end:], nil
}

// plain is a position as 16 bytes.
func plain(lat, lon int64) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, uint64(lat)), uint64(lon))
}

// point reads what plain made.
func point(seq int64, body []byte) (Point, error) {
	if len(body) != 16 {
		return Point{}, errMalformed
	}
	return Point{Seq: seq, Lat: int64(binary.BigEndian.Uint64(body)),
		Lon: int64(binary.BigEndian.Uint64(body[8:]))}, nil
}

// packed is an object of the archive: its pings, compressed.
func packed(list []ping) (drivers []int64, body []byte, err error) {
	var raw []byte
	for _, p := range list {
		raw = appendPing(raw, p)
		drivers = append(drivers, int64(p.Driver))
	}
	slices.Sort(drivers)
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, err = z.Write(raw)
	err = errors.Join(err, z.Close())
	return slices.Compact(drivers), out.Bytes(), err
}

// unpacked are the pings of an object.
func unpacked(body []byte) (list []ping, err error) {
	z, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("opening an object: %w", err)
	}
	raw, err := io.ReadAll(z)
	for err == nil && len(raw) > 0 {
		var p ping
		if p, raw, err = readPing(raw); err == nil {
			list = append(list, p)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("reading an object: %w", err)
	}
	return list, nil
}

// archive adds an object to the archive. The archive's table stands for an object store; nothing
// rests on what it could do and an object store cannot, but that an object and the history are
// changed together.
func archive(ctx context.Context, tx pgx.Tx, name string, list []ping) error {
	drivers, body, err := packed(list)
	if err == nil {
		_, err = tx.Exec(ctx, `INSERT INTO archive VALUES ($1, $2, $3)`, name, drivers, body)
	}
	return err
}

// keyOf is a driver's key, or why there is none.
func keyOf(ctx context.Context, db *stores.Postgres, driver uint64) (key []byte, err error) {
	err = db.Row(ctx, `SELECT key FROM drivers WHERE driver = $1`, []any{driver}, &key)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, ErrUnknownDriver
	case err != nil:
		return nil, stores.Failed("asking for a key", err)
	case key == nil:
		return nil, ErrErased
	}
	return key, nil
}

// tracked are the newest positions of a driver in a table.
func tracked(
	ctx context.Context, on stores.Querier, table string, req TrackRequest,
	open func(ping) (Point, error),
) (Track, error) {
	t := Track{Points: []Point{}}
	err := stores.Each(ctx, on, `SELECT seq, body FROM `+table+`
		WHERE driver = $1 ORDER BY seq DESC LIMIT $2`, []any{req.Driver, req.Most},
		func(row pgx.CollectableRow) error {
			p := ping{Driver: req.Driver}
			if err := row.Scan(&p.Seq, &p.Body); err != nil {
				return err
			}
			at, err := open(p)
			t.Points = append(t.Points, at)
			return err
		})
	t.Found = len(t.Points)
	return t, err
}
