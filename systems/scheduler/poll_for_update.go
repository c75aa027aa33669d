package scheduler

// pollForUpdate is what one writes first.
//
// Idea: pickers and executors look for the first tasks that are due and lock them
// with SELECT … FOR UPDATE.
//
// Guarantee: a task is taken once, because whoever waited for its lock looks at it
// again and finds it taken.
//
// Gives up: company. All want the same first tasks, so they wait for each other,
// and who waited comes back with little or nothing.
func pollForUpdate() scheme {
	return scheme{variant{
		Name:       "poll_for_update",
		Idea:       "pickers and executors lock the first due tasks, waiting for locks that others hold",
		Guarantees: "a task starts once, and not before it is due",
		GivesUp:    "parallelism: a second picker or executor waits, then finds all tasks taken",
	}, overrides{lock: forUpdate}}
}
