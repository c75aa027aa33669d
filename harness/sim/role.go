package sim

import "time"

// Role keeps a process of a role going: what begin returns is executed, each function by a
// process of the simulation. When one of them ends all are killed, and after a pause begin is
// called again, as a role that has failed opens its stores anew.
func (s *Sim) Role(pause time.Duration, begin func() []func(*Process)) {
	g := s.Group()
	ended := false
	for _, work := range begin() {
		g.GoThen(work, func(error) {
			if ended || s.closed {
				return
			}
			ended = true
			s.After(0, g.Kill) // not by one of the group
			s.After(pause, func() { s.Role(pause, begin) })
		})
	}
}
