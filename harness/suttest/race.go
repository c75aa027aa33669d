//go:build race

package suttest

// RaceDetected says that the race detector is at work, under which a seed takes
// ten times as long.
const RaceDetected = true
