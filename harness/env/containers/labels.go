package containers

import (
	"context"
	"errors"
	"fmt"

	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"

	"stampede/harness/env"
)

// labelsOf are the labels of one cluster of a run. Testcontainers' own are
// among them, so that its reaper, where there is one, takes volumes as well.
func labelsOf(runID, cluster string) (map[string]string, error) {
	labels, err := ownLabels(runID, cluster)
	if err == nil {
		testcontainers.AddGenericLabels(labels)
	}
	return labels, err
}

// ownLabels are those of ours.
func ownLabels(runID, cluster string) (map[string]string, error) {
	self, err := env.OwnerOf(runID)
	if err != nil {
		return nil, err
	}
	labels := self.Labels()
	labels[env.ClusterLabel] = cluster
	return labels, nil
}

// RemoveRun removes every container and volume of a run, and every service and secret of a swarm,
// whoever started them. It is for a guard that outlives a run; no engine means nothing to do.
func RemoveRun(ctx context.Context, runID string) error {
	e, err := connect(ctx)
	if err != nil {
		return nil
	}
	defer e.Close()
	_, err = e.removeLabelled(ctx, env.RunLabel+"="+runID,
		func(map[string]string) bool { return true })
	return err
}

// removeLabelled removes the containers, volumes, services and secrets that have a label and
// that choose picks, and names them.
func (e *engine) removeLabelled(ctx context.Context, label string,
	choose func(labels map[string]string) bool) (removed []string, err error) {
	found, err := e.labelled(ctx, label, choose)
	errs := []error{err}
	for _, one := range found {
		if err := one.remove(ctx); err != nil {
			errs = append(errs, err)
			continue
		}
		removed = append(removed, one.name)
	}
	return removed, errors.Join(errs...)
}

// labelled is a container, a volume, or a service or a secret of a swarm.
type labelled struct {
	name   string
	remove func(ctx context.Context) error
}

// labelled lists the containers, then the volumes, then what is in the swarm, that have a label and
// that choose picks.
func (e *engine) labelled(ctx context.Context, label string,
	choose func(labels map[string]string) bool) (found []labelled, err error) {
	filter := make(client.Filters).Add("label", label)
	list, err := e.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: filter})
	if err != nil {
		return nil, fmt.Errorf("list containers: %w", err)
	}
	for _, c := range list.Items {
		if choose(c.Labels) {
			found = append(found, labelled{fmt.Sprintf("container %.12s of %s", c.ID, c.Image),
				func(ctx context.Context) error { return e.removeContainer(ctx, c.ID) }})
		}
	}
	volumes, err := e.VolumeList(ctx, client.VolumeListOptions{Filters: filter})
	if err != nil {
		return found, fmt.Errorf("list volumes: %w", err)
	}
	for _, v := range volumes.Items {
		if choose(v.Labels) {
			found = append(found, labelled{fmt.Sprintf("volume %.12s", v.Name),
				func(ctx context.Context) error { return e.removeVolume(ctx, v.Name) }})
		}
	}
	more, err := e.inSwarm(ctx, label, choose)
	return append(found, more...), err
}
