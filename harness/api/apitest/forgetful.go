package apitest

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"sync"
)

// another is what Forgetful adds to a key: more than any key, any time and any count is.
const another = 1 << 62

// Forgetful serves what next does, as if the keys of requests meant nothing: a request that
// comes again is another one to it. The keys are the numbers in the named fields of a
// request's body. What next answers has the key as it was sent, wherever it is a number
// in JSON; audit, unless it is nil, mends what an audit packs.
func Forgetful(
	next http.Handler, audit func(body []byte) ([]byte, error), fields ...string,
) http.Handler {
	keys := map[string]*regexp.Regexp{}
	for _, field := range fields {
		keys[field] = regexp.MustCompile(`("` + field + `":\s*)(\d+)`)
	}
	number := regexp.MustCompile(`\b[0-9]{19}\b`)
	var mu sync.Mutex
	seen := map[string]bool{}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		for _, key := range keys {
			body = key.ReplaceAllFunc(body, func(text []byte) []byte {
				mu.Lock()
				defer mu.Unlock()
				parts := key.FindSubmatch(text)
				sent := r.Method + r.URL.Path + string(parts[2])
				if !seen[sent] {
					seen[sent] = true
					return text
				}
				n, _ := strconv.ParseUint(string(parts[2]), 10, 64)
				return strconv.AppendUint(parts[1], n+another, 10)
			})
		}
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		answer := httptest.NewRecorder()
		next.ServeHTTP(answer, r)
		told := number.ReplaceAllFunc(answer.Body.Bytes(), func(text []byte) []byte {
			n, err := strconv.ParseUint(string(text), 10, 64)
			if err != nil {
				return text
			}
			return strconv.AppendUint(nil, Key(n), 10)
		})
		if audit != nil && r.URL.Path == "/v1/audit" {
			if told, err = audit(told); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
		}
		for name, values := range answer.Header() {
			w.Header()[name] = values
		}
		w.WriteHeader(answer.Code)
		_, _ = w.Write(told)
	})
}

// Key is a key as it was sent to Forgetful.
func Key(n uint64) uint64 {
	if n >= another {
		return n - another
	}
	return n
}
