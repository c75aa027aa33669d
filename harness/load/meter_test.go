package load

import (
	"runtime"
	"testing"
)

func TestMeterSeesPausesAndProcessorTime(t *testing.T) {
	m := startMeter()
	for range 3 {
		runtime.GC()
	}
	g := m.stop()
	if g.GCPauseP99NS <= 0 {
		t.Errorf("three collections, pauses of %d ns", g.GCPauseP99NS)
	}
	if g.CPUCores <= 0 || g.OpenFiles < 3 {
		t.Errorf("%+v", g)
	}
}
