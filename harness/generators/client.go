package generators

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"stampede/harness/sut"
)

const (
	// readyTrips and loadTrips are the round trips of one comparison of the clocks, with and
	// without time for it.
	readyTrips = 100
	loadTrips  = 5
	// deliveries is how often a history is sent at most.
	deliveries = 3
)

// Client is a generator's end of its coordinator.
type Client struct {
	plan  Plan
	index int
	http  *http.Client
	// epoch is the zero of this process's clock, offset how far the coordinator's is ahead of it.
	epoch  time.Time
	offset time.Duration
	before Reading

	mu     sync.Mutex
	during []Reading
}

// Dial makes the client of a generator; it reaches nobody yet.
func Dial(p Plan, index int) (*Client, error) {
	if index < 0 || index >= p.Generators {
		return nil, fmt.Errorf("the plan has %d generators, counted from 0, and no %d", p.Generators,
			index)
	}
	return &Client{plan: p, index: index, epoch: time.Now(),
		http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4}}}, nil
}

// Close lets go of its connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// refusedError is an answer of the coordinator that will not change.
type refusedError struct{ text string }

func (e *refusedError) Error() string { return "the coordinator refuses: " + e.text }

// call sends a message and decodes the answer. What is lost on the way is sent again, for as long
// as a coordinator may be silent.
func (c *Client) call(ctx context.Context, method, path string, message, into any) error {
	body, err := json.Marshal(message)
	if err != nil {
		return fmt.Errorf("encoding a message: %w", err)
	}
	began := time.Now()
	for retry := (sut.Retry{}); ; {
		err := c.once(ctx, method, path, body, into)
		if _, refused := errors.AsType[*refusedError](err); err == nil || refused || ctx.Err() != nil {
			return err
		}
		if time.Since(began) > silence || !retry.Rest(ctx) {
			return fmt.Errorf("the coordinator at %s has not answered for %s: %w", c.plan.Coordinator,
				silence, err)
		}
	}
}

// once sends a message once.
func (c *Client) once(ctx context.Context, method, path string, body []byte, into any) error {
	within := 3 * beginWait // the answer to one that is ready takes beginWait
	switch {
	case method == http.MethodPut:
		within = time.Minute
	case path == c.path(donePath):
		within = doneBound
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, c.plan.Coordinator+path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("asking the coordinator: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+c.plan.Token)
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	reply := io.LimitReader(resp.Body, maxMessage)
	if resp.StatusCode == http.StatusOK {
		return json.NewDecoder(reply).Decode(into)
	}
	var why errorMessage
	if err := json.NewDecoder(reply).Decode(&why); err != nil {
		why.Error = resp.Status
	}
	if resp.StatusCode >= http.StatusInternalServerError {
		return errors.New(why.Error)
	}
	return &refusedError{why.Error}
}

// path is a path of this generator.
func (c *Client) path(pattern string) string { return fmt.Sprintf(pattern, c.index) }

// post sends a message of this generator.
func (c *Client) post(ctx context.Context, pattern string, message, into any) error {
	return c.call(ctx, http.MethodPost, c.path(pattern), message, into)
}

// Join introduces the generator.
func (c *Client) Join(ctx context.Context, hello Hello) error {
	hello.ID = newToken()
	return c.post(ctx, joinPath, hello, &struct{}{})
}

// now is this process's clock.
func (c *Client) now() time.Duration { return time.Since(c.epoch) }

// compare compares the clocks.
func (c *Client) compare(ctx context.Context, trips int) (Reading, error) {
	r, err := compare(ctx, trips, c.now, func(ctx context.Context) (time.Duration, error) {
		var m clockMessage
		err := c.call(ctx, http.MethodGet, c.path(clockPath), nil, &m)
		return m.Now, err
	})
	if err != nil {
		return r, fmt.Errorf("comparing the clocks: %w", err)
	}
	return r, nil
}

// Begin compares the clocks, says that the generator is ready, and waits for the order to begin.
// Base is then the zero of the run's clock, by this machine.
func (c *Client) Begin(ctx context.Context) (base time.Time, o Orders, err error) {
	if c.before, err = c.compare(ctx, readyTrips); err != nil {
		return base, o, err
	}
	c.offset = c.before.Ahead
	for !o.Begun {
		o, err = c.Beat(ctx, Status{Ready: true})
		if err == nil && o.Stop {
			err = errors.New("the run has ended before the load began")
		}
		if err != nil {
			return base, o, err
		}
	}
	return c.epoch.Add(o.Base - c.offset), o, nil
}

// Beat tells the coordinator how the generator stands.
func (c *Client) Beat(ctx context.Context, s Status) (o Orders, err error) {
	return o, c.post(ctx, beatPath, s, &o)
}

// Compare compares the clocks during the load.
func (c *Client) Compare(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	r, err := c.compare(ctx, loadTrips)
	if err == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.during = append(c.during, r)
	}
	return err
}

// ClockError compares the clocks once more, after the load, and returns how far the generator's
// times may be from the coordinator's clock.
func (c *Client) ClockError(ctx context.Context) (time.Duration, error) {
	after, err := c.compare(ctx, readyTrips)
	if err != nil {
		return 0, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return clockError(c.offset, c.before, after, c.during), nil
}

// Fail tells the coordinator why this generator gives up, if it can be told.
func (c *Client) Fail(ctx context.Context, why error) {
	body, err := json.Marshal(errorMessage{why.Error()})
	if err == nil {
		_ = c.once(ctx, http.MethodPost, c.path(failedPath), body, &struct{}{}) // it is lost either way
	}
}

// Deliver hands over what was recorded. What is lost on the way is sent again from where it was
// cut off; a history that came otherwise than it was sent, from its beginning.
func (c *Client) Deliver(ctx context.Context, history string, r Recorded) (err error) {
	if r.Bytes, r.SHA256, err = digestOf(history); err != nil {
		return err
	}
	file, err := os.Open(history)
	if err != nil {
		return fmt.Errorf("delivering the history: %w", err)
	}
	defer file.Close()
	for range deliveries {
		if err = c.send(ctx, file, r.Bytes); err != nil {
			break
		}
		err = c.post(ctx, donePath, r, &struct{}{})
		if _, refused := errors.AsType[*refusedError](err); !refused {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("delivering the history: %w", err)
	}
	return nil
}

// send sends what the coordinator does not yet have of a file of so many bytes.
func (c *Client) send(ctx context.Context, file io.ReaderAt, whole int64) error {
	piece := make([]byte, min(maxPiece, whole))
	progress, heard := int64(-1), time.Now()
	for {
		var here sizeMessage
		err := c.call(ctx, http.MethodGet, c.path(historyPath), nil, &here)
		if err != nil || here.Bytes >= whole {
			return err
		}
		if here.Bytes > progress {
			progress, heard = here.Bytes, time.Now()
		} else if time.Since(heard) > silence {
			return fmt.Errorf("no piece has come through for %s", silence)
		}
		n, err := file.ReadAt(piece[:min(int64(len(piece)), whole-here.Bytes)], here.Bytes)
		if err != nil {
			return fmt.Errorf("reading the history: %w", err)
		}
		// Whatever became of it, the coordinator says next how far it has come.
		path := fmt.Sprintf("%s?offset=%d", c.path(historyPath), here.Bytes)
		if c.once(ctx, http.MethodPut, path, piece[:n], &sizeMessage{}) != nil && ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}
