package sut

import "fmt"

// ParamsOf reads the parameters of a Config, which are a P or a pointer to one.
func ParamsOf[P any](params any) (P, error) {
	if p, ok := params.(P); ok {
		return p, nil
	}
	if p, ok := params.(*P); ok && p != nil {
		return *p, nil
	}
	var none P
	return none, fmt.Errorf("expected parameters of the type %T, got %T", none, params)
}
