package index

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"syscall"

	"stampede/harness/durable"
)

// files are the few operations that an index needs of a folder. What was written is durable once
// the file was flushed, and a file's name once the folder was.
type files interface {
	// create makes a file, or empties it.
	create(name string) (File, error)
	read(name string) (*contents, error)
	// flush flushes what another process may have written to a file.
	flush(name string) error
	rename(from, to string) error
	remove(name string) error
	// list is the names of all files, in their order.
	list() ([]string, error)
	// flushFolder makes names durable.
	flushFolder() error
	// close gives the folder to others.
	close() error
}

// File is a file that is written once, from its beginning to its end.
type File interface {
	io.WriteCloser
	Sync() error
}

// contents are the bytes of a file, to which nobody writes. They are there for as long as the
// contents can be reached.
type contents struct{ bytes []byte }

// wrapped are files that somebody looks at while they are written.
type wrapped struct {
	files
	as func(name string, f File) File
}

func (w wrapped) create(name string) (File, error) {
	f, err := w.files.create(name)
	if err != nil {
		return nil, err
	}
	return w.as(name, f), nil
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

func (f *folder) create(name string) (File, error) { return os.Create(f.of(name)) }

func (f *folder) read(name string) (*contents, error) {
	in, err := os.Open(f.of(name))
	if err != nil {
		return nil, err
	}
	defer in.Close()
	about, err := in.Stat()
	if err != nil || about.Size() == 0 {
		return &contents{}, err
	}
	b, err := syscall.Mmap(int(in.Fd()), 0, int(about.Size()), syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("mapping %s: %w", name, err)
	}
	c := &contents{b}
	runtime.AddCleanup(c, func(b []byte) { _ = syscall.Munmap(b) }, b)
	return c, nil
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
