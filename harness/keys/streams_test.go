package keys_test

import (
	"testing"

	"stampede/harness/keys"
)

// TestStreams: each stream is its own, the same whenever its turn comes in the same seed, and
// the first that cannot be made is told.
func TestStreams(t *testing.T) {
	deal := func(seed uint64) (list []uint64) {
		s := keys.NewStreams(seed)
		for _, source := range []keys.Source{s.Uniform(1000), s.Uniform(1000), s.Unrepeated(1000),
			s.Skewed(1000, keys.SkewZipf, 0, 0), s.Skewed(1000, keys.SkewHot, 0.8, 0),
			s.Skewed(1000, keys.SkewMoving, 0.8, 100), s.Skewed(1000, keys.SkewUniform, 0, 0)} {
			for i := range uint64(20) {
				list = append(list, source.At(i))
			}
		}
		coin := s.Coin()
		for i := range uint64(20) {
			u := coin.At(i)
			if u < 0 || u >= 1 {
				t.Errorf("a coin shows %g", u)
			}
			list = append(list, uint64(u*1e9))
		}
		if s.Err() != nil {
			t.Error(s.Err())
		}
		return list
	}
	same := func(a, b []uint64) (n int) {
		for i := range a {
			if a[i] == b[i] {
				n++
			}
		}
		return n
	}
	one := deal(1)
	if n := same(one, deal(1)); n != len(one) {
		t.Errorf("%d of %d draws are the same for the same seed", n, len(one))
	}
	if n := same(one, deal(2)); n > len(one)/2 {
		t.Errorf("%d of %d draws are the same for another seed", n, len(one))
	}
	if n := same(one[:20], one[20:40]); n > 2 {
		t.Errorf("%d of 20 draws of two streams are the same", n)
	}
	s := keys.NewStreams(1)
	s.Uniform(0)
	s.Uniform(5)
	if s.Err() == nil {
		t.Error("a source of no keys was made")
	}
}

// TestSkewed: a hot key has its share, and moves if it should; alone, it is all there is.
func TestSkewed(t *testing.T) {
	s := keys.NewStreams(7)
	still, moving := s.Skewed(100, keys.SkewHot, 0.8, 0), s.Skewed(100, keys.SkewMoving, 0.8, 500)
	seen := map[uint64]int{}
	hot := 0
	for i := range uint64(5000) {
		if still.At(i) == 0 {
			hot++
		}
		seen[moving.At(i)]++
	}
	if hot < 3800 || hot > 4300 {
		t.Errorf("the first key has %d of 5000 draws", hot)
	}
	often := 0
	for _, n := range seen {
		if n > 300 {
			often++
		}
	}
	if often < 5 {
		t.Errorf("%d keys were hot in turn", often)
	}
	if only := s.Skewed(1, keys.SkewHot, 0.8, 0); only.At(3) != 0 || s.Err() != nil {
		t.Errorf("of one key, %d was drawn, %v", only.At(3), s.Err())
	}
}
