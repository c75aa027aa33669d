package suttest

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"stampede/harness/api/apitest"
	"stampede/harness/sut"
)

// Readme holds the tables in a system's README.md, in the test's folder, against
// the code: the variants as their files state them, the invariants as they state
// themselves, and all paths of the API.
func Readme(t *testing.T, system sut.System) {
	t.Helper()
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for mark, want := range map[string]string{
		"variants": variantTable(system), "invariants": invariantTable(system),
	} {
		_, rest, _ := strings.Cut(string(text), "<!-- "+mark+":")
		_, rest, _ = strings.Cut(rest, "-->\n")
		got, _, _ := strings.Cut(rest, "<!-- /"+mark)
		if got != want {
			t.Errorf("between the marks of %s there must be:\n%s", mark, want)
		}
	}
	api, err := os.ReadFile("openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range apitest.Paths(t, api) {
		if !strings.Contains(string(text), path+"`") {
			t.Errorf("the API's table has no %s", path)
		}
	}
}

func variantTable(system sut.System) string {
	var b strings.Builder
	b.WriteString("| design | idea | guarantees | gives up | breaks |\n|---|---|---|---|---|\n")
	for _, v := range system.Variants {
		var breaks []string
		for _, broken := range v.Breaks {
			breaks = append(breaks, fmt.Sprintf("%s (%s)", broken.Invariant, broken.Under))
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n",
			v.Name, v.Idea, v.Guarantees, v.GivesUp, strings.Join(breaks, ", "))
	}
	return b.String()
}

func invariantTable(system sut.System) string {
	var b strings.Builder
	b.WriteString("| invariant | what must be true |\n|---|---|\n")
	for _, inv := range system.Invariants(system.Params()) {
		fmt.Fprintf(&b, "| `%s` | %s |\n", inv.Name(), inv.Statement())
	}
	return b.String()
}
