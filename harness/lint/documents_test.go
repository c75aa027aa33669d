package lint_test

import (
	"go/ast"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// testName matches the name of a test in a document; a subtest may follow it.
var testName = regexp.MustCompile(`\b(?:Test|Benchmark|Fuzz)[A-Z]\w*`)

// TestDocumentsNameDeclaredTests: a reader finds a named test in the document's folder, or in one
// that its line names. The changelog and the decisions name the tests of their time.
func TestDocumentsNameDeclaredTests(t *testing.T) {
	declared := make(map[string][]string)
	for _, s := range repository(t) {
		for _, decl := range s.ast.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && s.test() {
				declared[f.Name.Name] = append(declared[f.Name.Name], s.folder())
			}
		}
	}
	walk(t, func(file string, text []byte) {
		if file == "CHANGELOG.md" || strings.HasPrefix(file, "docs/decisions/") {
			return
		}
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "func ") { // an example declares its own
				continue
			}
			for _, name := range testName.FindAllString(line, -1) {
				if !slices.ContainsFunc(declared[name], func(folder string) bool {
					return within(folder, path.Dir(file)) || strings.Contains(line, folder)
				}) {
					t.Errorf("%s: there is no %s: name the test that shows this, or its folder", file, name)
				}
			}
		}
	}, ".md")
}
