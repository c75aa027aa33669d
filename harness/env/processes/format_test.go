package processes

import (
	"os"
	"path/filepath"
	"testing"

	"stampede/harness/env"
	"stampede/harness/sut"
)

// TestFormatWithoutTheTool: a folder is made of the records that are kept beside the jars, without
// Java, unless a setting may change them.
func TestFormatWithoutTheTool(t *testing.T) {
	program := Program{Path: filepath.Join(t.TempDir(), "jars"), Java: "/no/java"}
	if err := os.WriteFile(program.Path+".checkpoint", []byte("records"), 0o600); err != nil {
		t.Fatal(err)
	}
	format := func(settings map[string]string) (dir string, err error) {
		spec := env.Spec{Kafka: sut.DefaultKafka()}
		spec.Kafka.Settings = settings
		recipes, err := kafkaRecipes(program, spec, nil)
		if err != nil {
			t.Fatal(err)
		}
		dir = t.TempDir()
		return filepath.Join(dir, brokerData), recipes[0].kafka.format(t.Context(), program, nil, dir)
	}
	ids := map[string]bool{}
	for range 100 {
		dir, err := format(nil)
		if err != nil {
			t.Fatal(err)
		}
		records, err := os.ReadFile(filepath.Join(dir, checkpoint))
		if err != nil || string(records) != "records" {
			t.Fatalf("the records are %q (%v)", records, err)
		}
		meta, err := os.ReadFile(filepath.Join(dir, "meta.properties"))
		if err != nil {
			t.Fatal(err)
		}
		ids[string(meta)] = true
	}
	if len(ids) != 100 {
		t.Errorf("100 folders have %d identities", len(ids))
	}
	if _, err := format(map[string]string{"unstable.feature.versions.enable": "true"}); err == nil {
		t.Error("a setting that may change the records was not seen by the tool")
	}
}
