package views_test

import (
	"os"
	"testing"

	"stampede/harness/api/apitest"
	"stampede/systems/views"
)

// TestAPI: the API is what its table says, at both ends of the wire.
func TestAPI(t *testing.T) {
	apitest.Conform(t, views.API(), views.DefaultParams(), goodRun(t).raw(t), nil)
	apitest.Written(t, "openapi.yaml", views.API().OpenAPI())
}

// TestAPIIsCompatible: a server that was written to the description of version 1 is still
// understood. Of rules, the list of blocked addresses may be left out now where it was null.
func TestAPIIsCompatible(t *testing.T) {
	golden, err := os.ReadFile("testdata/openapi-1.yaml")
	if err != nil {
		t.Fatal(err)
	}
	apitest.Compatible(t, golden, views.API().OpenAPI(), "rules.items.properties.blocked.type",
		"rules.items.required", "rules.properties.blocked.type", "rules.required",
		"rules.put.requestBody.content.application/json.schema.properties.blocked.type",
		"rules.put.requestBody.content.application/json.schema.required")
}

func FuzzRequests(f *testing.F) { apitest.FuzzRequests(f, views.API(), views.DefaultParams()) }
