package run

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"stampede/harness/sut"
)

func TestACrewTellsOnce(t *testing.T) {
	crew := StartRoles(t.Context(), sut.Variant{Roles: []sut.Role{
		{Name: "good", Run: func(ctx context.Context, _ sut.Config) error { <-ctx.Done(); return nil }},
		{Name: "bad", Run: func(context.Context, sut.Config) error { return errBroken }},
	}}, sut.Config{})
	if err := crew.Stop(); err == nil || err.Error() != "role bad: it is broken" {
		t.Errorf("stopped: %v", err)
	}
	if err := crew.Stop(); err != nil {
		t.Errorf("stopped again: %v", err)
	}
}

func TestARoleThatDoesNotEndIsLeftBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		crew := StartRoles(t.Context(), sut.Variant{Roles: []sut.Role{
			{Name: "deaf", Run: func(context.Context, sut.Config) error { <-release; return nil }},
		}}, sut.Config{})
		err := crew.Stop()
		if err == nil || !strings.Contains(err.Error(), "role deaf: it did not end within 30s") {
			t.Errorf("stopped: %v", err)
		}
		close(release)
	})
}

func TestAnInstanceThatDoesNotCloseIsLeftBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		err := closing("stuck", func() error { <-release; return nil })
		if err == nil || !strings.Contains(err.Error(), "closing stuck: it did not return within 30s") {
			t.Errorf("closed: %v", err)
		}
		close(release)
	})
}
