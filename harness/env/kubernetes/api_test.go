package kubernetes

import (
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"stampede/harness/env"
)

// api is as much of an API server as the engine talks to, with a garbage collector, and without
// controllers: pods are what a test says.
type api struct {
	mu      sync.Mutex
	jobs    map[string]batch.Job
	secrets map[string]core.Secret
	pods    []core.Pod
	events  []core.Event
	logs    string
	// denied are requests that this user may not make, such as "POST jobs".
	denied []string
	// slow is how often a deleted Job is still found, failing how often a deletion is not possible.
	slow, failing int
	// away is how often Jobs cannot be listed.
	away int
	// old is the API server of a cluster that knows no limits for each index.
	old bool
}

// serving makes an API server and the KUBECONFIG that leads to it.
func serving(t *testing.T) *api {
	t.Helper()
	a := &api{jobs: map[string]batch.Job{}, secrets: map[string]core.Secret{}}
	mux := http.NewServeMux()
	const jobs = "/apis/batch/v1/namespaces/{namespace}/jobs"
	for pattern, handle := range map[string]func(*http.Request) (any, int){
		"POST " + jobs: a.makeJob, "GET " + jobs: a.listJobs, "GET " + jobs + "/{name}": a.getJob,
		"DELETE " + jobs + "/{name}":                  a.deleteJob,
		"POST /api/v1/namespaces/{namespace}/secrets": a.makeSecret,
		"GET /api/v1/namespaces/{namespace}/pods":     a.listPods,
		"GET /api/v1/namespaces/{namespace}/events":   a.listEvents,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { a.answer(w, r, handle) })
	}
	mux.HandleFunc("GET /api/v1/namespaces/{namespace}/pods/{name}/log",
		func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, a.logs) })
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	configure(t, server.URL)
	return a
}

// configure makes the KUBECONFIG of a cluster at a URL.
func configure(t *testing.T, url string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{"clusters": [{"name": "k", "cluster": {"server": %q}}],
		"users": [{"name": "u", "user": {"token": "hush"}}], "current-context": "c",
		"contexts": [{"name": "c",
			"context": {"cluster": "k", "user": "u", "namespace": "loads"}}]}`, url)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", file)
}

func (a *api) answer(
	w http.ResponseWriter, r *http.Request, handle func(*http.Request) (any, int),
) {
	a.mu.Lock()
	defer a.mu.Unlock()
	parts := strings.Split(r.URL.Path, "/")
	kind := parts[slices.Index(parts, "namespaces")+2]
	body, code := any(nil), http.StatusForbidden
	if !slices.Contains(a.denied, r.Method+" "+kind) {
		body, code = handle(r)
	}
	if code >= http.StatusBadRequest {
		reason := map[int]meta.StatusReason{http.StatusForbidden: meta.StatusReasonForbidden,
			http.StatusNotFound: meta.StatusReasonNotFound}[code]
		body = meta.Status{TypeMeta: meta.TypeMeta{APIVersion: "v1", Kind: "Status"}, Code: int32(code),
			Status: meta.StatusFailure, Reason: reason, Message: r.Method + " " + kind + " is refused"}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body)
}

// dry says whether a request is to have no effect.
func dry(r *http.Request) bool { return r.URL.Query().Get("dryRun") == "All" }

func (a *api) makeJob(r *http.Request) (any, int) {
	var job batch.Job
	if err := json.NewDecoder(r.Body).Decode(&job); err != nil {
		return nil, http.StatusBadRequest
	}
	if a.old {
		job.Spec.BackoffLimitPerIndex = nil
	}
	job.UID = types.UID("uid of " + job.Name)
	if !dry(r) {
		a.jobs[job.Name] = job
	}
	return job, http.StatusCreated
}

func (a *api) makeSecret(r *http.Request) (any, int) {
	var s core.Secret
	if err := json.NewDecoder(r.Body).Decode(&s); err != nil {
		return nil, http.StatusBadRequest
	}
	if !dry(r) {
		a.secrets[s.Name] = s
	}
	return s, http.StatusCreated
}

// chosen says whether an object has the labels that a request asks for.
func chosen(r *http.Request, has map[string]string) bool {
	selector, err := labels.Parse(r.URL.Query().Get("labelSelector"))
	return err == nil && selector.Matches(labels.Set(has))
}

// matching lists those that have the labels that a request asks for.
func matching[T any](r *http.Request, all iter.Seq[T], labelled func(T) map[string]string,
) map[string][]T {
	return map[string][]T{"items": slices.Collect(func(yield func(T) bool) {
		all(func(one T) bool { return !chosen(r, labelled(one)) || yield(one) })
	})}
}

func (a *api) listJobs(r *http.Request) (any, int) {
	if a.away > 0 {
		a.away--
		return nil, http.StatusServiceUnavailable
	}
	return matching(r, maps.Values(a.jobs),
		func(job batch.Job) map[string]string { return job.Labels }), http.StatusOK
}

func (a *api) listPods(r *http.Request) (any, int) {
	return matching(r, slices.Values(a.pods),
		func(pod core.Pod) map[string]string { return pod.Labels }), http.StatusOK
}

// getJob finds a Job, which is gone if it was deleted and has been seen often enough since.
func (a *api) getJob(r *http.Request) (any, int) {
	job, there := a.jobs[r.PathValue("name")]
	if there && job.DeletionTimestamp != nil {
		if a.slow--; a.slow < 0 {
			a.collect(job)
			there = false
		}
	}
	if !there {
		return nil, http.StatusNotFound
	}
	return job, http.StatusOK
}

// deleteJob deletes a Job: with its Secret and pods, later, or alone and at once, as the API server
// does where it is not asked for anything else.
func (a *api) deleteJob(r *http.Request) (any, int) {
	job, there := a.jobs[r.PathValue("name")]
	switch {
	case !there:
		return nil, http.StatusNotFound
	case dry(r):
	case a.failing > 0:
		a.failing--
		return nil, http.StatusServiceUnavailable
	case r.URL.Query().Get("propagationPolicy") == "Foreground":
		job.DeletionTimestamp = &meta.Time{Time: time.Now()}
		a.jobs[job.Name] = job
	default:
		delete(a.jobs, job.Name)
	}
	return meta.Status{Status: meta.StatusSuccess}, http.StatusOK
}

// collect collects a Job and what belongs to it.
func (a *api) collect(job batch.Job) {
	delete(a.jobs, job.Name)
	maps.DeleteFunc(a.secrets, func(_ string, s core.Secret) bool {
		return s.OwnerReferences[0].UID == job.UID
	})
	a.pods = slices.DeleteFunc(a.pods, func(pod core.Pod) bool {
		return pod.Labels[env.ClusterLabel] == job.Name
	})
}

func (a *api) listEvents(r *http.Request) (any, int) {
	var list core.EventList
	for _, event := range a.events {
		if strings.HasSuffix(r.URL.Query().Get("fieldSelector"), "="+event.InvolvedObject.Name) {
			list.Items = append(list.Items, event)
		}
	}
	return list, http.StatusOK
}

// set replaces the pods of a Job; their names are their indices.
func (a *api) set(job string, pods ...core.Pod) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range pods {
		pods[i].Labels = map[string]string{env.ClusterLabel: job}
		pods[i].Annotations = map[string]string{batch.JobCompletionIndexAnnotation: pods[i].Name}
	}
	a.pods = pods
}

// left is how many objects there are.
func (a *api) left() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.jobs) + len(a.secrets) + len(a.pods)
}
