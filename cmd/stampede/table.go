package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"stampede/harness/plain"
)

// textColumns is how wide prose and help are, at most.
const textColumns = 80

// widestResult is how wide a result is at most: longer lines are hard to read.
const widestResult = 110

// resultColumns is how wide a result may be: as the terminal, textColumns elsewhere.
func resultColumns(out *os.File) int {
	if !isTerminal(out) {
		return textColumns
	}
	columns, _ := terminalSize(out)
	return min(columns, widestResult)
}

// table prints rows with aligned columns. A cell may be the name of somebody's file.
func table(w io.Writer, rows [][]string) {
	widths := widthsOf(rows)
	for _, row := range rows {
		line := ""
		for i, cell := range row {
			line += fmt.Sprintf("%-*s  ", widths[i], cell)
		}
		fmt.Fprintln(w, strings.TrimRight(line, " "))
	}
}

// textTable is table in textColumns columns: the cells of one column are wrapped.
func textTable(w io.Writer, rows [][]string, wrap int) {
	room := textColumns
	for i, width := range widthsOf(rows) {
		if i != wrap {
			room -= width + 2
		}
	}
	lines := [][]string{}
	for _, row := range rows {
		for i, part := range plain.Wrap(row[wrap], max(room, 1)) {
			line := make([]string, len(row))
			if i == 0 {
				copy(line, row)
			}
			line[wrap] = part
			lines = append(lines, line)
		}
	}
	table(w, lines)
}

// widthsOf makes each cell one plain line, and returns the widths of the columns.
func widthsOf(rows [][]string) []int {
	widths := []int{}
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			row[i] = plain.Line(cell)
			widths[i] = max(widths[i], len([]rune(row[i])))
		}
	}
	return widths
}
