package api

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
	"time"

	"stampede/harness/bounds"
	"stampede/harness/history"
)

// Example is a request that a server accepts and an answer to it, as HTTP and as a history
// have them.
type Example struct {
	// ID is the operation's identity in the description.
	ID, Kind, Method, Target, Body string
	// Other says that it is of another route to a kind, which has no operation and no answer
	// here.
	Other  bool
	Op     history.Op
	Status int
	Reply  history.Reply
	// Answer is the body of the answer, of which Repeats are the members that repeat the
	// request.
	Answer  string
	Repeats []string
	// Optional are the members of the answer that may be left out.
	Optional []string
	// Refuses are the system's own problems in which it may end.
	Refuses []error
}

// Examples has one example of each kind, made of the tags of its fields, and one of each other
// route.
func (t *Table[S]) Examples() (list []Example) {
	for i := range t.Kinds {
		k := &t.Kinds[i]
		req, reply := sample(k.request.typ), sample(k.reply.typ)
		e := Example{ID: k.about.ID, Kind: k.Name, Method: k.method,
			Target: k.request.target(k.path, req), Status: k.about.Status, Refuses: t.refusals(k.about)}
		for _, f := range k.reply.fields {
			if f.in != inBody {
				f.of(reply).SetZero() // an answer whose body is all there is
				continue
			}
			if f.optional {
				e.Optional = append(e.Optional, f.name)
			}
			if f.echo != nil {
				reply.FieldByIndex(f.index).Set(req.FieldByIndex(f.echo))
				e.Repeats = append(e.Repeats, f.name)
			}
		}
		var err error
		if e.Op, err = k.opOf(req); err == nil {
			e.Reply, err = k.reply.recordReply(reply)
		}
		if err != nil {
			panic(fmt.Sprintf("api: an example of %s: %v", k.Name, err))
		}
		if k.request.wire != nil {
			e.Body = mustJSON(req)
		}
		if !k.reply.empty() {
			e.Answer = mustJSON(k.reply.onWire(reply))
		}
		list = append(list, e)
		for _, o := range k.others {
			asked := sample(o.request.typ)
			other := Example{ID: o.about.ID, Kind: k.Name, Other: true, Method: o.method,
				Target: o.request.target(o.path, asked), Status: o.about.Status, Reply: e.Reply,
				Refuses: t.refusals(o.about)}
			if o.request.wire != nil {
				other.Body = mustJSON(asked)
			}
			list = append(list, other)
		}
	}
	return list
}

// BeginExample is a body of a reset.
func (t *Table[S]) BeginExample(params any) (string, error) {
	begin, err := t.Begin(params)
	if err != nil {
		return "", err
	}
	return mustJSON(reflect.ValueOf(begin)), nil
}

// onWire is the body of an answer.
func (s *shape) onWire(reply reflect.Value) reflect.Value {
	if s.apart {
		return reflect.ValueOf(s.inParts(reply).body)
	}
	return reply
}

func mustJSON(v reflect.Value) string {
	text, err := json.Marshal(v.Interface())
	if err != nil {
		panic(fmt.Sprintf("api: an example of %s: %v", v.Type(), err))
	}
	return string(text)
}

// sample makes a value that is within its bounds.
func sample(t reflect.Type) reflect.Value {
	v := reflect.New(t).Elem()
	switch {
	case t == reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)))
	case t.Kind() == reflect.Struct:
		for _, f := range reflect.VisibleFields(t) {
			if text, has := f.Tag.Lookup("example"); has {
				if text != "" {
					v.FieldByIndex(f.Index).SetString(text)
				}
			} else if _, has := fieldOf(f); has && f.IsExported() && !f.Anonymous {
				v.FieldByIndex(f.Index).Set(within(f.Type, bounds.Of(f)))
			}
		}
	default:
		v.Set(within(t, bounds.Field{}))
	}
	return v
}

// within makes a value of a field.
func within(t reflect.Type, limits bounds.Field) reflect.Value {
	v := reflect.New(t).Elem()
	if t == reflect.TypeFor[time.Time]() {
		return sample(t)
	}
	if _, own := v.Addr().Interface().(json.Unmarshaler); own {
		return v // what encodes itself has its own idea of a good value
	}
	number := math.Max(1, limits.Min)
	if limits.HasMax {
		number = math.Min(number, limits.Max)
	}
	switch {
	case limits.Enum != nil:
		v.SetString(limits.Enum[0])
	case t.Kind() == reflect.Bool:
		v.SetBool(true)
	case v.CanUint():
		v.SetUint(uint64(number))
	case v.CanInt():
		v.SetInt(int64(number))
	case v.CanFloat():
		v.SetFloat(number)
	case t.Kind() == reflect.String:
		v.SetString(strings.Repeat("a", int(number)))
	case t.Kind() == reflect.Slice:
		for range int(number) {
			v.Set(reflect.Append(v, sample(t.Elem())))
		}
	case t.Kind() == reflect.Pointer:
		v.Set(reflect.New(t.Elem()))
		v.Elem().Set(sample(t.Elem()))
	case t.Kind() == reflect.Struct:
		v.Set(sample(t))
	}
	return v
}
