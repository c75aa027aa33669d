package processes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"stampede/harness/env"
	"stampede/harness/env/admin"
	"stampede/harness/sut"
)

func (s *server) WatchJournal(ctx context.Context, seen func(map[string]int64)) error {
	folder, err := admin.JournalOf(ctx, s.Store)
	if err != nil {
		return err
	}
	sizes, err := journalSizes(folder)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.journal = folder
	s.mu.Unlock()
	seen(sizes)
	go func() {
		for sut.Pause(ctx, env.JournalEvery) {
			// What could not be read is missing from what was seen.
			if sizes, err := journalSizes(folder); err == nil {
				seen(sizes)
			}
		}
	}()
	return nil
}

// journalSizes are the sizes of the files of a journal.
func journalSizes(folder string) (map[string]int64, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, fmt.Errorf("look at the append-only file: %w", err)
	}
	sizes := map[string]int64{}
	for _, entry := range entries {
		if !admin.IsJournal(entry.Name()) {
			continue
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // a rewrite has just finished
		}
		if err != nil {
			return nil, fmt.Errorf("look at the append-only file: %w", err)
		}
		sizes[entry.Name()] = info.Size()
	}
	return sizes, nil
}

func (s *server) CutJournal(_ context.Context, sizes map[string]int64) (
	map[string][]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.running(); err == nil {
		return nil, fmt.Errorf("cut the append-only file: %w", env.ErrRunning)
	}
	now, err := journalSizes(s.journal)
	if err != nil {
		return nil, err
	}
	lost := map[string][]byte{}
	for name, size := range now {
		if size <= sizes[name] {
			continue
		}
		if lost[name], err = cut(filepath.Join(s.journal, name), sizes[name]); err != nil {
			return nil, fmt.Errorf("cut the append-only file: %w", err)
		}
	}
	return lost, nil
}

// cut cuts a file to a size and returns what was beyond it.
func cut(path string, size int64) (lost []byte, err error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if _, err = file.Seek(size, io.SeekStart); err != nil {
		return nil, err
	}
	if lost, err = io.ReadAll(file); err != nil {
		return nil, err
	}
	return lost, file.Truncate(size)
}
