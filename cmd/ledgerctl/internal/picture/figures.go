package picture

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"gonum.org/v1/plot"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/chart"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/fault"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/files"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/simulate"
	"github.com/sluicedp/sluice/internal/ledgerfile"
)

// Figures are the files for the figures of an experiment, by the figure's number.
type Figures map[string][]File

// The size of a figure in points.
const figureWidth, figureHeight = 600, 340

// figureName returns the path of a figure's file.
func figureName(dir, figure, format string) string {
	return filepath.Join(dir, "figure-"+figure+"."+format)
}

// NewFigures begins the files of all figures in the directory that --out names, which it makes if there is none: each as PNG and
// SVG. Without a name there are no files. What it has begun it returns with an error too, to be discarded.
func NewFigures(written *files.Files, dir string, figures []string) (Figures, error) {
	if dir == "" {
		return nil, nil
	}
	const hint = "--out needs a directory that you may write to"
	if err := written.CheckPlace("--out", dir, ledgerfile.Unknown); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, fault.Input(hint, "--out: %w", err)
	}
	all := Figures{}
	for _, figure := range figures {
		for _, format := range []string{"png", "svg"} {
			name := figureName(dir, figure, format)
			file, err := written.NewOutput("--out", name)
			if err != nil {
				var classed *fault.Fault
				if errors.As(err, &classed) && classed.Kind == "input" {
					classed.Hint = hint
				}
				return all, err
			}
			all[figure] = append(all[figure], File{format, file})
		}
	}
	return all, nil
}

// Save draws the figures, and returns the names of the files.
func (p Figures) Save(ctx context.Context, figures []simulate.Figure) ([]string, error) {
	names := []string{}
	for _, figure := range figures {
		for _, picture := range p[figure.ID] {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			drawn, err := drawFigure(figure)
			if err != nil {
				return nil, fmt.Errorf("figure %s: %w", figure.ID, err)
			}
			err = picture.out.Save(func(w io.Writer) error {
				return chart.WriteWithLegend(w, drawn, picture.format, figureWidth, figureHeight)
			})
			if err != nil {
				return nil, fmt.Errorf("figure %s: %w", figure.ID, err)
			}
			names = append(names, picture.out.Path)
		}
	}
	return names, nil
}

// Discard gives up the files that were not saved.
func (p Figures) Discard() {
	for _, files := range p {
		for _, picture := range files {
			picture.Discard()
		}
	}
}

// drawFigure draws theory over measurements: they are marks and bars, and it is lines. Where there is theory
// alone, its lines are marked too.
func drawFigure(f simulate.Figure) (*plot.Plot, error) {
	p := chart.New(fmt.Sprintf("pan2024 Figure %s(%s): %s", f.ID[:1], f.ID[1:], f.Title), f.X, f.Y)
	if f.LogY {
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, chart.LogTicks{}
	}
	if f.Ticks != nil {
		var ticks []plot.Tick
		for _, tick := range f.Ticks {
			ticks = append(ticks, plot.Tick{Value: tick.At, Label: tick.Name})
		}
		p.X.Tick.Marker = plot.ConstantTicks(ticks)
	}
	measured := 0
	for _, s := range f.Series {
		if s.Measured {
			measured++
		}
	}
	beside := -float64(measured-1) / 2
	for _, s := range f.Series {
		if f.LogY {
			s = positive(s)
		}
		if len(s.X) == 0 {
			continue
		}
		x := s.X
		if s.Measured {
			x = shifted(x, beside)
			beside++
		}
		err := chart.Add(p, chart.Series{
			Name: s.Name, X: x, Y: s.Y, Low: s.Low, High: s.High,
			Line: !s.Measured, Marks: s.Measured || measured == 0 && len(s.X) > 2,
			Look: chart.Look{Color: s.Look.Color, Mark: s.Look.Color - 1, Dash: s.Look.Dash},
		})
		if err != nil {
			return nil, err
		}
	}
	return p, nil
}

// positive leaves out the points that a logarithmic axis has no place for: few runs can by chance be all alike, and their variance is 0.
func positive(s simulate.Series) simulate.Series {
	shown := s
	shown.X, shown.Y, shown.Low, shown.High = nil, nil, nil, nil
	for i, y := range s.Y {
		if y <= 0 || s.Low != nil && s.Low[i] <= 0 {
			continue
		}
		shown.X, shown.Y = append(shown.X, s.X[i]), append(shown.Y, y)
		if s.Low != nil {
			shown.Low, shown.High = append(shown.Low, s.Low[i]), append(shown.High, s.High[i])
		}
	}
	return shown
}

// shifted moves points, which are 1 apart, a little to the side, so that bars of several series do not hide
// one another.
func shifted(x []float64, by float64) []float64 {
	moved := make([]float64, len(x))
	for i := range x {
		moved[i] = x[i] + 0.15*by
	}
	return moved
}
