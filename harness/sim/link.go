package sim

import "time"

// Link is a network between two places, with both directions apart. A message occupies its
// direction for bytes/bandwidth, first come, first served, and then travels for the latency.
type Link struct {
	s         *Sim
	name      string
	latency   time.Duration
	perSecond float64 // bytes; 0: no limit
	there     way
	back      way
	condition Condition
	jitter    *Stream
}

// Condition is a fault of a link; the zero value is none.
type Condition struct {
	// Latency is added to each round trip, half of it each way, and each way up to Jitter/2
	// more or less.
	Latency, Jitter time.Duration
	// LoseThere loses requests, LoseBack answers; both are a partition. Who waits for a lost
	// message waits until a Within ends it.
	LoseThere, LoseBack bool
}

// way is one direction.
type way struct {
	link             *Link
	back             bool
	free             time.Duration // when the last message has been sent
	starts, waits    int64
	lost             int64
	busy, waited     time.Duration
	queued, queuedTo time.Duration
}

// NewLink returns a link with a latency for each way, and a bandwidth in bytes a second for
// each direction; 0 is no limit.
func NewLink(s *Sim, name string, latency time.Duration, bytesPerS float64) *Link {
	l := &Link{s: s, name: name, latency: latency, perSecond: bytesPerS}
	l.there, l.back = way{link: l}, way{link: l, back: true}
	l.jitter = s.Stream(name + ".jitter")
	s.reports = append(s.reports, l)
	return l
}

// There is a step: a message of so many bytes travels to the store.
func (l *Link) There(bytes int64) Step { return Step{of: &l.there, n: bytes} }

// Back is a step: a message of so many bytes travels from the store.
func (l *Link) Back(bytes int64) Step { return Step{of: &l.back, n: bytes} }

// Impose puts a condition in force, in place of the one before. It is about messages sent
// from now on.
func (l *Link) Impose(c Condition) { l.condition = c }

// Lost is how many messages were lost.
func (l *Link) Lost() int64 { return l.there.lost + l.back.lost }

func (w *way) start(c *chain, bytes int64) bool {
	l, s := w.link, w.link.s
	if w.back && l.condition.LoseBack || !w.back && l.condition.LoseThere || l.loses(c) {
		w.lost++
		return false
	}
	w.starts++
	begins := max(s.now, w.free)
	if begins > s.now {
		w.waits++
		w.waited += begins - s.now
		w.queued += begins - max(s.now, w.queuedTo)
		w.queuedTo = begins
	}
	takes := time.Duration(0)
	if l.perSecond > 0 {
		takes = rounded(float64(bytes) / l.perSecond * 1e9)
	}
	w.busy += takes
	w.free = begins + takes
	travels := l.latency + l.condition.Latency/2
	if j := l.condition.Jitter; j > 0 {
		travels += rounded((l.jitter.Float64() - 0.5) * float64(j))
	}
	s.schedule(w.free+max(travels, 0), (*delayed)(c))
	return false
}

func (*way) abandon(*chain) {} // the message arrives nowhere

// Usage is what both directions did, of messages sent so far.
func (l *Link) Usage() (all []Usage) {
	for _, w := range []*way{&l.there, &l.back} {
		name := l.name + ".there"
		if w.back {
			name = l.name + ".back"
		}
		servers := 0
		if l.perSecond > 0 {
			servers = 1
		}
		all = append(all, Usage{
			Name: name, Servers: servers, Elapsed: l.s.now, Starts: w.starts, Waits: w.waits,
			Busy: w.busy - max(w.free-l.s.now, 0), Waited: w.waited, Queued: w.queued,
		})
	}
	return all
}
