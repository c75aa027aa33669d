package schema

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"reflect"
	"strings"
)

// Docs has the doc comments of types and of their fields, by
// "import/path.Type" and "import/path.Type.Field".
type Docs map[string]string

// Of is the comment of a type, on one line.
func (d Docs) Of(t reflect.Type) string { return d[t.PkgPath()+"."+t.Name()] }

// Field is the comment of a field, on one line.
func (d Docs) Field(t reflect.Type, name string) string {
	return d[t.PkgPath()+"."+t.Name()+"."+name]
}

// ReadDocs reads the comments of packages. root is the folder of the module,
// packages are folders in it, slash-separated. It parses source, so it is for
// generators; a program at work has its schemas embedded.
func ReadDocs(module, root string, packages ...string) (Docs, error) {
	docs := make(Docs)
	for _, folder := range packages {
		files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(folder), "*.go"))
		if err != nil {
			return nil, fmt.Errorf("read comments: %w", err)
		}
		if len(files) == 0 {
			return nil, fmt.Errorf("read comments: no Go files in %s", filepath.Join(root, folder))
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil,
				parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				return nil, fmt.Errorf("read comments: %w", err)
			}
			docs.add(path.Join(module, folder), parsed)
		}
	}
	return docs, nil
}

func (d Docs) add(pkg string, file *ast.File) {
	for _, decl := range file.Decls {
		general, ok := decl.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range general.Specs {
			named, ok := spec.(*ast.TypeSpec)
			if !ok {
				continue
			}
			name := pkg + "." + named.Name.Name
			d.put(name, named.Doc, general.Doc)
			if structure, ok := named.Type.(*ast.StructType); ok {
				d.addFields(name, structure)
			}
		}
	}
}

func (d Docs) addFields(name string, structure *ast.StructType) {
	for _, f := range structure.Fields.List {
		for _, ident := range f.Names {
			d.put(name+"."+ident.Name, f.Doc, f.Comment)
		}
	}
}

// put keeps the first comment that has text.
func (d Docs) put(name string, comments ...*ast.CommentGroup) {
	for _, c := range comments {
		if text := strings.Join(strings.Fields(c.Text()), " "); text != "" {
			d[name] = text
			return
		}
	}
}
