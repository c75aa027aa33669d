package check

import "math"

// Mostly judges a bound that holds in all cases but a share of them, such as that of a sketch: it
// is violated if more cases are beyond it than chance explains.
type Mostly struct {
	*Run
	// Share is the probability with which a case may be beyond the bound, 0 for never.
	Share float64
	// Cases is how many were looked at.
	Cases  int
	missed []miss
}

// miss is a case that is beyond the bound.
type miss struct {
	ops        []uint64
	unfinished bool
	text       string
}

// Miss says that a case is beyond the bound. Unfinished is for what may only not be done yet.
func (m *Mostly) Miss(ops []uint64, unfinished bool, format string, args ...any) {
	m.missed = append(m.missed, miss{ops, unfinished, said(format, args)})
}

// End violates for each case that was missed if they are too many.
func (m *Mostly) End() {
	m.Checked(m.Cases)
	if most := AtMost(m.Cases, m.Share); len(m.missed) <= most {
		m.Note("%d of %d are beyond the bound, and %d may be", len(m.missed), m.Cases, most)
		return
	}
	for _, missed := range m.missed {
		if missed.unfinished {
			m.Unfinished(missed.ops, "%s", missed.text)
		} else {
			m.Violate(missed.ops, "%s", missed.text)
		}
	}
}

// rarely is the probability with which more happen than AtMost says.
const rarely = 1e-9

// AtMost is how many of n cases happen at most that have a probability each and are independent,
// but for one run in a billion.
func AtMost(n int, share float64) int {
	if share <= 0 {
		return 0
	}
	// The sum of the binomial distribution, each term by its logarithm.
	term, sum := float64(n)*math.Log1p(-share), 0.
	for k := range n {
		if sum += math.Exp(term); sum >= 1-rarely {
			return k
		}
		term += math.Log(float64(n-k)/float64(k+1)) + math.Log(share) - math.Log1p(-share)
	}
	return n
}
