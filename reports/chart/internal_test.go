package chart

import (
	"math"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"gonum.org/v1/plot/vg"
	"pgregory.net/rapid"
)

func TestInkRoundTrip(t *testing.T) {
	for r := Role(0); r < roleSoft+Slots; r++ {
		for _, variant := range []int{0, 7, NoVariant} {
			c := Ink(r, variant)
			red, green, blue, _ := c.RGBA()
			hex := "#" + strconv.FormatUint(uint64(1<<24|red>>8<<16|green>>8<<8|blue>>8), 16)[1:]
			if gotRole, gotVariant, ok := decode(hex); !ok || gotRole != r || gotVariant != variant {
				t.Errorf("%s decodes to %d %d %v", hex, gotRole, gotVariant, ok)
			}
		}
	}
	for _, foreign := range []string{"#000000", "#FFFFFF", "red", "", "#FFFFE7"} {
		if _, _, ok := decode(foreign); ok {
			t.Errorf("%q was taken for one of ours", foreign)
		}
	}
}

// Whatever points a path has, the compact path is within half a tenth of a
// point of each of them: errors do not add up.
func TestCompactPathStaysClose(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 40).Draw(t, "n")
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		var d strings.Builder
		var want []float64
		for i := range n {
			x, y := rng.Float64()*1000-500, rng.Float64()*1000-500
			command := "L"
			if i == 0 || rng.IntN(8) == 0 {
				command = "M"
			}
			d.WriteString(command + strconv.FormatFloat(x, 'g', 5, 64) + "," +
				strconv.FormatFloat(y, 'g', 5, 64))
			want = append(want, x, y)
		}
		got := readPath(t, compactPath(d.String()))
		if len(got) != len(want) {
			t.Fatalf("%d numbers became %d: %s", len(want), len(got), compactPath(d.String()))
		}
		for i := range want {
			if math.Abs(got[i]-want[i]) > 0.0501+0.005 {
				t.Fatalf("number %d: %v became %v", i, want[i], got[i])
			}
		}
	})
}

// readPath reads M, l, h and v commands as a browser does.
func readPath(t *rapid.T, d string) (absolute []float64) {
	var x, y float64
	numbers := regexp.MustCompile(`-?(?:\d+\.\d+|\.\d+|\d+)`)
	for _, step := range regexp.MustCompile(`[Mlhv][^Mlhv]*`).FindAllString(d, -1) {
		pair := numbers.FindAllString(step, -1)
		switch {
		case step[0] == 'h' && len(pair) == 1:
			pair = []string{pair[0], "0"}
		case step[0] == 'v' && len(pair) == 1:
			pair = []string{"0", pair[0]}
		case len(pair) != 2:
			t.Fatalf("step %q", step)
		}
		a, _ := strconv.ParseFloat(pair[0], 64)
		b, _ := strconv.ParseFloat(pair[1], 64)
		if step[0] == 'M' {
			x, y = 0, 0
		}
		x, y = x+a, y+b
		absolute = append(absolute, x, y)
	}
	return absolute
}

// Straight steps along an axis are one, and what turns back is not lost.
func TestCompactPathGoesStraight(t *testing.T) {
	for path, want := range map[string]string{
		"M1,2L3,2L4.5,2L4.5,1L4.5,0.5Z": "M1 2h3.5v-1.5Z",
		"M0,0L2,0L1,0L1.5,0.2":          "M0 0h2h-1l.5.2",
		"M0,0L0,0":                      "M0 0h0",
		"M0.5,0.5L1,1":                  "M.5.5l.5.5",
		"M10,0.5L9,0.4":                 "M10 .5l-1-.1",
	} {
		if got := compactPath(path); got != want {
			t.Errorf("%s became %s, want %s", path, got, want)
		}
	}
}

// No point is farther from the straightened line than a hairsbreadth, and the ends stay.
func TestStraightened(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var points []vg.Point
		for i := range rapid.IntRange(0, 60).Draw(t, "n") {
			y := rapid.Float64Range(-1, 1).Draw(t, "y")
			points = append(points, vg.Point{X: vg.Length(i), Y: vg.Length(y * y * y)})
		}
		kept := straightened(points)
		if len(kept) > len(points) || len(points) > 0 &&
			(kept[0] != points[0] || kept[len(kept)-1] != points[len(points)-1]) {
			t.Fatalf("%d of %d points, from %v to %v", len(kept), len(points), kept[0], kept[len(kept)-1])
		}
		for _, p := range points {
			i := 1
			for i < len(kept)-1 && kept[i].X < p.X {
				i++
			}
			if len(kept) > 1 && distanceTo(p, kept[i-1], kept[i]) > hairsbreadth+1e-9 {
				t.Fatalf("%v is %v from the line", p, distanceTo(p, kept[i-1], kept[i]))
			}
		}
	})
	line := []vg.Point{{X: 0}, {X: 1, Y: 1}, {X: 2, Y: 2}, {X: 3, Y: 0}}
	if got := straightened(line); len(got) != 3 {
		t.Errorf("a bend is %v", got)
	}
}

// Levels of a heat map: equal steps, or equal ratios in which one alone is seen.
func TestShades(t *testing.T) {
	for _, tt := range []struct {
		shade Shade
		v     float64
		want  int
	}{
		{Shade{Most: 8}, 0, 0}, {Shade{Most: 8}, math.NaN(), 0}, {Shade{}, 1, 0},
		{Shade{Most: 8}, 0.1, 1}, {Shade{Most: 8}, 3, 3}, {Shade{Most: 8}, 9, 8},
		{Shade{Least: 1, Most: 256}, 1, 1}, {Shade{Least: 1, Most: 256}, 2.1, 2},
		{Shade{Least: 1, Most: 256}, 100, 7}, {Shade{Least: 1, Most: 256}, 256, 8},
		{Shade{Least: 1, Most: 1}, 1, 1},
	} {
		if got := tt.shade.level(tt.v); got != tt.want {
			t.Errorf("%+v: %v has level %d, want %d", tt.shade, tt.v, got, tt.want)
		}
	}
	if got := (Shade{Least: 1, Most: 256}).from(5); got != 16 {
		t.Errorf("level 5 begins at %v", got)
	}
}
