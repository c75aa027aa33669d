package scenario

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"stampede/harness/sut"
)

// Hidden stands where a secret is left out.
const Hidden = "xxxxx"

// Secrets are the names of a system's secret parameters: texts that are tagged
// `secret:"true"`.
func Secrets(sys sut.System) (names []string) {
	for _, f := range secretFields(sys) {
		names = append(names, jsonName(f))
	}
	return names
}

func secretFields(sys sut.System) (fields []reflect.StructField) {
	if sys.Params == nil {
		return nil
	}
	t := reflect.TypeOf(sys.Params()).Elem()
	if t.Kind() != reflect.Struct {
		return nil
	}
	for _, f := range reflect.VisibleFields(t) {
		if f.Tag.Get("secret") == "true" && f.Type.Kind() == reflect.String {
			fields = append(fields, f)
		}
	}
	return fields
}

// WithoutSecrets is a scenario of the system with Hidden for each secret parameter that is
// set: what may be written down and handed on.
func (s Scenario) WithoutSecrets(sys sut.System) (Scenario, error) {
	fields := secretFields(sys)
	if len(fields) == 0 {
		return s, nil
	}
	params := sys.Params()
	if err := json.Unmarshal(s.Params, params); err != nil {
		return s, fmt.Errorf("looking for secrets among the parameters: %w", err)
	}
	set := false
	for _, f := range fields {
		if value := reflect.ValueOf(params).Elem().FieldByIndex(f.Index); value.String() != "" {
			value.SetString(Hidden)
			set = true
		}
	}
	if !set {
		return s, nil
	}
	text, err := json.Marshal(params)
	if err != nil {
		return s, fmt.Errorf("leaving out the secrets among the parameters: %w", err)
	}
	s.Params = text
	return s, nil
}

// HideSetting is a word of a command line with Hidden for the value of a secret parameter
// that it sets ("params.token=abc"), or for a whole mapping that names one
// ("params={token: abc}").
func HideSetting(word string, secrets []string) string {
	for _, name := range secrets {
		if before, _, sets := strings.Cut(word, "params."+name+"="); sets {
			return before + "params." + name + "=" + Hidden
		}
		if i := strings.IndexAny(word, "{["); i >= 0 && strings.Contains(word[i:], name) {
			return word[:i] + Hidden
		}
	}
	return word
}
