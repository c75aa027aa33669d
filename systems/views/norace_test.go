//go:build !race

package views

const raceDetected = false
