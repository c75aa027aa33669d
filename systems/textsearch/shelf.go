package textsearch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
)

// shelf opens something for as long as it is needed: with the first operation, or for the length of
// an audit. So a process that only prepares and audits a design leaves its folder to the one that
// performs operations.
type shelf[T io.Closer] struct {
	folder string
	open   func(context.Context) (T, error)

	mu     sync.RWMutex // held by who uses it
	now    T
	is     bool
	closed bool
}

// use lets do work with what is open. An error of the opening is a refusal.
func (s *shelf[T]) use(ctx context.Context, do func(T) error) error {
	s.mu.RLock()
	for !s.is {
		s.mu.RUnlock()
		if err := s.take(ctx); err != nil {
			return err
		}
		s.mu.RLock()
	}
	defer s.mu.RUnlock()
	return do(s.now)
}

// take opens it.
func (s *shelf[T]) take(ctx context.Context) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return fmt.Errorf("%w: the service is closed", ErrUnavailable)
	case s.is:
		return nil
	}
	if s.now, err = s.open(ctx); err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	s.is = true
	return nil
}

// shut closes it until it is used again.
func (s *shelf[T]) shut() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.is {
		return nil
	}
	s.is = false
	return s.now.Close()
}

// during has it open while do is at work, and closes it if it was not open before.
func (s *shelf[T]) during(ctx context.Context, do func() error) error {
	s.mu.RLock()
	was := s.is
	s.mu.RUnlock()
	if err := s.use(ctx, func(T) error { return nil }); err != nil {
		return err
	}
	err := do()
	if !was {
		err = errors.Join(err, s.shut())
	}
	return err
}

// reset closes it and empties its folder.
func (s *shelf[T]) reset() error {
	return errors.Join(s.shut(), os.RemoveAll(s.folder), os.MkdirAll(s.folder, 0o700))
}

// Close closes it for good. Further calls do nothing.
func (s *shelf[T]) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	return s.shut()
}
