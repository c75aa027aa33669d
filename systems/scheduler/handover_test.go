package scheduler

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"stampede/harness/stores"
	"stampede/harness/sut"
)

// TestCarriers: what is sent comes to one executor; what an executor has received
// and not settled before it died comes to another; what is settled does not come
// again.
func TestCarriers(t *testing.T) {
	for _, variant := range []string{"redis_streams", "kafka_topic"} {
		t.Run(variant, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			space := places.Namespace(t)
			kafka := sut.DefaultKafka()
			kafka.Partitions = 2
			cfg := sut.Config{RedisURL: space.RedisURL, KafkaBrokers: space.KafkaBrokers, Kafka: kafka,
				Prefix: space.Prefix, Timeout: 5 * time.Second}
			p := DefaultParams()
			p.HandAgain = sut.Duration(100 * ms)
			open := func() carrier {
				st := &opened{Config: cfg, Params: p}
				if opts, err := stores.RedisOptions(cfg); err == nil {
					st.Redis = redis.NewClient(opts)
				}
				c, err := schemeOf(variant).overrides.carry(st)
				ok(t, err)
				return c
			}
			picker := open()
			defer picker.close()
			first := []handed{{1, 10}, {2, 20}, {3, 30}, {4, 40}, {5, 50}}
			last := []handed{{6, 60}}
			ok(t, picker.prepare(ctx), picker.send(ctx, first))
			dies := open()
			if got := receives(ctx, t, dies, "a", 2, false); len(got) != 2 {
				t.Errorf("wanted two, received %v", got)
			}
			dies.close()
			lives := open()
			got := receives(ctx, t, lives, "b", 5, true)
			lives.close()
			slices.SortFunc(got, func(a, b handed) int { return int(a.ID - b.ID) })
			if !slices.Equal(got, first) {
				t.Errorf("after one died another received %v", got)
			}
			ok(t, picker.send(ctx, last))
			next := open()
			defer next.close()
			sut.Pause(ctx, p.HandAgain.D()) // after it whatever was not settled comes again
			if got := receives(ctx, t, next, "c", 1, true); !slices.Equal(got, last) {
				t.Errorf("after all was settled %v came, want 6", got)
			}
		})
	}
}

// receives receives until there are so many.
func receives(
	ctx context.Context, t *testing.T, c carrier, executor string, n int, settle bool,
) (all []handed) {
	t.Helper()
	for len(all) < n {
		list, err := c.receive(ctx, executor, n-len(all))
		if err == nil && settle && len(list) > 0 {
			err = c.settle(ctx)
		}
		if err != nil {
			t.Fatalf("received %v, and then: %v", all, err)
		}
		all = append(all, list...)
	}
	return all
}

// TestHandedOverAgain: what was noted as handed over, and sent nowhere because the
// picker died, is handed over again when its time is over, and not before; what is
// paused is not, and is at once when it is resumed.
func TestHandedOverAgain(t *testing.T) {
	b := newTable(t)
	p := tableParams()
	p.HandAgain = sut.Duration(time.Hour)
	b.be(t, p, "redis_streams", "")
	b.ask(t, 1, time.Minute, Spec{Task: "report"})
	b.ask(t, 2, 4*time.Hour, Spec{Task: "later"})
	handsOver := func(what string, want int) []handed {
		t.Helper()
		list, err := b.handOver(t.Context())
		if err != nil || len(list) != want {
			t.Fatalf("%s: handed over %d tasks, want %d (%v)", what, len(list), want, err)
		}
		return list
	}
	handsOver("not picked", 0)
	if err := b.picksAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	first := handsOver("picked and due", 1)
	handsOver("just handed over", 0)
	if _, err := b.pool.Exec(t.Context(), `UPDATE tasks SET hand_at = hand_at - interval '1 hour'
		WHERE hand_at > now()`); err != nil {
		t.Fatal(err)
	}
	again := handsOver("an hour later", 1)
	if err := b.changes(t.Context(), 1, KindPause, 3); err != nil {
		t.Fatal(err)
	}
	if list, err := b.starts(t.Context(), first); err != nil || len(list) != 0 {
		t.Errorf("while it was paused %d runs were started (%v)", len(list), err)
	}
	handsOver("paused", 0)
	if err := b.changes(t.Context(), 1, KindResume, 4); err != nil {
		t.Fatal(err)
	}
	handsOver("resumed", 1)
	// Three messages with the same token are under way, in no order.
	if list, err := b.starts(t.Context(), again); err != nil || len(list) != 1 {
		t.Fatalf("%d runs were started (%v)", len(list), err)
	}
	if list, err := b.starts(t.Context(), first); err != nil || len(list) != 0 {
		t.Errorf("a late message started %d runs (%v)", len(list), err)
	}
}
