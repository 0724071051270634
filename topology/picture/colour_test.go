package picture

import (
	"cmp"
	"maps"
	"math"
	"regexp"
	"strconv"
	"strings"
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
	for scheme, palette := range palettes(t) {
		colours := map[string][3]float64{}
		for name, hex := range palette {
			colours[name] = linear(t, hex)
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

// palettes are the colours of the light and the dark page by name, as six digits.
func palettes(t *testing.T) map[string]map[string]string {
	t.Helper()
	blocks := regexp.MustCompile(`(?s):root \{ (color-scheme: light dark|--bg: #0d1117).*?\}`).FindAllString(style, -1)
	if len(blocks) != 2 {
		t.Fatalf("%d palettes, want a light and a dark one", len(blocks))
	}
	out := map[string]map[string]string{"light": {}, "dark": {}}
	for i, scheme := range []string{"light", "dark"} {
		maps.Copy(out[scheme], out["light"]) // what the dark page does not have of its own
		for _, m := range regexp.MustCompile(`--(\w+): #([0-9a-f]{3,6})\b`).FindAllStringSubmatch(blocks[i], -1) {
			out[scheme][m[1]] = digits(m[2])
		}
	}
	return out
}

// digits makes six digits of three.
func digits(hex string) string {
	if len(hex) == 3 {
		return hex[:1] + hex[:1] + hex[1:2] + hex[1:2] + hex[2:] + hex[2:]
	}
	return hex
}

// readable is the least contrast of text and what is behind it: WCAG's level AA for small text.
const readable = 4.5

// TestContrast holds all text apart from what is behind it: of the page, and of each kind of cell by the rules of the
// style, also where a cell is pale or dimmed. Text on a hatched cell has an edge of the cell's colour.
func TestContrast(t *testing.T) {
	rules := map[string]map[string]string{} // selector -> property -> value
	for _, m := range regexp.MustCompile(`([^{}]+)\{([^{}]*)\}`).FindAllStringSubmatch(regexp.MustCompile(`@media[^{]*\{`).ReplaceAllString(style, ""), -1) {
		for selector := range strings.SplitSeq(m[1], ",") {
			selector = strings.TrimSpace(selector)
			if rules[selector] == nil {
				rules[selector] = map[string]string{}
			}
			for property := range strings.SplitSeq(m[2], ";") {
				if name, value, is := strings.Cut(property, ":"); is {
					rules[selector][strings.TrimSpace(name)] = strings.TrimSpace(value)
				}
			}
		}
	}
	for scheme, palette := range palettes(t) {
		of := func(value string) [3]float64 {
			name, is := strings.CutPrefix(strings.TrimSuffix(value, ")"), "var(--")
			if hex := palette[name]; is && hex != "" {
				return levels(t, hex)
			}
			return levels(t, digits(strings.TrimPrefix(value, "#")))
		}
		check := func(what string, text, behind [3]float64) {
			if c := contrast(text, behind); c < readable {
				t.Errorf("%s, %s: the contrast is %.2f, want %.1f", scheme, what, c, readable)
			}
		}
		for _, text := range []string{"ink", "dim", "focus"} {
			for _, behind := range []string{"bg", "panel"} {
				check(text+" on "+behind, of("var(--"+text+")"), of("var(--"+behind+")"))
			}
		}
		check("cut off", of(rules["#status.cut"]["color"]), of(rules["#status.cut"]["background"]))
		kinds, page := 0, of("var(--bg)")
		for selector, rule := range rules {
			kind, is := strings.CutPrefix(selector, "svg rect.")
			fill := rule["fill"]
			if !is || fill == "" || strings.ContainsAny(kind, " :") {
				continue
			}
			kinds++
			name := rules[selector+" + .nm"]
			text := of(cmp.Or(name["fill"], rules["svg .nm"]["fill"]))
			pattern, hatched := strings.CutPrefix(strings.TrimSuffix(fill, ")"), "url(#")
			switch {
			case fill == "none":
				check(kind, text, page)
				continue
			case hatched:
				if name["stroke"] == "" || name["paint-order"] != "stroke" {
					t.Errorf("%s: the name on a hatched cell has no edge", kind)
					continue
				}
				check(kind+", the edge", text, of(name["stroke"]))
				fill = rules["#"+pattern+" .a"]["fill"]
			}
			behind := of(fill)
			check(kind, text, behind)
			dimmed, over := number(t, rules[".dimmed .n:not(.found)"]["opacity"]), rules[".dimmed .n:not(.found) + .nm"]
			faint := mix(behind, page, dimmed)
			check(kind+", dimmed", mix(of(over["fill"]), faint, number(t, over["opacity"])), faint)
			check(kind+", pale", of(rules["svg rect.pale + .nm"]["fill"]), mix(behind, page, number(t, rules["svg rect.pale"]["fill-opacity"])))
		}
		if kinds < 20 {
			t.Errorf("%d kinds of cells have a colour, want more", kinds)
		}
	}
}

func number(t *testing.T, text string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// levels are red, green and blue from 0 to 1, as a screen gets them.
func levels(t *testing.T, hex string) (out [3]float64) {
	t.Helper()
	for i := range out {
		v, err := strconv.ParseUint(hex[2*i:2*i+2], 16, 8)
		if err != nil {
			t.Fatal(err)
		}
		out[i] = float64(v) / 255
	}
	return out
}

// mix lays a colour over another one.
func mix(over, under [3]float64, opacity float64) (out [3]float64) {
	for i := range out {
		out[i] = over[i]*opacity + under[i]*(1-opacity)
	}
	return out
}

// contrast is WCAG's contrast of two colours, from 1 to 21.
func contrast(a, b [3]float64) float64 {
	light := func(c [3]float64) float64 { return 0.2126*bend(c[0]) + 0.7152*bend(c[1]) + 0.0722*bend(c[2]) }
	la, lb := light(a), light(b)
	return (max(la, lb) + 0.05) / (min(la, lb) + 0.05)
}

// bend turns a level of a screen into light.
func bend(c float64) float64 {
	if c <= 0.04045 {
		return c / 12.92
	}
	return math.Pow((c+0.055)/1.055, 2.4)
}

func linear(t *testing.T, hex string) (out [3]float64) {
	t.Helper()
	for i, c := range levels(t, hex) {
		out[i] = bend(c)
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
