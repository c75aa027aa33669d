package bounds_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"stampede/harness/bounds"
)

type leaf struct {
	Length int    `json:"length" min:"1" max:"9"`
	Text   string `json:"text" max:"4"`
}

type embedded struct {
	Big uint64 `json:"big" min:"1" max:"9223372036854775807"`
}

type tree struct {
	embedded
	Count int64         `json:"count" min:"-2" max:"3"`
	Share float64       `json:"share" min:"0" max:"1"`
	Rest  time.Duration `json:"rest" min:"1ms" max:"1h"`
	Least int           `json:"least" min:"2"`
	Most  uint8         `json:"most" max:"7"`
	How   string        `json:"how" enum:"slow,fast,never"`
	Name  string        `json:"name,omitempty" min:"1" max:"3"`
	Leafs []leaf        `json:"leafs" min:"1" max:"2"`
	One   *leaf         `json:"one"`
	When  time.Time     `json:"when"`
	Free  string        `json:"free"`
	Said  string        `json:"said" form:"text"`
	Label string        `json:"label" form:"name"`
	Nodes int           `json:"nodes" enum:"1,3"`
	Pause time.Duration `json:"pause" min:"1ns" max:"1s"`
	Inner struct {
		Depth int `json:"depth" max:"1"`
	} `json:"inner"`
	Hidden int `json:"-" max:"-1"`
}

func good() tree {
	return tree{embedded: embedded{Big: math.MaxInt64}, Count: -2, Share: 1, Rest: time.Millisecond,
		Least: 2, Most: 7, How: "fast", Name: "abc", Leafs: []leaf{{Length: 1}}, One: &leaf{Length: 9},
		Label: "a-2_b", Nodes: 3, Pause: 1}
}

// TestCheck: each bound accepts its limits, refuses what is beyond them and names the field,
// what was expected and what was there.
func TestCheck(t *testing.T) {
	if err := bounds.Check(good()); err != nil {
		t.Fatalf("within all bounds: %v", err)
	}
	for want, change := range map[string]func(*tree){
		"big: expected 1 to 9223372036854775807, got 0": func(v *tree) { v.Big = 0 },
		"big: expected 1 to 9223372036854775807, got 9223372036854775808": func(v *tree) {
			v.Big++
		},
		"count: expected -2 to 3, got -3":                      func(v *tree) { v.Count = -3 },
		"count: expected -2 to 3, got 4":                       func(v *tree) { v.Count = 4 },
		"share: expected a number from 0 to 1, got NaN":        func(v *tree) { v.Share = math.NaN() },
		"share: expected a number from 0 to 1, got 1.5":        func(v *tree) { v.Share = 1.5 },
		"rest: expected a duration from 1ms to 1h0m0s, got 0s": func(v *tree) { v.Rest = 0 },
		"least: expected 2 or more, got 1":                     func(v *tree) { v.Least = 1 },
		"most: expected at most 7, got 8":                      func(v *tree) { v.Most = 8 },
		`how: expected slow, fast or never, got "odd"`:         func(v *tree) { v.How = "odd" },
		"name: expected 1 to 3 bytes, got 4":                   func(v *tree) { v.Name = "abcd" },
		"leafs: expected 1 to 2, got 0":                        func(v *tree) { v.Leafs = nil },
		"leafs[0].length: expected 1 to 9, got 10":             func(v *tree) { v.Leafs[0].Length = 10 },
		"one.text: expected at most 4 bytes, got 5":            func(v *tree) { v.One.Text = "abcde" },
		"inner.depth: expected at most 1, got 2":               func(v *tree) { v.Inner.Depth = 2 },
		`label: expected lower-case letters, digits and hyphens, got "A b"`: func(v *tree) {
			v.Label = "A b"
		},
		`said: expected UTF-8 without the character 0, which not every store takes, got "\x00"`: func(
			v *tree,
		) {
			v.Said = "\x00"
		},
		`said: expected UTF-8 without the character 0, which not every store takes, got "\xff"`: func(
			v *tree,
		) {
			v.Said = "\xff"
		},
		"nodes: expected 1 or 3, got 2": func(v *tree) { v.Nodes = 2 },
		"pause: expected a duration of more than zero and at most 1s, got 0s": func(v *tree) {
			v.Pause = 0
		},
	} {
		v := good()
		change(&v)
		if err := bounds.Check(&v); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	v := good()
	v.Count, v.Most, v.One = 4, 8, nil
	if err := bounds.Check(v); err == nil || strings.Count(err.Error(), "\n") != 1 {
		t.Errorf("two are wrong: %v", err)
	}
}

// TestBadTag: a tag that cannot be read is a defect of the program.
func TestBadTag(t *testing.T) {
	for name, v := range map[string]any{
		"number": struct {
			A int `min:"one"`
		}{},
		"duration": struct {
			A time.Duration `max:"5"`
		}{},
		"form": struct {
			A string `form:"odd"`
		}{},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			_ = bounds.Check(v)
		}()
	}
}
