package deploy

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"stampede/harness/sut"
)

// Setup is what a child is told on its standard input, on one line: a command
// line would show passwords to everybody on the machine.
type Setup struct {
	sut.Config
	Params json.RawMessage
	// Via maps addresses to those that are dialled in their place.
	Via map[string]string
	// Listen is where a server of the API listens, host:port.
	Listen string
}

// setupOf writes a configuration down for a child.
func setupOf(cfg sut.Config, via map[string]string) (Setup, error) {
	params, err := json.Marshal(cfg.Params)
	if err != nil {
		return Setup{}, fmt.Errorf("encoding the parameters: %w", err)
	}
	return Setup{Config: cfg, Params: params, Via: via}, nil
}

// config is the configuration that a setup describes.
func (s Setup) config(system sut.System) (sut.Config, error) {
	cfg := s.Config
	cfg.Params = system.Params()
	if err := json.Unmarshal(s.Params, cfg.Params); err != nil {
		return sut.Config{}, fmt.Errorf("the parameters of %s: %w", system.Name, err)
	}
	if len(s.Via) > 0 {
		cfg.Dial = dialVia(s.Via)
	}
	return cfg, nil
}

// The words of the lines between parent and child. Each order is answered; an
// answer has the order's number.
const (
	// The parent's orders.
	ping   = "ping"
	labor  = "labor" // answered after the next step of the role's work
	rest   = "rest"  // answered with what a server of the API has still to do
	arm    = "arm"
	disarm = "disarm"
	// What the child says.
	ready   = "ready"
	done    = "done"
	reached = "reached"
	failed  = "failed"
)

// line is one message, in either direction.
type line struct {
	Word string `json:"word"`
	// Number is that of an order and of its answer.
	Number int `json:"number,omitempty"`
	// Place and Passage go with arm and reached.
	Place   string `json:"place,omitempty"`
	Passage int    `json:"passage,omitempty"`
	// Pending goes with the answer to rest; "" if nothing is left to do.
	Pending string `json:"pending,omitempty"`
	// Error goes with failed, and with the answer to rest.
	Error string `json:"error,omitempty"`
}

// writer writes lines, one at a time.
type writer struct {
	mu  sync.Mutex
	out io.Writer
}

func (m *writer) write(what any) error {
	text, err := json.Marshal(what)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	_, err = m.out.Write(append(text, '\n'))
	return err
}

// maxLine bounds a message, in bytes.
const maxLine = 1 << 20

// readLines reads lines until the input ends and hands each to take.
func readLines(in *bufio.Reader, take func(line) error) error {
	for {
		var l line
		if err := readLine(in, &l); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		if err := take(l); err != nil {
			return err
		}
	}
}

// readLine decodes the next line. A line that is cut off is none.
func readLine(in *bufio.Reader, into any) error {
	text, err := in.ReadSlice('\n')
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("a line that is no message: %.200q: %w", text, err)
	}
	return nil
}
