package index

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sort"

	"github.com/blevesearch/vellum"
)

// A segment is a file that is never changed:
//
//	columns    of its entries, in the order of their documents: document, version, sequence number,
//	           and 1 + the document's len; 0 if the entry says that the document is deleted
//	postings   of one term after the other; see appendPostings
//	dictionary a transducer from each term to the place of its postings
//	footer     how many entries there are, where postings and dictionary begin, and a checksum
//
// Entries have numbers from 0, which are what postings call them by.
type segment struct {
	id   uint64
	file *contents // which is there as long as the segment is
	// entries are how many there are; seqs and so on say what they are.
	entries                      int
	docs, versions, seqs, length column
	postings                     []byte
	terms                        *vellum.FST
}

const (
	footerSize = 8 + 8 + 8 + 4 + 4
	magic      = 0x54_53_58_02
)

func segmentName(id uint64) string { return fmt.Sprintf("segment-%016x", id) }

// openSegment reads what a file has, after its checksum.
func openSegment(id uint64, file *contents) (*segment, error) {
	s := &segment{id: id, file: file}
	b, name := file.bytes, segmentName(id)
	if !whole(b) {
		return nil, corrupt(name + " is not whole")
	}
	foot := b[len(b)-footerSize:]
	entries, at, dictionary := binary.LittleEndian.Uint64(foot),
		binary.LittleEndian.Uint64(foot[8:]), binary.LittleEndian.Uint64(foot[16:])
	end := uint64(len(b) - footerSize)
	if at > dictionary || dictionary > end || entries > 1<<32-2 {
		return nil, corrupt(name + " has a malformed footer")
	}
	s.entries = int(entries)
	rest, is := b, true
	for _, c := range []*column{&s.docs, &s.versions, &s.seqs, &s.length} {
		if is {
			*c, rest, is = columnAt(rest, s.entries)
		}
	}
	if !is || uint64(len(b)-len(rest)) != at {
		return nil, corrupt(name + " has malformed columns")
	}
	s.postings = b[at:]
	var err error
	if s.terms, err = vellum.Load(b[dictionary:end:end]); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrCorrupt, name, err)
	}
	return s, nil
}

// whole says whether the checksum of a segment is right.
func whole(b []byte) bool {
	if len(b) < footerSize {
		return false
	}
	last := b[len(b)-8:]
	return binary.LittleEndian.Uint32(last) == magic &&
		sumOn(0, b[:len(b)-4]) == binary.LittleEndian.Uint32(last[4:])
}

func (s *segment) doc(i uint32) uint64 { return s.docs.get(int(i)) }

func (s *segment) entry(i uint32) entry {
	return entry{s.versions.get(int(i)), s.seqs.get(int(i)), s.length.get(int(i)) == 0}
}

func (s *segment) len(i uint32) uint32 { return uint32(max(s.length.get(int(i)), 1) - 1) }

// find finds the entry of a document.
func (s *segment) find(doc uint64) (uint32, bool) {
	i, is := sort.Find(s.entries, func(i int) int { return cmp.Compare(doc, s.docs.get(i)) })
	return uint32(i), is
}

// posting is that an entry has a term.
type posting struct {
	at, tf    uint32   // tf is weighted
	positions []uint32 // ascending, on one line for all fields
}

// builder writes a segment.
type builder struct {
	to       io.Writer
	err      error
	written  uint64
	sum      uint32
	buffer   []byte
	lens     func(uint32) uint32
	entries  int
	at       uint64 // where postings begin
	keys     *vellum.Builder
	keyBytes bytes.Buffer // what keys has written
}

// row is an entry with its document, of which a segment is built.
type row struct {
	doc uint64
	entry
	len uint32
}

// build begins a segment of entries in the order of their documents.
func build(to io.Writer, rows []row) *builder {
	b := &builder{to: to, entries: len(rows), lens: func(i uint32) uint32 { return rows[i].len }}
	for _, value := range []func(i int) uint64{
		func(i int) uint64 { return rows[i].doc },
		func(i int) uint64 { return rows[i].Version },
		func(i int) uint64 { return rows[i].Seq },
		func(i int) uint64 {
			if rows[i].gone {
				return 0
			}
			return uint64(rows[i].len) + 1
		},
	} {
		b.write(appendColumn(nil, len(rows), value))
	}
	b.at = b.written
	var err error
	b.keys, err = vellum.New(&b.keyBytes, nil)
	b.err = errors.Join(b.err, err)
	return b
}

func (b *builder) write(p []byte) {
	if b.err == nil {
		b.sum = sumOn(b.sum, p)
		b.written += uint64(len(p))
		_, b.err = b.to.Write(p)
	}
}

// term adds a term, in the order of their bytes, with postings in the order of their entries.
func (b *builder) term(term string, list []posting) {
	if b.err == nil {
		b.err = b.keys.Insert([]byte(term), b.written-b.at)
	}
	b.buffer = appendPostings(b.buffer[:0], list, b.lens)
	b.write(b.buffer)
}

// finish writes the rest.
func (b *builder) finish() error {
	if b.err == nil {
		b.err = b.keys.Close()
	}
	dictionary := b.written
	b.write(b.keyBytes.Bytes())
	var foot []byte
	for _, v := range []uint64{uint64(b.entries), b.at, dictionary} {
		foot = binary.LittleEndian.AppendUint64(foot, v)
	}
	b.write(binary.LittleEndian.AppendUint32(foot, magic))
	b.write(binary.LittleEndian.AppendUint32(nil, b.sum))
	if b.err != nil {
		return fmt.Errorf("writing a segment: %w", b.err)
	}
	return nil
}
