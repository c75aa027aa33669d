// Package scenarios holds the scenario files that come with stampede: one
// question each, asked of one system.
package scenarios

import (
	"embed"
	"fmt"
	"path"
	"strings"
)

//go:embed *.yaml
var files embed.FS

//go:embed schema.json
var schema []byte

// All returns the names of the scenarios in alphabetical order.
func All() []string {
	entries, err := files.ReadDir(".")
	if err != nil {
		panic(fmt.Sprintf("scenarios: read the embedded folder: %v", err)) // cannot happen
	}
	names := make([]string, len(entries))
	for i, entry := range entries {
		names[i] = strings.TrimSuffix(entry.Name(), ".yaml")
	}
	return names
}

// Source returns the file of a scenario and its file name. ok is false if
// there is no scenario by that name.
func Source(name string) (src []byte, filename string, ok bool) {
	filename = name + ".yaml"
	if path.Base(filename) != filename {
		return nil, "", false
	}
	src, err := files.ReadFile(filename)
	if err != nil {
		return nil, "", false
	}
	return src, "scenarios/" + filename, true
}

// Schema returns the JSON Schema of scenario files, for editors.
func Schema() []byte { return append([]byte(nil), schema...) }
