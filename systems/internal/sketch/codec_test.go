package sketch_test

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"stampede/systems/internal/sketch"
)

// TestCodec: what is decoded answers and counts on as what was encoded.
func TestCodec(t *testing.T) {
	for _, k := range kinds() {
		t.Run(k.name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				in, more := drawn(t), drawn(t)
				s, back := k.of(in.events), k.make()
				raw, err := s.AppendBinary(nil)
				if err == nil {
					err = back.UnmarshalBinary(raw)
				}
				if err != nil {
					t.Fatal(err)
				}
				for _, key := range more.events {
					s.Add(key)
					back.Add(key)
				}
				if s.Total() != back.Total() || s.Bytes() != back.Bytes() {
					t.Fatalf("%d events in %d bytes became %d in %d", s.Total(), s.Bytes(), back.Total(),
						back.Bytes())
				}
				k.bounded(t, back, streamOf(slices.Concat(in.events, more.events)))
			})
		})
	}
}

// TestMalformed: whatever is missing of an encoded sketch, and whatever is too much, is an error,
// which leaves a sketch as it was.
func TestMalformed(t *testing.T) {
	for _, k := range kinds()[1:] { // what is missing of a map is missing keys
		raw, err := k.of([]uint64{1, 2, 2, 300}).AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		s := k.of([]uint64{5})
		for cut := range raw {
			if err := s.UnmarshalBinary(raw[:cut]); !errors.Is(err, sketch.ErrMalformed) {
				t.Fatalf("%s: %d of %d bytes gave %v", k.name, cut, len(raw), err)
			}
		}
		if err := s.UnmarshalBinary(append(raw, 0)); !errors.Is(err, sketch.ErrMalformed) {
			t.Errorf("%s: a byte too much gave %v", k.name, err)
		}
		if s.Total() != 1 || s.Estimate(5) != 1 {
			t.Errorf("%s: an error changed the sketch", k.name)
		}
	}
	for _, raw := range [][]byte{{1}, {1, 0}, {1, 1, 0, 1}, {0x80}} {
		if err := sketch.NewExact().UnmarshalBinary(raw); !errors.Is(err, sketch.ErrMalformed) {
			t.Errorf("a map of %v gave %v", raw, err)
		}
	}
	for _, raw := range [][]byte{nil, make([]byte, 9), make([]byte, 10), make([]byte, 11)} {
		if err := sketch.NewMorris(1).UnmarshalBinary(raw); !errors.Is(err, sketch.ErrMalformed) {
			t.Errorf("a Morris counter of %v gave %v", raw, err)
		}
	}
}

// FuzzDecode: bytes are an error, or a sketch that counts on and is encoded again to what is
// decoded as the same.
func FuzzDecode(f *testing.F) {
	for _, k := range kinds() {
		raw, err := k.of([]uint64{1, 2, 2, 300, 4, 1 << 60}).AppendBinary(nil)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, k := range kinds() {
			s := k.make()
			if err := s.UnmarshalBinary(raw); err != nil {
				if !errors.Is(err, sketch.ErrMalformed) {
					t.Fatal(err)
				}
				continue
			}
			again, err := s.AppendBinary(nil)
			back := k.make()
			if err != nil || back.UnmarshalBinary(again) != nil {
				t.Fatalf("%s cannot be decoded again: %v", k.name, err)
			}
			if once, err := back.AppendBinary(nil); err != nil || !bytes.Equal(once, again) {
				t.Fatalf("%s changed: %v", k.name, err)
			}
			s.Add(7)
			s.Estimate(7)
			s.Top(3)
			if err := k.merge(s, back); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// FuzzMorris: ten bytes are a counter, or an error.
func FuzzMorris(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10})
	f.Fuzz(func(t *testing.T, raw []byte) {
		m := sketch.NewMorris(1)
		if m.UnmarshalBinary(raw) != nil {
			return
		}
		if again, err := m.AppendBinary(nil); err != nil || !bytes.Equal(again, raw) {
			t.Fatalf("%v became %v, %v", raw, again, err)
		}
		m.Add()
		m.Merge(sketch.NewMorris(2))
	})
}
