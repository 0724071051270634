package main

import (
	"bytes"
	"cmp"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"maps"
	"os"
	"slices"
)

// maxColours is what a PNG with one byte for each point can have.
const maxColours = 256

// write writes a picture with its most frequent colours, which makes it a third as large. The
// other colours are edges of letters, and become the nearest one.
func write(path string, data []byte) error {
	from, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("read the picture: %w", err)
	}
	counts := map[color.RGBA]int{}
	bounds := from.Bounds()
	each := func(do func(x, y int, c color.RGBA)) {
		for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
			for x := bounds.Min.X; x < bounds.Max.X; x++ {
				do(x, y, color.RGBAModel.Convert(from.At(x, y)).(color.RGBA))
			}
		}
	}
	each(func(_, _ int, c color.RGBA) { counts[c]++ })
	colours := slices.SortedFunc(maps.Keys(counts), func(a, b color.RGBA) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a.R, b.R), cmp.Compare(a.G, b.G), cmp.Compare(a.B, b.B))
	})
	var palette color.Palette
	for _, c := range colours[:min(len(colours), maxColours)] {
		palette = append(palette, c)
	}
	to := image.NewPaletted(bounds, palette)
	nearest := map[color.RGBA]uint8{}
	each(func(x, y int, c color.RGBA) {
		i, known := nearest[c]
		if !known {
			i = uint8(palette.Index(c))
			nearest[c] = i
		}
		to.SetColorIndex(x, y, i)
	})
	var out bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, to); err != nil {
		return fmt.Errorf("write the picture: %w", err)
	}
	return os.WriteFile(path, out.Bytes(), 0o644)
}
