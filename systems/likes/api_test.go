package likes

import (
	"os"
	"testing"

	"stampede/harness/api/apitest"
)

// TestAPI: the API is what its table says, at both ends of the wire.
func TestAPI(t *testing.T) {
	apitest.Conform(t, API(), DefaultParams(), goodLikes().audit)
}

// TestAPIIsCompatible: a server that was written to the description of version 1 is still
// understood. What an absent parameter stands for is described now.
func TestAPIIsCompatible(t *testing.T) {
	golden, err := os.ReadFile("testdata/openapi-1.yaml")
	if err != nil {
		t.Fatal(err)
	}
	apitest.Compatible(t, golden, API().OpenAPI(), "user_id.schema.default",
		"properties.videos.items.properties.viewers.minimum")
}

func FuzzRequests(f *testing.F) { apitest.FuzzRequests(f, API(), DefaultParams()) }
