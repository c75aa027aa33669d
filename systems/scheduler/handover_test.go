package scheduler_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"stampede/harness/sut"
	"stampede/systems/scheduler"
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
			p := scheduler.DefaultParams()
			p.HandAgain = sut.Duration(100 * ms)
			open := func() scheduler.Carrier {
				c, err := scheduler.CarrierOf(cfg, p, variant)
				if err != nil {
					t.Fatal(err)
				}
				return c
			}
			picker := open()
			defer picker.Close()
			if err := picker.Prepare(ctx); err != nil {
				t.Fatal(err)
			}
			if err := picker.Send(ctx, 1, 2, 3, 4, 5); err != nil {
				t.Fatal(err)
			}
			dies := open()
			if got := receives(ctx, t, dies, "a", 2, false); len(got) != 2 {
				t.Errorf("wanted two, received %v", got)
			}
			dies.Close()
			lives := open()
			got := receives(ctx, t, lives, "b", 5, true)
			lives.Close()
			if slices.Sort(got); !slices.Equal(got, []int64{1, 2, 3, 4, 5}) {
				t.Errorf("after one died another received %v", got)
			}
			if err := picker.Send(ctx, 6); err != nil {
				t.Fatal(err)
			}
			next := open()
			defer next.Close()
			sut.Pause(ctx, p.HandAgain.D()) // after it whatever was not settled comes again
			if got := receives(ctx, t, next, "c", 1, true); !slices.Equal(got, []int64{6}) {
				t.Errorf("after all was settled %v came, want 6", got)
			}
		})
	}
}

// receives receives until there are so many.
func receives(
	ctx context.Context, t *testing.T, c scheduler.Carrier, executor string, n int, settle bool,
) (all []int64) {
	t.Helper()
	for len(all) < n {
		list, err := c.Receive(ctx, executor, n-len(all))
		if err == nil && settle && len(list) > 0 {
			err = c.Settle(ctx)
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
	b.ask(t, 1, time.Minute, scheduler.Spec{Task: "report"})
	b.ask(t, 2, 4*time.Hour, scheduler.Spec{Task: "later"})
	handsOver := func(what string, want int) scheduler.Handed {
		t.Helper()
		list, err := b.HandOver(t.Context())
		if err != nil || len(list) != want {
			t.Fatalf("%s: handed over %d tasks, want %d (%v)", what, len(list), want, err)
		}
		return list
	}
	handsOver("not picked", 0)
	if err := b.Pick(t.Context()); err != nil {
		t.Fatal(err)
	}
	first := handsOver("picked and due", 1)
	handsOver("just handed over", 0)
	if _, err := b.pool.Exec(t.Context(), `UPDATE tasks SET hand_at = hand_at - interval '1 hour'
		WHERE hand_at > now()`); err != nil {
		t.Fatal(err)
	}
	again := handsOver("an hour later", 1)
	if err := b.changes(t.Context(), 1, scheduler.KindPause, 3); err != nil {
		t.Fatal(err)
	}
	if list, err := b.StartHanded(t.Context(), first); err != nil || len(list) != 0 {
		t.Errorf("while it was paused %d runs were started (%v)", len(list), err)
	}
	handsOver("paused", 0)
	if err := b.changes(t.Context(), 1, scheduler.KindResume, 4); err != nil {
		t.Fatal(err)
	}
	handsOver("resumed", 1)
	// Three messages with the same token are under way, in no order.
	if list, err := b.StartHanded(t.Context(), again); err != nil || len(list) != 1 {
		t.Fatalf("%d runs were started (%v)", len(list), err)
	}
	if list, err := b.StartHanded(t.Context(), first); err != nil || len(list) != 0 {
		t.Errorf("a late message started %d runs (%v)", len(list), err)
	}
}
