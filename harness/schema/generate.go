package schema

import (
	"fmt"
	"os"
)

// Semver is the pattern of a version of three numbers, as documents carry theirs.
const Semver = `^[0-9]+\.[0-9]+\.[0-9]+$`

// Made is a schema as it is made from types with the comments of some packages, folders
// of the module that lies at root.
func Made(root string, of func(Docs) ([]byte, error), packages ...string) ([]byte, error) {
	docs, err := ReadDocs("stampede", root, packages...)
	if err != nil {
		return nil, err
	}
	return of(docs)
}

// Generate writes what is Made into a file of the folder that a generator runs in.
func Generate(file, root string, of func(Docs) ([]byte, error), packages ...string) error {
	text, err := Made(root, of, packages...)
	if err != nil {
		return err
	}
	if err := os.WriteFile(file, text, 0o644); err != nil {
		return fmt.Errorf("write schema: %w", err)
	}
	return nil
}
