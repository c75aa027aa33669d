package scheduler_test

import (
	"testing"

	"stampede/harness/suttest"
	"stampede/systems/scheduler"
)

// TestReadme: the tables of the README say what the code says.
func TestReadme(t *testing.T) { suttest.Readme(t, scheduler.System()) }
