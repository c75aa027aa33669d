package scheduler

import "time"

// scaleReactive is skip_locked with executors that follow the queue.
//
// Idea: an orchestrator counts the tasks that are due and have not started, and
// asks for as many executors as they need.
//
// Guarantee: as skip_locked, with more executors while there is a queue.
//
// Gives up: the time that executors take to come up, when they are already needed.
func scaleReactive() scheme {
	return scheme{variant{
		Name:       "scale_reactive",
		Idea:       "skip_locked whose executors are scaled by the due tasks not yet started",
		Guarantees: "as skip_locked, with as many executors as the queue needs",
		GivesUp:    "start-up time: the queue grows before the executors are ready",
	}, overrides{lock: skipLocked, fleet: (*tasks).fleetUp,
		ahead: func(Params) time.Duration { return 0 }}}
}
