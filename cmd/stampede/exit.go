package main

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"stampede/harness/rundir"
)

// The exit codes. When several apply, the worst is returned in the order
// 1, 70, 5, 4, 3, 6, 7.
const (
	exitOK          = 0
	exitInvariant   = 1
	exitUsage       = 2
	exitObjective   = 3
	exitUndecided   = 4
	exitEnvironment = 5
	exitRegression  = 6
	exitTiming      = 7
	exitInternal    = 70
	exitInterrupted = 130
	exitTerminated  = 143
)

const exitCodesHelp = `Exit codes:
    0  correctness was decided and is as it should be; objectives were met,
       or could not be judged because of noise
    1  an invariant was violated, or a known-wrong design was provoked and
       not caught
    2  the command line or a scenario is wrong
    3  an objective, or a promise of time, was missed on clean times
    4  no answer about correctness: not exercised, a fault without proof,
       the history is broken; INVALID, whatever --fail-on names
    5  the environment is not ready: no engine, a store did not start,
       the disk is full
    6  worse than the run it was compared with: a verdict, or a clean time
       significantly and by 5 % or more (only with --fail-on regression)
    7  there are no clean times, and --fail-on timing asked for them or
       --fail-on regression needed them on both sides
   70  a defect of stampede itself
  130  interrupted by Ctrl-C or --timeout (143 by SIGTERM), whatever was found
The worst wins, in the order 1, 70, 5, 4, 3, 6, 7.
`

// exitError carries the exit code of an error. An empty message prints
// nothing: the result was told already.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// withCode gives an error an exit code; nil stays nil.
func withCode(code int, err error) error {
	if err == nil {
		return nil
	}
	return &exitError{code: code, err: err}
}

// usage makes an error a usage error.
func usage(err error) error { return withCode(exitUsage, err) }

// exitCode returns the exit code of an error. That of a command which cobra adds, such as
// help, is a usage error; anything else without a code is internal.
func exitCode(err error) int {
	if coded, ok := errors.AsType[*exitError](err); ok {
		return coded.code
	}
	if strings.HasPrefix(err.Error(), "unknown command") {
		return exitUsage
	}
	return exitInternal
}

func newExitCodes() *cobra.Command {
	return &cobra.Command{Use: "exit-codes", Short: "Explain the exit codes", Long: exitCodesHelp}
}

// worstExit picks the exit code of several runs. One that has no place in the
// order counts where no other does.
func worstExit(codes []int) int {
	for _, code := range []int{exitInvariant, exitInternal, exitEnvironment, exitUndecided,
		exitObjective, exitRegression, exitTiming} {
		if slices.Contains(codes, code) {
			return code
		}
	}
	for _, code := range codes {
		if code != exitOK {
			return code
		}
	}
	return exitOK
}

// undecided says that a verdict decides nothing.
func undecided(verdict string) bool {
	return verdict == rundir.Inconclusive || verdict == rundir.Invalid
}

// exitOf is the exit code of a summary.
func exitOf(s rundir.Summary, failOn []string) int {
	on := func(reason string) bool { return slices.Contains(failOn, reason) }
	codes := []int{}
	if on("invariant") && s.Verdict.Correctness == rundir.Fail {
		codes = append(codes, exitInvariant)
	}
	if on("objective") && s.Verdict.Objectives == rundir.Fail {
		codes = append(codes, exitObjective)
	}
	// In a run that failed itself nothing was measured: it answers no question.
	if s.Verdict.Correctness == rundir.Invalid {
		codes = append(codes, exitUndecided)
	}
	// What was not decided was not shown to hold: whoever asks for invariants
	// alone still asks that they were judged, of a run that came to its end.
	if on("invariant") && (undecided(s.Verdict.Correctness) || s.Run.Interrupted) {
		codes = append(codes, exitUndecided)
	}
	if on("inconclusive") && (undecided(s.Verdict.Correctness) || undecided(s.Verdict.Objectives)) {
		codes = append(codes, exitUndecided)
	}
	if on("timing") && s.Verdict.Timing != rundir.Clean {
		codes = append(codes, exitTiming)
	}
	return worstExit(codes)
}
