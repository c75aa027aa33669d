package scheduler

import (
	"encoding/json"
	"time"

	"stampede/harness/history"
)

// CronOracle is the judges' own reckoning.
func CronOracle(expression, zone string, from, to time.Time) ([]time.Time, error) {
	return cronOracle(expression, zone, from, to)
}

// CronNext is the first time of an expression after another.
func CronNext(expression, zone string, after time.Time) (time.Time, error) {
	s, err := parseCron(expression, zone)
	if err != nil {
		return time.Time{}, err
	}
	return s.next(after)
}

// RequestOf is the request that an operation sends.
func RequestOf(op history.Op) Request {
	req, _, err := requestOf(op)
	if err != nil {
		panic(err)
	}
	return req
}

// ClockOf is the moment of a business time, in microseconds, on a day that began at
// another one.
func ClockOf(p Params, beginsUS int64, business time.Time) int64 {
	c := calendar{begins: moment(beginsUS), day: p.day(), scale: p.TimeScale}
	return c.clock(business).UnixMicro()
}

// DayMS is the business time at which the day begins.
func DayMS(p Params) int64 { return p.day().UnixMilli() }

// DecodeLook reads the body of a sample.
func DecodeLook(body []byte) (l Look) {
	if err := json.Unmarshal(body, &l); err != nil {
		panic(err)
	}
	return l
}

// Encode is the body of a sample.
func (l Look) Encode() []byte {
	body, err := json.Marshal(l)
	if err != nil {
		panic(err)
	}
	return body
}
