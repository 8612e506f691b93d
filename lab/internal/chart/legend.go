package chart

import (
	"image/color"
	"io"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// widening returns the factor by which text can be wider than measured. The viewer of an SVG may
// have wider letters.
func widening(format string) vg.Length {
	if format == "svg" {
		return 1.3
	}
	return 1.02
}

// WriteWithLegend writes a plot as a picture of a size in points, which are 1/72 inch on paper and
// 1⅓ pixels in a PNG. The title is at the top. The legend is to the right of the plot, so that it
// hides no data.
func WriteWithLegend(w io.Writer, p *plot.Plot, format string, width, height float64) error {
	picture, err := draw.NewFormattedCanvas(vg.Points(width), vg.Points(height), format)
	if err != nil {
		return err
	}
	all := draw.New(picture)
	all.SetColor(color.White)
	all.Fill(all.Path())

	margin := vg.Points(6)
	all = draw.Crop(all, margin, -margin, margin, -margin)
	title := p.Title.TextStyle
	title.XAlign = draw.XLeft
	room := widening(format) * title.Width(p.Title.Text)
	all.FillText(title, vg.Point{X: max(all.Min.X, all.Center().X-room/2), Y: all.Max.Y}, p.Title.Text)
	all = draw.Crop(all, 0, 0, 0, -title.Rectangle(p.Title.Text).Size().Y-2*margin)

	legend := p.Legend
	legend.Top, legend.Left, legend.Padding, legend.ThumbnailWidth = true, true, vg.Points(4), vg.Points(30)
	legendWidth := widening(format) * legend.Rectangle(all).Size().X
	legend.Draw(draw.Crop(all, all.Size().X-legendWidth, 0, 0, 0))

	alone := *p
	alone.Title.Text, alone.Legend = "", plot.NewLegend()
	alone.Draw(draw.Crop(all, 0, -legendWidth-2*margin, 0, 0))
	return write(w, picture, format)
}
