// Package kubernetes is the engine that places generators on a Kubernetes: an Indexed Job, whose
// failed pods are never replaced. The plan is in a Secret that the Job owns. To clean up, the
// engine deletes the Job, and the cluster's garbage collector deletes pods and Secret.
package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	batch "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"stampede/harness/env"
	"stampede/harness/sut"
)

const (
	// goneLook is the time between two checks whether a removed Job is gone; goneBound is how long
	// that may take.
	goneLook  = 125 * time.Millisecond
	goneBound = time.Minute
	// dryRun makes a request without effect.
	dryRun = "?dryRun=All"
)

// Engine places generators in the cluster of KUBECONFIG, or of ~/.kube/config; in a pod without
// either, in the pod's own cluster.
type Engine struct {
	Place
	// Image is stampede's: one of a registry, best by its digest, NAME@sha256:…, or one that every
	// node has.
	Image string
}

var _ env.Engine = Engine{}

// Name implements env.Engine.
func (Engine) Name() string { return "kubernetes" }

// Available implements env.Engine. It tries every request that a run cannot do without, as a dry
// run. Only a kubelet can tell whether a node can get the image.
func (e Engine) Available(ctx context.Context) error {
	c, err := e.connect()
	if err != nil {
		return err
	}
	defer c.close()
	ctx, cancel := context.WithTimeout(ctx, answerBound)
	defer cancel()
	job, err := e.job(env.Batch{RunID: "none", Count: 1, Within: time.Hour})
	if err != nil {
		return err
	}
	if err := c.make(ctx, job, dryRun); err != nil {
		return err
	}
	for _, try := range []struct {
		method, resource string
		body             any
	}{
		{"POST", "secrets" + dryRun, secret(job, nil)}, {"GET", "pods?limit=1", nil},
		{"GET", "jobs?limit=1", nil}, {"GET", "jobs/" + job.Name, nil},
		{"DELETE", "jobs/" + job.Name + dryRun, nil},
	} {
		err := c.do(ctx, try.method, try.resource, try.body, nil)
		if err != nil && !apierrors.IsNotFound(err) { // there is no such Job
			return err
		}
	}
	return nil
}

// make creates a Job and overwrites job with the server's version.
func (c *cluster) make(ctx context.Context, job *batch.Job, query string) error {
	var made batch.Job
	if err := c.do(ctx, "POST", "jobs"+query, job, &made); err != nil {
		return err
	}
	*job = made
	if job.Spec.BackoffLimitPerIndex == nil { // older servers drop unknown fields
		return fmt.Errorf("the Kubernetes at %s is older than 1.29: it would replace a generator that "+
			"fails", c.host)
	}
	return nil
}

// Start implements env.Engine.
func (e Engine) Start(ctx context.Context, b env.Batch) (_ env.Placed, err error) {
	c, err := e.connect()
	if err != nil {
		return nil, err
	}
	p := &placed{cluster: c, name: b.Object(), lost: map[int]bool{}}
	defer env.Undo(ctx, &err, p.Stop)
	job, err := e.job(b)
	if err != nil {
		return nil, err
	}
	if err := c.make(ctx, job, ""); err != nil {
		return nil, err
	}
	// Pods wait for a Secret that they mount.
	if err := c.do(ctx, "POST", "secrets", secret(job, b.Plan), nil); err != nil {
		return nil, err
	}
	p.Follower = env.Follow(b, p.look)
	return p, nil
}

// RemoveRun removes the generators of a run, whoever placed them.
func (p Place) RemoveRun(ctx context.Context, runID string) error {
	_, _, err := p.removeWhere(ctx, env.RunLabel+"="+runID, false,
		func(*batch.Job) (kept string) { return "" })
	return err
}

// Sweep removes the generators whose run was a process of this machine and is dead, and names their
// Jobs and those that are left. A dry one removes nothing.
func (p Place) Sweep(ctx context.Context, dry bool) (removed, left []string, err error) {
	return p.removeWhere(ctx, env.RunLabel, dry, func(job *batch.Job) (kept string) {
		return env.OwnerIn(job.Annotations).Kept()
	})
}

// removeWhere removes the Jobs that have a label and that nothing keeps, and names them and the
// others, with the reason. It passes over those that are being deleted already: one with a pod on a
// dead node may be so for ever.
func (p Place) removeWhere(ctx context.Context, label string, dry bool,
	kept func(*batch.Job) string) (removed, left []string, err error) {
	c, err := p.connect()
	if err != nil {
		return nil, nil, err
	}
	defer c.close()
	ctx, cancel := context.WithTimeout(ctx, goneBound)
	defer cancel()
	var list batch.JobList
	asking, answered := context.WithTimeout(ctx, answerBound)
	defer answered()
	err = c.insist(asking, "GET", "jobs?labelSelector="+url.QueryEscape(label), &list)
	if err != nil {
		return nil, nil, err
	}
	var errs []error
	for i := range list.Items {
		job := &list.Items[i]
		name, why := fmt.Sprintf("job %s of namespace %s", job.Name, c.place.Namespace), kept(job)
		if job.DeletionTimestamp != nil {
			why = "the cluster is deleting it"
		}
		if why != "" {
			left = append(left, fmt.Sprintf("%s (%s)", name, why))
			continue
		}
		if !dry {
			if err := c.remove(ctx, job.Name); err != nil {
				errs = append(errs, err)
				continue
			}
		}
		removed = append(removed, name)
	}
	return removed, left, errors.Join(errs...)
}

// remove deletes a Job and waits until it is gone. With foreground deletion its pods and its
// Secret go first.
func (c *cluster) remove(ctx context.Context, name string) error {
	err := c.insist(ctx, "DELETE", "jobs/"+name+"?propagationPolicy=Foreground", nil)
	for err == nil && sut.Pause(ctx, goneLook) {
		err = c.insist(ctx, "GET", "jobs/"+name, nil)
	}
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case ctx.Err() == nil:
		return err
	}
	return errors.Join(err, fmt.Errorf("the pods of job %s have not ended in time; the cluster "+
		"removes them when they have (kubectl -n %s get pods -o wide -l %s=%[1]s)", name,
		c.place.Namespace, env.ClusterLabel))
}

// insist sends a request again until ctx is over or the API server has answered for good: while
// it restarts it may say anything.
func (c *cluster) insist(ctx context.Context, method, resource string, into any) error {
	for {
		err := c.do(ctx, method, resource, nil, into)
		if err == nil || apierrors.IsNotFound(err) || apierrors.IsForbidden(err) ||
			apierrors.IsUnauthorized(err) || !sut.Pause(ctx, goneLook) {
			return err
		}
	}
}
