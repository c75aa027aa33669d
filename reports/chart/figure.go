package chart

// TimeFigure is one variant over time.
type TimeFigure struct {
	Figure
	Letter, Name string
	Wrong        bool
	// Chip is what became of a wrong design, in a word.
	Chip     string
	Baseline bool
	// Later says which repeat it is, "" for the first.
	Later string
	// More is data that the figure's own table does not have, nil if there is none.
	More *DataTable
}

// DataTable is a chart's data. What says what of the chart it is.
type DataTable struct {
	Title, What string
	Columns     []string
	Rows        [][]string
}
