package index

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"stampede/harness/durable"
)

// files are the few operations that an index needs of a folder. What was written is durable once
// the file was flushed, and a file's name once the folder was.
type files interface {
	// create makes a file, or empties it.
	create(name string) (file, error)
	// read has a file's bytes until release is called; nobody writes to them.
	read(name string) (b []byte, release func() error, err error)
	// flush flushes what another process may have written to a file.
	flush(name string) error
	rename(from, to string) error
	remove(name string) error
	list() ([]string, error)
	// flushFolder makes names durable.
	flushFolder() error
	// close gives the folder to others.
	close() error
}

// file is a file that is written once, from its beginning to its end.
type file interface {
	io.WriteCloser
	Sync() error
}

// folder is a folder of the file system.
type folder struct {
	path string
	lock *os.File
}

const lockName = "lock"

// openFolder locks a folder until this process ends or it is closed.
func openFolder(path string) (*folder, error) {
	lock, err := os.OpenFile(filepath.Join(path, lockName), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	err = durable.Flock(lock, syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = ErrLocked
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("locking %s: %w", path, err), lock.Close())
	}
	return &folder{path, lock}, nil
}

func (f *folder) of(name string) string { return filepath.Join(f.path, name) }

func (f *folder) create(name string) (file, error) { return os.Create(f.of(name)) }

func (f *folder) read(name string) ([]byte, func() error, error) {
	in, err := os.Open(f.of(name))
	if err != nil {
		return nil, nil, err
	}
	defer in.Close()
	about, err := in.Stat()
	if err != nil || about.Size() == 0 {
		return nil, func() error { return nil }, err
	}
	b, err := syscall.Mmap(int(in.Fd()), 0, int(about.Size()), syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return nil, nil, fmt.Errorf("mapping %s: %w", name, err)
	}
	return b, func() error { return syscall.Munmap(b) }, nil
}

func (f *folder) flush(name string) error { return durable.Sync(f.of(name)) }
func (f *folder) flushFolder() error      { return durable.Sync(f.path) }

func (f *folder) rename(from, to string) error { return os.Rename(f.of(from), f.of(to)) }
func (f *folder) remove(name string) error     { return os.Remove(f.of(name)) }
func (f *folder) close() error                 { return f.lock.Close() }

func (f *folder) list() ([]string, error) {
	entries, err := os.ReadDir(f.path)
	var names []string
	for _, e := range entries {
		if e.Name() != lockName {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// inMemory is a folder of which nothing is left when the index is closed.
type inMemory struct {
	mu  sync.Mutex
	all map[string]*memoryFile
}

func (m *inMemory) create(name string) (file, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f := &memoryFile{in: m}
	m.all[name] = f
	return f, nil
}

func (m *inMemory) read(name string) ([]byte, func() error, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f := m.all[name]
	if f == nil {
		return nil, nil, os.ErrNotExist
	}
	return f.b, func() error { return nil }, nil
}

func (m *inMemory) rename(from, to string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all[to] = m.all[from]
	delete(m.all, from)
	return nil
}

func (m *inMemory) remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.all, name)
	return nil
}

func (m *inMemory) list() ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Keys(m.all)), nil
}

func (m *inMemory) flush(string) error { return nil }
func (m *inMemory) flushFolder() error { return nil }
func (m *inMemory) close() error       { return nil }

type memoryFile struct {
	in *inMemory
	b  []byte
}

func (f *memoryFile) Write(b []byte) (int, error) {
	f.in.mu.Lock()
	defer f.in.mu.Unlock()
	f.b = append(f.b, b...)
	return len(b), nil
}

func (f *memoryFile) Sync() error  { return nil }
func (f *memoryFile) Close() error { return nil }
