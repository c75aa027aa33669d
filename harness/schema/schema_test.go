package schema_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"stampede/harness/schema"
	"stampede/harness/schema/schematest"
)

type leaf struct {
	On   bool    `json:"on"`
	Rate float64 `json:"rate,omitempty" doc:"operations per second"`
}

type whole struct {
	Name   string            `json:"name"`
	Count  uint8             `json:"count"`
	Delta  int               `json:"delta,omitempty"`
	At     time.Time         `json:"at"`
	Leaf   leaf              `json:"leaf"`
	Leaves []leaf            `json:"leaves"`
	Pair   *[2]int           `json:"pair,omitempty"`
	Tags   map[string]string `json:"tags,omitempty"`
	Any    json.RawMessage   `json:"any,omitempty"`
	Hidden string            `json:"-"`
	Plain  string
}

func compile(t *testing.T, s schema.Schema) schematest.Schema {
	t.Helper()
	text, err := s.Encode("https://stampede.invalid/test.json", "a test")
	if err != nil {
		t.Fatal(err)
	}
	return schematest.Compile(t, text)
}

func of(t *testing.T, b schema.Builder, v any) schema.Schema {
	t.Helper()
	s, err := b.Of(reflect.ValueOf(v))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestWhatIsEncodedValidates draws values and validates their JSON.
func TestWhatIsEncodedValidates(t *testing.T) {
	s := compile(t, of(t, schema.Builder{Required: true}, whole{}))
	rapid.Check(t, func(t *rapid.T) {
		v := whole{
			Name: rapid.String().Draw(t, "name"), Count: rapid.Uint8().Draw(t, "count"),
			Delta: rapid.Int().Draw(t, "delta"), At: time.Unix(rapid.Int64Range(0, 1e9).Draw(t, "at"), 0),
			Leaves: make([]leaf, rapid.IntRange(0, 3).Draw(t, "leaves")),
			Tags:   rapid.MapOf(rapid.String(), rapid.String()).Draw(t, "tags"),
			Any:    json.RawMessage(rapid.SampledFrom([]string{"1", `{"a": []}`, "null"}).Draw(t, "any")),
		}
		if rapid.Bool().Draw(t, "pair") {
			v.Pair = &[2]int{1, 2}
		}
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.JSON(text); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	})
}

func TestWhatDoesNotFitFails(t *testing.T) {
	s := compile(t, of(t, schema.Builder{Required: true}, whole{}))
	good := `{"name": "a", "count": 1, "at": "2026-11-21T12:00:00Z", "leaf": {"on": true},
		"leaves": [{"on": false, "rate": 1.5}], "pair": [1, 2], "tags": {"a": "b"}, "Plain": ""}`
	if err := s.JSON([]byte(good)); err != nil {
		t.Fatal(err)
	}
	for _, change := range [][2]string{
		{`"name": "a", `, ``},
		{`"name": "a"`, `"name": 1`},
		{`"name": "a"`, `"name": "a", "inner": 1`},
		{`"name": "a"`, `"name": "a", "Hidden": "b"`},
		{`"count": 1`, `"count": -1`},
		{`"count": 1`, `"count": 1.5`},
		{`{"on": true}`, `{}`},
		{`{"on": true}`, `{"on": true, "off": false}`},
		{`[{"on": false`, `[{"on": "no"`},
		{`[1, 2]`, `[1]`},
		{`[1, 2]`, `[1, 2, 3]`},
		{`{"a": "b"}`, `{"a": 1}`},
		{`"leaves": [`, `"leaves": null, "x": [`},
	} {
		bad := strings.Replace(good, change[0], change[1], 1)
		if bad == good || s.JSON([]byte(bad)) == nil {
			t.Errorf("validates: %s", bad)
		}
	}
}

func TestDefaultsAndDescriptions(t *testing.T) {
	s := of(t, schema.Builder{Defaults: true, Zeros: true}, whole{Count: 7, Leaf: leaf{Rate: 2.5}})
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"count":{"default":7,"minimum":0,"type":"integer"}`,
		`"rate":{"default":2.5,"description":"operations per second","type":"number"}`,
		`"leaves":{"items":{`, // no default where there is none
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
	if strings.Contains(string(text), "required") {
		t.Errorf("fields are required in %s", text)
	}
}

func TestPatchAllowsLessAndNull(t *testing.T) {
	s := compile(t, of(t, schema.Builder{Required: true}, whole{}).Patch())
	for text, good := range map[string]bool{
		`{}`:                           true,
		`{"name": null, "leaf": null}`: true,
		`{"leaf": {"rate": null}}`:     true,
		`{"tags": {"a": null}}`:        true,
		`{"leaves": [{"on": true}]}`:   true,
		`{"leaves": [{"on": null}]}`:   false,
		`{"leaves": [{}]}`:             false,
		`{"nmae": null}`:               false,
		`{"leaf": {"rate": "fast"}}`:   false,
		`{"name": 1}`:                  false,
	} {
		if err := s.JSON([]byte(text)); (err == nil) != good {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestTypesWithoutASchema(t *testing.T) {
	type recursive struct {
		Inner []recursive `json:"inner"`
	}
	for want, v := range map[string]any{
		"recursive":              recursive{},
		"has no place in JSON":   struct{ C chan int }{},
		"keys that are not text": struct{ M map[int]int }{},
		"func() has no place":    struct{ F []func() }{},
	} {
		if _, err := (&schema.Builder{}).Of(reflect.ValueOf(v)); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%T: got %v, want %q in it", v, err, want)
		}
	}
}

func TestReadDocs(t *testing.T) {
	root := t.TempDir()
	folder := filepath.Join(root, "a", "b")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	text := `package b

// T is a type
// on two lines.
type T struct {
	// F has a comment, and so
	// has G.
	F, G int
	H int // H has one behind it.
	I int
}
`
	if err := os.WriteFile(filepath.Join(folder, "b.go"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	docs, err := schema.ReadDocs("m", root, "a/b")
	if err != nil {
		t.Fatal(err)
	}
	want := schema.Docs{
		"m/a/b.T":   "T is a type on two lines.",
		"m/a/b.T.F": "F has a comment, and so has G.",
		"m/a/b.T.G": "F has a comment, and so has G.",
		"m/a/b.T.H": "H has one behind it.",
	}
	if !reflect.DeepEqual(docs, want) {
		t.Errorf("got %v", docs)
	}
	if _, err := schema.ReadDocs("m", root, "nowhere"); err == nil {
		t.Error("a folder without Go files has no comments, and says nothing")
	}
}
