package apitest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
)

// Reworded serves what next does, and gives every problem another text each time. The
// codes and the statuses stay: they are what an API promises.
func Reworded(next http.Handler) http.Handler {
	var told atomic.Int64
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := httptest.NewRecorder()
		next.ServeHTTP(answer, r)
		body := answer.Body.Bytes()
		if code := codeOf(body); answer.Code >= http.StatusBadRequest && code != "" {
			body = Problem(code, fmt.Sprintf("Leider nein, Fall %d", told.Add(1)))
		}
		for name, values := range answer.Header() {
			w.Header()[name] = values
		}
		w.WriteHeader(answer.Code)
		_, _ = w.Write(body)
	})
}

// Problem is the body of an answer to a request that failed.
func Problem(code, text string) []byte {
	body, err := json.Marshal(map[string]string{"code": code, "error": text})
	if err != nil {
		panic(err) // two texts
	}
	return body
}

// codeOf is the code in a body, "" if that is no problem.
func codeOf(body []byte) string {
	var problem struct{ Code string }
	if json.NewDecoder(bytes.NewReader(body)).Decode(&problem) != nil {
		return ""
	}
	return problem.Code
}
