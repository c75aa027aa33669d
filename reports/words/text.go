package words

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"stampede/harness/plain"
)

// TextOptions decides how Text writes.
type TextOptions struct {
	// Colour turns on ANSI colours.
	Colour bool
	// Report is the report's path, Exit the code that the command will
	// return; both stand in the last line.
	Report string
	Exit   int
	// Width is that of the table in columns; 0 means 80.
	Width int
}

// Columns is the width of the table.
func (o TextOptions) Columns() int {
	if o.Width <= 0 {
		return 80
	}
	return o.Width
}

// Telling are the rows without the last columns, the ratios to the baseline and the races,
// where these say nothing of any design.
func Telling(rows [][]string) [][]string {
	for column := len(rows[0]) - 1; column > timesColumn; column-- {
		silent := !slices.ContainsFunc(rows[1:], func(row []string) bool {
			return row[column] != None && row[column] != BaselineCell
		})
		if silent {
			for i := range rows {
				rows[i] = slices.Delete(rows[i], column, column+1)
			}
		}
	}
	return rows
}

// timesColumn is the last one that is always there.
const timesColumn = 3

// BaselineCell stands for the ratio of the baseline to itself.
const BaselineCell = "baseline"

// Aligned are the first columns of rows, in line.
func Aligned(rows [][]string, columns int) []string {
	var table bytes.Buffer
	tw := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(tw, strings.Join(row[:min(columns, len(row))], "\t"))
	}
	_ = tw.Flush() // to a buffer: it cannot fail
	lines := strings.Split(strings.TrimRight(table.String(), "\n"), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, " ")
	}
	return lines
}

// Widest is how many columns the longest line has.
func Widest(lines []string) (most int) {
	for _, line := range lines {
		most = max(most, utf8.RuneCountInString(line))
	}
	return most
}

// Marked are the first columns of rows, in line, those after the head with the mark of each in
// its colour, which takes no room.
func Marked(rows [][]string, columns int, marks []Mark, colour bool) []string {
	lines := Aligned(rows, columns)
	for i, m := range marks {
		word := m.Icon + " " + m.Word
		lines[i+1] = strings.Replace(lines[i+1], word, Paint(word, m.Class, colour), 1)
	}
	return lines
}

// OrNone is the text, or the sign for none.
func OrNone(text string) string {
	if text == "" {
		return None
	}
	return text
}

// Paint gives a text the terminal's colour of a class of marks.
func Paint(text, class string, colour bool) string {
	codes := map[string]string{"good": "32", "bad": "31", "warn": "33", "wrong": "35", "na": "33"}
	if !colour || codes[class] == "" {
		return text
	}
	return "\x1b[1;" + codes[class] + "m" + text + "\x1b[0m"
}

// OneLine makes text safe for a terminal and a CI system's log, and no longer than a
// screen can bear.
func OneLine(text string) string { return plain.Line(Short(text, 400)) }
