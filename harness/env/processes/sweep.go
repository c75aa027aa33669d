package processes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"stampede/harness/env"
)

var _ env.Sweeper = Provider{}

// signatureGrace is how long a folder without a readable owner is left alone:
// its maker may be about to sign it.
const signatureGrace = time.Minute

// Sweep implements env.Sweeper: processes still running from, and folders
// left behind by, a stampede that is dead.
func (Provider) Sweep(ctx context.Context, dry bool) ([]string, error) {
	var removed []string
	var errs []error
	for _, root := range roots() {
		dirs, err := filepath.Glob(filepath.Join(root, homePrefix+"*"))
		if err != nil {
			return removed, fmt.Errorf("look for data folders in %s: %w", root, err)
		}
		for _, dir := range dirs {
			if !abandoned(dir) {
				continue
			}
			what, err := sweepHome(ctx, dir, dry)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			removed = append(removed, what)
		}
	}
	return removed, errors.Join(errs...)
}

// abandoned says whether a folder is one of ours whose owner is dead.
func abandoned(dir string) bool {
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() {
		return false
	}
	data, err := os.ReadFile(filepath.Join(dir, ownerFile))
	if errors.Is(err, os.ErrNotExist) {
		return isEmpty(dir) && time.Since(info.ModTime()) > signatureGrace
	}
	var o env.Owner
	if err != nil || json.Unmarshal(data, &o) != nil {
		return false // not ours to judge
	}
	return o.Dead()
}

func isEmpty(dir string) bool {
	entries, err := os.ReadDir(dir)
	return err == nil && len(entries) == 0
}

// sweepHome ends what runs in a home and removes it; a dry one only names both.
func sweepHome(ctx context.Context, dir string, dry bool) (string, error) {
	var pids []int
	var err error
	if dry {
		pids, err = workingIn(dir)
	} else {
		pids, err = killAll(ctx, 0, dir)
	}
	if err != nil {
		return "", err
	}
	if !dry {
		if err := os.RemoveAll(dir); err != nil {
			return "", fmt.Errorf("remove an abandoned data folder: %w", err)
		}
	}
	if len(pids) > 0 {
		return fmt.Sprintf("%s with processes %v", dir, pids), nil
	}
	return dir, nil
}
