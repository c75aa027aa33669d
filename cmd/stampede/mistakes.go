package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"stampede/harness/check"
	"stampede/harness/rundir"
	"stampede/harness/scenario"
)

// didYouMean names the known name that is nearest, if one is near.
func didYouMean(name string, known []string) string {
	if best := check.Nearest(name, known); best != "" {
		return fmt.Sprintf("; did you mean %q?", best)
	}
	return ""
}

// flagMistake says of a flag that is not there which one was meant, and of a value
// that cannot be read what one looks like.
func flagMistake(cmd *cobra.Command, err error) error {
	if missing, ok := errors.AsType[*pflag.NotExistError](err); ok {
		known := []string{}
		cmd.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
		if hint := didYouMean(missing.GetSpecifiedName(), known); hint != "" {
			return fmt.Errorf("%w%s", err, hint)
		}
		return fmt.Errorf("%w; `%s --help` lists them", err, cmd.CommandPath())
	}
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		f := invalid.GetFlag()
		return fmt.Errorf("--%s is %q; expected %s", f.Name, invalid.GetValue(), example(f.Value.Type()))
	}
	return err
}

// knownCommand refuses the name of a command that there is not.
func knownCommand(root *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	known := []string{}
	for _, cmd := range root.Commands() {
		if cmd.IsAvailableCommand() {
			known = append(append(known, cmd.Name()), cmd.Aliases...)
		}
	}
	return usage(fmt.Errorf("there is no command %q%s; `stampede --help` lists them", args[0],
		didYouMean(args[0], known)))
}

// example is what a value of a type looks like.
func example(kind string) string {
	switch kind {
	case "duration":
		return "a duration with a unit, such as 500ms, 30s or 2m"
	case "int":
		return "a whole number"
	case "float64":
		return "a number"
	case "bool":
		return "true or false"
	}
	return "a " + kind
}

// explainArguments has every command say how it is used when its arguments are not
// as many or not those that it takes.
func explainArguments(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		explainArguments(sub)
	}
	if cmd.Args == nil || !cmd.HasParent() {
		return
	}
	plain := cmd.Args
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		err := plain(cmd, args)
		if err == nil {
			return nil
		}
		hint := ""
		if len(cmd.ValidArgs) > 0 {
			hint = "; expected one of " + strings.Join(cmd.ValidArgs, ", ")
			for _, arg := range args {
				hint += didYouMean(arg, cmd.ValidArgs)
			}
		}
		first, _, _ := strings.Cut(err.Error(), "\n") // cobra's own guesses follow
		return usage(fmt.Errorf("%s%s\nusage: %s", first, hint, cmd.UseLine()))
	}
}

// openRun opens a stored run, and says what to do where there is none.
func openRun(out, which string) (*rundir.Run, error) {
	stored, err := rundir.Open(out, which)
	if err == nil {
		return stored, nil
	}
	if _, there := os.Stat(filepath.Join(out, which)); there == nil || which == "" {
		return nil, err
	}
	folders, _ := filepath.Glob(filepath.Join(out, "*", rundir.Latest)) // the pattern is good
	known := []string{}
	for _, folder := range folders {
		known = append(known, filepath.Base(filepath.Dir(folder)))
	}
	if len(known) == 0 {
		return nil, fmt.Errorf("%w; `stampede run` makes one, and --out names another folder", err)
	}
	return nil, fmt.Errorf("%w%s; `stampede list runs` shows them", err, didYouMean(which, known))
}

// noScenario says why a scenario cannot be read: what is wrong with the file, if
// there is one, or what the name may have meant.
func noScenario(name string, err error, known []string) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return usage(fmt.Errorf("reading the scenario: %w", err))
	}
	if _, ok := findSystem(name); ok {
		return usage(fmt.Errorf("%q is a system, not a scenario; `stampede list %s` shows "+
			"its scenarios", name, name))
	}
	return usage(fmt.Errorf("there is no scenario %q%s; `stampede list` shows "+
		"them, and a path to a file of your own works too", name, meantScenario(name, known)))
}

// mostAlike is how many scenarios with a similar name are listed.
const mostAlike = 5

// meantScenario is didYouMean, or lists some of the scenarios that begin with the name, or
// else the three that have most of its words in theirs.
func meantScenario(name string, known []string) string {
	if hint := didYouMean(name, known); hint != "" || name == "" {
		return hint
	}
	var begin []string
	for _, k := range known {
		if strings.HasPrefix(k, name) {
			begin = append(begin, k)
		}
	}
	if n := len(begin) - mostAlike; n > 0 {
		return "; these begin so: " + strings.Join(begin[:mostAlike], ", ") +
			fmt.Sprintf(" and %d more", n)
	}
	if len(begin) > 0 {
		return "; these begin so: " + strings.Join(begin, ", ")
	}
	if alike := withWordsOf(name, known); len(alike) > 0 {
		return "; did you mean one of " + strings.Join(alike, ", ") + "?"
	}
	return ""
}

// withWordsOf are at most three of the known names: those that share most words of four
// letters or more with a name.
func withWordsOf(name string, known []string) []string {
	words := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
	shared := map[string]int{}
	var alike []string
	for _, k := range known {
		for _, word := range words {
			if len(word) >= 4 && strings.Contains(k, word) {
				shared[k]++
			}
		}
		if shared[k] > 0 {
			alike = append(alike, k)
		}
	}
	slices.SortStableFunc(alike, func(a, b string) int { return shared[b] - shared[a] })
	return alike[:min(len(alike), 3)]
}

// asTyped names the flags that a user typed where a problem names what they were
// made into.
func (f *runFlags) asTyped(err error) error {
	problems, ok := errors.AsType[scenario.Errors](err)
	if !ok {
		return err
	}
	typed := map[string]string{
		"--set load.arrival.rate=": "--rate",
		"--set load.arrival.over=": "--duration",
		"--set repeats=":           "--repeats",
		"--set variants=[":         "--design",
		"--set baseline=":          "--baseline",
	}
	for i, p := range problems {
		for made, flag := range typed {
			if rest, ok := strings.CutPrefix(p.Where.Flag, made); ok && !slices.Contains(f.set,
				strings.TrimPrefix(p.Where.Flag, "--set ")) {
				problems[i].Where.Flag = strings.TrimSpace(flag + " " + strings.TrimSuffix(rest, "]"))
			}
		}
	}
	return usage(problems)
}
