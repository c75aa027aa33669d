//go:build race

package views

// raceDetected says that the race detector is at work, under which a seed takes
// ten times as long.
const raceDetected = true
