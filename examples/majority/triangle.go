package main

import (
	"fmt"
	"io"
	"iter"
	"slices"

	"github.com/sluicedp/sluice/mechanism"
	"github.com/sluicedp/sluice/mechanism/graph"
)

// options are what the people of the triangle choose from.
const options = "ABC"

// rankings are the six orders of three options.
var rankings = [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}

// triangle is the graph of all ways to split people over three options, and the optimal mechanism that
// names the commonest option. Neighbours are splits of which one becomes the other if a single person
// chooses otherwise.
type triangle struct {
	people      int
	epsilon     float64
	graph       *graph.Graph
	preferences *graph.Preferences
	distances   []int32 // of each split to its ranking's boundary
	table       *graph.Table
	report      graph.Report
}

// The splits lie in rows: in row r, r people have not chosen A, and in its column c, c of them have
// chosen C. So the first row is the split of all A, and the last one goes from all B to all C.

func (t *triangle) rows() int { return t.people + 1 }

func vertex(row, column int) int { return row*(row+1)/2 + column }

// splits goes through the rows and columns of all splits, in the order of their vertices.
func (t *triangle) splits() iter.Seq2[int, int] {
	return func(yield func(int, int) bool) {
		for row := range t.rows() {
			for column := range row + 1 {
				if !yield(row, column) {
					return
				}
			}
		}
	}
}

// counts returns how many people have chosen each option.
func (t *triangle) counts(row, column int) []int64 {
	return []int64{int64(t.people - row), int64(row - column), int64(column)}
}

// edges goes through all pairs of neighbours.
func (t *triangle) edges(yield func(int, int) bool) {
	for row, column := range t.splits() {
		v := vertex(row, column)
		if column < row && !yield(v, vertex(row, column+1)) { // from B to C
			return
		}
		if row < t.people && !(yield(v, vertex(row+1, column)) && yield(v, vertex(row+1, column+1))) { // from A to B or C
			return
		}
	}
}

// solve finds the optimal mechanism and checks that it is private.
func solve(people int, epsilon float64) (*triangle, error) {
	t := &triangle{people: people, epsilon: epsilon}
	for _, step := range []func() error{t.build, t.answer, t.check} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return t, nil
}

func (t *triangle) build() (err error) {
	if t.graph, err = graph.New(vertex(t.rows(), 0), t.edges); err != nil {
		return err
	}
	var of []uint32
	for row, column := range t.splits() {
		place, err := mechanism.Plurality().Place(t.counts(row, column), mechanism.Substitution)
		if err != nil {
			return err
		}
		number := slices.IndexFunc(rankings, func(r []int) bool { return slices.Equal(r, place.Order) })
		of = append(of, uint32(number))
	}
	if t.preferences, err = graph.NewPreferences(len(options), rankings, of); err != nil {
		return err
	}
	t.distances, err = graph.Distances(t.graph, t.preferences)
	return err
}

func (t *triangle) answer() error {
	law, err := graph.DefaultLaw(len(options), t.epsilon)
	if err != nil {
		return err
	}
	laws := slices.Repeat([][]float64{law}, len(rankings))
	t.table, err = graph.Homogeneous(t.graph, t.preferences, t.privacy(), laws)
	return err
}

func (t *triangle) check() (err error) {
	if t.report, err = graph.Check(t.graph, t.table, t.privacy()); err != nil {
		return err
	}
	return t.report.Err()
}

func (t *triangle) privacy() graph.Privacy { return graph.Privacy{Epsilon: t.epsilon} }

// sure returns the probability of the true answer to a split.
func (t *triangle) sure(v int) float64 { return t.table.At(v)[t.preferences.Color(v)] }

// region is what all splits with one ranking have in common.
type region struct {
	splits    int
	farthest  int32   // the largest distance from the boundary
	low, high float64 // the probability of the true answer, on the boundary and farthest from it
}

func (t *triangle) region(ranking int) region {
	r := region{low: 1}
	for v, distance := range t.distances {
		if t.preferences.Rainbow(v) == ranking {
			r.splits++
			r.farthest = max(r.farthest, distance)
			r.low, r.high = min(r.low, t.sure(v)), max(r.high, t.sure(v))
		}
	}
	return r
}

// bounds returns the smallest and the largest probability of the true answer.
func (t *triangle) bounds() (low, high float64) {
	low = 1
	for i := range rankings {
		r := t.region(i)
		low, high = min(low, r.low), max(high, r.high)
	}
	return low, high
}

func (t *triangle) print(out io.Writer) error {
	fmt.Fprintf(out, "\nTRIANGLE   All %d ways in which %d people can split over A, B and C, and how sure it is\nthat a private answer at ε = %g names the commonest. Ties go to the earlier letter.\n",
		t.graph.Vertices(), t.people, t.epsilon)
	table := newTable(out)
	fmt.Fprintln(table, left("ranking")+"\tways\tsure on the border\tsteps inward\tsure innermost\t")
	for i, ranking := range rankings {
		r := t.region(i)
		fmt.Fprintf(table, "%s\t%d\t%s\t%d\t%s\t\n", left(rankingText(ranking)), r.splits, percent(r.low), r.farthest, percent(r.high))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, `On the border of a ranking one changed vote changes it; each step inward takes one vote more.
Verified on all %d edges, which join ways that differ by one vote: no set of answers is more than e^ε times
as likely at one end as at the other. The largest excess is %.1g; rounding may make it up to %g.
`, t.report.Edges, t.report.Worst.Excess, graph.Tolerance)
	return err
}

// rankingText writes a ranking as "A > B > C".
func rankingText(order []int) string {
	return fmt.Sprintf("%c > %c > %c", options[order[0]], options[order[1]], options[order[2]])
}
