package keys

// Coin is a stream of numbers in [0, 1), one for each index.
type Coin struct{ source Source }

const coinSides = 1 << 53 // as many as a float64 tells apart

// At is the number of an index. It is safe for concurrent use.
func (c Coin) At(i uint64) float64 { return float64(c.source.At(i)) / coinSides }

// The names of distributions in the parameters of systems; see Streams.Skewed.
const (
	SkewUniform = "uniform" // every key is as likely
	SkewZipf    = "zipf"    // key k is drawn in proportion to 1/(k+1)
	SkewHot     = "hot"     // a share of the draws is the first key
	SkewMoving  = "moving"  // a share of the draws is one key, which changes after some
)

// Streams deals sources out of one seed, each independent of the others, so that every
// question that a workload asks is decided by a stream of its own. The order in which they
// are dealt is part of what the seed means. A source that cannot be made leaves an error.
type Streams struct {
	seed, dealt uint64
	err         error
}

// NewStreams deals out of a seed.
func NewStreams(seed uint64) *Streams { return &Streams{seed: seed} }

// Seed is the seed that it deals out of.
func (s *Streams) Seed() uint64 { return s.seed }

// Err is the first error of a source that could not be made.
func (s *Streams) Err() error { return s.err }

// next spreads the streams over the seeds by the golden ratio, so that runs with neighbouring
// seeds share none.
func (s *Streams) next() uint64 {
	s.dealt++
	return s.seed + s.dealt*0x9e3779b97f4a7c15
}

func (s *Streams) keep(source Source, err error) Source {
	if s.err == nil {
		s.err = err
	}
	return source
}

// Coin deals a stream of numbers.
func (s *Streams) Coin() Coin { return Coin{s.keep(Uniform(s.next(), coinSides))} }

// Uniform deals a source in which each of n keys is as likely.
func (s *Streams) Uniform(n int) Source { return s.keep(Uniform(s.next(), uint64(n))) }

// Unrepeated deals a source that has each of n keys once before it repeats one.
func (s *Streams) Unrepeated(n int) Source {
	return s.keep(WithoutReplacement(s.next(), uint64(n)))
}

// Skewed deals a source of n keys by the name of a distribution. Where one key is hot, it has
// a share of the draws, and changes after so many where it moves.
func (s *Streams) Skewed(n int, skew string, share float64, every uint64) Source {
	keys := uint64(n)
	switch {
	case skew == SkewZipf:
		return s.keep(Zipf(s.next(), keys, 1))
	case skew == SkewHot && n > 1:
		return s.keep(HotSpot(s.next(), keys, 1, share))
	case skew == SkewMoving && n > 1:
		return s.keep(MovingHot(s.next(), keys, every, share))
	}
	return s.Uniform(n)
}
