package keys

import (
	"fmt"
	"math"
)

// Zipf makes key k of n as likely as 1/(k+1)^s, for any s > 0: key 0 is the
// most popular. math/rand's Zipf needs s > 1, and web traffic has s < 1.
func Zipf(seed, n uint64, s float64) (Source, error) {
	if err := checkN(n); err != nil {
		return nil, err
	}
	if err := checkExponent(s); err != nil {
		return nil, err
	}
	return zipfKeys{seed, newZipf(n, s)}, nil
}

type zipfKeys struct {
	seed uint64
	zipf zipf
}

func (z zipfKeys) At(i uint64) uint64 {
	d := drawAt(z.seed, i)
	return z.zipf.rank(&d) - 1
}
func (z zipfKeys) N() uint64      { return z.zipf.n }
func (z zipfKeys) String() string { return fmt.Sprintf("zipf %g over %d", z.zipf.s, z.zipf.n) }

// maxExponent is where the second key is already a thousand times rarer than
// the first; beyond it the arithmetic gains nothing.
const maxExponent = 10

func checkExponent(s float64) error {
	if !(s > 0 && s <= maxExponent) {
		return fmt.Errorf("keys: a zipf exponent must be above 0 and at most %d, got %g",
			maxExponent, s)
	}
	return nil
}

// zipf draws ranks 1 … n with probability proportional to 1/rank^s by
// rejection-inversion: W. Hörmann and G. Derflinger, "Rejection-inversion to
// generate variates from monotone discrete distributions", ACM TOMACS 6(3),
// 1996. It is exact, needs constant memory and fewer than 1.4 tries a draw.
//
// With h(x) = x^-s and H its integral, a uniform u between H(1.5)-h(1) and
// H(n+0.5) is turned into x = H⁻¹(u) and k, the integer nearest to x. The bar
// of width 1 around k has area h(k), and k is kept when u falls into the part
// of the hat's strip that the bar accounts for.
type zipf struct {
	n         uint64
	s         float64
	low, high float64 // the bounds of u
	sure      float64 // x within sure below k is accepted without a test
}

func newZipf(n uint64, s float64) zipf {
	z := zipf{n: n, s: s}
	z.low = z.integral(1.5) - 1
	z.high = z.integral(float64(n) + 0.5)
	z.sure = 2 - z.inverse(z.integral(2.5)-math.Pow(2, -s))
	return z
}

func (z zipf) rank(d *draw) uint64 {
	for {
		u := z.high + d.unit()*(z.low-z.high)
		x := z.inverse(u)
		k := math.Min(math.Max(math.Floor(x+0.5), 1), float64(z.n))
		if k-x <= z.sure || u >= z.integral(k+0.5)-math.Pow(k, -z.s) {
			return min(max(uint64(k), 1), z.n)
		}
	}
}

// integral is H(x) = (x^(1-s) - 1)/(1-s), which is ln x at s = 1; written so
// that it is continuous there.
func (z zipf) integral(x float64) float64 {
	log := math.Log(x)
	return expm1Over((1-z.s)*log) * log
}

// inverse is H⁻¹.
func (z zipf) inverse(u float64) float64 {
	t := math.Max(u*(1-z.s), -1)
	return math.Exp(log1pOver(t) * u)
}

// expm1Over is (e^x - 1)/x, continuous at 0.
func expm1Over(x float64) float64 {
	if math.Abs(x) > 1e-8 {
		return math.Expm1(x) / x
	}
	return 1 + x/2
}

// log1pOver is ln(1+x)/x, continuous at 0.
func log1pOver(x float64) float64 {
	if math.Abs(x) > 1e-8 {
		return math.Log1p(x) / x
	}
	return 1 - x/2
}
