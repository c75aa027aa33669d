package topk

import (
	"context"
	"errors"
	"math"

	"stampede/harness/sut"
	"stampede/systems/internal/sketch"
)

// Mutants are exact_map and space_saving with a planted error each.
func Mutants() map[string]sut.Variant {
	exactly := plan{summary: summary{empty: func(Params) sketch.Sketch { return sketch.NewExact() },
		fold: merging((*sketch.Exact).Merge), contract: func(Params) Contract { return Contract{} }}}
	saving := plan{summary: inSpaceSaving()}
	planted := func(p plan, plant func(*plan)) sut.Variant {
		if plant != nil {
			plant(&p)
		}
		return systemOf(counted(variant{Name: "mutant"}, p)).Variants[0]
	}
	kept := func(wrap func(postgres) ledger) func(*plan) {
		return func(p *plan) {
			p.ledger = func(st *opened, s summary) ledger { return wrap(postgres{opened: st, summary: s}) }
		}
	}
	wrongFold := func(change func([]sketch.Sketch) []sketch.Sketch) func(*plan) {
		return func(p *plan) {
			right := p.fold
			p.fold = func(params Params, parts []sketch.Sketch) (sketch.Sketch, error) {
				return right(params, change(parts))
			}
		}
	}
	return map[string]sut.Variant{
		"exact":  planted(exactly, nil),
		"saving": planted(saving, nil),
		"M110": planted(saving, func(p *plan) {
			p.empty = func(params Params) sketch.Sketch {
				return &dropping{Exact: sketch.NewExact(), most: params.slots()}
			}
			p.fold = merging(func(a, b *dropping) error { return a.Merge(b.Exact) })
		}),
		"M111": planted(exactly, func(p *plan) {
			p.windowOf = func(params Params, atMS, newest int64) int64 {
				return max(newest, params.windowOf(atMS))
			}
		}),
		"part left out": planted(exactly, wrongFold(func(parts []sketch.Sketch) []sketch.Sketch {
			return parts[:1]
		})),
		"heaviest left out": planted(exactly, func(p *plan) {
			p.empty = func(Params) sketch.Sketch { return headless{sketch.NewExact()} }
			p.fold = merging(func(a, b headless) error { return a.Merge(b.Exact) })
		}),
		"ties the other way round": planted(exactly, func(p *plan) {
			p.empty = func(Params) sketch.Sketch { return backwards{sketch.NewExact()} }
			p.fold = merging(func(a, b backwards) error { return a.Merge(b.Exact) })
		}),
		"uniques forgotten": planted(exactly, kept(func(db postgres) ledger { return forgetful{db} })),
		"batches dropped":   planted(exactly, kept(func(db postgres) ledger { return skipping{db} })),
		"all windows read":  planted(exactly, kept(func(db postgres) ledger { return everything{db} })),
	}
}

// dropping is SpaceSaving that does not keep the count of the key that it evicts.
type dropping struct {
	*sketch.Exact
	most int
}

func (d *dropping) Add(key uint64) {
	if d.Estimate(key) == 0 && d.Keys() == d.most {
		kept := sketch.NewExact()
		for _, it := range d.Top(d.most - 1) {
			kept.Raise(it.Key, it.Count)
		}
		d.Exact = kept
	}
	d.Exact.Add(key)
}

// headless does not know the most frequent key.
type headless struct{ *sketch.Exact }

func (h headless) Top(k int) []sketch.Item {
	list := h.Exact.Top(k + 1)
	return list[min(1, len(list)):]
}

// backwards has the highest key first where counts are equal.
type backwards struct{ *sketch.Exact }

func (b backwards) Top(k int) []sketch.Item {
	list := b.Exact.Top(b.Keys())
	for i := 1; i < len(list); i++ {
		for at := i; at > 0 && list[at].Count == list[at-1].Count && list[at].Key > list[at-1].Key; at-- {
			list[at], list[at-1] = list[at-1], list[at]
		}
	}
	return list[:min(k, len(list))]
}

// forgetful stores the uniques of the last flush only.
type forgetful struct{ postgres }

func (f forgetful) store(ctx context.Context, shard int32, from, to int64, panes []*pane) error {
	err := f.postgres.store(ctx, shard, from, to, panes)
	for _, p := range panes {
		p.uniques = newPane(0, 0, nil).uniques
	}
	return err
}

// skipping moves on over what it could not store.
type skipping struct{ postgres }

func (s skipping) store(ctx context.Context, shard int32, from, to int64, panes []*pane) error {
	if from%2 == 0 {
		panes = nil
	}
	return s.postgres.store(ctx, shard, from, to, panes)
}

// everything reads all windows, whichever is asked for.
type everything struct{ postgres }

func (e everything) top(ctx context.Context, _, _ int64, k int) ([]TopItem, int64, error) {
	return e.postgres.top(ctx, 0, math.MaxInt64, k)
}

// Decoders decodes bytes as everything that is stored or logged; each is an error or is encoded
// to what is decoded as the same.
func Decoders(raw []byte) error {
	if batch, err := decodeBatch(raw, nil); err == nil {
		again, err := decodeBatch(encodeBatch(batch), nil)
		if err != nil || again.ID != batch.ID || again.AtMS != batch.AtMS ||
			len(again.Keys) != len(batch.Keys) {
			return errors.New("a batch changed")
		}
	}
	_ = newPane(0, 0, sketch.NewExact()).read(raw)
	return new(RecordRequest).unmarshals(raw)
}

// unmarshals says whether a body that is read has keys that are written again.
func (r *RecordRequest) unmarshals(raw []byte) error {
	if len(raw) > 0 && raw[0] == bodyRecipe {
		return nil // the tables of a million draws take long
	}
	if r.UnmarshalBinary(raw) != nil {
		r.Keys = nil // it is an error, as it may be
	}
	again, err := r.AppendBinary(nil)
	if err == nil {
		err = new(RecordRequest).UnmarshalBinary(again)
	}
	return err
}

// Panes makes an empty pane of each summary, to which events are added and whose size is asked for.
func Panes(p Params) map[string]func() (add func([]uint64), size func() int) {
	of := func(s summary) func() (func([]uint64), func() int) {
		return func() (func([]uint64), func() int) {
			one := newPane(0, 0, s.empty(p))
			return one.add, one.keys.Bytes
		}
	}
	exact := summary{empty: func(Params) sketch.Sketch { return sketch.NewExact() }}
	keeper := summary{empty: func(p Params) sketch.Sketch {
		return sketch.NewHeavyKeeper(4*p.slots(), 2, 2*p.slots())
	}}
	gries := summary{empty: func(p Params) sketch.Sketch { return sketch.NewMisraGries(p.slots()) }}
	return map[string]func() (func([]uint64), func() int){"exact": of(exact), "misra_gries": of(gries),
		"space_saving": of(inSpaceSaving()), "count_min": of(inCountMin()), "heavy_keeper": of(keeper)}
}
