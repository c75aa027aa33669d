package scheduler

// scaleReactive is skip_locked with executors that follow the queue.
//
// Idea: an orchestrator counts the tasks that are due and have not started, and
// asks for as many executors as they need.
//
// Guarantee: as skip_locked, with more executors while there is a queue.
//
// Gives up: the time that executors take to come up, when they are already needed.
func scaleReactive() design {
	d := skipLockedPickers()
	d.name, d.scaling = "scale_reactive", reactive
	d.idea = "skip_locked whose executors are scaled by the due tasks not yet started"
	d.guarantees = "as skip_locked, with as many executors as the queue needs"
	d.givesUp = "start-up time: the queue grows before the executors are ready"
	return d
}
