package sqlbroker_test

import (
	"testing"

	"stampede/harness/suttest"
	"stampede/systems/sqlbroker"
)

// TestReadme: the tables of the README say what the code says.
func TestReadme(t *testing.T) { suttest.Readme(t, sqlbroker.System()) }
