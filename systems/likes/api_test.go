package likes

import (
	"testing"

	"stampede/harness/api/apitest"
)

// TestAPI: the API is what its table says, at both ends of the wire.
func TestAPI(t *testing.T) {
	apitest.Conform(t, API(), DefaultParams(), goodLikes().audit)
}

func FuzzRequests(f *testing.F) { apitest.FuzzRequests(f, API(), DefaultParams()) }
