package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"stampede/harness/plain"
)

// The groups of commands in the root's help.
const (
	runGroup      = "run"
	lookGroup     = "look"
	judgeGroup    = "judge"
	maintainGroup = "maintain"
)

// addGrouped adds the commands of one group of the root's help, in this order.
func addGrouped(root *cobra.Command, id, title string, commands ...*cobra.Command) {
	root.AddGroup(&cobra.Group{ID: id, Title: title + ":"})
	for _, cmd := range commands {
		cmd.GroupID = id
		root.AddCommand(cmd)
	}
}

// flagGroup is the annotation of a flag that names its heading in the help.
const flagGroup = "stampede_group"

// flagGroups puts flags under headings in a command's help: each group is a heading and
// names after it. The groups and their flags are shown in this order, flags without a group
// after them.
func flagGroups(cmd *cobra.Command, groups ...[]string) {
	for _, group := range groups {
		for _, name := range group[1:] {
			if err := cmd.Flags().SetAnnotation(name, flagGroup, group[:1]); err != nil {
				panic(fmt.Sprintf("%s: %v", cmd.Name(), err)) // a name above is misspelt
			}
		}
	}
	cmd.SetUsageFunc(func(cmd *cobra.Command) error { return printUsage(cmd, groups) })
}

// fitHelp makes the help of a command fit textColumns: its flags, if they are in no groups,
// and its paragraphs of prose.
func fitHelp(cmd *cobra.Command) {
	grouped := false
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		grouped = grouped || f.Annotations[flagGroup] != nil
	})
	if !grouped && !cmd.HasSubCommands() {
		flagGroups(cmd)
	}
	paragraphs := strings.Split(cmd.Long, "\n\n")
	for i, p := range paragraphs {
		if !strings.Contains(p, "\n ") { // no list
			p = strings.Join(plain.Wrap(strings.Join(strings.Fields(p), " "), textColumns), "\n")
			paragraphs[i] = p
		}
	}
	cmd.Long = strings.Join(paragraphs, "\n\n")
}

// printUsage prints the usage of a command whose flags are in groups.
func printUsage(cmd *cobra.Command, groups [][]string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Usage:\n  %s\n", cmd.UseLine())
	if len(cmd.Aliases) > 0 {
		fmt.Fprintf(&b, "\nAliases:\n  %s\n", cmd.NameAndAliases())
	}
	if cmd.HasExample() {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", cmd.Example)
	}
	for _, group := range groups {
		set := pflag.NewFlagSet(group[0], pflag.ContinueOnError)
		set.SortFlags = false
		for _, name := range group[1:] {
			set.AddFlag(cmd.Flags().Lookup(name))
		}
		fmt.Fprintf(&b, "\n%s:\n%s", group[0], set.FlagUsagesWrapped(textColumns))
	}
	rest := pflag.NewFlagSet("rest", pflag.ContinueOnError)
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Annotations[flagGroup] == nil {
			rest.AddFlag(f)
		}
	})
	heading := "Other"
	if len(groups) == 0 {
		heading = "Flags"
	}
	fmt.Fprintf(&b, "\n%s:\n%s", heading, rest.FlagUsagesWrapped(textColumns))
	_, err := fmt.Fprint(cmd.OutOrStderr(), b.String())
	return err
}
