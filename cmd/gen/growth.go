package main

import (
	"bufio"
	"cmp"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"

	"stampede/reports/chart"
)

// growth draws what BenchmarkSearch of systems/textsearch/index prints, as the median times of
// searches over the number of documents.
func growth(in io.Reader) (string, error) {
	series := []chart.Series{{Name: "all words"}, {Name: "any word"}, {Name: "all words, Bleve"},
		{Name: "any word, Bleve"}}
	units := []string{"and-p50-us", "or-p50-us", "and-bleve-p50-us", "or-bleve-p50-us"}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) == 0 || !strings.HasPrefix(fields[0], "BenchmarkSearch/") {
			continue
		}
		text, _, _ := strings.Cut(strings.TrimPrefix(fields[0], "BenchmarkSearch/"), "-")
		docs, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return "", err
		}
		for i, unit := range units {
			at := slices.Index(fields, unit)
			if at < 1 {
				continue
			}
			us, err := strconv.ParseFloat(fields[at-1], 64)
			if err != nil {
				return "", err
			}
			series[i].Points = append(series[i].Points, chart.Point{X: docs, Y: us / 1e6})
		}
	}
	if err := lines.Err(); err != nil {
		return "", err
	}
	for _, s := range series {
		if len(s.Points) == 0 {
			return "", errors.New("there are no times of BenchmarkSearch in the input")
		}
		slices.SortFunc(s.Points, func(a, b chart.Point) int { return cmp.Compare(a.X, b.X) })
	}
	return chart.Growth("Time of a search by the number of documents",
		"The median of 400 searches for the ten best documents, of an index on disk and of Bleve.",
		"documents", "median", series)
}
