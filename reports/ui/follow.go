package ui

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

const (
	// lookEvery is how often a run is looked at that a page follows, listEvery how
	// often the list of runs. Nothing is while no page does.
	lookEvery = time.Second
	listEvery = 3 * time.Second
	// greetEvery is how often a page hears something at least, so that one that has
	// gone is noticed.
	greetEvery = 15 * time.Second
	// sendTimeout is how long a page may take to read what it is sent.
	sendTimeout = 10 * time.Second
)

// follow sends events to a page (text/event-stream) for as long as it is there. look is
// called at once and then every so often, until it says that it is over or fails.
func (s *Server) follow(w http.ResponseWriter, r *http.Request, every time.Duration,
	look func(send func(kind, data string) error) (over bool, err error),
) {
	select {
	case s.followers <- struct{}{}:
		defer func() { <-s.followers }()
	default:
		refuse(w, http.StatusServiceUnavailable, fmt.Sprintf("%d pages follow already; close one.",
			mostFollowers))
		return
	}
	stream := http.NewResponseController(w)
	w.Header().Set("Content-Type", "text/event-stream")
	if r.Method == http.MethodHead {
		return
	}
	// An error says that the page has gone, which the next one says too.
	_ = stream.SetReadDeadline(time.Time{})
	last := time.Now()
	write := func(text string) error {
		last = time.Now()
		if err := stream.SetWriteDeadline(last.Add(sendTimeout)); err != nil {
			return err
		}
		if _, err := fmt.Fprint(w, text); err != nil {
			return err
		}
		if err := stream.Flush(); err != nil {
			return err
		}
		return stream.SetWriteDeadline(time.Time{}) // until the next one
	}
	send := func(kind, data string) error {
		return write("event: " + kind + "\ndata: " + strings.ReplaceAll(data, "\n", "\ndata: ") + "\n\n")
	}
	err := write("retry: 2000\n\n")
	tick := time.NewTicker(every)
	defer tick.Stop()
	for err == nil {
		var over bool
		if over, err = look(send); over || err != nil {
			return
		}
		if time.Since(last) >= greetEvery {
			err = write(": still here\n\n")
		}
		select {
		case <-r.Context().Done():
			return
		case <-s.closing:
			return
		case <-tick.C:
		}
	}
}
