package containers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"stampede/harness/sut"
)

// The images of each service: the pinned official one, and the one that
// docker/images.sh builds where the official one cannot be had.
var images = map[sut.Service]struct{ official, built string }{
	sut.Postgres: {"postgres:17.11", "stampede/postgres:local"},
	sut.Replica:  {"postgres:17.11", "stampede/postgres:local"},
	sut.Redis:    {"redis:8.10.2", "stampede/redis:local"},
	sut.Kafka:    {"apache/kafka:4.1.1", "stampede/kafka:local"},
}

// reaperImage is what this version of testcontainers cleans up with.
const reaperImage = "testcontainers/ryuk:0.14.0"

// Bounds of asking a registry for an image and of pulling it.
const (
	registryBound = 5 * time.Second
	pullBound     = 10 * time.Minute
)

// choice is the image that a service will run from.
type choice struct {
	service sut.Service
	ref     string
	// present is false when it has to be pulled first.
	present bool
	// why says why it is this one, when it is not the official one.
	why string
}

// String reads "postgres:17.11" or "stampede/redis:local (…)".
func (c choice) String() string {
	if c.why == "" {
		return c.ref
	}
	return fmt.Sprintf("%s (%s)", c.ref, c.why)
}

// imageVariable names the environment variable that replaces an image.
func imageVariable(service sut.Service) string {
	return "STAMPEDE_IMAGE_" + strings.ToUpper(string(service))
}

// choose picks the image of a service: the one that the user
// names; else the official one, present or pullable; else the built one.
func (e *engine) choose(ctx context.Context, service sut.Service) (choice, error) {
	known, ok := images[service]
	if !ok {
		return choice{}, fmt.Errorf("containers cannot provide %s", service)
	}
	if service == sut.Kafka {
		if err := e.sharesNetwork(ctx); err != nil {
			return choice{}, err
		}
	}
	if named := os.Getenv(imageVariable(service)); named != "" {
		present, err := e.find(ctx, named)
		return choice{service, named, present, "named by " + imageVariable(service)}, err
	}
	present, err := e.find(ctx, known.official)
	if err == nil {
		return choice{service: service, ref: known.official, present: present}, nil
	}
	if here, _ := e.present(ctx, known.built); here {
		why := fmt.Sprintf("built here, because %s cannot be pulled", known.official)
		return choice{service, known.built, true, why}, nil
	}
	return choice{}, fmt.Errorf("%w, and %s is not built: run make images", err, known.built)
}

// find says whether an image is present, and fails if it cannot be pulled
// either.
func (e *engine) find(ctx context.Context, ref string) (present bool, err error) {
	if present, err = e.present(ctx, ref); present || err != nil {
		return present, err
	}
	if err := e.pullable(ctx, ref); err != nil {
		return false, fmt.Errorf("%s is neither here nor can be pulled: %w", ref, err)
	}
	return false, nil
}

func (e *engine) present(ctx context.Context, ref string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, engineBound)
	defer cancel()
	_, err := e.ImageInspect(ctx, ref)
	if errdefs.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for image %s: %w", ref, err)
	}
	return true, nil
}

// pullable asks the registry, through the engine, whether it has the image.
func (e *engine) pullable(ctx context.Context, ref string) error {
	ctx, cancel := context.WithTimeout(ctx, registryBound)
	defer cancel()
	_, err := e.DistributionInspect(ctx, ref, client.DistributionInspectOptions{})
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("its registry did not answer within %v", registryBound)
	}
	return err
}

// obtainable says whether an image is present or can be pulled.
func (e *engine) obtainable(ctx context.Context, ref string) bool {
	_, err := e.find(ctx, ref)
	return err == nil
}

// pull fetches the image if it is not there.
func (e *engine) pull(ctx context.Context, c choice, logf func(string, ...any)) error {
	if c.present {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, pullBound)
	defer cancel()
	logf("pulling %s", c.ref)
	response, err := e.ImagePull(ctx, c.ref, client.ImagePullOptions{})
	if err != nil {
		return fmt.Errorf("pull %s: %w", c.ref, err)
	}
	defer response.Close()
	if err := response.Wait(ctx); err != nil {
		return fmt.Errorf("pull %s: %w", c.ref, err)
	}
	return nil
}

// digest names exactly what an image is: by its registry's digest, or by its
// own id when it was built here.
func (e *engine) digest(ctx context.Context, ref string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, engineBound)
	defer cancel()
	found, err := e.ImageInspect(ctx, ref)
	if err != nil {
		return "", fmt.Errorf("inspect image %s: %w", ref, err)
	}
	for _, digest := range found.RepoDigests {
		if _, hash, ok := strings.Cut(digest, "@"); ok {
			return ref + "@" + hash, nil
		}
	}
	return fmt.Sprintf("%s (image %s)", ref, found.ID), nil
}
