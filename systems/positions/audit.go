package positions

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"stampede/harness/stores"
	"stampede/systems/internal/partitions"
)

// The places where positions are beside the history and the newest ones.
const (
	inLog     = "log"
	inArchive = "archive"
)

// found is what an audit can read. It tries every ping of every place with every means that the
// design still has: who reads the whole log builds the newest positions again, and who reads the
// archive restores the history from it. See
// docs/decisions/2026-11-27-erasure-is-judged-by-reading.md.
type found struct {
	Audit
	open func(key []byte, p ping) (Point, error)
	keys map[uint64][]byte
}

// read is a position as it is read, and whether it could be. What is not sealed is read without a
// key.
func (f *found) read(p ping) (PingRow, bool) {
	at, err := f.open(f.keys[p.Driver], p)
	return PingRow{ID: p.Op, Driver: p.Driver, Seq: p.Seq, Lat: at.Lat, Lon: at.Lon}, err == nil
}

// audit reads every place. A design with a log says how its positions are opened, and has the
// newest ones in Redis.
func audit(
	ctx context.Context, st *opened, history string, open func(key []byte, p ping) (Point, error),
) (any, error) {
	logged := open != nil
	f := &found{open: open, Audit: Audit{History: []PingRow{}, Newest: []NewestRow{},
		Places: []string{inArchive}, Copies: []CopyRow{}}}
	if !logged {
		f.open = func(_ []byte, p ping) (Point, error) { return unsealed(p) }
	}
	var err error
	if f.keys, err = keysNow(ctx, st); err != nil {
		return nil, err
	}
	if err := f.readHistory(ctx, st, history, logged); err != nil {
		return nil, err
	}
	var archived []ping
	err = st.DB.Rows(ctx, `SELECT body FROM archive ORDER BY name`, nil, func(row pgx.CollectableRow) error {
		var body []byte
		err := row.Scan(&body)
		if err == nil {
			var list []ping
			list, err = unpacked(body)
			archived = append(archived, list...)
		}
		return err
	})
	if err != nil {
		return nil, stores.Failed("reading the archive", err)
	}
	f.count(inArchive, archived)
	if logged {
		err = f.readLog(ctx, st)
	}
	return f.Audit, err
}

// readHistory reads the history, and the newest position of each driver.
func (f *found) readHistory(
	ctx context.Context, st *opened, table string, logged bool,
) error {
	list, err := stores.Collect[ping](ctx, st.DB, `SELECT driver, seq, op, body FROM `+table+`
		ORDER BY driver, seq`)
	newestOf := map[uint64]NewestRow{}
	for _, p := range list {
		if row, could := f.read(p); could {
			f.History = append(f.History, row)
			newestOf[row.Driver] = row.shown()
		}
	}
	if err == nil && logged {
		clear(newestOf)
		var all map[string]string
		all, err = st.Redis.HGetAll(ctx, st.Key(hashNewest)).Result()
		for name, text := range all {
			driver, wrong := strconv.ParseUint(name, 10, 64)
			p, malformed := newest(driver, text)
			if err = cmp.Or(err, wrong, malformed); err != nil {
				break
			}
			if row, could := f.read(p); could {
				newestOf[driver] = row.shown()
			}
		}
	}
	for _, driver := range slices.Sorted(maps.Keys(newestOf)) {
		f.Newest = append(f.Newest, newestOf[driver])
	}
	return stores.Failed("reading the positions", err)
}

// shown is a position where riders look.
func (r PingRow) shown() NewestRow { return NewestRow{r.Driver, r.Seq, r.Lat, r.Lon} }

// readLog reads the whole log.
func (f *found) readLog(ctx context.Context, st *opened) error {
	var list []ping
	err := partitions.Each(ctx, st.Config, st.Kafka, topicPings, func(r *kgo.Record) error {
		p, _, err := readPing(r.Value)
		list = append(list, p)
		return err
	})
	f.Places = append(f.Places, inLog)
	f.count(inLog, list)
	return err
}

// count counts what can be read of a place.
func (f *found) count(place string, list []ping) {
	type position struct {
		driver uint64
		seq    int64
	}
	once, n := map[position]bool{}, map[uint64]int64{}
	for _, p := range list {
		at := position{p.Driver, p.Seq}
		if _, could := f.read(p); could && !once[at] {
			once[at] = true
			n[p.Driver]++
		}
	}
	for _, driver := range slices.Sorted(maps.Keys(n)) {
		f.Copies = append(f.Copies, CopyRow{place, driver, n[driver]})
	}
}
