package lint_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"go/token"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// The limits of TIGER_STYLE (tigerbeetle/tigerbeetle, docs/TIGER_STYLE.md).
const (
	maxColumns  = 100
	maxFuncLine = 70
)

// rules lists what a tidy Go file is held to.
func rules() []func(*source) []finding {
	return []func(*source) []finding{
		longLines, longFunctions, undocumented, packageNames, initFunctions, packageState,
		globalRandom, sleepingTests, openEnds, unformatted,
	}
}

// TestTidy holds every Go file against the rules.
func TestTidy(t *testing.T) {
	for _, s := range repository(t) {
		for _, rule := range rules() {
			report(t, s, rule(s))
		}
	}
}

// TestPackagesAreDocumented wants the package comment in one file of each
// package.
func TestPackagesAreDocumented(t *testing.T) {
	documented := make(map[string]bool)
	for _, s := range repository(t) {
		if !s.test() {
			documented[s.folder()] = documented[s.folder()] || s.ast.Doc.Text() != ""
		}
	}
	for folder, ok := range documented {
		if !ok {
			t.Errorf("%s: the package has no comment: say in a sentence what it is for", folder)
		}
	}
}

// longLines finds lines that do not fit; a column is a character, as golangci
// counts them. Raw strings (tables, SQL, doc tags)
// and links cannot be broken and are left alone.
func longLines(s *source) []finding {
	if s.generated() {
		return nil
	}
	raw := rawLines(s)
	var found []finding
	for i, line := range s.lines {
		columns := utf8.RuneCountInString(line)
		if columns > maxColumns && !raw[i+1] && !strings.Contains(line, "://") {
			found = append(found, finding{s.path, i + 1, "line",
				fmt.Sprintf("%d columns: break the line at %d", columns, maxColumns)})
		}
	}
	return found
}

// rawLines marks the lines that a raw string touches.
func rawLines(s *source) map[int]bool {
	lines := make(map[int]bool)
	ast.Inspect(s.ast, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && strings.HasPrefix(lit.Value, "`") {
			for line := s.line(lit.Pos()); line <= s.line(lit.End()); line++ {
				lines[line] = true
			}
		}
		return true
	})
	return lines
}

// longFunctions finds functions that ask to be split. In tests the lines of
// tables do not count.
func longFunctions(s *source) []finding {
	var found []finding
	for _, decl := range s.ast.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok || s.generated() {
			continue
		}
		lines := s.line(f.End()) - s.line(f.Pos()) + 1
		if s.test() {
			lines -= tableLines(s, f)
		}
		if lines > maxFuncLine {
			found = append(found, finding{s.path, s.line(f.Pos()), "function",
				fmt.Sprintf("%s has %d lines: split it, at most %d", f.Name.Name, lines, maxFuncLine)})
		}
	}
	return found
}

// tableLines counts the lines inside the outermost composite literals.
func tableLines(s *source, f *ast.FuncDecl) int {
	lines := 0
	ast.Inspect(f, func(n ast.Node) bool {
		lit, ok := n.(*ast.CompositeLit)
		if ok {
			lines += s.line(lit.End()) - s.line(lit.Pos())
		}
		return !ok
	})
	return lines
}

// undocumented finds exported names without a doc comment.
func undocumented(s *source) []finding {
	if s.test() || s.generated() {
		return nil
	}
	var found []finding
	missing := func(name *ast.Ident) {
		found = append(found, finding{s.path, s.line(name.Pos()), "doc",
			fmt.Sprintf("%s is exported and has no comment: say what it is, its units and its errors",
				name.Name)})
	}
	for _, decl := range s.ast.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() && d.Doc.Text() == "" && receiverExported(d) {
				missing(d.Name)
			}
		case *ast.GenDecl:
			for _, name := range undocumentedNames(d) {
				missing(name)
			}
		}
	}
	return found
}

// receiverExported says whether a function, or the type of a method, can be
// seen from outside.
func receiverExported(f *ast.FuncDecl) bool {
	if f.Recv == nil {
		return true
	}
	t := f.Recv.List[0].Type
	for {
		switch inner := t.(type) {
		case *ast.StarExpr:
			t = inner.X
		case *ast.IndexExpr:
			t = inner.X
		case *ast.IndexListExpr:
			t = inner.X
		case *ast.Ident:
			return inner.IsExported()
		default:
			return true
		}
	}
}

// undocumentedNames takes a comment on a group of constants or variables as
// one for all of them.
func undocumentedNames(d *ast.GenDecl) []*ast.Ident {
	var names []*ast.Ident
	for _, spec := range d.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			if spec.Name.IsExported() && d.Doc.Text()+spec.Doc.Text() == "" {
				names = append(names, spec.Name)
			}
		case *ast.ValueSpec:
			if d.Doc.Text()+spec.Doc.Text()+spec.Comment.Text() != "" {
				continue
			}
			for _, name := range spec.Names {
				if name.IsExported() {
					names = append(names, name)
				}
			}
		}
	}
	return names
}

// packageNames refuses names that say nothing.
func packageNames(s *source) []finding {
	vague := []string{
		"base", "common", "helper", "helpers", "lib", "manager", "managers", "misc", "shared",
		"util", "utils",
	}
	name := s.ast.Name
	if !slices.Contains(vague, strings.TrimSuffix(name.Name, "_test")) {
		return nil
	}
	return []finding{{s.path, s.line(name.Pos()), "package",
		fmt.Sprintf("package %s: name it after what it provides", name.Name)}}
}

// initFunctions refuses init, which registers behind the reader's back.
func initFunctions(s *source) []finding {
	var found []finding
	for _, decl := range s.ast.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
			found = append(found, finding{s.path, s.line(f.Pos()), "init",
				"no init functions: export a function and let the caller call it"})
		}
	}
	return found
}

// packageState finds package-level variables that could change. Allowed are
// embedded files, interface assertions (var _ = ...), the results of a few
// constructors of immutable values, and unexported tables: literals that no
// statement of the file writes to. Tests may keep what they like.
func packageState(s *source) []finding {
	if s.test() {
		return nil
	}
	written := writtenNames(s)
	var found []finding
	for _, decl := range s.ast.Decls {
		d, ok := decl.(*ast.GenDecl)
		if !ok || d.Tok != token.VAR {
			continue
		}
		for _, spec := range d.Specs {
			v := spec.(*ast.ValueSpec)
			if embedded(d, v) {
				continue
			}
			for i, name := range v.Names {
				if name.Name != "_" && (written[name.Name] || !constantLike(v, i, name)) {
					found = append(found, finding{s.path, s.line(name.Pos()), "state",
						fmt.Sprintf("%s is package-level state: pass it in or return it from a function",
							name.Name)})
				}
			}
		}
	}
	return found
}

func embedded(d *ast.GenDecl, v *ast.ValueSpec) bool {
	for _, group := range []*ast.CommentGroup{d.Doc, v.Doc} {
		if group == nil {
			continue
		}
		for _, c := range group.List {
			if strings.HasPrefix(c.Text, "//go:embed ") {
				return true
			}
		}
	}
	return false
}

// constantLike says whether the i-th variable is a value that stays as it is.
func constantLike(v *ast.ValueSpec, i int, name *ast.Ident) bool {
	if i >= len(v.Values) {
		return false // declared to be filled in later
	}
	switch value := v.Values[i].(type) {
	case *ast.CallExpr:
		return immutable(value)
	case *ast.CompositeLit:
		_, array := value.Type.(*ast.ArrayType)
		_, dictionary := value.Type.(*ast.MapType)
		return !name.IsExported() && (array || dictionary)
	case *ast.BasicLit:
		return !name.IsExported()
	}
	return false
}

// immutable lists the constructors whose results cannot change.
func immutable(call *ast.CallExpr) bool {
	switch selector(call.Fun) {
	case "errors.New", "fmt.Errorf", "sut.Refusal", "sut.Failure",
		"regexp.MustCompile", "strings.NewReplacer", "sync.OnceValue", "template.Must":
		return true
	}
	return false
}

// selector is "pkg.Name" for such an expression, else "".
func selector(e ast.Expr) string {
	if s, ok := e.(*ast.SelectorExpr); ok {
		if x, ok := s.X.(*ast.Ident); ok {
			return x.Name + "." + s.Sel.Name
		}
	}
	return ""
}

// writtenNames lists the names that some statement of the file assigns to, or
// whose address it takes. A local variable of the same name counts as well:
// two things should not have one name.
func writtenNames(s *source) map[string]bool {
	written := make(map[string]bool)
	note := func(e ast.Expr) {
		for {
			switch inner := e.(type) {
			case *ast.IndexExpr:
				e = inner.X
			case *ast.SelectorExpr:
				e = inner.X
			case *ast.ParenExpr:
				e = inner.X
			case *ast.Ident:
				written[inner.Name] = true
				return
			default:
				return
			}
		}
	}
	ast.Inspect(s.ast, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			if n.Tok != token.DEFINE {
				for _, left := range n.Lhs {
					note(left)
				}
			}
		case *ast.IncDecStmt:
			note(n.X)
		case *ast.UnaryExpr:
			if n.Op == token.AND {
				note(n.X)
			}
		case *ast.CallExpr:
			if f, ok := n.Fun.(*ast.Ident); ok && len(n.Args) > 0 &&
				(f.Name == "clear" || f.Name == "delete" || f.Name == "copy") {
				note(n.Args[0])
			}
		}
		return true
	})
	return written
}

// globalRandom finds uses of the shared source of math/rand/v2, which no seed
// reproduces.
func globalRandom(s *source) []finding {
	name := importName(s, "math/rand/v2", "rand")
	if name == "" {
		return nil
	}
	seeded := []string{
		"New", "NewChaCha8", "NewPCG", "NewZipf", "ChaCha8", "PCG", "Rand", "Source", "Zipf",
	}
	var found []finding
	ast.Inspect(s.ast, func(n ast.Node) bool {
		e, ok := n.(ast.Expr)
		if !ok {
			return true
		}
		used, ok := strings.CutPrefix(selector(e), name+".")
		if ok && !slices.Contains(seeded, used) {
			found = append(found, finding{s.path, s.line(n.Pos()), "random",
				fmt.Sprintf("rand.%s draws from the global source: use a seeded *rand.Rand", used)})
		}
		return true
	})
	return found
}

// importName is the name under which the file imports a package, or "".
func importName(s *source, target, usual string) string {
	for _, spec := range s.ast.Imports {
		if spec.Path.Value != `"`+target+`"` {
			continue
		}
		if spec.Name != nil {
			return spec.Name.Name
		}
		return usual
	}
	return ""
}

// sleepingTests finds tests that hope that something has happened by now. A
// sleep in a loop is polling, and one in a synctest bubble costs no time.
func sleepingTests(s *source) []finding {
	if !s.test() {
		return nil
	}
	var found []finding
	var stack []ast.Node
	ast.Inspect(s.ast, func(n ast.Node) bool {
		if n == nil {
			stack = stack[:len(stack)-1]
			return true
		}
		if call, ok := n.(*ast.CallExpr); ok && selector(call.Fun) == "time.Sleep" &&
			!slices.ContainsFunc(stack, waits) {
			found = append(found, finding{s.path, s.line(n.Pos()), "sleep",
				"a test must not sleep: poll with a deadline, or use testing/synctest"})
		}
		stack = append(stack, n)
		return true
	})
	return found
}

// waits says whether a node makes a sleep in it harmless.
func waits(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.ForStmt:
		return true
	case *ast.CallExpr:
		return selector(n.Fun) == "synctest.Test"
	}
	return false
}

// openEnd matches the start of a comment that puts something off. One that
// says why, in brackets, is fine.
var openEnd = regexp.MustCompile(`^[/*\s]*(TO` + `DO|FIX` + `ME|XX` + `X|HA` + `CK)\b(\([^)]+\))?`)

// openEnds finds work put off without a reason.
func openEnds(s *source) []finding {
	var found []finding
	for _, group := range s.ast.Comments {
		for _, c := range group.List {
			for i, line := range strings.Split(c.Text, "\n") {
				if m := openEnd.FindStringSubmatch(line); m != nil && m[2] == "" {
					found = append(found, finding{s.path, s.line(c.Pos()) + i, "open-end",
						m[1] + " without a reason: do it, or write " + m[1] + "(why not now): what"})
				}
			}
		}
	}
	return found
}

// unformatted finds files that gofmt would change.
func unformatted(s *source) []finding {
	want, err := format.Source(s.text)
	if err == nil && bytes.Equal(want, s.text) {
		return nil
	}
	return []finding{{s.path, 1, "format", "not formatted: run gofmt -w"}}
}

// homePath matches folders that exist on one machine only.
var homePath = regexp.MustCompile(
	`(^|[\s=(:` + "`" + `]|[\s=(:,\[{]["'])/(home|Users|root|work)/[A-Za-z0-9._-]+`)

// TestNoPathsOfOneMachine looks at every text file, not only at Go.
func TestNoPathsOfOneMachine(t *testing.T) {
	walk(t, func(name string, text []byte) {
		for i, line := range strings.Split(string(text), "\n") {
			if homePath.MatchString(line) && !directive.MatchString(line) {
				t.Errorf("%s:%d: a path of one machine: make it relative or a parameter:\n\t%s",
					name, i+1, strings.TrimSpace(line))
			}
		}
	}, ".go", ".md", ".yaml", ".yml", ".sh", ".json", ".sql", ".txtar", ".conf", ".mod", ".gohtml",
		"Makefile", "Dockerfile", "run")
}

func TestHomePath(t *testing.T) {
	for text, want := range map[string]bool{
		"cd /ho" + "me/ann/stampede": true,
		`open("/Us` + `ers/ann/x")`:  true,
		"DIR=/ro" + "ot/go":          true,
		"runs/home/x":                false,
		"https://example.org/home/":  false,
		"/home":                      false,
		"/rooted/x":                  false,
	} {
		if homePath.MatchString(text) != want {
			t.Errorf("%q: want %v", text, want)
		}
	}
}
