package views_test

import (
	"testing"

	"stampede/harness/suttest"
	"stampede/systems/views"
)

// TestReadme: the tables of the README say what the code says.
func TestReadme(t *testing.T) { suttest.Readme(t, views.System()) }
