package scheduler

import "time"

// scalePredictive is skip_locked with executors that are there before they are
// needed.
//
// Idea: an orchestrator looks at what will be due in the next ten minutes, and asks
// for executors early enough.
//
// Guarantee: as skip_locked, with executors up when a burst is due that was
// scheduled before.
//
// Gives up: the minutes for which executors wait; and a burst that nobody has
// scheduled beforehand finds it as scale_reactive.
func scalePredictive() scheme {
	return scheme{variant{
		Name:       "scale_predictive",
		Idea:       "skip_locked whose executors are scaled by the tasks due in the next ten minutes",
		Guarantees: "as skip_locked, with executors ready before a scheduled burst",
		GivesUp:    "executor-minutes spent waiting for the burst",
	}, overrides{lock: skipLocked, fleet: (*tasks).fleetUp,
		ahead: func(p Params) time.Duration { return p.clock(p.Predict) }}}
}
