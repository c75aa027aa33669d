package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

const guide = "../../docs/first-system.md"

// piece is a block of the guide: a file with its name, commands, or what they print.
type piece struct{ file, kind, text string }

var pieces = regexp.MustCompile("(?sm)(?:^`([^`\n]+)`\n\n)?^```(\\w+)\n(.*?)^```$")

// TestGuide follows docs/first-system.md as a reader would, in a copy of the repository:
// it writes each file when it is shown, types each command, and compares what is
// printed. `make setup` is left out, which installs things.
func TestGuide(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("needs real stores; -short was given")
	}
	var printed string
	outputs, dir := 0, clone(t)
	for _, p := range guidePieces(t) {
		switch p.kind {
		case "go", "yaml":
			if p.file == "" {
				t.Fatalf("a file without a name:\n%s", p.text)
			}
			put(t, filepath.Join(dir, p.file), p.text)
		case "sh":
			printed = follow(t, dir, withoutSetup(p.text))
			if strings.Contains(printed, ".go\n") {
				t.Errorf("not formatted as gofmt does: %s", printed)
			}
		case "text":
			outputs++
			if got, want := essence(printed), essence(p.text); got != want {
				t.Errorf("the guide says\n%s\nand it is\n%s", want, got)
			}
		default:
			t.Errorf("a block of %s", p.kind)
		}
	}
	if outputs != 3 {
		t.Errorf("%d outputs were compared", outputs)
	}
	missesAPI(t, dir)
}

// missesAPI takes the API away from the small system: that it is missing is said in words.
func missesAPI(t *testing.T, dir string) {
	t.Helper()
	file := filepath.Join(dir, "systems/seats/seats.go")
	put(t, file, strings.Replace(string(read(t, file)), "func System()", "func whole()", 1)+`
// System is the system without its API.
func System() sut.System {
	s := whole()
	s.Handler, s.Target = nil, nil
	return s
}
`)
	follow(t, dir, "make build")
	for command, want := range map[string]string{
		"serve seats --design conditional_update":         "seats has no HTTP API to serve",
		"run seats-rush.yaml --target http://127.0.0.1:9": "so no server of it can be judged",
	} {
		said := follow(t, dir, "bin/stampede "+command+" 2>&1 || [ $? = 2 ]")
		if !strings.Contains(said, want) {
			t.Errorf("%s says %q, want %q", command, said, want)
		}
	}
}

// TestGuideIsReadable: code that is shown is formatted and fits a page, and the whole system
// with its scenario has at most 150 lines that are not empty.
func TestGuideIsReadable(t *testing.T) {
	lines := 0
	for _, p := range guidePieces(t) {
		if p.kind == "go" || p.kind == "yaml" {
			lines += len(strings.FieldsFunc(p.text, func(r rune) bool { return r == '\n' }))
		}
		for line := range strings.Lines(p.text) {
			if width := len([]rune(strings.ReplaceAll(line, "\t", "    "))); p.kind == "go" && width > 101 {
				t.Errorf("%s: %d columns: %s", p.file, width-1, line)
			}
		}
	}
	if lines > 150 {
		t.Errorf("the system has %d lines", lines)
	}
}

func guidePieces(t *testing.T) (all []piece) {
	t.Helper()
	for _, m := range pieces.FindAllStringSubmatch(string(read(t, guide)), -1) {
		all = append(all, piece{m[1], m[2], m[3]})
	}
	return all
}

// clone copies what it takes to build from the repository.
func clone(t *testing.T) string {
	t.Helper()
	dir, top := t.TempDir(), "../.."
	for _, file := range []string{"go.mod", "go.sum", "Makefile"} {
		put(t, filepath.Join(dir, file), string(read(t, filepath.Join(top, file))))
	}
	for _, folder := range []string{"cmd", "docker", "harness", "reports", "scenarios", "systems"} {
		from := os.DirFS(filepath.Join(top, folder))
		if err := os.CopyFS(filepath.Join(dir, folder), from); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// withoutSetup leaves out what installs things, and takes the exit code that the guide
// speaks of for what it is.
func withoutSetup(script string) string {
	lines := slices.DeleteFunc(strings.Split(script, "\n"),
		func(line string) bool { return line == "make setup" })
	for i, line := range lines {
		if strings.HasPrefix(line, "bin/stampede run ") && !strings.Contains(line, "--fail-on") {
			lines[i] += " || [ $? = 1 ]"
		}
	}
	return strings.Join(lines, "\n")
}

// follow types commands in a folder and returns what they print.
func follow(t *testing.T, dir, script string) string {
	t.Helper()
	// As in a shell of its own, also where make runs the tests: a make below says where
	// it is.
	out, errs, err := shell(t, dir, script, slices.DeleteFunc(os.Environ(), func(pair string) bool {
		return strings.HasPrefix(pair, "MAKE") || strings.HasPrefix(pair, "MFLAGS=")
	}))
	if err != nil {
		t.Fatalf("%v\n%s\n%s%s", err, script, out, errs)
	}
	return out
}

// shell runs commands until one fails; none takes longer than some minutes.
func shell(t *testing.T, dir, script string, env []string) (out, errs string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-ec", script)
	cmd.Dir, cmd.Env = dir, env
	// A group of its own, so that nothing that it starts outlives the test.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.WaitDelay = 20 * time.Second
	var said, complained bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &complained
	err = cmd.Run()
	return said.String(), complained.String(), err
}

var (
	// What a machine measures, and how well, is different every time.
	measured = regexp.MustCompile(`(?m)^(TIMING|OBJECTIVES) .*\n( {12}.*\n)*`)
	// Whether a design differs from the baseline by more than the noise depends on the machine.
	ratios = regexp.MustCompile(
		`  +(vs BASE|baseline|(≈ )?[0-9.,]+× (faster|slower))|, vs BASE is of all`)
	fields  = regexp.MustCompile(` (timing=\w+|objectives=\S+( not judged\))?)`)
	marks   = strings.NewReplacer("≈ ", "")
	numbers = regexp.MustCompile(`[0-9][0-9.,]*( (µs|ms|s)\b)?×?|–`)
	stamps  = regexp.MustCompile(`[0-9]{8}T[0-9]{6}Z-[0-9]+-[0-9a-f]{8}`)
	gaps    = regexp.MustCompile(`  +`)
	names   = regexp.MustCompile(`(seat|buyer)-[0-9]+|(operation|acknowledged at) [0-9.]+(ms|s)?`)
	counts  = regexp.MustCompile(`[0-9][0-9,]* violations?`)
	// invariantsHeld are numbers that do not depend on the machine.
	invariantsHeld = regexp.MustCompile(`\b([0-9]+)/([0-9]+)\b`)
)

// essence is what a result says on every machine.
func essence(text string) string {
	text = ratios.ReplaceAllString(measured.ReplaceAllString(text, ""), "")
	text = strings.ReplaceAll(text, "\n            ", " ") // lines break by the length of numbers
	text = marks.Replace(fields.ReplaceAllString(text, ""))
	text = stamps.ReplaceAllString(text, "RUN")
	text = names.ReplaceAllString(text, "$1$2")
	text = counts.ReplaceAllString(text, "violations")
	text = gaps.ReplaceAllString(text, "  ")
	var out strings.Builder
	for line := range strings.Lines(text) {
		cells := strings.Split(line, "  ")
		for i := range cells {
			if !invariantsHeld.MatchString(cells[i]) && len(cells) > 1 {
				cells[i] = numbers.ReplaceAllString(cells[i], "#")
			}
		}
		out.WriteString(strings.Join(cells, "  "))
	}
	return strings.TrimSpace(out.String())
}
