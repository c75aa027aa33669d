package adclicks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"

	"stampede/harness/sut"
)

// errDied stands for the death of a process.
var errDied = errors.New("the process died")

// Reread decodes a record of the log, and encodes it again.
func Reread(value []byte) ([]byte, error) {
	var e event
	if err := e.decode(value, 0); err != nil {
		return nil, err
	}
	return json.Marshal(e)
}

// Recalled decides clicks one by one, each with what the one before it has left in Redis of how
// many were counted.
func Recalled(p Params, clicks ...ClickRequest) (verdicts []string, err error) {
	farms := map[string]string{}
	for _, c := range clicks {
		p := newPartition(0, p.rules())
		if err := p.recall(nil, farms, nil); err != nil {
			return nil, err
		}
		d := p.decider.decide(event{Click: c.Click, Campaign: c.Campaign, Ad: c.Ad, IP: c.IP,
			AtMS: c.AtMS})
		farms[farmField(d.farm())] = fmt.Sprint(p.decider.from[d.farm()])
		verdicts = append(verdicts, d.Verdict)
	}
	return verdicts, nil
}

// Reconciled compares windows, each with its clicks on time and all of them, with those of a
// recount, and returns the differences.
func Reconciled(live, again map[string][2]int64) []string {
	windowsOf := func(list map[string][2]int64) windows {
		w := windows{}
		for ad, n := range list {
			w[windowKey{ad: ad}] = &sums{OnTime: n[0], Clicks: n[1]}
		}
		return w
	}
	var r Reconciliation
	r.compareWindows(windowsOf(live), windowsOf(again))
	return r.Examples
}

// Mutants are windows_in_memory with a planted error each. The edge of all of them knows no click,
// so that every repeated one is in the log. In those that begin with "dying" every fourth flush is
// the last thing that an aggregator does.
func Mutants() map[string]sut.Variant {
	planted := func(change func(*aggregator), edges ...func(*edge) Clicks) sut.Variant {
		v := streaming(variant{Name: "mutant", Open: func(_ context.Context, st *opened) (Clicks, error) {
			e := newEdge(st)
			e.known = func(context.Context, string) (string, bool, error) { return "", false, nil }
			for _, change := range edges {
				return change(e), nil
			}
			return e, nil
		}}, aggregatorRole(change))
		return systemOf(v).Variants[0]
	}
	decides := func(change func(*decider)) func(*aggregator) {
		return func(a *aggregator) { a.load = deciders(loadAll, change) }
	}
	return map[string]sut.Variant{
		"control": planted(nil),
		"dying":   planted(dying(storeNothing, storeAll)),
		"M130":    planted(decides(func(d *decider) { d.remember = -d.horizon - d.lateness })),
		"M131": planted(func(a *aggregator) {
			dying(storeOffsets, storeOffsetsFirst)(a)
			a.load = loadBehindOffsets
		}),
		"M132": planted(func(a *aggregator) {
			var latest atomic.Int64
			decides(func(d *decider) {
				d.mark = func(own int64) int64 {
					if own > latest.Load() {
						latest.Store(own)
					}
					return latest.Load()
				}
			})(a)
		}),
		"no fraud": planted(decides(func(d *decider) { d.fraudMost = 1 << 30 })),
		"clock":    systemOf(processingTime()).Variants[0],
		"silent": planted(func(a *aggregator) {
			a.store = func(ctx context.Context, st *opened, list []*partition) error {
				for _, p := range list {
					for _, s := range p.windows {
						s.OnTime = s.Clicks // what was corrected leaves no trace
					}
				}
				return storeAll(ctx, st, list)
			}
		}),
		"slices": planted(nil, func(e *edge) Clicks {
			st := &opened{Config: e.Config, Params: e.Params, DB: e.DB}
			st.Params.Slice *= 4
			e.purse.opened = st
			return e
		}),
		"double": planted(nil, func(e *edge) Clicks { return doubling{e} }),
		"drops": planted(nil, func(e *edge) Clicks {
			e.known = func(context.Context, string) (string, bool, error) { return "", true, nil }
			return e
		}),
	}
}

// storeNothing is what windowsInMemory does before its process dies.
func storeNothing(context.Context, *opened, []*partition) error { return nil }

// storeOffsets is what offsetsFirst does before its process dies.
func storeOffsets(ctx context.Context, st *opened, list []*partition) error {
	for _, p := range list {
		_, err := st.DB.Exec(ctx, `UPDATE progress SET read_offset = $2 WHERE part = $1`, p.number, p.read)
		if err != nil {
			return err
		}
	}
	return nil
}

// dying lets an aggregator do something else in each fourth flush, and die.
func dying(
	last, store func(context.Context, *opened, []*partition) error,
) func(*aggregator) {
	var flushes atomic.Int64
	return func(a *aggregator) {
		a.store = func(ctx context.Context, st *opened, list []*partition) error {
			if flushes.Add(1)%4 == 0 {
				return errors.Join(last(ctx, st, list), errDied)
			}
			return store(ctx, st, list)
		}
	}
}

// doubling shows twice as many clicks as there are.
type doubling struct{ *edge }

// Dashboard doubles what there is.
func (d doubling) Dashboard(ctx context.Context, req CampaignRequest) (Figures, error) {
	f, err := d.edge.Dashboard(ctx, req)
	f.Clicks *= 2
	return f, err
}
