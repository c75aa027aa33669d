package sweep_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"stampede/harness/env/sweep"
)

func TestAllRemovesWhatIsAbandoned(t *testing.T) {
	root := t.TempDir()
	t.Setenv("STAMPEDE_DATA_DIR", root)
	t.Setenv("DOCKER_HOST", "tcp://127.0.0.1:9") // no engine: nothing of it is swept
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	dead := filepath.Join(root, "stampede-dead-1")
	if err := os.Mkdir(dead, 0o755); err != nil {
		t.Fatal(err)
	}
	owner := `{"pid":1,"started_ticks":987654321987,"host":"` + host + `"}`
	if err := os.WriteFile(filepath.Join(dead, "owner.json"), []byte(owner), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		dry  bool
		want []string
	}{{true, []string{dead}}, {false, []string{dead}}, {false, nil}} {
		removed, err := sweep.All(t.Context(), c.dry)
		if err != nil || !slices.Equal(removed, c.want) {
			t.Errorf("dry is %v: removed %v, %v, want %v", c.dry, removed, err, c.want)
		}
	}
}
