package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"stampede/harness/scenario"
)

func TestEstimateText(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		11 * time.Second: "20 s", 90 * time.Second: "90 s", 101 * time.Second: "2 min",
		5*time.Minute + 20*time.Second: "5 min", 100 * time.Minute: "2 h",
	} {
		if got := estimateText(d); got != want {
			t.Errorf("%s: %q, want %q", d, got, want)
		}
	}
}

// TestEstimateHasTheControl: a plan, a list and a run count the baseline's second run.
func TestEstimateHasTheControl(t *testing.T) {
	t.Parallel()
	for profile, control := range map[string]int{"default": 1, "quick": 1, "smoke": 0} {
		plan, err := resolve("flash-sale-100k", scenario.Options{Profile: profile})
		if err != nil {
			t.Fatal(err)
		}
		designs := len(plan.Scenario.Variants)
		e, err := estimate(plan, designs, controlled(profile))
		if want := designs*plan.Scenario.Repeats + control; err != nil || e.repeats != want {
			t.Errorf("%s: %d repeats, %v; want %d", profile, e.repeats, err, want)
		}
		alone, err := estimate(plan, 1, controlled(profile))
		if err != nil || alone.repeats != plan.Scenario.Repeats {
			t.Errorf("%s: %d repeats of one design, %v", profile, alone.repeats, err)
		}
		var out bytes.Buffer
		err = describe(&out, plan, controlled(profile))
		if told := fmt.Sprintf(": %d repeats, each with", e.repeats); err != nil ||
			!strings.Contains(out.String(), told) {
			t.Errorf("%s: the plan does not say %q: %v\n%s", profile, told, err, out.String())
		}
	}
}

func TestEstimateSaysFromWhenToWhen(t *testing.T) {
	t.Parallel()
	e := estimated{least: 75 * time.Second, most: 2 * time.Minute, load: 10 * time.Second,
		repeats: 4, drain: 30 * time.Second}
	want := "about 80 s to 2 min: 4 repeats, each with 10s of load; a drain may take up to 30s more"
	if e.String() != want {
		t.Errorf("%s", e)
	}
}
