package compare

import (
	_ "embed" // compare.schema.json
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strings"

	"stampede/harness/rundir"
	"stampede/harness/schema"
)

// ComparisonVersion is the version of what JSON writes, ComparisonSchemaID the
// identifier of its schema.
const (
	ComparisonVersion  = "1.1.0"
	ComparisonSchemaID = "https://stampede.invalid/schema/compare-1.json"
)

//go:embed compare.schema.json
var comparisonSchema []byte

// Schema returns the committed JSON Schema of what JSON writes.
func Schema() []byte { return append([]byte(nil), comparisonSchema...) }

// MakeSchema makes the JSON Schema of what JSON writes from the types.
func MakeSchema(docs schema.Docs) ([]byte, error) {
	special := rundir.SpecialSchemas()
	special[reflect.TypeFor[Median]()] = schema.Schema{"type": []string{"number", "null"}}
	special[reflect.TypeFor[verdictSlug]()] = schema.Schema{"enum": []verdictSlug{
		slugOf(wordWorse), slugOf(wordUnlike), slugOf(wordRegression), slugOf(wordTooFew),
		slugOf(wordNoWorse), slugOf(wordSame)}}
	b := &schema.Builder{Docs: docs, Required: true, Special: special}
	root, err := b.Of(reflect.ValueOf(compareDocument{}))
	if err != nil {
		return nil, err
	}
	root.Property("schema_version")["pattern"] = schema.Semver
	return root.Encode(ComparisonSchemaID, "stampede compare")
}

// compareDocument is what JSON writes.
type compareDocument struct {
	// SchemaVersion is ComparisonVersion. A change of the major number breaks readers.
	SchemaVersion string `json:"schema_version"`
	// Comparisons has one for each candidate, all with the first run.
	Comparisons []compareVerdict `json:"comparisons"`
}

type compareVerdict struct {
	// Verdict says what the comparison came to.
	Verdict verdictSlug `json:"verdict"`
	Comparison
}

// verdictSlug is the word that a comparison is known by, in lower case with hyphens.
type verdictSlug string

func slugOf(word string) verdictSlug {
	return verdictSlug(strings.ReplaceAll(strings.ToLower(word), " ", "-"))
}

// JSON writes comparisons of candidates with one base as one document. Times are in
// nanoseconds; a median that is infinite is null. Runs that cannot be compared have no
// regressions.
func JSON(w io.Writer, acrossMachines bool, comparisons ...Comparison) error {
	doc := compareDocument{SchemaVersion: ComparisonVersion, Comparisons: []compareVerdict{}}
	for _, c := range comparisons {
		word := slugOf(c.mark(acrossMachines).Word)
		if len(c.unlike(acrossMachines)) > 0 {
			c.Regressions = nil // the times prove nothing
		}
		doc.Comparisons = append(doc.Comparisons, compareVerdict{word, c})
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(doc); err != nil {
		return fmt.Errorf("write comparison: %w", err)
	}
	return nil
}
