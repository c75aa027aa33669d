package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestOpener: nothing is opened where nobody would see it.
func TestOpener(t *testing.T) {
	here := map[string]string{"DISPLAY": ":0"}
	look := func(program string) (string, error) { return "/bin/" + program, nil }
	for name, c := range map[string]struct {
		d    desktop
		want string
	}{
		"a desktop":   {desktop{terminal: true, look: look}, "/bin/xdg-open"},
		"no terminal": {desktop{look: look}, "there is no terminal"},
		"no program": {desktop{terminal: true,
			look: func(string) (string, error) { return "", errors.New("not found") }}, "not found"},
	} {
		c.d.variable = func(name string) string { return here[name] }
		got, err := c.d.opener()
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	d := desktop{terminal: true, look: look}
	for variable, want := range map[string]string{"CI": "this is CI", "": "there is no desktop"} {
		d.variable = func(name string) string {
			if name == variable {
				return "1"
			}
			return ""
		}
		if _, err := d.opener(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is set: %v, want %q", variable, err, want)
		}
	}
}

// TestShow: the program gets the page's absolute path.
func TestShow(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "browser")
	script := "#!/bin/sh\nprintf %s \"$1\" > " + filepath.Join(dir, "seen") + "\n"
	if err := os.WriteFile(program, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	cmd, err := show(program, "report.html")
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	seen, err := os.ReadFile("seen")
	if err != nil || string(seen) != filepath.Join(dir, "report.html") {
		t.Errorf("the program saw %q, %v", seen, err)
	}
	if cmd, err = show(program, "http://127.0.0.1:1/?token=x"); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if seen, err := os.ReadFile("seen"); err != nil || string(seen) != "http://127.0.0.1:1/?token=x" {
		t.Errorf("the program saw %q, %v", seen, err)
	}
	if _, err := show(filepath.Join(dir, "nothing"), "x"); err == nil {
		t.Error("a program that is not there was started")
	}
}
