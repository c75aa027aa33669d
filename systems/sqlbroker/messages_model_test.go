package sqlbroker

import (
	"testing"
	"time"

	"stampede/harness/sim"
	"stampede/harness/sut"
)

// TestModelWakesAnother: a message whose notification woke a consumer that died before it had
// claimed it is claimed by another one that waits, whenever the first one dies.
func TestModelWakesAnother(t *testing.T) {
	for after := time.Duration(0); after < 3*time.Millisecond; after += 20 * time.Microsecond {
		s := sim.New(1)
		c, err := sim.NewCluster(s, sim.DefaultMachine(), assumedCosts())
		must(t, err)
		p := DefaultParams()
		p.PollEvery = sut.Duration(time.Minute)
		m := newMessagesModel(c, p)
		m.channel = sim.NewChannel[notice](c.Postgres)
		server := m.server(c.Postgres.Conns())
		receive := func(p *sim.Process) {
			server.receive(p, QueueName(1), Demand{Most: 1, WaitMS: 60_000})
		}
		dies := s.Group()
		dies.GoThen(receive, func(error) {})
		s.At(time.Millisecond, func() { s.Go(receive) })
		publishes := 10 * time.Millisecond
		s.At(publishes, func() {
			s.Go(func(p *sim.Process) {
				_, err := server.publish(p, QueueName(1), Publication{OpID: 1,
					Messages: []Message{{Body: "a"}}})
				must(t, err)
			})
		})
		s.At(publishes+after, dies.Kill)
		must(t, s.Run(t.Context(), time.Second))
		for id := range m.ready.All() {
			t.Errorf("%s after its publication began, message %d waits beside a consumer", after, id)
		}
		s.Close()
	}
}

// TestModelCountsRows: what a statement does to many rows costs for each of them.
func TestModelCountsRows(t *testing.T) {
	s := sim.New(1)
	defer s.Close()
	c, err := sim.NewCluster(s, sim.DefaultMachine(), assumedCosts())
	must(t, err)
	m := newMessagesModel(c, DefaultParams())
	server := m.server(c.Postgres.Conns())
	s.Go(func(p *sim.Process) {
		_, err := server.publish(p, QueueName(1), Publication{OpID: 1, Messages: make([]Message, 100)})
		must(t, err)
		got := server.receive(p, QueueName(1), Demand{Most: 40})
		must(t, server.ackWithEffect(p, QueueName(1), got))
	})
	must(t, s.Run(t.Context(), time.Second))
	for cost, want := range map[string]float64{costPublish: 1, costMessage: 100, costClaim: 1,
		costTaken: 40, costAck: 1, costSettled: 40, costEffect: 1, costStored: 40} {
		if got := c.Drawn()["postgres"][cost]; got != want {
			t.Errorf("%s: %v times, want %v", cost, got, want)
		}
	}
}
