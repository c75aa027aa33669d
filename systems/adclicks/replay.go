package adclicks

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/harness/stores"
)

// lookEvery is how often replays are looked for.
const lookEvery = 200 * time.Millisecond

// examples is how many differences a reconciliation spells out.
const examples = 10

// live is what real time has made of a partition, up to an offset.
type live struct {
	stand
	decisions []decision
	windows   windows
}

// liveParts reads all partitions in one snapshot.
func liveParts(ctx context.Context, st *opened) (list []live, err error) {
	err = st.DB.Snapshot(ctx, func(ctx context.Context, tx pgx.Tx) error {
		stands, err := stores.CollectOn[stand](ctx, tx, selectStands)
		for _, s := range stands {
			l := live{stand: s}
			if err == nil {
				l.decisions, err = decisionsOf(ctx, tx, s.Part, -1)
			}
			if err == nil {
				l.windows, err = windowsOf(ctx, tx, s.Part, -1)
			}
			list = append(list, l)
		}
		return err
	})
	return list, stores.Failed("reading the results", err)
}

// replayerRole processes the log from offset 0 to where real time is, and compares the bytes.
func replayerRole() role {
	return role{Name: "replayer", Summary: "processes the log from offset 0 when asked to",
		Step: func(ctx context.Context, st *opened) (time.Duration, error) {
			var id int64
			err := st.DB.Row(ctx, `SELECT coalesce(min(op_id), 0) FROM replays WHERE NOT done`, nil, &id)
			if err != nil || id == 0 {
				return lookEvery, stores.Failed("looking for replays", err)
			}
			return lookEvery, replay(ctx, st, id)
		}}
}

func replay(ctx context.Context, st *opened, id int64) error {
	parts, err := liveParts(ctx, st)
	if err != nil {
		return err
	}
	for _, l := range parts {
		st.Config.Worked()
		events, err := clicksUntil(ctx, st.Config, l.Part, l.Next)
		if err != nil {
			return err
		}
		decisions, w, err := process(st.Params.rules(), events)
		if err != nil {
			return err
		}
		now, err := digest(l.decisions, l.windows)
		again, failed := digest(decisions, w)
		if err = errors.Join(err, failed); err == nil {
			_, err = st.DB.Exec(ctx, `INSERT INTO replayed VALUES ($1, $2, $3, $4, $5)
				ON CONFLICT (op_id, part) DO UPDATE SET next_offset = excluded.next_offset,
					live = excluded.live, again = excluded.again`, id, l.Part, l.Next, now, again)
		}
		if err != nil {
			return stores.Failed("noting a replay", err)
		}
	}
	_, err = st.DB.Exec(ctx, `UPDATE replays SET done = true WHERE op_id = $1`, id)
	return stores.Failed("ending a replay", err)
}

// Reconcile recounts the archive, and compares each click that both sides have decided.
func (e *edge) Reconcile(ctx context.Context, _ struct{}) (r Reconciliation, err error) {
	r.Examples = []string{}
	parts, err := liveParts(ctx, e.opened)
	if err != nil {
		return r, err
	}
	for _, l := range parts {
		events, err := archived(ctx, e.opened, l.Part)
		if err == nil {
			err = r.compare(e.Params.rules(), l, events)
		}
		if err != nil {
			return r, err
		}
	}
	return r, nil
}

// compare compares a partition as far as the archive and real time have come. Windows it compares
// if the archive is not behind.
func (r *Reconciliation) compare(rules rules, l live, events []event) error {
	both := min(int64(len(events)), l.Next)
	r.Compared += both
	r.Pending += int64(len(events)) - both + l.Next - both
	decisions, w, err := process(rules, events[:both])
	if err != nil {
		return err
	}
	have := map[int64]decision{}
	for _, d := range l.decisions {
		have[d.LogOffset] = d
	}
	for _, d := range decisions {
		was := have[d.LogOffset] // empty if it is not decided
		if was.Click != d.Click || was.Verdict != d.Verdict || was.WindowMS != d.WindowMS {
			r.differ("%d/%d: click %s is %s in window %d in the recount, and was %q in window %d", l.Part,
				d.LogOffset, d.Click, d.Verdict, d.WindowMS, was.Verdict, was.WindowMS)
		}
	}
	if both == l.Next {
		r.compareWindows(l.windows, w)
	}
	return nil
}

// compareWindows compares each window that real time or the recount has.
func (r *Reconciliation) compareWindows(live, again windows) {
	all := maps.Clone(again)
	maps.Copy(all, live)
	for _, k := range slices.SortedFunc(maps.Keys(all), windowKey.compare) {
		was, is := live[k], again[k]
		switch {
		case was == nil || is == nil:
			r.differ("window %d of %s is one of real time: %t, and of the recount: %t", k.startMS, k.ad,
				was != nil, is != nil)
		case was.Clicks != is.Clicks || was.Cents != is.Cents || was.OnTime != is.OnTime:
			r.differ("window %d of %s has %d clicks, %d of them on time, for %d cents in the recount, and "+
				"had %d, %d and %d", k.startMS, k.ad, is.Clicks, is.OnTime, is.Cents, was.Clicks, was.OnTime,
				was.Cents)
		}
	}
}

func (r *Reconciliation) differ(format string, args ...any) {
	r.Unexplained++
	if len(r.Examples) < examples {
		r.Examples = append(r.Examples, fmt.Sprintf(format, args...))
	}
}
