package views_test

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"stampede/harness/sut"
	"stampede/systems/views"
)

// prepared opens and prepares a design on stores of its own.
func prepared(t testing.TB, variant sut.Variant, params *views.Params) (sut.Instance, sut.Config) {
	t.Helper()
	space := stores.Namespace(t)
	cfg := sut.Config{
		PostgresURL: space.PostgresURL, RedisURL: space.RedisURL, KafkaBrokers: space.KafkaBrokers,
		Kafka: sut.DefaultKafka(), Prefix: space.Prefix, Params: params, MaxConns: 8,
		Timeout: 30 * time.Second,
	}
	inst, err := variant.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := inst.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := inst.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	return inst, cfg
}

// books are those of a prepared design.
func books(t *testing.T) (views.Books, sut.Instance) {
	t.Helper()
	inst, cfg := prepared(t, views.System().Variants[0], crowd())
	b, err := views.OpenBooks(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b, inst
}

// take takes partition 0 for a stage.
func take(t *testing.T, b views.Books, stage string) *views.Held {
	t.Helper()
	h, err := b.Take(t.Context(), stage)
	if err != nil {
		t.Fatal(err)
	}
	return &h
}

// TestFence: of two who took a partition only the later can store, once each,
// and of what the other one stores nothing stays, whether it is one sum or many.
func TestFence(t *testing.T) {
	b, inst := books(t)
	one, many := []string{"video-1"}, []string{"video-2", "video-3"}
	count := func(h *views.Held, videos []string, want error) {
		t.Helper()
		if err := b.Count(t.Context(), h, videos...); !errors.Is(err, want) {
			t.Errorf("counting %v: %v, want %v", videos, err, want)
		}
	}
	first := take(t, b, "counter")
	count(first, one, nil)
	count(first, many, nil)
	second := take(t, b, "counter")
	count(first, one, views.ErrFenced)
	count(first, many, views.ErrFenced)
	stale := *second
	count(second, one, nil)
	count(&stale, one, views.ErrFenced) // what should be stored was stored
	count(&stale, many, views.ErrFenced)
	count(second, many, nil)
	counted := map[string]int64{}
	for _, c := range auditOf(t, inst).Totals {
		counted[c.Video] = c.Views
	}
	for _, video := range slices.Concat(one, many) {
		if counted[video] != 2 {
			t.Errorf("%s has %d views, want 2", video, counted[video])
		}
	}
}

// TestDecisionsOutliveTheirFilter: whoever takes a partition learns what was
// decided and is not in the log, and who had it before can add nothing.
func TestDecisionsOutliveTheirFilter(t *testing.T) {
	b, inst := books(t)
	first := take(t, b, "filter")
	if err := b.Decide(t.Context(), first, 0, 10, 3, 9<<12+4095); err != nil {
		t.Fatal(err)
	}
	second := take(t, b, "filter")
	next, to, places := second.Decided()
	if want := []int64{3, 9<<12 + 4095}; next != 0 || to != 10 || !slices.Equal(places, want) {
		t.Errorf("decided are %d to %d: %v; want 0 to 10: %v", next, to, places, want)
	}
	if err := b.Decide(t.Context(), first, 10, 20, 15<<12); !errors.Is(err, views.ErrFenced) {
		t.Errorf("who had the partition before stores: %v", err)
	}
	stale := *second
	if err := b.Decide(t.Context(), second, 10, 20); err != nil {
		t.Fatal(err)
	}
	if err := b.Decide(t.Context(), &stale, 10, 20); !errors.Is(err, views.ErrFenced) {
		t.Errorf("what is stored is stored again: %v", err)
	}
	for _, d := range auditOf(t, inst).Drops {
		if d.Events != 2 {
			t.Errorf("%d events were turned away, want 2", d.Events)
		}
	}
}

func auditOf(t *testing.T, inst sut.Instance) (audit views.Audit) {
	t.Helper()
	raw, err := inst.Audit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &audit); err != nil {
		t.Fatal(err)
	}
	if audit.RedisLog == "" {
		t.Error("it is not told whether Redis keeps a log")
	}
	return audit
}
