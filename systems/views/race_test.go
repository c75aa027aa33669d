//go:build race

package views

func init() { raceDetected = true }
