package sut_test

import (
	"testing"

	"stampede/harness/sut"
)

// TestParamsOf: parameters come as they are or by a pointer; anything else is an error.
func TestParamsOf(t *testing.T) {
	type params struct{ N int }
	for _, given := range []any{params{7}, &params{7}} {
		if p, err := sut.ParamsOf[params](given); err != nil || p.N != 7 {
			t.Errorf("%T became %+v, %v", given, p, err)
		}
	}
	for _, given := range []any{nil, (*params)(nil), 7, struct{ N int }{7}} {
		if p, err := sut.ParamsOf[params](given); err == nil {
			t.Errorf("%T became %+v", given, p)
		}
	}
}
