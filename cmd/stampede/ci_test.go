package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/rhysd/actionlint"
	"github.com/spf13/cobra"

	"stampede/harness/scenario"
	"stampede/harness/stats"
)

// The files that users copy into their CI.
const (
	githubWorkflow = "../../docker/ci/github-workflow.yml"
	gitlabPipeline = "../../docker/ci/gitlab-ci.yml"
)

// TestGitHubWorkflowIsSound: the linter of workflows knows their syntax, expressions and
// the inputs of well-known actions.
func TestGitHubWorkflowIsSound(t *testing.T) {
	linter, err := actionlint.NewLinter(io.Discard, &actionlint.LinterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	text := read(t, githubWorkflow)
	for _, problem := range lintWorkflow(t, linter, text) {
		t.Error(problem)
	}
	// The linter is awake.
	wrong := strings.Replace(string(text), "${{ matrix.scenario }}", "${{ matrix.scenery }}", 1)
	if len(lintWorkflow(t, linter, []byte(wrong))) == 0 {
		t.Error("a wrong expression was not noticed")
	}
}

func lintWorkflow(t *testing.T, linter *actionlint.Linter, text []byte) []*actionlint.Error {
	t.Helper()
	problems, err := linter.Lint("stampede.yml", text, nil)
	if err != nil {
		t.Fatal(err)
	}
	return problems
}

// TestGitHubWorkflowCommands: every command of the workflow is one that this build takes,
// for every scenario of its matrices.
func TestGitHubWorkflowCommands(t *testing.T) {
	var workflow struct {
		Permissions map[string]string
		Jobs        map[string]struct {
			Timeout  int `yaml:"timeout-minutes"`
			Strategy struct {
				Matrix struct {
					Scenario []string
					Include  []map[string]string
				}
			}
			Steps []struct{ Uses, Run string }
		}
	}
	if err := yaml.Unmarshal(read(t, githubWorkflow), &workflow); err != nil {
		t.Fatal(err)
	}
	if len(workflow.Permissions) != 1 || workflow.Permissions["contents"] != "read" {
		t.Errorf("the permissions are %v", workflow.Permissions)
	}
	commands := 0
	for name, job := range workflow.Jobs {
		if job.Timeout == 0 {
			t.Errorf("%s has no timeout", name)
		}
		rows := job.Strategy.Matrix.Include
		for _, scenario := range job.Strategy.Matrix.Scenario {
			rows = append(rows, map[string]string{"scenario": scenario})
		}
		for _, row := range rows {
			for _, step := range job.Steps {
				_, version, uses := strings.Cut(step.Uses, "@")
				if uses && (len(version) != 2 || version[0] != 'v') {
					t.Errorf("%s: pinned otherwise than by its major version", step.Uses)
				}
				commands += tryScript(t, step.Run, row)
			}
		}
	}
	if commands != 6 { // two scenarios, once in a pull request and twice at night
		t.Errorf("%d commands were tried", commands)
	}
}

// TestGitLabPipelineCommands: likewise, and what GitLab is told to read is written.
func TestGitLabPipelineCommands(t *testing.T) {
	var pipeline struct {
		Stampede struct {
			Before   []string `yaml:"before_script"`
			Script   []string
			Timeout  string
			Parallel struct {
				Matrix []struct {
					Scenarios []string `yaml:"SCENARIO"`
				}
			}
			Artifacts struct {
				When    string
				Paths   []string
				Reports map[string]string
			}
		}
	}
	if err := yaml.Unmarshal(read(t, gitlabPipeline), &pipeline); err != nil {
		t.Fatal(err)
	}
	job := pipeline.Stampede
	script := strings.Join(append(job.Before, job.Script...), "\n")
	commands := 0
	for _, scenario := range job.Parallel.Matrix[0].Scenarios {
		commands += tryScript(t, script, map[string]string{"scenario": scenario})
	}
	if commands != 4 || job.Timeout == "" || job.Artifacts.When != "always" {
		t.Errorf("%d commands were tried, timeout %q, artifacts %q", commands, job.Timeout,
			job.Artifacts.When)
	}
	for _, kept := range []string{"--junit " + job.Artifacts.Reports["junit"],
		"--metrics " + job.Artifacts.Reports["metrics"], "--html " + job.Artifacts.Paths[0]} {
		if !strings.Contains(script, kept+" ") && !strings.HasSuffix(script, kept) {
			t.Errorf("nothing writes what %q should", kept)
		}
	}
}

// tryScript tries the commands of a script that call stampede, and returns how many.
func tryScript(t *testing.T, script string, row map[string]string) (n int) {
	t.Helper()
	for line := range strings.Lines(strings.ReplaceAll(script, "\\\n", " ")) {
		line = strings.NewReplacer("$SCENARIO", row["scenario"], "$DESIGNS", row["designs"],
			"$runs", "gallery/runs", "$out", "gallery", "$target", "http://127.0.0.1:80",
			`"$@"`, "").Replace(line)
		words := shellWord.FindAllString(shellMark.ReplaceAllString(line, ""), -1)
		for i := range words {
			words[i] = strings.NewReplacer(`"`, "", "'", "").Replace(words[i])
		}
		if len(words) > 0 && filepath.Base(words[0]) == "stampede" {
			n++
			tryCommand(t, words[1:])
		}
	}
	return n
}

var (
	// shellWord is a word, quotes and all; shellMark is where a command ends and the
	// shell goes on.
	shellWord = regexp.MustCompile(`(?:"[^"]*"|'[^']*'|[^\s"'])+`)
	shellMark = regexp.MustCompile(`(\||&|>[^=]).*`)
)

// TestSampleCommands: likewise, of `make gallery` and `make screenshot`.
func TestSampleCommands(t *testing.T) {
	for _, script := range []string{"gallery.sh", "failing-server.sh"} {
		text := string(read(t, filepath.Join("../../docs/samples", script)))
		want := strings.Count(text, "bin/stampede ")
		if n := tryScript(t, text, nil); n != want || want == 0 {
			t.Errorf("%s: %d commands were tried, want %d", script, n, want)
		}
	}
	makefile := string(read(t, "../../Makefile"))
	for _, script := range []string{"docs/samples/gallery.sh gallery",
		"docs/samples/failing-server.sh "} {
		if !strings.Contains(makefile, script) {
			t.Errorf("no target runs %s", script)
		}
	}
}

// TestGalleryShowsBothOfEachSystem: a design that holds beside one that its run must catch.
func TestGalleryShowsBothOfEachSystem(t *testing.T) {
	script := strings.ReplaceAll(string(read(t, "../../docs/samples/gallery.sh")), "\\\n", " ")
	both := map[string]bool{}
	for _, m := range regexp.MustCompile(`stampede run (\S+) .*--design (\S+)`).
		FindAllStringSubmatch(script, -1) {
		plan, err := resolve(m[1], scenario.Options{Profile: "smoke"})
		if err != nil {
			t.Fatal(err)
		}
		holds, caught := false, false
		for _, v := range plan.System.Variants {
			if slices.Contains(strings.Split(m[2], ","), v.Name) {
				sound := cell(plan.Scenario, v) == "holds"
				holds, caught = holds || sound, caught || !sound
			}
		}
		both[plan.System.Name] = both[plan.System.Name] || holds && caught
	}
	for _, name := range systemNames() {
		if !both[name] {
			t.Errorf("%s: no run has a design that holds beside one that is caught", name)
		}
	}
}

// tryCommand holds a command line against this build: the command, its flags and their
// values; of a run also the scenario, its variants and whether its repeats can show what
// it should fail on.
func tryCommand(t *testing.T, args []string) {
	t.Helper()
	root := newRoot(&app{stdout: devNull(t), stderr: devNull(t), interrupts: &interrupts{}})
	if i := slices.Index(args, "--against"); i >= 0 {
		cmd := parse(t, root, args)
		repeats, err := cmd.Flags().GetInt("repeats")
		if err != nil || !stats.CanShow(repeats, repeats, comparedMetrics()) {
			t.Errorf("%q: %d repeats can never show a regression (%v)", args, repeats, err)
		}
		// There is nothing yet to compare with.
		args = slices.Delete(slices.Clone(args), i, i+2)
		for i := range args {
			args[i] = strings.TrimSuffix(args[i], ","+regression)
		}
		root = newRoot(&app{stdout: devNull(t), stderr: devNull(t), interrupts: &interrupts{}})
	}
	if args[0] != "run" {
		parse(t, root, args)
		return
	}
	root.SetArgs(append(args, "--dry-run"))
	if err := root.Execute(); err != nil {
		t.Errorf("%q: %v", args, err)
	}
}

// parse finds a command and reads its flags, as running it would.
func parse(t *testing.T, root *cobra.Command, args []string) *cobra.Command {
	t.Helper()
	root.InitDefaultHelpCmd()
	cmd, rest, err := root.Find(args)
	if err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	if err := cmd.ParseFlags(rest); err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	if err := cmd.ValidateArgs(cmd.Flags().Args()); err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	return cmd
}

func devNull(t *testing.T) *os.File {
	t.Helper()
	file, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	return file
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestTouchedSystems: CI runs the scenarios of the systems whose files changed, and all of them
// if the harness that they run on did.
func TestTouchedSystems(t *testing.T) {
	t.Parallel()
	for file, want := range map[string][]string{
		"systems/likes/facts.go":                 {"likes"},
		"scenarios/views-reprocess.yaml":         {"views"},
		"systems/likes/a.go\nsystems/views/b.go": {"likes", "views"},
		"scenarios/that-is-gone.yaml":            systemNames(),
		"harness/run/run.go":                     systemNames(),
		"systems/internal/queue/queue.go":        systemNames(),
		"docs/ci.md\nharness/lint/doc.go":        nil,
	} {
		touched := exec.Command("../../.ci/touched")
		touched.Stdin = strings.NewReader(file + "\n")
		out, err := touched.Output()
		if got := strings.Fields(string(out)); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q touches %v (%v), want %v", file, got, err, want)
		}
	}
}
