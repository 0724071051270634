package picture

import (
	"math"
	"regexp"
	"strconv"
	"testing"
)

// vision turns linear red, green and blue into what an eye without one kind of cone sees, by
// Machado, Oliveira and Fernandes, 2009.
var vision = map[string][3][3]float64{
	"all cones":    {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}},
	"protanopia":   {{0.152286, 1.052583, -0.204868}, {0.114503, 0.786281, 0.099216}, {-0.003882, -0.048116, 1.051998}},
	"deuteranopia": {{0.367322, 0.860646, -0.227968}, {0.280085, 0.672501, 0.047413}, {-0.011820, 0.042940, 0.968881}},
}

// together are the colours of one legend. What has a problem is hatched besides.
var together = map[string][]string{
	"health":        {"good", "tint", "wait", "ill2"},
	"Slurm":         {"good", "busy", "ill2", "none"},
	"free segments": {"good", "left", "rest", "ill2"},
	"jobs":          {"c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7", "none"},
}

// least is the least difference, in CIE76. Colours beside each other differ by 2.3 at least.
const least = 9.0

// TestColours holds the colours of each legend apart for people who see fewer colours.
func TestColours(t *testing.T) {
	blocks := regexp.MustCompile(`(?s):root \{ (color-scheme: light dark|--bg: #0d1117).*?\}`).FindAllString(style, -1)
	if len(blocks) != 2 {
		t.Fatalf("%d palettes, want a light and a dark one", len(blocks))
	}
	for i, scheme := range []string{"light", "dark"} {
		colours := map[string][3]float64{}
		for _, m := range regexp.MustCompile(`--(\w+): #([0-9a-f]{6})`).FindAllStringSubmatch(blocks[i], -1) {
			colours[m[1]] = linear(t, m[2])
		}
		for legend, names := range together {
			for a, first := range names {
				for _, second := range names[a+1:] {
					for eye, m := range vision {
						if d := distance(seen(m, colours[first]), seen(m, colours[second])); d < least {
							t.Errorf("%s, %s, %s: %s and %s differ by %.1f, want %.0f", scheme, legend, eye, first, second, d, least)
						}
					}
				}
			}
		}
	}
}

func linear(t *testing.T, hex string) (out [3]float64) {
	t.Helper()
	for i := range out {
		v, err := strconv.ParseUint(hex[2*i:2*i+2], 16, 8)
		if err != nil {
			t.Fatal(err)
		}
		if c := float64(v) / 255; c <= 0.04045 {
			out[i] = c / 12.92
		} else {
			out[i] = math.Pow((c+0.055)/1.055, 2.4)
		}
	}
	return out
}

func seen(m [3][3]float64, c [3]float64) (out [3]float64) {
	for i := range out {
		for k := range c {
			out[i] += m[i][k] * c[k]
		}
		out[i] = min(max(out[i], 0), 1)
	}
	return out
}

// distance is the distance of two colours in CIE Lab.
func distance(a, b [3]float64) float64 {
	la, lb := lab(a), lab(b)
	return math.Hypot(math.Hypot(la[0]-lb[0], la[1]-lb[1]), la[2]-lb[2])
}

func lab(c [3]float64) [3]float64 {
	f := func(t float64) float64 {
		if t > 0.008856 {
			return math.Cbrt(t)
		}
		return 7.787*t + 16.0/116
	}
	x := f((0.4124*c[0] + 0.3576*c[1] + 0.1805*c[2]) / 0.9505)
	y := f(0.2126*c[0] + 0.7152*c[1] + 0.0722*c[2])
	z := f((0.0193*c[0] + 0.1192*c[1] + 0.9505*c[2]) / 1.089)
	return [3]float64{116*y - 16, 500 * (x - y), 200 * (y - z)}
}
