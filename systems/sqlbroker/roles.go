package sqlbroker

// The names of the roles.
const (
	RoleConsumer  = "consumer"
	RoleSweeper   = "sweeper"
	RoleCollector = "collector"
	RoleReporter  = "reporter"
)
