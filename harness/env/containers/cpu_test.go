package containers

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestFindUsage: both versions of control groups say what a container has used, and of a
// process that is not the container's nobody believes anything.
func TestFindUsage(t *testing.T) {
	const id = "cc043f3501ca"
	for name, c := range map[string]struct {
		groups, file, says string
		want               time.Duration
	}{
		"version 2": {"0::/system.slice/docker-" + id + ".scope\n",
			"system.slice/docker-" + id + ".scope/cpu.stat",
			"usage_usec 2500\nuser_usec 2000\nsystem_usec 500\n", 2500 * time.Microsecond},
		"version 1": {"4:memory:/docker/" + id + "\n2:cpu,cpuacct:/docker/" + id + "\n0::/docker/" + id,
			"cpu,cpuacct/docker/" + id + "/cpuacct.usage", "45065140\n", 45065140},
		"another container": {"0::/docker/0123456789ab\n", "docker/0123456789ab/cpu.stat",
			"usage_usec 7\n", 0},
		"nobody's":   {"0::/user.slice\n", "user.slice/cpu.stat", "usage_usec 7\n", 0},
		"no number":  {"0::/docker/" + id, "docker/" + id + "/cpu.stat", "usage_usec many\n", 0},
		"no usage":   {"0::/docker/" + id, "docker/" + id + "/cpu.stat", "nr_periods 7\n", 0},
		"not a file": {"0::/docker/" + id, "docker/" + id + "/cpu.stat/x", "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for file, text := range map[string]string{
				"proc/17/cgroup": c.groups, "sys/fs/cgroup/" + c.file: c.says} {
				path := filepath.Join(root, file)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			found, err := findUsage(root, 17, id)
			if c.want == 0 {
				if err == nil || !strings.Contains(err.Error(), id) {
					t.Fatalf("it found %+v, %v", found, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if used, err := found.read(); err != nil || used != c.want {
				t.Errorf("used %v, %v, want %v", used, err, c.want)
			}
			if _, err := findUsage(root, 18, id); err == nil {
				t.Error("there is no process 18")
			}
		})
	}
}
