package env_test

import (
	"context"
	"testing"

	"stampede/harness/env"
)

// closing counts how often a cluster was closed.
type closing struct {
	env.Cluster
	times int
}

func (c *closing) Close(context.Context) error {
	c.times++
	return nil
}

func TestLend(t *testing.T) {
	owned := &closing{}
	p := env.Lend(env.Processes, owned)
	if ok, why := p.Available(t.Context(), env.Spec{}); !ok || p.Name() != env.Processes {
		t.Errorf("%s: %v %s", p.Name(), ok, why)
	}
	for range 2 {
		cluster, err := p.Start(t.Context(), env.Spec{})
		if err != nil {
			t.Fatal(err)
		}
		if err := cluster.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if owned.times > 0 {
		t.Errorf("who borrowed it closed it %d times", owned.times)
	}
}
