package apitest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// Compatible fails the test unless a description promises what another, older one did: the
// same routes with the same parameters, statuses and codes, and bodies with the same members
// within the same bounds. Texts, names of schemas and examples may differ, what a success
// returns may have more than before, and what is meant to be otherwise is left out: the
// places that have one of some texts in them.
func Compatible(t *testing.T, older, newer []byte, meant ...string) {
	t.Helper()
	was, is := promises(t, older), promises(t, newer)
	isMeant := func(key string) bool {
		return slices.ContainsFunc(meant, func(text string) bool { return strings.Contains(key, text) })
	}
	for _, key := range slices.Sorted(maps.Keys(was)) {
		if got, has := is[key]; (!has || got != was[key]) && !isMeant(key) {
			t.Errorf("%s: %s\nwas %s", key, got, was[key])
		}
	}
	for _, key := range slices.Sorted(maps.Keys(is)) {
		if _, has := was[key]; !has && !more(was, key) && !isMeant(key) {
			t.Errorf("%s is new: %s", key, is[key])
		}
	}
}

// more says whether a key is of a member of what a success returns that was not described.
func more(was map[string]string, key string) bool {
	if of, is := strings.CutSuffix(key, ".type"); is && was[of+".enum"] != "" {
		return true // that the texts of an enum are texts
	}
	_, in, found := strings.Cut(key, ".responses.2")
	for at := len(key) - len(in); found; {
		i := strings.Index(key[at:], ".properties.")
		if i < 0 {
			return false
		}
		at += i + len(".properties.")
		member := key[:at+strings.IndexByte(key[at:]+".", '.')] + "."
		if !slices.ContainsFunc(slices.Collect(maps.Keys(was)), func(old string) bool {
			return strings.HasPrefix(old+".", member)
		}) {
			return true
		}
	}
	return false
}

// written fails the test unless openapi.yaml is this description, where there is such a file. With
// UPDATE_OPENAPI=1 it writes it.
func written(t *testing.T, description []byte) {
	t.Helper()
	const file = "openapi.yaml"
	if os.Getenv("UPDATE_OPENAPI") != "" {
		if err := os.WriteFile(file, description, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	text, err := os.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		t.Fatal(err)
	case !bytes.Equal(text, description):
		t.Errorf("%s is stale: run `make gen`", file)
	}
}

// promises flattens a description: what is promised, by where.
func promises(t *testing.T, text []byte) map[string]string {
	t.Helper()
	asJSON, err := yaml.YAMLToJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	f := flattening{out: map[string]string{}}
	if err := json.Unmarshal(asJSON, &f.doc); err != nil {
		t.Fatal(err)
	}
	f.add("paths", f.doc["paths"])
	return f.out
}

type flattening struct {
	doc map[string]any
	out map[string]string
}

// add follows references and leaves out what is for people.
func (f flattening) add(at string, v any) {
	switch v := v.(type) {
	case map[string]any:
		if ref, is := v["$ref"].(string); is {
			f.add(at, f.resolve(ref))
			return
		}
		for key, value := range v {
			switch key {
			case "summary", "description", "examples", "contentEncoding":
			case "additionalProperties":
				if strings.Contains(at, "requestBody") {
					f.add(at+"."+key, value)
				}
			default:
				f.add(at+"."+key, value)
			}
		}
		if len(v) == 0 {
			f.out[at] = "anything"
		}
	case []any:
		f.list(at, v)
	default:
		f.out[at] = fmt.Sprint(v)
	}
}

// list adds parameters by their names; of other lists, which are sets, all at once.
func (f flattening) list(at string, list []any) {
	var texts []string
	for _, v := range list {
		if p, is := v.(map[string]any); is {
			if ref, is := p["$ref"].(string); is {
				p = f.resolve(ref).(map[string]any)
			}
			f.add(fmt.Sprintf("%s.%v", at, p["name"]), p)
			continue
		}
		texts = append(texts, fmt.Sprint(v))
	}
	if len(texts) > 0 {
		slices.Sort(texts)
		f.out[at] = strings.Join(texts, ", ")
	}
}

func (f flattening) resolve(ref string) any {
	var v any = f.doc
	for _, name := range strings.Split(strings.TrimPrefix(ref, "#/"), "/") {
		v = v.(map[string]any)[name]
	}
	return v
}
