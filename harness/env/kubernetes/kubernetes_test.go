package kubernetes

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stampede/harness/env"
)

func batchOf(n int, ended func(int, string)) env.Batch {
	return env.Batch{RunID: "0a1b2c3d", Name: "design.0", Count: n, Plan: []byte("token: hush"),
		Within: 10 * time.Minute, Ended: ended}
}

func placedOn(t *testing.T, b env.Batch) *placed {
	t.Helper()
	p, err := Engine{Image: "stampede@sha256:0"}.Start(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return p.(*placed)
}

// TestStartAndStop: the Job is as a load needs it, only the Secret has the plan, it goes with the
// Job, and of both nothing is left, although the API server cannot delete it at first and is slow.
func TestStartAndStop(t *testing.T) {
	a := serving(t)
	a.slow, a.failing = 2, 1
	p := placedOn(t, batchOf(4, nil))
	job, held := a.jobs[p.name], a.secrets[p.name]
	spec := job.Spec
	if *spec.Completions != 4 || *spec.Parallelism != 4 ||
		*spec.CompletionMode != batch.IndexedCompletion ||
		spec.BackoffLimitPerIndex == nil || *spec.BackoffLimitPerIndex != 0 || spec.BackoffLimit != nil ||
		*spec.ActiveDeadlineSeconds != 600 || *spec.TTLSecondsAfterFinished <= 0 ||
		spec.Template.Spec.RestartPolicy != core.RestartPolicyNever {
		t.Errorf("the Job is %+v", spec)
	}
	if text, err := json.Marshal(job); err != nil || strings.Contains(string(text), "hush") {
		t.Errorf("the Job holds the plan (%v): %s", err, text)
	}
	if string(held.Data[planFile]) != "token: hush" || held.OwnerReferences[0].UID != job.UID {
		t.Errorf("the Secret is %+v", held)
	}
	for _, has := range []map[string]string{job.Labels, spec.Template.Labels, held.Labels} {
		if has[env.RunLabel] != "0a1b2c3d" || has[env.ClusterLabel] != p.name {
			t.Errorf("labels %v", has)
		}
	}
	for range 2 {
		if err := p.Stop(t.Context()); err != nil || a.left() != 0 {
			t.Errorf("%d objects are left: %v", a.left(), err)
		}
	}
}

// TestAFailedStartLeavesNothing: no Job waits for a Secret that could not be made.
func TestAFailedStartLeavesNothing(t *testing.T) {
	a := serving(t)
	a.denied = []string{"POST secrets"}
	_, err := Engine{}.Start(t.Context(), batchOf(2, nil))
	const want = "POST secrets is refused"
	if err == nil || !strings.HasPrefix(err.Error(), want) || a.left() != 0 {
		t.Errorf("%d objects are left: %v", a.left(), err)
	}
}

// TestAvailable: what a run needs is tried without effect, and what is missing is one clear error.
func TestAvailable(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*testing.T, *api)
		want   string
	}{
		"all is there": {func(*testing.T, *api) {}, ""},
		"no Jobs":      {deny("POST jobs"), "POST jobs is refused (docker/kubernetes/rbac"},
		"no Secrets":   {deny("POST secrets"), "POST secrets is refused"},
		"no pods":      {deny("GET pods"), "GET pods is refused"},
		"no reading":   {deny("GET jobs"), "GET jobs is refused"},
		"no removing":  {deny("DELETE jobs"), "DELETE jobs is refused"},
		"old":          {func(_ *testing.T, a *api) { a.old = true }, "is older than 1.29"},
		"no answer": {func(t *testing.T, _ *api) { configure(t, "https://127.0.0.1:1") },
			"the Kubernetes at https://127.0.0.1:1 does not answer: dial tcp 127.0.0.1:1: connect: "},
		"no file": {func(t *testing.T, _ *api) { t.Setenv("KUBECONFIG", t.TempDir()+"/none") },
			"no Kubernetes is configured: KUBECONFIG names"},
		"a bad file": {func(t *testing.T, _ *api) { t.Setenv("KUBECONFIG", badFile(t)) },
			"read where the Kubernetes is: "},
	} {
		t.Run(name, func(t *testing.T) {
			a := serving(t)
			c.change(t, a)
			err := Engine{}.Available(t.Context())
			if (c.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if a.left() != 0 {
				t.Errorf("%d objects were made", a.left())
			}
		})
	}
}

func deny(what string) func(*testing.T, *api) {
	return func(_ *testing.T, a *api) { a.denied = []string{what} }
}

func badFile(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, []byte("clusters: 7\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestResolve is the namespace that was asked for, or the context's, and that context: another
// one that becomes the current one later is not used.
func TestResolve(t *testing.T) {
	serving(t)
	for given, want := range map[string]string{"": "loads", "other": "other"} {
		got, err := Place{Namespace: given}.Resolve()
		if err != nil || got != (Place{Context: "c", Namespace: want}) {
			t.Errorf("%q is %q (%v), want %q", given, got, err, want)
		}
	}
	_, err := Place{Context: "gone"}.Resolve()
	if err == nil || !strings.Contains(err.Error(), "gone") {
		t.Errorf("a context that is not there: %v", err)
	}
}

// TestShow: the objects are those of docker/kubernetes/generators.yaml, which is made of them, and
// no secret is among them.
func TestShow(t *testing.T) {
	const file = "../../../docker/kubernetes/generators.yaml"
	b := batchOf(4, nil)
	b.RunID = "0123abcd"
	shown, err := Engine{Place{Namespace: "stampede"}, "registry.example/stampede@sha256:0123"}.Show(b)
	if err != nil || strings.Contains(shown, "hush") {
		t.Fatalf("%v\n%s", err, shown)
	}
	owner := regexp.MustCompile(`(?m)^( *stampede\.(host|pids?|started_ticks)): .*$`)
	got := "# What \"stampede run --engine kubernetes --generators 4\" creates for each repeat\n" +
		"# of a design, for reading only. --dry-run shows it.\n" + owner.ReplaceAllString(shown, `$1: "0"`)
	if os.Getenv("UPDATE_MANIFESTS") != "" {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || got != string(want) {
		t.Errorf("%s is not what is made (%v); UPDATE_MANIFESTS=1 writes it:\n%s", file, err, got)
	}
}

// jobOf is a Job of a run whose process is an owner.
func jobOf(name string, o env.Owner) batch.Job {
	return batch.Job{ObjectMeta: meta.ObjectMeta{Name: name, UID: "1", Annotations: o.Labels(),
		Labels: map[string]string{env.RunLabel: o.RunID}}}
}

// TestSweep: Jobs of dead runs are removed; Jobs of live runs, of other hosts and without an owner
// stay, and so does one that the cluster is deleting.
func TestSweep(t *testing.T) {
	a := serving(t)
	living, err := env.OwnerOf("living")
	if err != nil {
		t.Fatal(err)
	}
	dead, elsewhere := living, living
	dead.RunID, dead.Started = "dead", living.Started+1
	elsewhere.RunID, elsewhere.Host, elsewhere.Started = "elsewhere", "another", dead.Started
	for _, o := range []env.Owner{living, dead, elsewhere} {
		a.jobs[o.RunID] = jobOf(o.RunID, o)
	}
	a.jobs["unsigned"] = batch.Job{ObjectMeta: meta.ObjectMeta{Name: "unsigned",
		Labels: map[string]string{env.RunLabel: "x"}}}
	going := jobOf("going", dead)
	going.DeletionTimestamp = &meta.Time{Time: time.Now()}
	a.jobs["going"] = going
	for _, dry := range []bool{true, false} {
		removed, left, err := Place{}.Sweep(t.Context(), dry)
		if err != nil || !slices.Equal(removed, []string{"job dead of namespace loads"}) {
			t.Errorf("dry %t: %q, %v", dry, removed, err)
		}
		slices.Sort(left)
		for i, why := range []string{"another host or container, another", "the cluster is deleting it",
			"is alive", "does not say"} {
			if len(left) != 4 || !strings.Contains(left[i], why) {
				t.Errorf("dry %t: left %q, want %q in %d of 4", dry, left, why, i)
			}
		}
		if _, there := a.jobs["dead"]; there != dry || a.left() < 4 {
			t.Errorf("dry %t: there are %d, the dead one %t", dry, a.left(), there)
		}
	}
	a.away = 2 // the API server restarts just then
	err = Place{Namespace: "loads"}.RemoveRun(t.Context(), "living")
	if err != nil || a.left() != 3 {
		t.Errorf("%d are left: %v", a.left(), err)
	}
	a.denied = []string{"GET jobs"}
	if _, _, err := (Place{}).Sweep(t.Context(), false); err == nil {
		t.Error("a sweep that may not look finds nothing wrong")
	}
}
