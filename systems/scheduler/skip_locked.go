package scheduler

// skipLockedPickers is the design of the literature.
//
// Idea: SELECT … FOR UPDATE SKIP LOCKED, in batches, lets each picker and each
// executor take tasks that nobody else is taking.
//
// Guarantee: a task is taken once, by whoever holds its row's lock, and nobody
// waits for anybody.
//
// Gives up: strict order between tasks that are due together, and three updates of
// each row: picked, started, ended.
func skipLockedPickers() scheme {
	return scheme{variant{
		Name: "skip_locked",
		Idea: "pickers and executors lock the first due tasks, skipping locked rows",
		Guarantees: "a task starts once, and not before it is due, however many pickers and " +
			"executors there are",
		GivesUp: "strict order, and three updates for each task: picked, started, ended",
		Model:   simulated(overrides{}, func(*taskModel) {}),
	}, overrides{lock: skipLocked}}
}
