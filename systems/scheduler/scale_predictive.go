package scheduler

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
func scalePredictive() design {
	d := skipLockedPickers()
	d.name, d.scaling = "scale_predictive", predictive
	d.idea = "skip_locked whose executors are scaled by the tasks due in the next ten minutes"
	d.guarantees = "as skip_locked, with executors ready before a scheduled burst"
	d.givesUp = "executor-minutes spent waiting for the burst"
	return d
}
