//go:build browser

package reports_test

import (
	"bytes"
	"cmp"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	cdp "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"stampede/reports/answer"
	"stampede/reports/page"
)

// pictures is where those of the README are.
const pictures = "../docs/images"

// pictureLimit is how large a picture may be, in bytes.
const pictureLimit = 150_000

// TestScreenshot takes the README's pictures, of the run that STAMPEDE_SCREENSHOT
// names: the page from its verdict to the chart of the first violation, light and dark, and
// what they show in words, for the README. See `make screenshot`.
func TestScreenshot(t *testing.T) {
	run := os.Getenv("STAMPEDE_SCREENSHOT")
	if run == "" {
		t.Skip("STAMPEDE_SCREENSHOT names no run")
	}
	d, err := answer.Load(run)
	if err != nil {
		t.Fatal(err)
	}
	text := write(t, page.HTML, d)
	for _, theme := range []string{"light", "dark"} {
		shot, alt := capture(t, text, theme)
		if err := os.WriteFile(filepath.Join(pictures, "alt.txt"), []byte(alt+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(pictures, "failing-"+theme+".png")
		if err := os.WriteFile(path, shot, 0o644); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d bytes", path, len(shot))
		if len(shot) > pictureLimit {
			t.Errorf("%s has %d bytes, more than %d", path, len(shot), pictureLimit)
		}
	}
}

// capture opens a page and pictures it from the verdict to the first chart of evidence, and
// says in words what is to be seen.
func capture(t *testing.T, text, theme string) (picture []byte, alt string) {
	t.Helper()
	tb := open(t, text, scheme(theme))
	if err := chromedp.Do(tb.Context, chromedp.EmulateViewport(1200, 1000)); err != nil {
		t.Fatal(err)
	}
	edge := func(selector, side string) float64 {
		return eval[float64](t, tb, "document.querySelector('"+selector+
			"').getBoundingClientRect()."+side)
	}
	top, bottom := edge("#verdict", "top"), edge(".exhibit figure", "bottom")
	clip, beyond := cdp.Viewport{Y: top - 8, Width: 1200, Height: bottom - top + 8, Scale: 1}, true
	shot, err := chromedp.Call(tb.Context, cdp.CaptureScreenshot,
		cdp.CaptureScreenshotParams{CaptureBeyondViewport: &beyond, Clip: &clip})
	if err != nil {
		t.Fatal(err)
	}
	alt = eval[string](t, tb, `['h1', '.answer', '.exhibit summary', '.exhibit figcaption'].map(s =>
		document.querySelector(s).textContent.trim().replace(/\s+/g, ' ').replace(/([^.])$/, '$1.')).join(' ')`)
	return fewColours(t, shot.Data), alt
}

// fewColours writes a picture anew with 256 colours at most.
func fewColours(t *testing.T, data []byte) []byte {
	t.Helper()
	whole, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	few := image.NewPaletted(whole.Bounds(), mainColours(whole))
	draw.Draw(few, few.Rect, whole, few.Rect.Min, draw.Src)
	var out bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	if err := encoder.Encode(&out, few); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// mainColours are the 64 most frequent colours of a page, and of those that look alike
// among the others the most frequent one.
func mainColours(picture image.Image) color.Palette {
	count := map[color.RGBA]int{}
	for y := picture.Bounds().Min.Y; y < picture.Bounds().Max.Y; y++ {
		for x := picture.Bounds().Min.X; x < picture.Bounds().Max.X; x++ {
			count[color.RGBAModel.Convert(picture.At(x, y)).(color.RGBA)]++
		}
	}
	sorted := slices.SortedFunc(maps.Keys(count), func(a, b color.RGBA) int {
		return cmp.Or(count[b]-count[a], cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)))
	})
	var palette color.Palette
	alike := map[color.RGBA]bool{}
	for i, c := range sorted {
		rough := color.RGBA{c.R >> 4, c.G >> 4, c.B >> 4, 255}
		if len(palette) < 256 && (i < 64 || !alike[rough]) {
			alike[rough] = true
			palette = append(palette, c)
		}
	}
	return palette
}
