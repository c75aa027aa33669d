package edge

import (
	"container/list"
	"net/http"
	"slices"
)

// maxVariants bounds the responses of one URI that differ by Vary, which are looked at one by one.
const maxVariants = 64

// store has the objects by URI and drops the least recently used ones. Its owner locks it.
type store struct {
	max, used, evicted int64
	recent             *list.List // of *object, the latest used first
	pages              map[string]*page
}

// page is what is stored of one URI: its variants, the latest first.
type page struct{ variants []*list.Element }

func newStore(maxBytes int64) *store {
	return &store{max: maxBytes, recent: list.New(), pages: map[string]*page{}}
}

func objectOf(e *list.Element) *object { return e.Value.(*object) }

// find is the object that answers requests with these fields, nil if there is none; known says
// whether the URI has other variants.
func (s *store) find(uri string, asked http.Header) (o *object, known bool) {
	p := s.pages[uri]
	if p == nil {
		return nil, false
	}
	for _, e := range p.variants {
		if objectOf(e).matches(asked) {
			s.recent.MoveToFront(e)
			return objectOf(e), true
		}
	}
	return nil, true
}

// vary names the fields that select among the variants, by the latest of them.
func (s *store) vary(uri string) []string {
	if p := s.pages[uri]; p != nil {
		return objectOf(p.variants[0]).vary
	}
	return nil
}

// put stores an object in place of those that would answer the same request.
func (s *store) put(o *object, asked http.Header) {
	s.drop(o.uri, func(old *object) bool { return old.matches(asked) })
	p := s.pages[o.uri]
	if p == nil {
		p = &page{}
		s.pages[o.uri] = p
	}
	if len(p.variants) == maxVariants {
		s.remove(p.variants[maxVariants-1])
	}
	p.variants = slices.Insert(p.variants, 0, s.recent.PushFront(o))
	s.used += o.size()
	for s.used > s.max {
		s.remove(s.recent.Back())
		s.evicted++
	}
}

// drop removes the variants of a URI that is says.
func (s *store) drop(uri string, is func(*object) bool) {
	p := s.pages[uri]
	if p == nil {
		return
	}
	for _, e := range slices.Clone(p.variants) {
		if is(objectOf(e)) {
			s.remove(e)
		}
	}
}

func (s *store) remove(e *list.Element) {
	o := objectOf(e)
	s.recent.Remove(e)
	s.used -= o.size()
	p := s.pages[o.uri]
	p.variants = slices.DeleteFunc(p.variants, func(v *list.Element) bool { return v == e })
	if len(p.variants) == 0 {
		delete(s.pages, o.uri)
	}
}
