package kubernetes

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"

	"stampede/harness/env"
	"stampede/harness/plain"
)

// placed are the pods of a Job.
type placed struct {
	*cluster
	*env.Follower
	name string
	// lost holds each index that has had a pod, true once that pod was reported as lost.
	lost    map[int]bool
	once    sync.Once
	stopped error
}

// list lists the pods of a Job.
func (c *cluster) list(ctx context.Context, job string) ([]core.Pod, error) {
	var found core.PodList
	err := c.do(ctx, "GET", "pods?labelSelector="+env.ClusterLabel+"%3D"+job, nil, &found)
	return found.Items, err
}

// indexOf is which generator a pod is, -1 if it does not say.
func indexOf(pod *core.Pod) int {
	index, err := strconv.Atoi(pod.Annotations[batch.JobCompletionIndexAnnotation])
	if err != nil {
		return -1
	}
	return index
}

// look finds pods that have failed, that cannot start, or that have disappeared.
func (p *placed) look(ctx context.Context) (map[int]string, error) {
	list, err := p.list(ctx, p.name)
	if err != nil {
		return nil, err
	}
	found, here := map[int]string{}, map[int]bool{}
	for i := range list {
		pod := &list[i]
		index := indexOf(pod)
		here[index] = true
		if why := ended(pod); why != "" && !p.lost[index] {
			found[index] = why + p.lastWords(ctx, pod)
		}
		p.lost[index] = p.lost[index] || found[index] != ""
	}
	for index, lost := range p.lost {
		if !here[index] && !lost {
			found[index] = "its pod was deleted"
		}
	}
	return found, nil
}

// ended says why a pod failed or cannot start, "" if it is pending, running or has succeeded.
func ended(pod *core.Pod) string {
	state := containerOf(pod)
	disrupted := condition(pod, core.DisruptionTarget, core.ConditionTrue) // drained, preempted
	switch {
	case pod.Status.Phase == core.PodSucceeded:
		return ""
	case pod.Status.Reason != "": // such as Evicted, DeadlineExceeded
		return "its pod failed: " + said(pod.Status.Reason, pod.Status.Message)
	case disrupted != "":
		return "its pod was disrupted: " + disrupted
	case state.Terminated != nil && state.Terminated.ExitCode != 0:
		return fmt.Sprintf("its container ended with exit code %d: %s", state.Terminated.ExitCode,
			said(state.Terminated.Reason, state.Terminated.Message))
	case state.Waiting != nil && slices.Contains(hopeless(), state.Waiting.Reason):
		return "its container cannot start: " + said(state.Waiting.Reason, state.Waiting.Message)
	case pod.DeletionTimestamp != nil:
		return "its pod is being deleted"
	case pod.Status.Phase == core.PodFailed:
		return "its pod failed"
	}
	return ""
}

// hopeless are the kubelet's reasons for a waiting container that mean an error. It retries some of
// them, but not within the time that a run waits.
func hopeless() []string {
	return []string{"ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName",
		"ImageInspectError", "CreateContainerConfigError", "CreateContainerError", "RunContainerError"}
}

// containerOf is the state of a pod's generator, beside which a cluster may put containers of its
// own.
func containerOf(pod *core.Pod) (state core.ContainerState) {
	for _, status := range pod.Status.ContainerStatuses {
		if status.Name == container {
			state = status.State
		}
	}
	return state
}

// condition is the reason of a pod's condition, "" if it does not have that status.
func condition(pod *core.Pod, kind core.PodConditionType, status core.ConditionStatus) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == kind && c.Status == status {
			return said(c.Reason, c.Message)
		}
	}
	return ""
}

// said is a reason with its message, made safe to print.
func said(reason, message string) string {
	return plain.Line(strings.Trim(reason+", "+strings.TrimSpace(message), ", "))
}

// lastWords are the last lines that a terminated container logged, if they can be read.
func (c *cluster) lastWords(ctx context.Context, pod *core.Pod) string {
	if containerOf(pod).Terminated == nil {
		return ""
	}
	text := ""
	err := c.do(ctx, "GET", "pods/"+pod.Name+"/log?tailLines=3&container="+container, nil, &text)
	if err != nil || text == "" {
		return ""
	}
	return "\n" + plain.Lines(strings.TrimSpace(text))
}

// State implements env.Placed.
func (p *placed) State(ctx context.Context, index int) string {
	list, err := p.list(ctx, p.name)
	if err != nil {
		return err.Error()
	}
	for i := range list {
		if indexOf(&list[i]) == index {
			return p.state(ctx, &list[i])
		}
	}
	return "it has no pod" + p.warned(ctx, p.name)
}

// state is a pod's state in words.
func (c *cluster) state(ctx context.Context, pod *core.Pod) string {
	text := fmt.Sprintf("its pod %s is %s", pod.Name, strings.ToLower(string(pod.Status.Phase)))
	if why := condition(pod, core.PodScheduled, core.ConditionFalse); why != "" {
		return text + ": " + why
	}
	if waiting := containerOf(pod).Waiting; waiting != nil {
		text += ": " + said(waiting.Reason, waiting.Message)
	}
	return text + c.warned(ctx, pod.Name)
}

// warned is the last warning event of an object, if it can be read.
func (c *cluster) warned(ctx context.Context, name string) string {
	var list core.EventList
	err := c.do(ctx, "GET", "events?fieldSelector=type%3DWarning,involvedObject.name%3D"+name, nil,
		&list)
	if err != nil || len(list.Items) == 0 {
		return ""
	}
	last := slices.MaxFunc(list.Items, func(a, b core.Event) int {
		return cmp.Compare(a.LastTimestamp.Unix(), b.LastTimestamp.Unix())
	})
	return " (" + said(last.Reason, last.Message) + ")"
}

// Stop implements env.Placed.
func (p *placed) Stop(ctx context.Context) error {
	p.once.Do(func() {
		if p.Follower != nil { // nil where they could not be started
			p.End()
		}
		p.stopped = p.remove(ctx, p.name)
		p.close()
	})
	return p.stopped
}
