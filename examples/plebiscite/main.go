// Plebiscite sells a survey at rising ε. In the spring of 1988 FLACSO asked 2,700 Chileans how they
// would vote in the plebiscite on General Pinochet. Here each of them answers through a ledger: one
// buyer takes the answers at ε = 0.5, then at 1, then at 2, and another buyer takes them at 0.7.
//
// Run it from the top of the repository:
//
//	go run ./examples/plebiscite
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"text/tabwriter"

	"github.com/sluicedp/sluice/examples/internal/survey"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

func main() {
	data := flag.String("data", "testdata/chile_plebiscite_1988.csv", "the survey")
	flag.Parse()
	if err := run(os.Stdout, *data); err != nil {
		fmt.Fprintln(os.Stderr, "plebiscite:", err)
		os.Exit(1)
	}
}

const question = "vote 1988"

// sale is one purchase of everybody's answer at one ε.
type sale struct {
	buyer   string
	epsilon privacy.Epsilon
}

func run(out io.Writer, path string) error {
	chile, err := survey.Read(path)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "plebiscite")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "panel.db")

	sales := []sale{{"Ana", epsilon("0.5")}, {"Ana", epsilon("1")}, {"Ana", epsilon("2")}, {"Ben", epsilon("0.7")}}
	market := &market{out: out, survey: chile, sales: sales}
	if err := ledger.Create(file, "", ""); err != nil {
		return err
	}
	sold, err := market.open(file, market.sellAll)
	if err != nil {
		return err
	}
	again, err := market.open(file, market.readAll)
	if err != nil {
		return err
	}
	return market.compare(sold, again)
}

// answers holds every answer sold, by sale and person.
type answers []map[string]string

// market is the host: it knows the truth, and it opens the ledger.
type market struct {
	out    io.Writer
	survey survey.Survey
	sales  []sale
}

func (m *market) open(file string, use func(context.Context, *ledger.Ledger) (answers, error)) (answers, error) {
	l, err := ledger.Open(file, ledger.Options{})
	if err != nil {
		return nil, err
	}
	result, err := use(context.Background(), l)
	if err != nil {
		l.Close()
		return nil, err
	}
	return result, l.Close()
}

// sellAll enrols everybody, carries out the sales and prints what came of them.
func (m *market) sellAll(ctx context.Context, l *ledger.Ledger) (answers, error) {
	if err := l.DefineQuestion(ctx, "define", ledger.Question{Name: question, Values: survey.Votes()}); err != nil {
		return nil, err
	}
	enrolled, err := l.Enroll(ctx, ledger.EnrollRequest{
		Key: "enroll", Question: question, Objects: m.survey.People, Policy: policy.Fixed(epsilon("2")), Cap: epsilon("2"),
	})
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(m.out, "%d people enrolled, each with a budget of ε = 2; %d more did not answer the survey.\n\n", enrolled.Enrolled, m.survey.Silent)
	if err := m.printSales(ctx, l); err != nil {
		return nil, err
	}
	if err := m.printShares(ctx, l); err != nil {
		return nil, err
	}
	if err := m.printRegions(ctx, l); err != nil {
		return nil, err
	}
	if err := m.printSpending(ctx, l); err != nil {
		return nil, err
	}
	return m.readAll(ctx, l)
}

func (m *market) printSales(ctx context.Context, l *ledger.Ledger) error {
	fmt.Fprintln(m.out, "SALES   A first answer and a raise are drawn from the truth. Below a person's current ε nothing is.")
	table := m.table()
	fmt.Fprintln(table, left("buyer")+"\tε\tdrawn from the truth\tderived without it\teach person's budget pays\t")
	for i, s := range m.sales {
		before, err := m.spent(ctx, l)
		if err != nil {
			return err
		}
		result, err := l.Raise(ctx, ledger.RaiseRequest{
			Key: fmt.Sprintf("order %d", i+1), Question: question, Epsilon: s.epsilon, All: true, Truth: m.survey.Truth,
		})
		if err != nil {
			return err
		}
		after, err := m.spent(ctx, l)
		if err != nil {
			return err
		}
		cost, err := after.Sub(before)
		if err != nil {
			return err
		}
		fmt.Fprintf(table, "%s\t%s\t%d\t%d\t%s\t\n", left(s.buyer), s.epsilon, result.Drawn, result.Derived, cost)
	}
	return table.Flush()
}

// spent returns what one person has spent; all are alike here, which printSpending checks.
func (m *market) spent(ctx context.Context, l *ledger.Ledger) (privacy.Epsilon, error) {
	state, err := l.Object(ctx, m.survey.People[0])
	return state.Spent, err
}

func (m *market) printShares(ctx context.Context, l *ledger.Ledger) error {
	fmt.Fprintln(m.out, "\nESTIMATES   The buyer's estimate of each share, with its 95 % interval, beside the real one.")
	table := m.table()
	fmt.Fprint(table, left("vote")+"\treal share\t")
	for _, level := range m.levels() {
		fmt.Fprintf(table, "at ε = %s\t", level)
	}
	fmt.Fprintln(table)
	for v, vote := range survey.Votes() {
		fmt.Fprintf(table, "%s\t%.1f %%\t", left(survey.VoteName(vote)), 100*m.survey.Share(vote, ""))
		for _, level := range m.levels() {
			estimate, err := l.Estimate(ctx, ledger.EstimateRequest{Question: question, Epsilon: level})
			if err != nil {
				return err
			}
			fmt.Fprintf(table, "%s\t", percent(estimate.Values[v]))
		}
		fmt.Fprintln(table)
	}
	return table.Flush()
}

func (m *market) printRegions(ctx context.Context, l *ledger.Ledger) error {
	fmt.Fprintln(m.out, "\nBY REGION   The share of \"no\". Fewer people make wider intervals; a higher ε makes narrower ones.")
	table := m.table()
	fmt.Fprint(table, left("region")+"\tpeople\treal share\t")
	for _, level := range m.levels() {
		fmt.Fprintf(table, "at ε = %s\t", level)
	}
	fmt.Fprintln(table)
	for _, region := range m.survey.Regions() {
		fmt.Fprintf(table, "%s\t%d\t%.1f %%\t", left(survey.RegionName(region)), m.survey.Size(region), 100*m.survey.Share("N", region))
		for _, level := range m.levels() {
			estimate, err := l.Estimate(ctx, ledger.EstimateRequest{
				Question: question, Epsilon: level,
				Include: func(person string) bool { return m.survey.Region[person] == region },
			})
			if err != nil {
				return err
			}
			fmt.Fprintf(table, "%s\t", percent(estimate.Values[0]))
		}
		fmt.Fprintln(table)
	}
	return table.Flush()
}

// levels returns the ε sold, rising.
func (m *market) levels() []privacy.Epsilon {
	var levels []privacy.Epsilon
	for _, s := range m.sales {
		levels = append(levels, s.epsilon)
	}
	slices.SortFunc(levels, privacy.Epsilon.Compare)
	return slices.Compact(levels)
}

func (m *market) printSpending(ctx context.Context, l *ledger.Ledger) error {
	spent, err := m.spent(ctx, l)
	if err != nil {
		return err
	}
	for _, person := range m.survey.People {
		state, err := l.Object(ctx, person)
		if err != nil {
			return err
		}
		if state.Spent != spent {
			return fmt.Errorf("person %s has spent %s, others %s", person, state.Spent, spent)
		}
	}
	naive := privacy.Epsilon{}
	for _, s := range m.sales {
		if naive, err = naive.Add(s.epsilon); err != nil {
			return err
		}
	}
	fmt.Fprintln(m.out, "\nPRIVACY   What the four sales cost each person, whoever pools the answers.")
	table := m.table()
	fmt.Fprintf(table, "%s\tε = %s\tthe largest level sold\t\n", left("with the ledger"), spent)
	fmt.Fprintf(table, "%s\tε = %s\tthe sum of all levels\t\n", left("asking anew"), naive)
	return table.Flush()
}

// readAll reads the recorded answers of every sale. That is free, and needs no truth.
func (m *market) readAll(ctx context.Context, l *ledger.Ledger) (answers, error) {
	var all answers
	for _, s := range m.sales {
		byPerson := map[string]string{}
		for response, err := range l.Responses(ctx, question, s.epsilon) {
			if err != nil {
				return nil, err
			}
			byPerson[response.Object] = response.Value
		}
		all = append(all, byPerson)
	}
	return all, nil
}

func (m *market) compare(sold, again answers) error {
	total := 0
	for i := range sold {
		if len(sold[i]) != len(m.survey.People) || len(again[i]) != len(sold[i]) {
			return fmt.Errorf("sale %d: %d answers were sold and %d are there now", i+1, len(sold[i]), len(again[i]))
		}
		for person, value := range sold[i] {
			if again[i][person] != value {
				return fmt.Errorf("sale %d: the answer of person %s has changed", i+1, person)
			}
			total++
		}
	}
	fmt.Fprintf(m.out, "\nREOPENED   The file was closed and opened again: all %d answers are the same.\n", total)
	return nil
}

func (m *market) table() *tabwriter.Writer {
	return tabwriter.NewWriter(m.out, 0, 0, 3, ' ', tabwriter.AlignRight)
}

// left pads the first column of a table, whose other columns are aligned to the right.
func left(text string) string { return fmt.Sprintf("%-17s", text) }

func percent(v ledger.ValueEstimate) string {
	return fmt.Sprintf("%.1f ± %.1f %%", 100*v.Estimate, 100*(v.High-v.Estimate))
}

// epsilon reads a constant of this program.
func epsilon(text string) privacy.Epsilon {
	e, err := privacy.ParseEpsilon(text)
	if err != nil {
		panic(err)
	}
	return e
}
