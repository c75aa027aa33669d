package views

import (
	"context"
	"testing"
	"time"

	"stampede/harness/sim"
	"stampede/harness/sut"
)

// newTestModel is a model of a design with one watch after a millisecond, and how many requests
// without records Kafka had in a second: those that had some are the watch and the view.
func newTestModel(
	t *testing.T, changes func(*counter), then func(*sim.Cluster, func(*sim.Process) any),
) (asks float64) {
	t.Helper()
	s := sim.New(1)
	defer s.Close()
	c, err := sim.NewCluster(s, sim.DefaultMachine(), assumedCosts())
	if err != nil {
		t.Fatal(err)
	}
	kafka := sut.DefaultKafka()
	kafka.Partitions = 1
	m := modelled(changes, byVideo, false)(c, DefaultParams(), sut.Config{MaxConns: 16,
		Timeout: 5 * time.Second, Kafka: kafka})
	s.At(time.Millisecond, func() {
		s.Go(func(p *sim.Process) {
			_, err := m.Domain.Watch(p.Context(context.Background()), WatchRequest{ID: 1,
				Video: VideoKey(1), User: "a", Session: "a", IP: "a", Device: "a",
				Timestamp: time.UnixMilli(1), Watched: 60})
			if err != nil {
				t.Error(err)
			}
		})
	})
	if then != nil {
		then(c, m.Gauge)
	}
	if err := s.Run(t.Context(), time.Second); err != nil {
		t.Fatal(err)
	}
	drawn := c.Drawn()["kafka"]
	return drawn["request"] - drawn["batch"]
}

// TestModelCommits: a counter tells Kafka how far it is after each flush, and after each batch if
// it flushes with every view.
func TestModelCommits(t *testing.T) {
	for name, changes := range map[string]func(*counter){"at once": nil, "each view": eachView} {
		if asks := newTestModel(t, changes, nil); asks != 1 {
			t.Errorf("%s: %v requests beside those of records, want the counter's commit", name, asks)
		}
	}
}

// TestModelGaugeAsksKafka: without Kafka nobody knows how far stages are behind.
func TestModelGaugeAsksKafka(t *testing.T) {
	newTestModel(t, nil, func(c *sim.Cluster, gauge func(*sim.Process) any) {
		samples := func(at time.Duration, fails bool) {
			c.Sim.At(at, func() {
				c.Sim.Go(func(p *sim.Process) {
					if err := p.Try(func() { gauge(p) }); (err != nil) != fails {
						t.Errorf("a sample at %s: %v", at, err)
					}
				})
			})
		}
		samples(200*time.Millisecond, false)
		c.Sim.At(500*time.Millisecond, c.Kafka.Kill)
		samples(600*time.Millisecond, true)
	})
}
