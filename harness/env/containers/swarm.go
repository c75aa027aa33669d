package containers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/swarm"
	"github.com/moby/moby/client"

	"stampede/harness/env"
)

const (
	// swarmLook is how often it is looked whether tasks have gone, swarmEnd how long they may take.
	swarmLook = 125 * time.Millisecond
	swarmEnd  = time.Minute
	// planFile is where a generator's container has its plan, planSecret that file's name.
	planFile, planSecret = "/run/secrets/plan.yaml", "plan.yaml"
)

// Swarm is the engine that places generators on the nodes of a Docker Swarm: a replicated service
// whose tasks are never started anew, with the plan as a secret. A replicated job would not do: it
// replaces a task that has failed when another one changes, whatever its restart condition.
type Swarm struct {
	// Image is stampede's: one that every node has, by its name or id at the engine, or one of a
	// registry by digest, NAME@sha256:….
	Image string
}

var _ env.Engine = Swarm{}

// Name implements env.Engine.
func (Swarm) Name() string { return "swarm" }

// Available implements env.Engine: the engine manages a swarm and has the image.
func (s Swarm) Available(ctx context.Context) error {
	e, err := connect(ctx)
	if err != nil {
		return err
	}
	defer e.Close()
	ctx, cancel := context.WithTimeout(ctx, engineBound)
	defer cancel()
	if manages, err := e.managesSwarm(ctx); err != nil || !manages {
		return errors.Join(err, fmt.Errorf("the engine at %s manages no swarm; docker swarm init makes "+
			"it one, or DOCKER_HOST names another engine", shown(e.host)))
	}
	_, err = s.image(ctx, e)
	return err
}

// managesSwarm says whether the engine is a manager of a swarm.
func (e *engine) managesSwarm(ctx context.Context) (bool, error) {
	info, err := e.Info(ctx, client.InfoOptions{})
	if err != nil {
		return false, fmt.Errorf("ask the engine about its swarm: %w", err)
	}
	return info.Info.Swarm.ControlAvailable, nil
}

// image is what the service is given: by id, because a tag makes every node ask a registry first.
func (s Swarm) image(ctx context.Context, e *engine) (string, error) {
	if strings.Contains(s.Image, "@sha256:") {
		return s.Image, nil
	}
	found, err := e.ImageInspect(ctx, s.Image)
	switch {
	case errdefs.IsNotFound(err):
		return "", fmt.Errorf("the engine has no image %q; load stampede's into the engine of every "+
			"node, or name one of a registry by its digest, NAME@sha256:…", s.Image)
	case err != nil:
		return "", fmt.Errorf("look for image %s: %w", s.Image, err)
	}
	return found.ID, nil
}

// service is the service of a batch; a secret without an id is to be made.
func (s Swarm) service(b env.Batch, image, secret string, labels map[string]string,
) swarm.ServiceSpec {
	name, count := b.Object(), uint64(b.Count)
	return swarm.ServiceSpec{
		Annotations: swarm.Annotations{Name: name, Labels: labels},
		TaskTemplate: swarm.TaskSpec{
			ContainerSpec: &swarm.ContainerSpec{Image: image,
				Args:     []string{"generate", "--plan", planFile, "--out", "/part"},
				Env:      []string{"STAMPEDE_TASK_SLOT={{.Task.Slot}}"},
				Hostname: "{{.Node.Hostname}}",
				Secrets: []*swarm.SecretReference{{SecretID: secret, SecretName: name,
					File: &swarm.SecretReferenceFileTarget{Name: planSecret, UID: "0", GID: "0", Mode: 0o444}}},
			},
			RestartPolicy: &swarm.RestartPolicy{Condition: swarm.RestartPolicyConditionNone},
			// A generator has the network of its node: nothing lies between it and the API.
			Networks: []swarm.NetworkAttachmentConfig{{Target: "host"}},
		},
		Mode: swarm.ServiceMode{Replicated: &swarm.ReplicatedService{Replicas: &count}},
	}
}

// Show implements env.Engine.
func (s Swarm) Show(b env.Batch) (string, error) {
	labels, err := ownLabels(b.RunID, b.Object())
	if err != nil {
		return "", err
	}
	text, err := json.MarshalIndent(map[string]any{
		"Secret":  swarm.Annotations{Name: b.Object(), Labels: labels},
		"Service": s.service(b, s.Image, "", labels)}, "", "  ")
	return string(text) + "\n", err
}

// Start implements env.Engine.
func (s Swarm) Start(ctx context.Context, b env.Batch) (_ env.Placed, err error) {
	e, err := connect(ctx)
	if err != nil {
		return nil, err
	}
	p := &tasks{engine: e, name: b.Object()}
	defer env.Undo(ctx, &err, p.Stop)
	labels, err := ownLabels(b.RunID, p.name)
	if err != nil {
		return nil, err
	}
	image, err := s.image(ctx, e)
	if err != nil {
		return nil, err
	}
	secret, err := e.SecretCreate(ctx, client.SecretCreateOptions{Spec: swarm.SecretSpec{
		Annotations: swarm.Annotations{Name: p.name, Labels: labels}, Data: b.Plan}})
	if err != nil {
		return nil, fmt.Errorf("make the secret %s: %w", p.name, err)
	}
	_, err = e.ServiceCreate(ctx, client.ServiceCreateOptions{
		Spec: s.service(b, image, secret.ID, labels)})
	if err != nil {
		return nil, fmt.Errorf("make the service %s: %w", p.name, err)
	}
	p.Follower = env.Follow(b, p.look)
	return p, nil
}

// tasks are the generators of a service.
type tasks struct {
	*engine
	*env.Follower
	name    string
	once    sync.Once
	stopped error
}

// look finds tasks that have ended, and those whose node is down: their state stays as it was.
func (t *tasks) look(ctx context.Context) (map[int]string, error) {
	list, err := t.list(ctx)
	if err != nil {
		return nil, err
	}
	down, err := t.nodesDown(ctx)
	if err != nil {
		return nil, err
	}
	gone := map[int]string{}
	for _, task := range list {
		why := ended(task)
		if down[task.NodeID] && why == "" && task.Status.State != swarm.TaskStateComplete {
			why = "its node is down"
		}
		if why != "" {
			gone[task.Slot-1] = why
		}
	}
	return gone, nil
}

// list lists the tasks of the service.
func (t *tasks) list(ctx context.Context) ([]swarm.Task, error) {
	found, err := t.TaskList(ctx, client.TaskListOptions{
		Filters: make(client.Filters).Add("service", t.name)})
	if err != nil && !errdefs.IsNotFound(err) { // which a service without tasks is
		return nil, fmt.Errorf("list the tasks of %s: %w", t.name, err)
	}
	return found.Items, nil
}

// ended says how a task ended, "" if it goes on or did so in order.
func ended(task swarm.Task) string {
	switch task.Status.State {
	case swarm.TaskStateFailed, swarm.TaskStateRejected, swarm.TaskStateShutdown,
		swarm.TaskStateOrphaned, swarm.TaskStateRemove:
		return "its task ended: " + state(task)
	}
	return ""
}

// state is a task's state in words.
func state(task swarm.Task) string {
	text := string(task.Status.State)
	if task.Status.Err != "" {
		text += ", " + task.Status.Err
	} else if task.Status.Message != "" {
		text += ", " + task.Status.Message
	}
	return text
}

// State implements env.Placed.
func (t *tasks) State(ctx context.Context, index int) string {
	list, err := t.list(ctx)
	if err != nil {
		return err.Error()
	}
	for _, task := range list {
		if task.Slot == index+1 {
			return "its task is " + state(task)
		}
	}
	return "it has no task"
}

// Stop implements env.Placed.
func (t *tasks) Stop(ctx context.Context) error {
	t.once.Do(func() {
		if t.Follower != nil { // nil where they could not be started
			t.End()
		}
		_, t.stopped = t.removeLabelled(ctx, env.ClusterLabel+"="+t.name,
			func(map[string]string) bool { return true })
		t.stopped = errors.Join(t.stopped, t.Close())
	})
	return t.stopped
}

// inSwarm lists the services, then the secrets, that have a label and that choose picks; none
// where the engine manages no swarm.
func (e *engine) inSwarm(ctx context.Context, label string,
	choose func(labels map[string]string) bool) (found []labelled, err error) {
	if manages, err := e.managesSwarm(ctx); err != nil || !manages {
		return nil, err
	}
	filter := make(client.Filters).Add("label", label)
	services, err := e.ServiceList(ctx, client.ServiceListOptions{Filters: filter})
	if err != nil {
		return nil, fmt.Errorf("list services: %w", err)
	}
	for _, s := range services.Items {
		if choose(s.Spec.Labels) {
			found = append(found, labelled{"service " + s.Spec.Name,
				func(ctx context.Context) error { return e.removeService(ctx, s.ID) }})
		}
	}
	secrets, err := e.SecretList(ctx, client.SecretListOptions{Filters: filter})
	if err != nil {
		return found, fmt.Errorf("list secrets: %w", err)
	}
	for _, s := range secrets.Items {
		if choose(s.Spec.Labels) {
			found = append(found, labelled{"secret " + s.Spec.Name, func(ctx context.Context) error {
				_, err := e.SecretRemove(ctx, s.ID, client.SecretRemoveOptions{})
				return gone("secret", err)
			}})
		}
	}
	return found, nil
}

// removeService removes a service and waits until its tasks are gone, which is later. Those of a
// node that is down stay until it is back.
func (e *engine) removeService(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, swarmEnd)
	defer cancel()
	if _, err := e.ServiceRemove(ctx, id, client.ServiceRemoveOptions{}); err != nil {
		return gone("service", err)
	}
	for {
		down, err := e.nodesDown(ctx)
		if err != nil {
			return err
		}
		found, err := e.TaskList(ctx, client.TaskListOptions{})
		if err != nil {
			return fmt.Errorf("list the tasks that are to go: %w", err)
		}
		left := 0
		for _, task := range found.Items {
			if task.ServiceID == id && !down[task.NodeID] {
				left++
			}
		}
		if left == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d tasks of a removed service have not ended within %s", left, swarmEnd)
		case <-time.After(swarmLook):
		}
	}
}

// nodesDown are the nodes that do not answer.
func (e *engine) nodesDown(ctx context.Context) (map[string]bool, error) {
	nodes, err := e.NodeList(ctx, client.NodeListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list the nodes: %w", err)
	}
	down := map[string]bool{}
	for _, n := range nodes.Items {
		down[n.ID] = n.Status.State == swarm.NodeStateDown
	}
	return down, nil
}

// gone makes nothing of an error that says that a thing is gone already.
func gone(what string, err error) error {
	if err == nil || errdefs.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("remove the %s: %w", what, err)
}
