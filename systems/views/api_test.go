package views

import (
	"os"
	"testing"

	"stampede/harness/api/apitest"
)

// TestAPI: the API is what its table says, at both ends of the wire.
func TestAPI(t *testing.T) {
	apitest.Conform(t, API(), DefaultParams(), goodRun(t).raw(t))
}

// TestAPIIsCompatible: a server that was written to the description of version 1 is still
// understood. Of rules, the list of blocked addresses may be left out now where it was null, and
// the upper limits are described, which there always were.
func TestAPIIsCompatible(t *testing.T) {
	golden, err := os.ReadFile("testdata/openapi-1.yaml")
	if err != nil {
		t.Fatal(err)
	}
	apitest.Compatible(t, golden, API().OpenAPI(), "_ms.maximum", "ip_views.maximum",
		"rules.items.properties.blocked.type",
		"rules.items.required", "rules.properties.blocked.type", "rules.required",
		"rules.put.requestBody.content.application/json.schema.properties.blocked.type",
		"rules.put.requestBody.content.application/json.schema.required")
}

func FuzzRequests(f *testing.F) { apitest.FuzzRequests(f, API(), DefaultParams()) }
