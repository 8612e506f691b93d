// Package chart has the common style of all pictures: colours that colour-blind people can
// distinguish, grey grids below the data, and files in PNG or SVG.
package chart

import (
	"bytes"
	"fmt"
	"image/color"
	"io"
	"path/filepath"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Color returns one of eight colours that people with any kind of colour blindness can distinguish
// (M. Okabe and K. Ito, "Color Universal Design", 2008). The darkest is the first. After the last,
// the colours repeat.
func Color(i int) color.NRGBA {
	palette := [...]color.NRGBA{
		{0, 0, 0, 255}, {0, 114, 178, 255}, {213, 94, 0, 255}, {0, 158, 115, 255},
		{204, 121, 167, 255}, {230, 159, 0, 255}, {86, 180, 233, 255}, {240, 228, 66, 255},
	}
	return palette[i%len(palette)]
}

// New returns an empty plot with a title, labelled axes and a grid.
func New(title, x, y string) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	p.Title.Padding, p.X.Label.Padding, p.Y.Label.Padding = vg.Points(6), vg.Points(4), vg.Points(4)
	p.X.Tick.Marker, p.Y.Tick.Marker = Ticks{}, Ticks{}
	grid := plotter.NewGrid()
	pale := draw.LineStyle{Color: color.Gray{225}, Width: vg.Points(0.5)}
	grid.Vertical, grid.Horizontal = pale, pale
	p.Add(grid)
	return p
}

// Format returns the format for the name of a file, "png" or "svg".
func Format(path string) (string, error) {
	switch format := strings.ToLower(strings.TrimPrefix(filepath.Ext(path), ".")); format {
	case "png", "svg":
		return format, nil
	default:
		return "", fmt.Errorf("%q is neither a .png nor a .svg file", path)
	}
}

// CanDraw reports whether the font of a PNG has all letters of a text. For an SVG, the viewer
// chooses the font.
func CanDraw(text string) bool {
	face := font.DefaultCache.Lookup(plot.DefaultFont, 12).Face
	for _, r := range text {
		if glyph, err := face.GlyphIndex(nil, r); err != nil || glyph == 0 {
			return false
		}
	}
	return true
}

// write writes a finished picture. For an SVG, the viewer chooses the font, and gonum only names
// Liberation Serif. Other fonts with letters of the same widths are added, so that the text is in
// its place where that font is not installed.
func write(w io.Writer, picture io.WriterTo, format string) error {
	if format != "svg" {
		_, err := picture.WriteTo(w)
		return err
	}
	var text bytes.Buffer
	if _, err := picture.WriteTo(&text); err != nil {
		return err
	}
	const font = "font-family:Liberation Serif"
	_, err := w.Write(bytes.ReplaceAll(text.Bytes(), []byte(font), []byte(font+",Times New Roman,Times,serif")))
	return err
}
