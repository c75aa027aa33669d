package likes_test

import (
	"testing"

	"stampede/harness/suttest"
	"stampede/systems/likes"
)

// TestReadme: the tables of the README say what the code says.
func TestReadme(t *testing.T) { suttest.Readme(t, likes.System()) }
