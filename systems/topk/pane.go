package topk

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/axiomhq/hyperloglog"

	"stampede/systems/internal/sketch"
)

// summary is a way to summarise the keys of a window. A design has one.
type summary struct {
	empty func(p Params) sketch.Sketch
	// fold merges the summaries of several panes, the first of which it may change.
	fold func(p Params, parts []sketch.Sketch) (sketch.Sketch, error)
	// contract is how good the estimates are, also those of what was folded.
	contract func(p Params) Contract
}

// merging folds by a method that merges two sketches.
func merging[T sketch.Sketch](
	merge func(a, b T) error,
) func(Params, []sketch.Sketch) (sketch.Sketch, error) {
	return func(_ Params, parts []sketch.Sketch) (sketch.Sketch, error) {
		for _, part := range parts[1:] {
			if err := merge(parts[0].(T), part.(T)); err != nil {
				return nil, fmt.Errorf("merging summaries: %w", err)
			}
		}
		return parts[0], nil
	}
}

// folded is what the parts are together.
func (s summary) folded(p Params, parts []sketch.Sketch) (sketch.Sketch, error) {
	if len(parts) == 0 {
		return s.empty(p), nil
	}
	return s.fold(p, parts)
}

// pane is what one partition has of one window.
type pane struct {
	window  int64
	keys    sketch.Sketch
	uniques *hyperloglog.Sketch
	approx  *sketch.Morris
	// events, addNS and bytes are the exact number of events, how long the summary took for them
	// and the size that it has.
	events, addNS, bytes int64
	stored               bool
}

func newPane(window int64, shard int32, keys sketch.Sketch) *pane {
	return &pane{window: window, keys: keys, uniques: hyperloglog.New14(),
		approx: sketch.NewMorris(uint64(window)<<16 ^ uint64(shard))}
}

// add counts events.
func (p *pane) add(list []uint64) {
	began := time.Now()
	for _, key := range list {
		p.keys.Add(key)
	}
	p.addNS += time.Since(began).Nanoseconds()
	for _, key := range list {
		p.uniques.InsertHash(sketch.Hash(key))
		p.approx.Add()
	}
	p.events += int64(len(list))
	p.bytes, p.stored = int64(p.keys.Bytes()), false
}

// rest encodes what a pane has beside its keys.
func (p *pane) rest() ([]byte, error) {
	to := make([]byte, 0, 64)
	for _, v := range []int64{p.events, p.addNS, p.bytes} {
		to = binary.LittleEndian.AppendUint64(to, uint64(v))
	}
	to, err := p.approx.AppendBinary(to)
	if err != nil {
		return nil, err
	}
	if to, err = p.uniques.AppendBinary(to); err != nil {
		return nil, fmt.Errorf("encoding uniques: %w", err)
	}
	return to, nil
}

// read sets a pane to what was stored of it.
func (p *pane) read(rest []byte) error {
	const sizes, uniques = 24, 24 + sketch.MorrisBytes
	if len(rest) < uniques {
		return errMalformed
	}
	for i, into := range []*int64{&p.events, &p.addNS, &p.bytes} {
		*into = int64(binary.LittleEndian.Uint64(rest[8*i:]))
	}
	p.stored = true
	if err := p.uniques.UnmarshalBinary(rest[uniques:]); err != nil {
		return fmt.Errorf("decoding uniques: %w", err)
	}
	return p.approx.UnmarshalBinary(rest[sizes:uniques])
}

// absorb adds what another pane has beside its keys.
func (p *pane) absorb(other *pane) error {
	p.approx.Merge(other.approx)
	p.events += other.events
	p.addNS += other.addNS
	p.bytes = max(p.bytes, other.bytes)
	if err := p.uniques.Merge(other.uniques); err != nil {
		return fmt.Errorf("merging uniques: %w", err)
	}
	return nil
}

// A record of the log is the batch's number, its time, and its keys.

func encodeBatch(req RecordRequest) []byte {
	to := make([]byte, 0, 12+4*len(req.Keys))
	to = binary.AppendUvarint(to, req.ID)
	to = binary.AppendUvarint(to, uint64(req.AtMS))
	return sketch.AppendKeys(to, req.Keys)
}

// decodeBatch reads a record, the keys into a list that may be used again.
func decodeBatch(from []byte, list []uint64) (req RecordRequest, err error) {
	id, n := binary.Uvarint(from)
	if n <= 0 {
		return req, errMalformed
	}
	at, m := binary.Uvarint(from[n:])
	if m <= 0 || at > 1<<62 {
		return req, errMalformed
	}
	req.ID, req.AtMS = id, int64(at)
	req.Keys, err = sketch.ReadKeys(from[n+m:], maxEvents, list)
	return req, err
}
