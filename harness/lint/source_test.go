package lint_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// module is the path of the module, root its folder as seen from here.
const (
	module = "stampede"
	root   = "../.."
)

// source is one parsed Go file.
type source struct {
	// path is slash-separated, from the module's root.
	path  string
	text  []byte
	fset  *token.FileSet
	ast   *ast.File
	lines []string
}

// parse reads a file from memory.
func parse(name string, text []byte) (*source, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	return &source{
		path: name, text: text, fset: fset, ast: file, lines: strings.Split(string(text), "\n"),
	}, nil
}

// folder is the file's package path in the module, "." for the root.
func (s *source) folder() string { return path.Dir(s.path) }

func (s *source) test() bool { return strings.HasSuffix(s.path, "_test.go") }

// generated follows https://go.dev/s/generatedcode.
func (s *source) generated() bool { return ast.IsGenerated(s.ast) }

func (s *source) line(p token.Pos) int { return s.fset.Position(p).Line }

// finding is one violation.
type finding struct {
	path string
	line int
	rule string
	// text says what is wrong and how to fix it.
	text string
}

func (f finding) String() string {
	return fmt.Sprintf("%s:%d: %s [%s]", f.path, f.line, f.text, f.rule)
}

// directive is an exception with its reason.
var directive = regexp.MustCompile(`// tidy: ([a-z-]+): \S+`)

// excepted says whether the finding's line, or the one above, has a directive
// for its rule.
func (s *source) excepted(f finding) bool {
	for _, n := range []int{f.line, f.line - 1} {
		if n < 1 || n > len(s.lines) {
			continue
		}
		if m := directive.FindStringSubmatch(s.lines[n-1]); m != nil && m[1] == f.rule {
			return true
		}
	}
	return false
}

// skipped are folders whose files are not ours to judge.
func skipped(name string) bool {
	return slices.Contains([]string{".git", "bin", "node_modules", "runs", "testdata"}, name)
}

// walk calls visit for every file of the repository whose name has one of
// the suffixes.
func walk(t *testing.T, visit func(name string, text []byte), suffixes ...string) {
	t.Helper()
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if file != root && skipped(entry.Name()) {
				return fs.SkipDir
			}
			return nil
		}
		if !entry.Type().IsRegular() || !slices.ContainsFunc(suffixes, func(suffix string) bool {
			return strings.HasSuffix(entry.Name(), suffix)
		}) {
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		visit(filepath.ToSlash(name), text)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// repository parses every Go file.
func repository(t *testing.T) []*source {
	t.Helper()
	var all []*source
	walk(t, func(name string, text []byte) {
		s, err := parse(name, text)
		if err != nil {
			t.Error(err)
			return
		}
		all = append(all, s)
	}, ".go")
	if len(all) < 20 {
		t.Fatalf("found %d Go files: this is not the repository", len(all))
	}
	return all
}

// report fails the test for every finding that has no exception.
func report(t *testing.T, s *source, findings []finding) {
	t.Helper()
	for _, f := range findings {
		if !s.excepted(f) {
			t.Error(f)
		}
	}
}

// mustFind runs a check on a file given as text and compares what it finds:
// want has the line of each finding.
func mustFind(t *testing.T, name, text string, check func(*source) []finding, want ...int) {
	t.Helper()
	s, err := parse(name, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var got []int
	for _, f := range check(s) {
		if !s.excepted(f) {
			got = append(got, f.line)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s: findings on lines %v, want %v, in\n%s", name, got, want, numbered(text))
	}
}

func numbered(text string) string {
	var b bytes.Buffer
	for i, line := range strings.Split(text, "\n") {
		fmt.Fprintf(&b, "%3d %s\n", i+1, line)
	}
	return b.String()
}
