package reports

import (
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// heat draws rows of cells, darker the more there is; cell i of a row goes from
// x = i·width to (i+1)·width. NaN and what is not positive stay empty. Equal neighbours
// are one mark, and all marks of a level one path.
type heat struct {
	rows  [][]float64
	width float64
	shade shade
	// edges are the y between which a row lies; all rows are drawn as high as row 0.
	edges func(row int) (low, high float64)
}

// shade says how dark a value is.
type shade struct {
	// most is the darkest. If least is positive, levels are equal ratios from there,
	// else equal steps from 0.
	least, most float64
}

// level is 0 for empty, up to heatLevels.
func (s shade) level(v float64) int {
	switch {
	case math.IsNaN(v) || v <= 0 || s.most <= 0:
		return 0
	case s.least <= 0:
		return min(heatLevels, int(math.Ceil(v/s.most*heatLevels)))
	case v <= s.least || s.most <= s.least:
		return 1
	}
	return min(heatLevels, 1+int(math.Log(v/s.least)/math.Log(s.most/s.least)*heatLevels))
}

// from is where a level begins, if levels are equal ratios.
func (s shade) from(level int) float64 {
	return s.least * math.Pow(s.most/s.least, float64(level-1)/heatLevels)
}

// even are the edges of rows that are 1 high.
func even(row int) (low, high float64) { return float64(row), float64(row + 1) }

// Plot implements plot.Plotter. It draws in units of cells, which have no fractions:
// so neighbours meet, and the numbers are short.
func (h heat) Plot(c draw.Canvas, p *plot.Plot) {
	if len(h.rows) == 0 || h.width <= 0 {
		return
	}
	tx, ty := p.Transforms(&c)
	low, high := h.edges(0)
	origin := vg.Point{X: tx(0), Y: (ty(low) + ty(high)) / 2}
	cell, row := tx(h.width)-origin.X, ty(high)-ty(low)
	last := (c.Max.X - origin.X) / cell
	var levels [heatLevels + 1]vg.Path
	for i, values := range h.rows {
		low, high := h.edges(i)
		y := ((ty(low)+ty(high))/2 - origin.Y) / row
		for from := 0; from < len(values); {
			level, to := h.shade.level(values[from]), from+1
			for to < len(values) && h.shade.level(values[to]) == level {
				to++
			}
			levels[level].Move(vg.Point{X: vg.Length(from), Y: y})
			levels[level].Line(vg.Point{X: min(vg.Length(to), last), Y: y})
			from = to
		}
	}
	c.Push()
	defer c.Pop()
	c.Translate(origin)
	c.Scale(round5(float64(cell)), round5(float64(row)))
	for level, path := range levels {
		if level > 0 && len(path) > 0 {
			c.SetLineStyle(line(roleHeat+role(level-1), 1, nil, noVariant))
			c.Stroke(path)
		}
	}
}

// round5 keeps five digits behind the point.
func round5(x float64) float64 { return math.Round(x*1e5) / 1e5 }
