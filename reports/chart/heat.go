package chart

import (
	"math"

	"gonum.org/v1/plot/vg"
)

// Shade says how dark a value is.
type Shade struct {
	// most is the darkest. If least is positive, levels are equal ratios from there,
	// else equal steps from 0.
	Least, Most float64
}

// level is 0 for empty, up to heatLevels.
func (s Shade) level(v float64) int {
	switch {
	case math.IsNaN(v) || v <= 0 || s.Most <= 0:
		return 0
	case s.Least <= 0:
		return min(HeatLevels, int(math.Ceil(v/s.Most*HeatLevels)))
	case v <= s.Least || s.Most <= s.Least:
		return 1
	}
	return min(HeatLevels, 1+int(math.Log(v/s.Least)/math.Log(s.Most/s.Least)*HeatLevels))
}

// from is where a level begins, if levels are equal ratios.
func (s Shade) from(level int) float64 {
	return s.Least * math.Pow(s.Most/s.Least, float64(level-1)/HeatLevels)
}

// Even are the edges of rows that are 1 high.
func Even(row int) (low, high float64) { return float64(row), float64(row + 1) }

// Heat draws rows of cells, darker the more there is; cell i of a row goes from
// x = i·width to (i+1)·width, and edges are the y between which a row lies; all rows are
// drawn as high as row 0. NaN and what is not positive stay empty. Equal neighbours are one
// mark, and all marks of a level one path. It draws in units of cells, which have no
// fractions: so neighbours meet, and the numbers are short.
func Heat(
	rows [][]float64, width float64, shade Shade, edges func(row int) (low, high float64),
) Mark {
	return func(c Pen) {
		if len(rows) == 0 || width <= 0 {
			return
		}
		low, high := edges(0)
		origin := vg.Point{X: c.X(0), Y: (c.Y(low) + c.Y(high)) / 2}
		cell, row := c.X(width)-origin.X, c.Y(high)-c.Y(low)
		last := (c.Max.X - origin.X) / cell
		var levels [HeatLevels + 1]vg.Path
		for i, values := range rows {
			low, high := edges(i)
			y := ((c.Y(low)+c.Y(high))/2 - origin.Y) / row
			for from := 0; from < len(values); {
				level, to := shade.level(values[from]), from+1
				for to < len(values) && shade.level(values[to]) == level {
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
				c.SetLineStyle(Line(RoleHeat+Role(level-1), 1, nil, NoVariant))
				c.Stroke(path)
			}
		}
	}
}

// round5 keeps five digits behind the point.
func round5(x float64) float64 { return math.Round(x*1e5) / 1e5 }

// Over widens a shade to values that are counts in so many seconds, by the second.
func (s Shade) Over(rows [][]float64, width float64) Shade {
	if width <= 0 {
		return s
	}
	for _, row := range rows {
		for _, v := range row {
			s.Most = max(s.Most, v)
		}
	}
	if one := 1 / width; s.Least == 0 || one < s.Least {
		s.Least = one
	}
	return s
}
