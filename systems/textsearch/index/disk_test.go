package index

import (
	"maps"
	"os"
	"slices"
	"sync"
)

// disk is files that know what would be left after the power is cut: of a file what was flushed,
// and perhaps some of what was not; of the folder the names at its last flush, and perhaps any of
// what was changed since: names of two files may lie in two blocks.
type disk struct {
	flushing       func() // called before the folder is flushed, if it is set
	fails          error  // of each flush of a file that is being written
	mu             sync.Mutex
	names, durable map[string]*diskFile
	changes        []func(map[string]*diskFile)
}

type diskFile struct {
	disk    *disk
	b       []byte
	flushed int
}

func newDisk() *disk {
	return &disk{names: map[string]*diskFile{}, durable: map[string]*diskFile{}}
}

// cut is what is left after the power is cut; some says how much of so many.
func (d *disk) cut(some func(int) int) *disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	left := maps.Clone(d.durable)
	for _, change := range d.changes {
		if some(1) == 1 {
			change(left)
		}
	}
	return copied(left, func(f *diskFile) int { return f.flushed + some(len(f.b)-f.flushed) })
}

// killed is what is left after the process was killed.
func (d *disk) killed() *disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	return copied(d.names, func(f *diskFile) int { return len(f.b) })
}

func copied(names map[string]*diskFile, size func(*diskFile) int) *disk {
	c := newDisk()
	for _, name := range slices.Sorted(maps.Keys(names)) {
		b := slices.Clone(names[name].b[:size(names[name])])
		c.names[name] = &diskFile{c, b, len(b)}
	}
	c.durable = maps.Clone(c.names)
	return c
}

func (d *disk) change(change func(map[string]*diskFile)) {
	change(d.names)
	d.changes = append(d.changes, change)
}

func (d *disk) create(name string) (File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := &diskFile{disk: d}
	d.change(func(names map[string]*diskFile) { names[name] = f })
	return f, nil
}

func (d *disk) read(name string) (*contents, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.names[name]
	if f == nil {
		return nil, os.ErrNotExist
	}
	return &contents{f.b}, nil
}

func (d *disk) flush(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.names[name].flushed = len(d.names[name].b)
	return nil
}

func (d *disk) rename(from, to string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.names[from]
	d.change(func(names map[string]*diskFile) {
		names[to] = f
		delete(names, from)
	})
	return nil
}

func (d *disk) remove(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.change(func(names map[string]*diskFile) { delete(names, name) })
	return nil
}

func (d *disk) list() ([]string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Sorted(maps.Keys(d.names)), nil
}

func (d *disk) flushFolder() error {
	if d.flushing != nil {
		d.flushing()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.durable, d.changes = maps.Clone(d.names), nil
	return nil
}

func (d *disk) close() error { return nil }

func (f *diskFile) Write(b []byte) (int, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	f.b = append(f.b, b...)
	return len(b), nil
}

func (f *diskFile) Sync() error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if f.disk.fails == nil {
		f.flushed = len(f.b)
	}
	return f.disk.fails
}

func (f *diskFile) Close() error { return nil }
