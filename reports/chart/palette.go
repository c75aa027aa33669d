package chart

import (
	"fmt"
	"image/color"
)

// Slots is how many series a chart may have. More become further charts,
// which all repeat the baseline.
const Slots = 6

// The series colours by slot, from Okabe and Ito's palette where it keeps
// 3:1 against the background (WCAG 1.4.11), else darkened or lightened.
// A Go test measures the ratios.
var (
	lightSlots = [Slots]string{"#0072B2", "#D55E00", "#009E73", "#C6619F", "#B07800", "#6A3D9A"}
	darkSlots  = [Slots]string{"#56B4E9", "#FF8A4C", "#2FC79A", "#E9A3CB", "#F0C24B", "#B79CFF"}
)

// Palettes are the series colours by slot, on a light and on a dark page.
func Palettes() (light, dark [Slots]string) { return lightSlots, darkSlots }

// Role is what a mark in a chart is for. A chart is drawn in colours that
// spell the role; the SVG that comes out carries classes instead, so that
// the page's theme decides the real colours.
type Role uint8

// The roles.
const (
	RoleText  Role = iota // labels
	RoleAxis              // axis lines and ticks
	RoleGrid              // grid lines
	RolePhase             // the warm-up's background
	roleFault             // a fault's background, hatched
	RoleLimit             // objectives and ends of faults
	RoleInk               // what is offered; neutral series
	RoleFirst             // the series by slot, roleFirst + slot
	roleSoft  = RoleFirst + Slots
	RoleHeat  = roleSoft + Slots // the levels of a heat map, the faintest first
	roleEnd   = RoleHeat + HeatLevels
)

// HeatLevels is how many shades a heat map has beside the empty one.
const HeatLevels = 8

// class returns the role's CSS class: the page has a rule for each. fill
// says whether the mark is filled or stroked.
func (r Role) class(fill bool) string {
	prefix := "k"
	if fill {
		prefix = "f"
	}
	switch {
	case r.heat():
		return prefix + "0"
	case r >= roleSoft:
		return fmt.Sprintf("%s%d soft", prefix, r-roleSoft)
	case r >= RoleFirst:
		return fmt.Sprintf("%s%d", prefix, r-RoleFirst)
	}
	names := [...]string{"text", "axis", "grid", "phase", "fault", "limit", "ink"}
	return prefix + "-" + names[r]
}

// fallback is the colour where no style sheet applies, in the light theme.
func (r Role) fallback() string {
	switch {
	case r.heat():
		return lightSlots[0]
	case r >= roleSoft:
		return lightSlots[r-roleSoft]
	case r >= RoleFirst:
		return lightSlots[r-RoleFirst]
	}
	return [...]string{"#40464F", "#6B727C", "#E3E6EA", "#EEF1F4", "url(#hatch)", "#B3261E",
		"#40464F"}[r]
}

// heat says that a role is a level of a heat map.
func (r Role) heat() bool { return r >= RoleHeat }

// Opacity is how much of the background a filled mark hides; 1 is all of it.
func (r Role) Opacity() float64 {
	switch {
	case r.heat():
		// One operation alone must be seen.
		return 0.2 + 0.8*float64(r-RoleHeat)/(HeatLevels-1)
	case r >= roleSoft:
		return 0.16
	}
	return 1
}

// sentinelBlue marks colours that spell a role.
const sentinelBlue = 0xE7

// Ink returns the sentinel colour of a role in a series of a variant; the
// variant is its index from 0, or noVariant.
func Ink(r Role, variant int) color.Color {
	return color.RGBA{R: uint8(r), G: uint8(variant), B: sentinelBlue, A: 0xFF}
}

// NoVariant marks what belongs to the chart and not to one variant. So a
// page can tell 255 variants apart, which decode refuses to exceed.
const NoVariant = 0xFF

// decode reads a sentinel colour "#RRGGBB" back.
func decode(hex string) (r Role, variant int, ok bool) {
	var red, green, blue int
	if _, err := fmt.Sscanf(hex, "#%02x%02x%02x", &red, &green, &blue); err != nil {
		return 0, 0, false
	}
	ok = blue == sentinelBlue && red < int(roleEnd)
	return Role(red), green, ok
}
