package views_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"stampede/systems/views"
)

// variantTable is the table of the variants as their files state them.
func variantTable() string {
	var b strings.Builder
	b.WriteString("| variant | idea | guarantees | gives up | breaks |\n|---|---|---|---|---|\n")
	for _, v := range views.System().Variants {
		var breaks []string
		for _, broken := range v.Breaks {
			breaks = append(breaks, fmt.Sprintf("%s (%s)", broken.Invariant, broken.Under))
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n",
			v.Name, v.Idea, v.Guarantees, v.GivesUp, strings.Join(breaks, ", "))
	}
	return b.String()
}

// invariantTable is the table of the invariants as they state themselves.
func invariantTable() string {
	var b strings.Builder
	b.WriteString("| invariant | what must be true |\n|---|---|\n")
	for _, inv := range views.Invariants(views.DefaultParams()) {
		fmt.Fprintf(&b, "| `%s` | %s |\n", inv.Name(), inv.Statement())
	}
	return b.String()
}

// TestReadme: the tables say what the code says. On a failure, replace what is
// between the marks by what is printed.
func TestReadme(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for mark, want := range map[string]string{
		"variants": variantTable(), "invariants": invariantTable(),
	} {
		_, rest, _ := strings.Cut(string(text), "<!-- "+mark+":")
		_, rest, _ = strings.Cut(rest, "-->\n")
		got, _, _ := strings.Cut(rest, "<!-- /"+mark)
		if got != want {
			t.Errorf("between the marks of %s there must be:\n%s", mark, want)
		}
	}
	for path := range readAPI(t).Paths {
		if !strings.Contains(string(text), path+"`") {
			t.Errorf("the API's table has no %s", path)
		}
	}
}
