package check

import "time"

// Watched is a quantity that an invariant followed through the run, from the
// samples of a gauge. What is seen from outside is known within bounds only.
type Watched struct {
	// Quantity names it and Unit is what it counts, for example "drift" in
	// "units".
	Quantity string `json:"quantity"`
	Unit     string `json:"unit"`
	// Judged is how many looks were held against the system, Excused how many
	// were not, for the reasons that the invariant gives. Gaps is how many
	// samples saw nothing.
	Judged  int `json:"judged"`
	Excused int `json:"excused"`
	Gaps    int `json:"gaps"`
	// The quantity was at some time certainly no higher than Lowest, and at
	// some time certainly no lower than Highest, excused or not.
	Lowest  int64 `json:"lowest"`
	Highest int64 `json:"highest"`
	// Points are the looks over time. They go to the timeline.
	Points []WatchedPoint `json:"-"`
}

// WatchedPoint is what was seen at one moment, of whatever was looked at: the
// lowest and the highest that the quantity may have been.
type WatchedPoint struct {
	// AtNS is an offset from the run's base in nanoseconds.
	AtNS int64 `json:"at_ns"`
	Low  int64 `json:"low"`
	High int64 `json:"high"`
	// Excused is true if a look at that moment was.
	Excused bool `json:"excused,omitempty"`
}

// Look adds a look that found the quantity between low and high. Looks at the
// same moment, one after the other, make one point.
func (w *Watched) Look(at time.Duration, low, high int64, excused bool) {
	if first := w.Judged+w.Excused == 0; first {
		w.Lowest, w.Highest = high, low
	}
	w.Lowest, w.Highest = min(w.Lowest, high), max(w.Highest, low)
	if excused {
		w.Excused++
	} else {
		w.Judged++
	}
	if n := len(w.Points); n > 0 && w.Points[n-1].AtNS == int64(at) {
		p := &w.Points[n-1]
		p.Low, p.High, p.Excused = min(p.Low, low), max(p.High, high), p.Excused || excused
		return
	}
	w.Points = append(w.Points, WatchedPoint{int64(at), low, high, excused})
}

// merge returns what was watched in two runs, without points. Either may be
// nil.
func (w *Watched) merge(o *Watched) *Watched {
	if w == nil || o == nil {
		if w == nil {
			w = o
		}
		return w
	}
	sum := *w
	sum.Points = nil
	sum.Judged, sum.Excused, sum.Gaps = w.Judged+o.Judged, w.Excused+o.Excused, w.Gaps+o.Gaps
	switch {
	case o.Judged+o.Excused == 0:
	case w.Judged+w.Excused == 0:
		sum.Lowest, sum.Highest = o.Lowest, o.Highest
	default:
		sum.Lowest, sum.Highest = min(w.Lowest, o.Lowest), max(w.Highest, o.Highest)
	}
	return &sum
}

// WatchedOver sums up what verdicts on several runs watched, nil if nothing.
func WatchedOver(verdicts []Verdict) (sum *Watched) {
	for _, v := range verdicts {
		sum = sum.merge(v.Watched)
	}
	return sum
}
