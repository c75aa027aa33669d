package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"stampede/harness/plain"
	"stampede/harness/scenario"
	"stampede/harness/sut"
	"stampede/scenarios"
	"stampede/systems"
)

// app is what the commands share.
type app struct {
	stdout, stderr *os.File
	argv           []string
	interrupts     *interrupts
	// annotations counts those that this step of a GitHub job has.
	annotations int
}

// logf prints a line on standard error, which may quote somebody else.
func (a *app) logf(format string, args ...any) {
	fmt.Fprintln(a.stderr, asCalled(plain.Lines(fmt.Sprintf(format, args...)), program()))
}

func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "stampede",
		Short: "Load-test several designs of one system and judge whether they stay right",
		Long: `stampede runs several designs of one system on real stores under the same load and
the same faults, judges the recorded history against invariants and objectives, and
writes one offline HTML page.`,
		Example: `  stampede list                       the scenarios, and how long each takes
  stampede run flash-sale-100k        run a scenario and judge its designs
  stampede open                       open the page of the latest run
  stampede knee likes-spike           search for the highest rate that works`,
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			return flagsFromEnvironment(cmd)
		},
		Args: knownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usage(flagMistake(cmd, err))
	})
	addGrouped(root, runGroup, "Run", newRun(a), newSimulate(a), newCalibrate(a), newKnee(a),
		newReplay(a), newServe(a), newLab(a))
	addGrouped(root, lookGroup, "Look", newList(a), newDescribe(a), newOpen(a), newUI(a),
		newReport(a), newExport(a))
	addGrouped(root, judgeGroup, "Judge", newCheck(a), newCompare(a))
	addGrouped(root, maintainGroup, "Maintain", newDoctor(a), newClean(a), newSchema(a),
		newGenerate(a), newVersion(a))
	root.SetHelpCommandGroupID(maintainGroup)
	root.SetCompletionCommandGroupID(maintainGroup)
	root.AddCommand(newExitCodes(), newReap(), newKfake(a))
	explainArguments(root)
	for _, cmd := range append(root.Commands(), root) {
		fitHelp(cmd)
	}
	return root
}

// findSystem returns a system by name.
func findSystem(name string) (sut.System, bool) { return named(systems.All(), name) }

// named returns the system of a name among some.
func named(all []sut.System, name string) (sut.System, bool) {
	for _, s := range all {
		if s.Name == name {
			return s, true
		}
	}
	return sut.System{}, false
}

// systemNames lists the systems' names.
func systemNames() []string { return namesOf(systems.All()) }

func namesOf(all []sut.System) []string {
	names := []string{}
	for _, s := range all {
		names = append(names, s.Name)
	}
	return names
}

// withSystems lets scenarios name our systems. They are listed once, for a scenario asks for its
// system in each of its profiles.
func withSystems(opts scenario.Options) scenario.Options {
	all := systems.All()
	opts.SystemNames = namesOf(all)
	opts.Systems = func(name string) (sut.System, bool) { return named(all, name) }
	return opts
}

// source is a scenario's text and where it came from.
type source struct {
	file string
	text []byte
}

// findScenario reads a scenario by its built-in name or by a file's path.
func findScenario(name string) (source, error) {
	if text, file, ok := scenarios.Source(name); ok {
		return source{file: file, text: text}, nil
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return source{}, noScenario(name, err, scenarios.All())
	}
	return source{file: name, text: text}, nil
}
