// Package generators lets several generators offer one load. A coordinator, in the process of the
// run, tells them when to begin and where the API is, keeps their clocks apart, and collects what
// each has recorded; an engine (env.Engine) places them. The load is split by load.Part.
//
// See docs/beyond-one-machine.md.
package generators

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"strings"

	"stampede/harness/scenario"
)

// Plan is all that a generator has to be told, but for its index: a file, which holds a secret and
// may hold those of the scenario.
type Plan struct {
	// Run is the run's id, Generators how many offer the load.
	Run        string `json:"run" form:"filled" required:"the run's id"`
	Generators int    `json:"generators" min:"1" max:"10000"`
	Seed       uint64 `json:"seed"`
	// Operations identifies what the load offers, as the coordinator computes it: a generator of
	// another build, whose schedule differs, has another one.
	Operations string `json:"operations" form:"filled" required:"the digest of the operations"`
	// Coordinator is where the run answers, as http://host:port; Token lets a generator in.
	Coordinator string `json:"coordinator" form:"filled" required:"the coordinator's URL"`
	Token       string `json:"token" form:"filled" required:"the coordinator's token"`
	// TargetCA are the authorities that may sign the API's certificate, in PEM; "" is the system's.
	TargetCA string `json:"target_ca,omitempty"`
	// Scenario is the resolved scenario, as YAML.
	Scenario string `json:"scenario" form:"filled" required:"the resolved scenario"`
}

// File is the plan as a YAML file.
func (p Plan) File() []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "# What a generator of stampede offers. It holds secrets.\nrun: %q\n"+
		"generators: %d\nseed: %d\noperations: %q\ncoordinator: %q\ntoken: %q\n", p.Run, p.Generators,
		p.Seed, p.Operations, p.Coordinator, p.Token)
	for _, text := range []struct{ name, text string }{
		{"target_ca", p.TargetCA}, {"scenario", p.Scenario},
	} {
		if text.text == "" {
			continue
		}
		fmt.Fprintf(&b, "%s: |\n", text.name)
		for line := range strings.Lines(text.text) {
			b.WriteString("  " + strings.TrimSuffix(line, "\n") + "\n")
		}
	}
	return []byte(b.String())
}

// ReadPlan reads a plan's file. A wrong one is an error with line and column.
func ReadPlan(name string, text []byte) (p Plan, err error) {
	if err := scenario.DecodeInto(name, text, &p); err != nil {
		return p, fmt.Errorf("the plan of a generator: %w", err)
	}
	return p, nil
}

// newToken makes the secret of one coordinator, 256 bits.
func newToken() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // it never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}
