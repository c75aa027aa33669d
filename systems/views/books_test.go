package views

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"stampede/harness/stores"
	"stampede/harness/sut"
)

// variantOf is the design of a name.
func variantOf(name string) sut.Variant {
	all := System().Variants
	return all[slices.IndexFunc(all, func(v sut.Variant) bool { return v.Name == name })]
}

// prepared opens and prepares a design on stores of its own.
func prepared(t testing.TB, variant sut.Variant, params *Params) (sut.Instance, sut.Config) {
	t.Helper()
	space := lab.Namespace(t)
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

// holder is who took partition 0 for a stage.
type holder struct {
	database
	who station
	stand
}

// prepare prepares a design and returns how to take partition 0 for a stage.
func prepare(t *testing.T, who station) (take func() *holder, inst sut.Instance) {
	t.Helper()
	inst, cfg := prepared(t, System().Variants[0], crowd())
	db, err := stores.OpenPostgres(t.Context(), cfg, "views", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return func() *holder {
		list, err := database{db}.take(t.Context(), who, []int32{0})
		if err != nil {
			t.Fatal(err)
		}
		return &holder{database{db}, who, list[0]}
	}, inst
}

// count stores a view of each video, and moves on by as many records.
func (h *holder) count(ctx context.Context, videos ...string) error {
	var sums []sum
	for _, video := range videos {
		sums = append(sums, sum{video, 0, 0, 1})
	}
	n := int64(len(videos))
	to := move{stand: h.stand, to: h.next + n, toSource: h.source + n}
	err := h.counted(ctx, h.who, []move{to}, sums)
	if err == nil {
		h.next, h.source = to.to, to.toSource
	}
	return err
}

// decide stores what was decided up to an offset, beyond which all is forwarded, and one event
// that was turned away.
func (h *holder) decide(ctx context.Context, forwarded, to int64, views ...int64) error {
	m := move{stand: h.stand, to: forwarded, toSource: -1, toDecided: to, toViews: views}
	err := h.filtered(ctx, []move{m}, []DropAudit{{0, VideoKey(1), Short, 1}})
	if err == nil {
		h.next, h.decided, h.stand.views = forwarded, to, views
	}
	return err
}

// TestFence: of two who took a partition only the later can store, once each,
// and of what the other one stores nothing stays, whether it is one sum or many.
func TestFence(t *testing.T) {
	take, inst := prepare(t, station{stageCounter, 1})
	one, many := []string{"video-1"}, []string{"video-2", "video-3"}
	count := func(h *holder, videos []string, want error) {
		t.Helper()
		if err := h.count(t.Context(), videos...); !errors.Is(err, want) {
			t.Errorf("counting %v: %v, want %v", videos, err, want)
		}
	}
	first := take()
	count(first, one, nil)
	count(first, many, nil)
	second := take()
	count(first, one, errFenced)
	count(first, many, errFenced)
	stale := *second
	count(second, one, nil)
	count(&stale, one, errFenced) // what should be stored was stored
	count(&stale, many, errFenced)
	count(second, many, nil)
	for _, c := range auditOf(t, inst).Totals {
		if c.Views != 2 {
			t.Errorf("%s has %d views, want 2", c.Video, c.Views)
		}
	}
}

// TestDecisionsOutliveTheirFilter: whoever takes a partition learns what was
// decided and is not in the log, and who had it before can add nothing.
func TestDecisionsOutliveTheirFilter(t *testing.T) {
	take, inst := prepare(t, station{stageFilter, 0})
	decide := func(h *holder, want error, forwarded, to int64, views ...int64) {
		t.Helper()
		if err := h.decide(t.Context(), forwarded, to, views...); !errors.Is(err, want) {
			t.Errorf("deciding %d to %d: %v, want %v", forwarded, to, err, want)
		}
	}
	first := take()
	decide(first, nil, 0, 10, 3, 9<<12+4095)
	second := take()
	want := []int64{3, 9<<12 + 4095}
	if second.next != 0 || second.decided != 10 || !slices.Equal(second.stand.views, want) {
		t.Errorf("%+v is held; want 0 to 10: %v", second.stand, want)
	}
	decide(first, errFenced, 10, 20, 15<<12)
	stale := *second
	decide(second, nil, 10, 20)
	decide(&stale, errFenced, 10, 20) // what is stored is stored again
	for _, d := range auditOf(t, inst).Drops {
		if d.Events != 2 {
			t.Errorf("%d events were turned away, want 2", d.Events)
		}
	}
}

func auditOf(t *testing.T, inst sut.Instance) (audit Audit) {
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
