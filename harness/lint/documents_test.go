package lint_test

import (
	"go/ast"
	"regexp"
	"strings"
	"testing"
)

// testName matches the name of a test in a document; a subtest may follow it.
var testName = regexp.MustCompile(`\b(?:Test|Benchmark|Fuzz)[A-Z]\w*`)

// TestDocumentsNameDeclaredTests: a reader who looks for a named test finds it. The changelog and
// the decisions name the tests of their time.
func TestDocumentsNameDeclaredTests(t *testing.T) {
	declared := make(map[string]bool)
	for _, s := range repository(t) {
		for _, decl := range s.ast.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && s.test() {
				declared[f.Name.Name] = true
			}
		}
	}
	walk(t, func(file string, text []byte) {
		for _, name := range testName.FindAllString(string(text), -1) {
			if !declared[name] && file != "CHANGELOG.md" && !strings.HasPrefix(file, "docs/decisions/") {
				t.Errorf("%s: no test is called %s: name the one that shows this now", file, name)
			}
		}
	}, ".md")
}
