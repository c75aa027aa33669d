package measure

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/HdrHistogram/hdrhistogram-go"

	"stampede/harness/rundir"
	"stampede/harness/stats"
)

// Merged is what several repeats of one variant add up to.
type Merged struct {
	Load       rundir.Load
	Latency    rundir.Latencies
	Operations []rundir.Operation
	// ThroughputPerS is the median over the repeats.
	ThroughputPerS float64
}

// Merge adds the repeats of one variant up. Percentiles come from the merged
// histograms, never from averages; phases are kept only of a single repeat,
// because each repeat has its own. A histogram that cannot be decoded is an
// error.
func Merge(repeats []rundir.Repeat) (Merged, error) {
	if len(repeats) == 1 {
		r := repeats[0]
		return Merged{r.Load, r.Latency, r.Operations, r.ThroughputPerS}, nil
	}
	m := Merged{Operations: []rundir.Operation{}}
	throughputs, kinds := []float64{}, []string{}
	for _, r := range repeats {
		m.Load.Add(r.Load)
		throughputs = append(throughputs, r.ThroughputPerS)
		for _, op := range r.Operations {
			if !slices.Contains(kinds, op.Kind) {
				kinds = append(kinds, op.Kind)
			}
		}
	}
	if len(repeats) == 0 {
		return m, nil
	}
	m.ThroughputPerS = stats.Median(throughputs)
	all := newHistograms()
	for _, kind := range kinds {
		op, t, err := mergeKind(kind, repeats)
		if err != nil {
			return m, fmt.Errorf("merging %s: %w", kind, err)
		}
		m.Operations = append(m.Operations, op)
		all.merge(t)
	}
	m.Latency = all.latencies()
	return m, nil
}

func mergeKind(kind string, repeats []rundir.Repeat) (rundir.Operation, histograms, error) {
	out, all := rundir.Operation{Kind: kind}, newHistograms()
	throughputs := []float64{}
	for _, r := range repeats {
		i := slices.IndexFunc(r.Operations,
			func(op rundir.Operation) bool { return op.Kind == kind })
		if i < 0 {
			continue
		}
		op := r.Operations[i]
		t, err := decodeHistograms(op)
		if err != nil {
			return out, all, err
		}
		all.merge(t)
		out.Load.Add(op.Load)
		out.Errors = mergeErrors(out.Errors, op.Errors)
		throughputs = append(throughputs, op.ThroughputPerS)
	}
	out.ThroughputPerS, out.Latency = stats.Median(throughputs), all.latencies()
	err := all.encode(&out)
	return out, all, err
}

// encode puts them into an operation, whose load says whether all were successful.
func (t histograms) encode(op *rundir.Operation) (err error) {
	if op.HDR, err = t.response.Encode(); err != nil {
		return err
	}
	if op.ServiceHDR, err = t.service.Encode(); err != nil {
		return err
	}
	if op.LagHDR, err = t.lag.Encode(); err != nil {
		return err
	}
	if t.successful == nil || op.Load.OK == op.Load.Scheduled {
		return nil
	}
	p := t.successful.Percentiles()
	op.Successful = &p
	op.SuccessfulHDR, err = t.successful.Encode()
	return err
}

func decodeHistograms(op rundir.Operation) (t histograms, err error) {
	if t.response, err = Decode(op.HDR, op.Latency.Response); err != nil {
		return t, err
	}
	if t.service, err = Decode(op.ServiceHDR, op.Latency.Service); err != nil {
		return t, err
	}
	if t.lag, err = Decode(op.LagHDR, op.Latency.Lag); err != nil {
		return t, err
	}
	switch {
	case op.Successful != nil:
		t.successful, err = Decode(op.SuccessfulHDR, *op.Successful)
	case op.Load.OK == op.Load.Scheduled:
		t.successful = t.response
	}
	return t, err
}

// Decode makes a histogram from its encoding and the percentiles that were
// kept beside it, which know how many operations never ended and the exact
// maximum.
func Decode(text string, p rundir.Percentiles) (*Histogram, error) {
	hdr, err := hdrhistogram.Decode([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("decoding a histogram: %w", err)
	}
	if p.Count < hdr.TotalCount() {
		return nil, fmt.Errorf("a histogram of %d values belongs to %d operations",
			hdr.TotalCount(), p.Count)
	}
	h := NewHistogram()
	if lost := h.counts().Merge(hdr); lost > 0 {
		return nil, fmt.Errorf("%d values of a histogram are out of range", lost)
	}
	h.infinite = p.Count - hdr.TotalCount()
	h.max = hdr.Max()
	if h.infinite == 0 {
		h.max = p.Max
	}
	return h, nil
}

// mergeErrors adds classes up, the most frequent first.
func mergeErrors(a, b []rundir.ErrorClass) []rundir.ErrorClass {
	out := slices.Clone(a)
	for _, class := range b {
		class.FirstNS = 0 // on the clock of its own repeat
		i := slices.IndexFunc(out, func(c rundir.ErrorClass) bool {
			return c.Class == class.Class && c.Outcome == class.Outcome
		})
		if i < 0 {
			out = append(out, class)
			continue
		}
		out[i].Count += class.Count
	}
	slices.SortStableFunc(out, func(x, y rundir.ErrorClass) int {
		return cmp.Compare(y.Count, x.Count)
	})
	return out
}
