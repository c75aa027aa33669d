package scenario_test

import (
	"strings"
	"testing"

	"stampede/harness/scenario"
	"stampede/harness/sut"
)

type secretive struct {
	Units int `json:"units"`
	Access
	Name string `json:"name"`
}

// Access is embedded: its fields are those of the parameters.
type Access struct {
	Token string `json:"token" secret:"true"`
}

// TestSecretsAreNotWritten: a secret parameter that is set is not in what is written; an
// empty one, and all others, are as they were.
func TestSecretsAreNotWritten(t *testing.T) {
	sys := sut.System{Params: func() any { return &secretive{} }}
	for params, want := range map[string]string{
		`{"units":3,"token":"abc","name":"abc"}`: "  units: 3\n  token: xxxxx\n  name: abc\n",
		`{"units":3,"token":"","name":"abc"}`:    "  units: 3\n  token: \"\"\n  name: abc\n",
	} {
		sc, err := scenario.Scenario{Params: []byte(params)}.WithoutSecrets(sys)
		if err != nil {
			t.Fatal(err)
		}
		text, err := sc.YAML()
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s is written as\n%s%v", params, text, err)
		}
	}
	secrets := scenario.Secrets(sys)
	for word, want := range map[string]string{
		"params.token=abc": "params.token=xxxxx", "--set=params.token=abc": "--set=params.token=xxxxx",
		"params.units=3": "params.units=3", "token=abc": "token=abc",
		"params={token: abc}": "params=xxxxx", `--set=params={"token": "abc"}`: "--set=params=xxxxx",
		"params={units: 3}": "params={units: 3}",
	} {
		if got := scenario.HideSetting(word, secrets); got != want {
			t.Errorf("%s is shown as %s, want %s", word, got, want)
		}
	}
}
