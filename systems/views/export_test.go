package views

import (
	"encoding/json"

	"stampede/harness/history"
)

// ResetBody is a reset for the default parameters.
func ResetBody() string {
	text, err := json.Marshal(resetOf(DefaultParams()))
	if err != nil {
		panic(err)
	}
	return string(text)
}

// RulesOf are the rules that are in force from the beginning.
func RulesOf(p Params) Rules { return p.rules() }

// HeartbeatOf is the heartbeat that an operation sends.
func HeartbeatOf(op history.Op) Heartbeat {
	h, _, err := heartbeatOf(op)
	if err != nil {
		panic(err)
	}
	return h
}
