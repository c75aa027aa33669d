package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"stampede/harness/env"
	"stampede/harness/env/containers"
	"stampede/harness/env/external"
	"stampede/harness/env/kubernetes"
	"stampede/harness/env/processes"
)

func newClean(a *app) *cobra.Command {
	var servers env.Spec
	var namespace string
	var dry bool
	cmd := &cobra.Command{
		Use:   "clean",
		Short: "Remove what dead runs left: containers, processes, data folders",
		Long: `Removes the containers, processes and data folders of runs whose process is gone,
their services and secrets on a Swarm, from the servers at --postgres-url,
--redis-url and --kafka-brokers their databases, schemas, keys, topics and consumer
groups, and from --namespace of a Kubernetes their generators. What is in use by runs
that are still going on is kept, and so are the run directories under runs/. In your
own servers and on a Kubernetes, what a run of another host made is kept too, and named.

With --dry-run it names all of this and removes nothing.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return a.clean(servers, namespace, dry)
		},
	}
	cmd.Flags().StringVar(&servers.PostgresURL, "postgres-url", "", "clean this Postgres too")
	cmd.Flags().StringVar(&servers.RedisURL, "redis-url", "", "clean this Redis too")
	cmd.Flags().StringSliceVar(&servers.KafkaBrokers, "kafka-brokers", nil,
		"clean this Kafka too: some of its brokers, host:port,host:port")
	cmd.Flags().StringVar(&namespace, "namespace", "", "clean this `namespace` of the Kubernetes of "+
		"KUBECONFIG too")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "say what would be removed, and remove nothing")
	return cmd
}

func (a *app) clean(servers env.Spec, namespace string, dry bool) error {
	ctx, cancel := context.WithTimeout(a.interrupts.soft, 2*time.Minute)
	defer cancel()
	removed, err := sweep(ctx, dry)
	gone, left, errExternal := external.Sweep(ctx, servers, dry)
	removed, err = append(removed, gone...), errors.Join(err, errExternal)
	if namespace != "" {
		jobs, stay, errJobs := kubernetes.Place{Namespace: namespace}.Sweep(ctx, dry)
		removed, left, err = append(removed, jobs...), append(left, stay...), errors.Join(err, errJobs)
	}
	gives, stays := "removed", "left"
	if dry {
		gives, stays = "would remove", "would leave"
	}
	for _, what := range removed {
		fmt.Fprintln(a.stdout, gives, what)
	}
	for _, what := range left {
		fmt.Fprintln(a.stdout, stays, what)
	}
	if len(removed) == 0 {
		fmt.Fprintln(a.stdout, "nothing to remove")
	}
	return withCode(exitEnvironment, err)
}

// sweep removes the containers, volumes, processes and data folders of runs whose process is
// dead, and names each of them. One backend's failure does not keep the others from it. A dry
// sweep names them and removes nothing.
func sweep(ctx context.Context, dry bool) (removed []string, err error) {
	var errs []error
	for _, s := range []env.Sweeper{processes.New(), containers.New()} {
		gone, err := s.Sweep(ctx, dry)
		removed = append(removed, gone...)
		if err != nil {
			errs = append(errs, fmt.Errorf("sweep %s: %w", s.Name(), err))
		}
	}
	return removed, errors.Join(errs...)
}
