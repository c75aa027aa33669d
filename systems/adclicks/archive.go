package adclicks

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/parquet-go/parquet-go"

	"stampede/harness/stores"
	"stampede/harness/topics"
	"stampede/systems/internal/objects"
)

// bucket is where a run keeps its objects.
func bucket(st *opened) objects.Store { return objects.In(st.DB) }

// archiveName is the name of a file with clicks of a partition. Which clicks it has follows from
// its name, so that a file that is written again has the same.
func archiveName(part int32, from, to int64) string {
	return fmt.Sprintf("%s%012d-%012d.parquet", archivePrefix(part), from, to)
}

func archivePrefix(part int32) string { return fmt.Sprintf("clicks/part=%d/", part) }

// archiverRole writes the log to files. The file comes first, and then how far it is: whoever dies
// in between writes the file again.
func archiverRole() role {
	return role{Name: "archiver", Summary: "writes the log to Parquet files",
		Step: func(ctx context.Context, st *opened) (time.Duration, error) {
			stands, err := lags(ctx, st)
			for _, s := range stands {
				if err == nil && s.end > s.Archived {
					err = archive(ctx, st, s)
				}
			}
			return st.Params.ArchiveEvery.D(), err
		}}
}

// archive writes the clicks of a partition that are not archived into a file.
func archive(ctx context.Context, st *opened, s stand) error {
	var list []event
	name := topics.Name(st.Config, topicClicks)
	reading, cancel := context.WithTimeout(ctx, stores.Timeout(st.Config))
	defer cancel()
	err := topics.Read(reading, st.Config, name, map[int32]int64{s.Part: s.Archived},
		map[int32]int64{s.Part: s.end}, each(&list))
	if err != nil {
		return err
	}
	var file bytes.Buffer
	if err := parquet.Write(&file, list, parquet.Compression(&parquet.Zstd)); err != nil {
		return fmt.Errorf("writing a Parquet file: %w", err)
	}
	if err := bucket(st).Put(ctx, archiveName(s.Part, s.Archived, s.end), file.Bytes()); err != nil {
		return err
	}
	_, err = st.DB.Exec(ctx, `UPDATE progress SET archived_next = $3
		WHERE part = $1 AND archived_next = $2`, s.Part, s.Archived, s.end)
	return stores.Failed("noting what is archived", err)
}

// archived reads the clicks of a partition that are archived, each once, in the order of the log.
// Two archivers may have written files that overlap.
func archived(ctx context.Context, st *opened, part int32) ([]event, error) {
	b := bucket(st)
	names, err := b.List(ctx, archivePrefix(part))
	if err != nil {
		return nil, err
	}
	var list []event
	for _, name := range names {
		body, err := b.Get(ctx, name)
		if err != nil {
			return nil, err
		}
		rows, err := parquet.Read[event](bytes.NewReader(body), int64(len(body)))
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", name, err)
		}
		list = append(list, rows...)
	}
	slices.SortStableFunc(list, func(a, b event) int { return cmp.Compare(a.Offset, b.Offset) })
	list = slices.CompactFunc(list, func(a, b event) bool { return a.Offset == b.Offset })
	for i, e := range list {
		if e.Offset != int64(i) {
			return nil, fmt.Errorf("the archive has no click %d of partition %d", i, part)
		}
	}
	return list, nil
}
