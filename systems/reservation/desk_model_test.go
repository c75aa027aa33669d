package reservation

import (
	"context"
	"slices"
	"testing"
	"time"

	"stampede/harness/sim"
)

// slowDesk takes a second for each hold.
type slowDesk struct{ Desk }

func (slowDesk) Hold(ctx context.Context, _ HoldRequest) (Held, error) {
	p := sim.In(ctx)
	p.Do(p.Sim().Delay(time.Second))
	return Held{}, nil
}

// TestModelRoomHandsOver: a guest who waits for a place has it before one who comes at the instant
// at which it is free.
func TestModelRoomHandsOver(t *testing.T) {
	s := sim.New(1)
	defer s.Close()
	p := DefaultParams()
	p.Admit, p.Waiting = 1, 1
	room, _ := admitModelled(&sim.Cluster{Sim: s}, p, slowDesk{})(nil)
	var served []string
	holds := func(p *sim.Process, guest string) {
		if _, err := room.Hold(p.Context(t.Context()), HoldRequest{}); err == nil {
			served = append(served, guest)
		}
	}
	s.Go(func(p *sim.Process) {
		holds(p, "first")
		holds(p, "first again")
	})
	s.Go(func(p *sim.Process) { holds(p, "waits") })
	if err := s.Run(t.Context(), time.Minute); err != nil {
		t.Fatal(err)
	}
	if want := []string{"first", "waits", "first again"}; !slices.Equal(served, want) {
		t.Errorf("%v were served, want %v", served, want)
	}
}
