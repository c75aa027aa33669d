package main

import (
	"fmt"
	"time"

	"stampede/harness/run"
)

// What takes time beside the load, in round figures of two shared CPUs: starting the
// stores, and for a window of knee its preparation, drain, audit and judgement.
const (
	startTakes   = 5 * time.Second
	besideWindow = 3 * time.Second
)

// usualWindows is how many windows a search takes for a design, besides those that confirm
// what it found: some to double the rate, some to bisect.
const usualWindows = 7

// estimated is about how long a run takes.
type estimated struct {
	least, most time.Duration // which differ where the load is fitted to the machine
	load        time.Duration // of one repeat, at least
	repeats     int           // of all designs
	sideBySide  bool          // those of all designs
	drain       time.Duration // the most that one repeat's drain may take
}

// estimate says about how long so many designs of a plan take. With control the baseline of
// several runs once more at the end.
func estimate(plan resolved, designs int, control bool) (estimated, error) {
	sc := plan.Scenario
	load, err := run.PlanOf(sc, 1)
	if err != nil {
		return estimated{}, err
	}
	repeats := designs * sc.Repeats
	if control && designs > 1 && !sc.SideBySide {
		repeats++
	}
	least, most, err := run.Estimate(sc, plan.System, plan.Params, repeats)
	return estimated{least, most, load.Over, repeats, sc.SideBySide, sc.Load.Drain.D()}, err
}

// String is a sentence: "about 5 min: 16 repeats, each with 11.5s of load; ...".
func (e estimated) String() string {
	each := "1 repeat"
	if e.repeats != 1 {
		each = fmt.Sprintf("%d repeats, each", e.repeats)
	}
	if e.sideBySide {
		each = fmt.Sprintf("%d repeats, those of all designs side by side, each", e.repeats)
	}
	about := estimateText(e.least)
	if longest := estimateText(e.most); longest != about {
		about += " to " + longest
	}
	return fmt.Sprintf("about %s: %s with %s of load; a drain may take up to %s more", about, each,
		durationText(e.load), durationText(e.drain))
}

// estimateSearch says about how long a search of knee takes.
func estimateSearch(p kneePlan) string {
	windows := min(usualWindows+p.bounds.Repeats, p.bounds.Windows)
	total := startTakes + time.Duration(len(p.variants)*windows)*(p.flags.window+besideWindow)
	each := "1 design"
	if len(p.variants) != 1 {
		each = fmt.Sprintf("%d designs, each", len(p.variants))
	}
	return fmt.Sprintf("about %s: %s with about %d windows of %s", estimateText(total), each,
		windows, durationText(p.flags.window))
}

// estimateText is a duration no finer than an estimate is: "40 s", "5 min", "2 h".
func estimateText(d time.Duration) string {
	switch {
	case d < 100*time.Second:
		return fmt.Sprintf("%d s", (d+10*time.Second-1)/(10*time.Second)*10)
	case d < 100*time.Minute:
		return fmt.Sprintf("%d min", (d+time.Minute/2)/time.Minute)
	}
	return fmt.Sprintf("%d h", (d+time.Hour/2)/time.Hour)
}
