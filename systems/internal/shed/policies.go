package shed

import (
	"math"
	"time"
)

// plain lets every request wait for its turn. The other policies embed it.
type plain struct{}

func (plain) arrive(int) error                        { return nil }
func (plain) patience(*Gate, time.Time) time.Duration { return 0 }
func (plain) next(g *Gate, _ time.Time) *waiter       { return g.take(false) }
func (plain) observe(*Gate, time.Duration)            {}

// codel is the state of CoDel, with the names of RFC 8289.
type codel struct {
	plain
	target, interval     time.Duration
	firstAbove, dropNext time.Time
	count, lastCount     int
	dropping             bool
}

// CoDel refuses the oldest request whenever one could begin, if all have waited for longer than
// target during an interval, and goes on to refuse at a rate that rises with the square root of
// the number of refusals until the wait is below target (Nichols and Jacobson, "Controlling Queue
// Delay", ACM Queue 10(5), 2012, as in RFC 8289). The order is first in, first out. At most depth
// requests wait.
//
// The paper's values are 5 ms and 100 ms, for senders that slow down when they are refused. If
// they do not, and offer excess requests a second too many, the rate of refusals reaches the
// excess after 2 * interval^2 * excess: at 500 a second after 10 s with an interval of 100 ms,
// after 100 ms with one of 10 ms.
func CoDel(limit, depth int, target, interval time.Duration) *Gate {
	return newGate(&codel{target: target, interval: interval}, limit, depth)
}

// pop takes the oldest request, and says whether the queue was bad during an interval.
func (c *codel) pop(g *Gate, now time.Time) (w *waiter, bad bool) {
	w = g.take(false)
	switch {
	case w == nil || now.Sub(w.since) < c.target || g.queue.len == 0:
		c.firstAbove = time.Time{}
	case c.firstAbove.IsZero():
		c.firstAbove = now.Add(c.interval)
	default:
		bad = !now.Before(c.firstAbove)
	}
	return w, bad
}

// law is when the next request after one that was refused at a time is refused.
func (c *codel) law(after time.Time) time.Time {
	return after.Add(time.Duration(float64(c.interval) / math.Sqrt(float64(c.count))))
}

func (c *codel) next(g *Gate, now time.Time) *waiter {
	w, bad := c.pop(g, now)
	c.dropping = c.dropping && bad
	switch {
	case c.dropping:
		for c.dropping && !now.Before(c.dropNext) {
			g.tell(w, ErrDelayed)
			c.count++
			w, c.dropping = c.pop(g, now)
			if c.dropping {
				c.dropNext = c.law(c.dropNext)
			}
		}
	case bad:
		g.tell(w, ErrDelayed)
		w, _ = c.pop(g, now)
		c.dropping = true
		// If it stopped refusing a short time ago, continue at about the same rate.
		recent := c.count - c.lastCount
		c.count = 1
		if recent > 1 && now.Sub(c.dropNext) < 16*c.interval {
			c.count = recent
		}
		c.dropNext = c.law(now)
		c.lastCount = c.count
	}
	return w
}

// controlled is the state of Controlled.
type controlled struct {
	plain
	target, interval time.Duration
	empty            time.Time // when the queue was empty last
}

// Controlled lets a request wait for interval if the queue was empty during the last interval,
// and else for target only; meanwhile the newest request begins first, as callers of the oldest
// are the nearest to giving up (Maurer, "Fail at Scale", ACM Queue 13(8), 2015: controlled delay
// with 5 ms and 100 ms, and adaptive LIFO). At most depth requests wait.
func Controlled(limit, depth int, target, interval time.Duration) *Gate {
	return newGate(&controlled{target: target, interval: interval}, limit, depth)
}

func (c *controlled) overloaded(now time.Time) bool { return now.Sub(c.empty) > c.interval }

func (c *controlled) patience(g *Gate, now time.Time) time.Duration {
	if g.queue.len == 0 {
		c.empty = now
	}
	if c.overloaded(now) {
		return c.target
	}
	return c.interval
}

func (c *controlled) next(g *Gate, now time.Time) *waiter { return g.take(c.overloaded(now)) }

// buckets is the state of Buckets.
type buckets struct {
	plain
	rate    float64 // tokens a second
	classes []struct{ burst, tokens float64 }
	at      time.Time // when tokens were added last
}

// Buckets admits as many requests a second as rate says. Each class has a bucket of as many
// tokens as its burst, which are full at first, and a request takes one of its class or is
// refused. New tokens go to class 0; what its bucket has no room for goes to class 1, and so on
// (token sharing in MEF 10.3, "Ethernet Services Attributes", 2013, section 12). So a class is
// refused only while the less important ones have no more than the tokens that they had saved.
//
// At most depth requests wait for the limit of running ones, one less for each class after
// class 0; depth is at least the number of classes.
func Buckets(limit, depth int, rate float64, bursts ...int) *Gate {
	b := &buckets{rate: rate, at: time.Now()}
	var depths []int
	for class, burst := range bursts {
		b.classes = append(b.classes, struct{ burst, tokens float64 }{float64(burst), float64(burst)})
		depths = append(depths, max(depth, len(bursts))-class)
	}
	return newGate(b, limit, depths...)
}

func (b *buckets) arrive(class int) error {
	now := time.Now()
	fresh := b.rate * now.Sub(b.at).Seconds()
	b.at = now
	for i := range b.classes {
		c := &b.classes[i]
		taken := min(fresh, c.burst-c.tokens)
		c.tokens += taken
		fresh -= taken
	}
	c := of(b.classes, class)
	if c.tokens < 1 {
		return ErrRate
	}
	c.tokens--
	return nil
}

// adaptive is the state of Adaptive.
type adaptive struct {
	plain
	limit, most float64
	target      time.Duration
	cut         time.Time // when the limit was lowered last
}

// backoff is what a limit is multiplied by when a request was too slow. TCP's 1/2 is for losses,
// which are rare; a time above the target is not. It is that of AIMDLimit in Netflix's
// concurrency-limits.
const backoff = 0.9

// Adaptive raises its limit of running requests by one for each limit of them that took at most
// target while the limit was reached, up to most, and multiplies it by 0.9 when one took longer
// (additive increase, multiplicative decrease: Chiu and Jain, "Analysis of the Increase and
// Decrease Algorithms for Congestion Avoidance in Computer Networks", 1989). As TCP's congestion
// window, the limit is lowered once for all requests that ran at the same time. It begins at
// limit. Requests beyond it wait as with Depth, at most depths of each class.
func Adaptive(limit, most int, target time.Duration, depths ...int) *Gate {
	limit = max(limit, 1)
	return newGate(&adaptive{limit: float64(limit), most: float64(max(most, limit)),
		target: target}, limit, depths...)
}

func (a *adaptive) observe(g *Gate, took time.Duration) {
	now := time.Now()
	switch {
	case took > a.target && !now.Add(-took).Before(a.cut):
		a.limit, a.cut = max(a.limit*backoff, 1), now
	case took <= a.target && g.stats.Running >= g.limit:
		a.limit = min(a.limit+1/a.limit, a.most)
	}
	g.limit = int(a.limit)
}
