package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"stampede/reports/answer"
	"stampede/reports/export"
)

// onGitHub says whether this is a step of a GitHub Actions job.
func onGitHub() bool { return os.Getenv("GITHUB_ACTIONS") == "true" }

// appendStepSummary adds the Markdown summary to the page of a GitHub job. All
// scenarios of a step share the file, and it has a limit.
func appendStepSummary(data answer.Data) error {
	path := os.Getenv("GITHUB_STEP_SUMMARY")
	if path == "" {
		return nil
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("opening the step summary (GITHUB_STEP_SUMMARY): %w", err)
	}
	info, err := file.Stat()
	if err != nil {
		return errors.Join(fmt.Errorf("the step summary %s: %w", path, err), file.Close())
	}
	return errors.Join(export.MarkdownWithin(file, data, int(info.Size())), file.Close())
}

// annotate shows on GitHub what went wrong. All scenarios of a step share the
// number of annotations that are shown. They go to w, where progress goes: the
// runner reads both streams, and the results stay as they are.
func (a *app) annotate(w io.Writer, data answer.Data) error {
	if !onGitHub() {
		return nil
	}
	wrote, err := export.Annotations(w, data, export.MostAnnotations-a.annotations)
	a.annotations += wrote
	return err
}
