package api_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"stampede/harness/api"
)

// shelf is an audit with rows of every form.
type shelf struct {
	Rows  []shelfRow   `json:"rows"`
	Boxes [][]shelfRow `json:"boxes,omitempty"`
	Owner *shelfOwner  `json:"owner,omitempty"`
	Own   []verbatim   `json:"own,omitempty"`
	Slack int64        `json:"slack" min:"0"`
}

type shelfRow struct {
	Name  string  `json:"name" min:"1" max:"9"`
	Count int64   `json:"count"`
	State string  `json:"state" enum:"full,empty"`
	Note  string  `json:"note,omitempty"`
	Sizes []int64 `json:"sizes"`
	Place struct {
		X int64 `json:"x"`
	} `json:"place"`
}

type shelfOwner struct {
	Name  string `json:"name"`
	Books []Book `json:"books,omitempty"`
}

// verbatim decodes itself.
type verbatim struct{ text string }

func (v *verbatim) UnmarshalJSON(text []byte) error { v.text = string(text); return nil }

func (s *shelf) Check() error {
	if s.Slack == 13 {
		return errors.New("slack: 13")
	}
	return nil
}

const goodShelf = `{"rows": [{"name": "a", "count": 0, "state": "full", "sizes": [],
	"place": {"x": 0}}], "boxes": [[{"name": "b", "count": -1, "state": "empty", "sizes": [1],
	"place": {"x": 1}}]], "owner": {"name": ""}, "own": [{"any": 1}], "slack": 4}`

// TestDecodeAudit: an audit must be whole within its rows and within its bounds, and what is
// wrong is called by its path.
func TestDecodeAudit(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{"", "", ""},
		{`"slack"`, `"colour": "red", "slack"`, ""},
		{`, "slack": 4`, "", ""},
		{goodShelf, `{"rows": null}`, ""},
		{goodShelf, "", "decoding the audit: there is none"},
		{goodShelf, "null", "there is none"},
		{goodShelf, goodShelf[:40], "unexpected end"},
		{goodShelf, goodShelf + "{}", "after top-level value"},
		{goodShelf, "[]", "cannot unmarshal array"},
		{`"count": 0`, `"count": "0"`, "rows.count"},
		{`"count": 0`, `"count": 0.5`, "rows.count"},
		{`"count": 0, `, "", "rows[0].count: it is missing"},
		{`"count": 0`, `"count": null`, "rows[0].count: it is missing"},
		{`"sizes": [],`, "", "rows[0].sizes: it is missing"},
		{`{"x": 0}`, "{}", "rows[0].place.x: it is missing"},
		{`"count": -1, `, "", "boxes[0][0].count: it is missing"},
		{`"owner": {"name": ""}`, `"owner": {}`, ""},
		{`"owner": {"name": ""}`, `"owner": {"name": "", "books": [{}]}`,
			"owner.books[0].title: it is missing"},
		{`"name": "a"`, `"name": ""`, "rows[0].name: expected 1 or more bytes, got 0"},
		{`"full"`, `"half"`, `rows[0].state: expected full or empty, got "half"`},
		{`"name": "a"`, `"name": "` + strings.Repeat("a", 99) + `"`, ""},
		{`"slack": 4`, `"slack": -4`, "slack: expected 0 or more, got -4"},
		{`"slack": 4`, `"slack": 13`, "decoding the audit: slack: 13"},
	} {
		text := strings.Replace(goodShelf, c.old, c.new, 1)
		got, err := api.DecodeAudit[shelf](json.RawMessage(text))
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%.60s: %v", text, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("error %v does not contain %q", err, c.want)
		case err != nil && !reflect.DeepEqual(got, shelf{}):
			t.Errorf("%+v came with %v", got, err)
		}
	}
	absent, err := api.DecodeAudit[shelf](json.RawMessage(`{"rows": []}`))
	if err != nil || absent.Rows == nil || absent.Boxes != nil {
		t.Errorf("got %+v, %v, want empty rows and nothing else", absent, err)
	}
}
