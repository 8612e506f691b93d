// Triangle draws the mechanism for "which option is the most common?": all ways in which sixty
// people can split over A, B and C, and the probability of a true answer at ε = 0.2 in each.
//
//	go run ./examples/triangle FILE.svg
package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sluicedp/sluice/examples/internal/kit"
	"github.com/sluicedp/sluice/mechanism"
	"github.com/sluicedp/sluice/mechanism/graph"
)

func main() {
	file := append(os.Args, filepath.Join(os.TempDir(), "triangle.svg"))[1]
	kit.Exit(run(os.Stdout, file, 60, 0.2))
}

// run finds the best mechanism at ε, checks that it is ε-private, and writes its picture to a file.
func run(out io.Writer, file string, people int, epsilon float64) error {
	t, err := newTriangle(people)
	if err != nil {
		return err
	}
	dp := graph.Privacy{Epsilon: epsilon}
	problem := graph.Problem{Graph: t.graph, Preferences: t.preferences, Privacy: dp}
	if t.law, err = problem.Solve(context.Background()); err != nil {
		return err
	}
	if err := t.law.Check(t.graph, dp); err != nil {
		return err
	}
	low, high := 1.0, 0.0
	for v := range t.ways {
		low, high = min(low, t.sure(v)), max(high, t.sure(v))
	}
	if err := os.WriteFile(file, []byte(t.draw()), 0o644); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "There are %d ways in which %d people can split over A, B and C. A private answer "+
		"at ε = %g names the commonest\nwith %.0f %% where one changed vote changes the ranking, and with %.0f %% "+
		"farthest from there. On all %d edges between ways\nthat differ by one vote, no set of answers is more than "+
		"e^ε times as likely at one end as at the other.\n%s shows all.\n",
		len(t.ways), people, epsilon, 100*low, 100*high, t.graph.Edges(), file)
	return err
}

// triangle is the graph of all ways to split.
type triangle struct {
	people      int
	ways        [][]int64          // number of people who have chosen each option, by vertex
	graph       *graph.Graph       // its edges join ways that differ in the choice of one person
	preferences *graph.Preferences // the true ranking of the options, by vertex
	law         graph.Table        // the probability of each answer, by vertex
}

// rankings are the six orders of the options.
func rankings() [][]int {
	return [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}
}

// newTriangle returns the graph, without the law. Its vertices are in the rows of [triangle.edges].
func newTriangle(people int) (t *triangle, err error) {
	t = &triangle{people: people}
	plurality, err := mechanism.ParseQuery("plurality", []string{"first", "second", "third"})
	if err != nil {
		return nil, err
	}
	var of []uint32
	for row := range people + 1 {
		for column := range row + 1 {
			way := []int64{int64(people - row), int64(row - column), int64(column)}
			place, err := plurality.Place(way)
			if err != nil {
				return nil, err
			}
			ranking := slices.IndexFunc(rankings(), func(r []int) bool { return slices.Equal(r, place.Order) })
			t.ways, of = append(t.ways, way), append(of, uint32(ranking))
		}
	}
	if t.graph, err = graph.New(len(t.ways), t.edges); err != nil {
		return nil, err
	}
	t.preferences, err = graph.NewPreferences(3, rankings(), of)
	return t, err
}

// edges yields each pair of ways that differ in one person's choice. In row r, r people have not
// chosen A, and in column c of it, c of them have chosen C. Its vertex is r(r+1)/2 + c.
func (t *triangle) edges(yield func(v, w int) bool) {
	for v, way := range t.ways {
		row, column := t.people-int(way[0]), int(way[2])
		for _, next := range [][2]int{{row, column + 1}, {row + 1, column}, {row + 1, column + 1}} {
			if next[0] <= t.people && next[1] <= next[0] && !yield(v, next[0]*(next[0]+1)/2+next[1]) {
				return
			}
		}
	}
}

func (t *triangle) sure(v int) float64 { return t.law[v][t.preferences.Color(v)] }

// at returns the point in the picture at which a share a of all people has chosen A, and c has
// chosen C.
func at(a, c float64) (x, y float64) { return 450 + 800*(c-(1-a)/2), 40 + 800*(1-a)*math.Sqrt(3)/2 }

// draw returns a picture with a cell for each way. The hue of a cell is the true answer, and its
// saturation the probability.
func (t *triangle) draw() string {
	var svg strings.Builder
	n := float64(t.people)
	fmt.Fprintf(&svg, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 900 780" `+
		`font-family="sans-serif" text-anchor="middle">
<defs><path id="cell" transform="scale(%.2f)" d="M0-1L.866-.5V.5L0 1L-.866.5V-.5Z"/></defs>`+"\n", 800/n/math.Sqrt(3))
	hues := [][3]float64{{0, 114, 178}, {213, 94, 0}, {0, 158, 115}} // by Okabe and Ito, for the colour-blind
	for v, way := range t.ways {
		x, y := at(float64(way[0])/n, float64(way[2])/n)
		hue, full := hues[t.preferences.Color(v)], (3*t.sure(v)-1)/2 // full: from 0 for a guess to 1
		fmt.Fprintf(&svg, `<use href="#cell" x="%.1f" y="%.1f" fill="rgb(%.0f,%.0f,%.0f)">`,
			x, y, 255+full*(hue[0]-255), 255+full*(hue[1]-255), 255+full*(hue[2]-255))
		fmt.Fprintf(&svg, "<title>A, B, C: %d; the answer is true with %.1f %%</title></use>\n", way, 100*t.sure(v))
	}
	// A line separates two cells with different rankings, a broad one if their first places differ.
	t.edges(func(v, w int) bool {
		width := map[bool]float64{true: 3, false: 1}[t.preferences.Color(v) != t.preferences.Color(w)]
		if t.preferences.Rainbow(v) != t.preferences.Rainbow(w) {
			x, y := at(float64(t.ways[v][0])/n, float64(t.ways[v][2])/n)
			u, z := at(float64(t.ways[w][0])/n, float64(t.ways[w][2])/n)
			dx, dy := (y-z)/math.Sqrt(12), (u-x)/math.Sqrt(12) // half of the common side of the hexagons
			fmt.Fprintf(&svg, `<path d="M%.1f %.1fL%.1f %.1f" stroke="#000" stroke-width="%v"/>`+"\n",
				(x+u)/2-dx, (y+z)/2-dy, (x+u)/2+dx, (y+z)/2+dy, width)
		}
		return true
	})
	for _, r := range rankings() { // a label in the middle of its cells
		share := [3]float64{}
		share[r[0]], share[r[1]], share[r[2]] = 11.0/18, 5.0/18, 2.0/18
		x, y := at(share[0], share[2])
		fmt.Fprintf(&svg, `<text x="%.0f" y="%.0f">%c &gt; %c &gt; %c</text>`+"\n", x, y, 'A'+r[0], 'A'+r[1], 'A'+r[2])
	}
	return svg.String() + "</svg>\n"
}
