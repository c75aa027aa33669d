package suttest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"math/big"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"stampede/harness/history"
)

// change is what becomes of a leaf, whose value in another answer is other.
type change = func(v, other any, pick func(int) int) any

// leaf is a text, a number, a truth or a list in an answer.
type leaf struct {
	path string
	is   any // as encoding/json reads it, with json.Number
	set  func(any)
}

func (l leaf) zero() bool           { return l.is == json.Number("0") }
func (l leaf) same(other leaf) bool { return reflect.DeepEqual(l.is, other.is) }

// leavesOf are those of an answer, by their names in JSON. What has a place of its own in a reply
// is changed there too, and is called key or value where it is nowhere else.
func leavesOf(r *history.Record) (all []leaf) {
	dec := json.NewDecoder(bytes.NewReader(r.Reply.Body))
	dec.UseNumber()
	var body any
	_ = dec.Decode(&body) // it has none, or is in an encoding of its own
	value := json.Number(strconv.FormatInt(r.Reply.Value, 10))
	setKey := func(v any) { r.Reply.Key = v.(string) }
	setValue := func(v any) { r.Reply.Value, _ = v.(json.Number).Int64() }
	var walk func(path string, v any, set func(any))
	walk = func(path string, v any, set func(any)) {
		switch v := v.(type) {
		case map[string]any:
			for _, name := range slices.Sorted(maps.Keys(v)) {
				walk(strings.TrimPrefix(path+"."+name, "."), v[name], func(to any) { v[name] = to })
			}
			return
		case []any:
			if len(v) == 0 {
				return
			}
			for i := range v {
				walk(path, v[i], func(to any) { v[i] = to })
			}
		}
		all = append(all, leaf{cmp.Or(path, "list"), v, func(to any) {
			set(to)
			r.Reply.Body, _ = json.Marshal(body)
			switch v {
			case r.Reply.Key:
				setKey(to)
			case value:
				setValue(to)
			}
		}})
	}
	walk("", body, func(to any) { body = to })
	is := func(v any) bool {
		return slices.ContainsFunc(all, func(l leaf) bool { return l.is == v })
	}
	if r.Reply.Key != "" && !is(r.Reply.Key) {
		all = append(all, leaf{"key", r.Reply.Key, setKey})
	}
	if r.Reply.Value != 0 && !is(value) {
		all = append(all, leaf{"value", value, setValue})
	}
	return all
}

// inAnswers are the corruptions of what is in the answers to each kind of operations: a number is
// raised and lowered, a truth is flipped, a text is that of another answer, and an element of a
// list is dropped or doubled.
func inAnswers(sample []history.Record) (list []blind) {
	known := map[string]bool{}
	for i := range sample {
		r := &sample[i]
		if r.Outcome != history.OK {
			continue
		}
		for _, l := range leavesOf(r) {
			for how, does := range changesOf(l.is) {
				name := how + " " + l.path + " in answers to " + r.Op.Kind
				if !known[name] {
					known[name] = true
					list = append(list, blind{name, inAnswer(r.Op.Kind, l, does)})
				}
			}
		}
	}
	slices.SortFunc(list, func(a, b blind) int { return strings.Compare(a.name, b.name) })
	return list
}

// inAnswer changes one of what is like a leaf in the answers to a kind; one that is not zero, if
// there are any.
func inAnswer(kind string, like leaf, do change) func(
	[]history.Record, reflect.Value, func(int) int,
) bool {
	return func(records []history.Record, _ reflect.Value, pick func(int) int) bool {
		var all []leaf
		for _, r := range Alone(records, kind, history.OK) {
			for _, l := range leavesOf(r) {
				if l.path == like.path && reflect.TypeOf(l.is) == reflect.TypeOf(like.is) {
					all = append(all, l)
				}
			}
		}
		if len(all) == 0 {
			return false
		}
		one, other := two(all, leaf.zero, leaf.same, pick)
		one.set(do(one.is, other.is, pick))
		return true
	}
}

// changesOf are the ways to change a leaf, by their names.
func changesOf(v any) map[string]change {
	by := func(sign int64) change {
		return func(v, _ any, _ func(int) int) any {
			n, whole := new(big.Int).SetString(string(v.(json.Number)), 10)
			if !whole {
				f, _ := v.(json.Number).Float64()
				return json.Number(strconv.FormatFloat(f+float64(sign), 'g', -1, 64))
			}
			step := big.NewInt(sign)
			if n.CmpAbs(big.NewInt(far)) > 0 {
				step.Mul(step, big.NewInt(far))
			}
			return json.Number(n.Add(n, step).String())
		}
	}
	switch v.(type) {
	case json.Number:
		return map[string]change{"raise": by(1), "lower": by(-1)}
	case bool:
		return map[string]change{"flip": func(v, _ any, _ func(int) int) any { return !v.(bool) }}
	case string:
		return map[string]change{"mistake": func(v, other any, _ func(int) int) any {
			if v == other {
				return v.(string) + "0"
			}
			return other
		}}
	case []any:
		cut := func(times int) change {
			return func(v, _ any, pick func(int) int) any {
				list := v.([]any)
				i := pick(len(list))
				return slices.Concat(list[:i], slices.Repeat(list[i:i+1], times), list[i+1:])
			}
		}
		return map[string]change{"drop": cut(0), "double": cut(2)}
	}
	return nil
}
