package kubernetes

import (
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// podIn is a pod of an index in a phase, whose generator is in a state, beside the container of
// somebody else.
func podIn(index string, phase core.PodPhase, state core.ContainerState) core.Pod {
	return core.Pod{ObjectMeta: meta.ObjectMeta{Name: index}, Status: core.PodStatus{Phase: phase,
		ContainerStatuses: []core.ContainerStatus{{Name: "envoy", State: terminated(1, "Error")},
			{Name: container, State: state}}}}
}

func waiting(reason, message string) core.ContainerState {
	return core.ContainerState{Waiting: &core.ContainerStateWaiting{Reason: reason, Message: message}}
}

func terminated(code int32, reason string) core.ContainerState {
	return core.ContainerState{Terminated: &core.ContainerStateTerminated{ExitCode: code,
		Reason: reason}}
}

// with adds a condition.
func with(
	pod core.Pod, kind core.PodConditionType, status core.ConditionStatus, reason, message string,
) core.Pod {
	pod.Status.Conditions = append(pod.Status.Conditions, core.PodCondition{Type: kind, Status: status,
		Reason: reason, Message: message})
	return pod
}

// TestEnded: each way to lose a pod has its text; pods that are pending, running or succeeded have
// none.
func TestEnded(t *testing.T) {
	deleted := podIn("0", core.PodRunning, core.ContainerState{Running: &core.ContainerStateRunning{}})
	deleted.DeletionTimestamp = &meta.Time{}
	evicted := podIn("0", core.PodFailed, terminated(137, "Error"))
	evicted.Status.Reason, evicted.Status.Message = "Evicted", "The node was low on resource: memory. "
	none := core.Pod{Status: core.PodStatus{Phase: core.PodPending}}
	for name, c := range map[string]struct {
		pod  core.Pod
		want string
	}{
		"pending":   {none, ""},
		"creating":  {podIn("0", core.PodPending, waiting("ContainerCreating", "")), ""},
		"running":   {podIn("0", core.PodRunning, core.ContainerState{}), ""},
		"succeeded": {podIn("0", core.PodSucceeded, terminated(0, "Completed")), ""},
		"memory": {podIn("0", core.PodFailed, terminated(137, "OOMKilled")),
			"its container ended with exit code 137: OOMKilled"},
		"error": {podIn("0", core.PodFailed, terminated(5, "Error")),
			"its container ended with exit code 5: Error"},
		"image": {podIn("0", core.PodPending, waiting("ErrImagePull", "not found:\nx\x1b[31m")),
			"its container cannot start: ErrImagePull, not found: x\uFFFD[31m"},
		"back-off": {podIn("0", core.PodPending, waiting("ImagePullBackOff", "Back-off pulling image")),
			"its container cannot start: ImagePullBackOff, Back-off pulling image"},
		"deleted": {deleted, "its pod is being deleted"},
		"evicted": {evicted, "its pod failed: Evicted, The node was low on resource: memory."},
		"drained": {with(deleted, core.DisruptionTarget, core.ConditionTrue, "EvictionByEvictionAPI",
			"evicting"), "its pod was disrupted: EvictionByEvictionAPI, evicting"},
		"failed": {podIn("0", core.PodFailed, core.ContainerState{}), "its pod failed"},
	} {
		if got := ended(&c.pod); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestLostPods: a failed pod is reported with its last log lines, a deleted one as deleted.
func TestLostPods(t *testing.T) {
	a := serving(t)
	a.logs = "panic: out of luck\n"
	type loss struct {
		index int
		why   string
	}
	losses := make(chan loss, 10)
	p := placedOn(t, batchOf(3, func(index int, why string) { losses <- loss{index, why} }))
	running := core.ContainerState{Running: &core.ContainerStateRunning{}}
	a.set(p.name, podIn("0", core.PodRunning, running),
		podIn("1", core.PodFailed, terminated(2, "Error")),
		podIn("2", core.PodSucceeded, terminated(0, "Completed")))
	want := loss{1, "its container ended with exit code 2: Error\npanic: out of luck"}
	if got := <-losses; got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	a.set(p.name, podIn("1", core.PodFailed, terminated(2, "Error")),
		podIn("2", core.PodSucceeded, terminated(0, "Completed")))
	if got, want := <-losses, (loss{0, "its pod was deleted"}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestStates of pods in words, for one that does not begin.
func TestStates(t *testing.T) {
	a := serving(t)
	p := placedOn(t, batchOf(4, func(int, string) {}))
	a.set(p.name,
		with(podIn("0", core.PodPending, core.ContainerState{}),
			core.PodScheduled, core.ConditionFalse, "Unschedulable", "0/3 nodes are available"),
		podIn("1", core.PodPending, waiting("ContainerCreating", "")),
		podIn("2", core.PodRunning, core.ContainerState{Running: &core.ContainerStateRunning{}}))
	quota := core.Event{Reason: "FailedCreate", Message: "exceeded quota: few"}
	quota.InvolvedObject.Name = p.name
	mount := core.Event{Reason: "FailedMount", Message: `secret "x" not found`}
	mount.InvolvedObject.Name = "1"
	a.events = []core.Event{quota, mount}
	for index, want := range []string{
		"its pod 0 is pending: Unschedulable, 0/3 nodes are available",
		`its pod 1 is pending: ContainerCreating (FailedMount, secret "x" not found)`,
		"its pod 2 is running",
		"it has no pod (FailedCreate, exceeded quota: few)",
	} {
		if got := p.State(t.Context(), index); got != want {
			t.Errorf("%d: %q, want %q", index, got, want)
		}
	}
	a.mu.Lock()
	a.denied = []string{"GET pods"}
	a.mu.Unlock()
	if got := p.State(t.Context(), 0); !strings.Contains(got, "GET pods is refused") {
		t.Errorf("%q", got)
	}
}
