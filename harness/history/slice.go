package history

import (
	"iter"
	"slices"
)

// Memory is a history in memory, for tests and evidence. See Slice.
type Memory struct {
	records []Record
	windows []Window
	samples []Sample
}

var _ History = (*Memory)(nil)

// Slice makes a history of records and windows. It keeps records, which must
// not be changed afterwards.
func Slice(records []Record, windows ...Window) *Memory {
	m := &Memory{records: records}
	for _, w := range windows {
		m.windows = addWindow(m.windows, w)
	}
	slices.SortStableFunc(m.windows, byStart)
	return m
}

// WithSamples adds samples to the history and returns it. It keeps them.
func (m *Memory) WithSamples(samples []Sample) *Memory {
	m.samples = append(m.samples, samples...)
	return m
}

// All yields every record in the order given to Slice.
func (m *Memory) All() iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		for _, r := range m.records {
			if !yield(r, nil) {
				return
			}
		}
	}
}

// Windows returns all windows by start time.
func (m *Memory) Windows() []Window { return slices.Clone(m.windows) }

// Faults returns the fault windows by start time.
func (m *Memory) Faults() []Window { return faults(m.windows) }

// Samples returns the samples in the order in which they were added.
func (m *Memory) Samples() []Sample { return slices.Clone(m.samples) }
