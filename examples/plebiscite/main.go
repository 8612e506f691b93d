// Plebiscite sells a survey at rising ε. In the spring of 1988 FLACSO asked 2,700 Chileans how they
// would vote in the plebiscite on General Pinochet. Here each of them answers through a ledger: one
// buyer takes the answers at ε = 0.5, then at 1, then at 2, and another buyer takes them at 0.7.
// Run it from the top of the repository: go run ./examples/plebiscite
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sluicedp/sluice/examples/internal/kit"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

const question = "vote 1988"
const levels = "0.5 0.7 1 2" // the ε that are sold, rising

func main() {
	dir, err := os.MkdirTemp("", "plebiscite")
	if err == nil {
		err = errors.Join(run(os.Stdout, filepath.Join(dir, "panel.db"), ledger.Options{}), os.RemoveAll(dir))
	}
	kit.Exit(err)
}

// run sells the answers in a new ledger, and checks that it has all of them when opened again.
func run(out io.Writer, file string, options ledger.Options) error {
	chile, err := kit.ReadSurvey("testdata/chile_plebiscite_1988.csv")
	if err != nil {
		return err
	}
	if err := ledger.Create(context.Background(), file, ledger.CreateOptions{}); err != nil {
		return err
	}
	sold, err := use(file, options, func(l *ledger.Ledger) error { return sell(context.Background(), out, l, chile) })
	if err != nil {
		return err
	}
	again, err := use(file, options, func(*ledger.Ledger) error { return nil })
	if err != nil || !slices.Equal(sold, again) {
		return fmt.Errorf("%d answers were sold, and there are %d others now: %w", len(sold), len(again), err)
	}
	const reopened = "\nREOPENED   The file was closed and opened again: all %d answers are the same.\n"
	_, err = fmt.Fprintf(out, reopened, len(again))
	return err
}

// use opens the ledger, calls do, and reads all recorded answers, which needs no true values.
func use(file string, options ledger.Options, do func(*ledger.Ledger) error) (answers []api.Response, err error) {
	l, err := ledger.Open(context.Background(), file, options)
	if err != nil {
		return nil, err
	}
	err = do(l)
	for _, level := range strings.Fields(levels) {
		for answer, failed := range l.Responses(context.Background(), question, privacy.MustEpsilon(level)) {
			answers, err = append(answers, answer), errors.Join(err, failed)
		}
	}
	return answers, errors.Join(err, l.Close())
}

// sell enrols all people, executes four sales, and prints the results.
func sell(ctx context.Context, out io.Writer, l *ledger.Ledger, chile kit.Survey) error {
	if err := l.DefineQuestion(ctx, "define", api.Question{Name: question, Values: kit.Votes()}); err != nil {
		return err
	}
	budget := privacy.MustEpsilon("2")
	enrolled, err := l.Enroll(ctx, api.EnrollRequest{
		Key: "enroll", Question: question, Objects: chile.People, Policy: policy.Fixed(budget), Cap: budget,
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d people enrolled, each with a budget of ε = %s; %d more did not answer the survey.\n",
		enrolled.Enrolled, budget, chile.Silent)
	fmt.Fprintln(out, "\nSALES   A first answer and a raise are drawn from the truth. "+
		"Below a person's current ε nothing is.")
	rows := kit.HeadedTable(out, "buyer\tε\tdrawn from the truth\tderived without it\teach person's budget pays\t")
	var spent, total privacy.Epsilon
	for i, sale := range [][2]string{{"Ana", "0.5"}, {"Ana", "1"}, {"Ana", "2"}, {"Ben", "0.7"}} {
		level := privacy.MustEpsilon(sale[1])
		done, failed := l.Raise(ctx, api.RaiseRequest{
			Key: fmt.Sprint("order ", i+1), Question: question, Epsilon: level, All: true, Truth: chile.Truth,
		})
		one, err := l.Object(ctx, chile.People[0]) // all are alike
		if err := errors.Join(failed, err); err != nil {
			return err
		}
		cost, _ := one.Spent.Sub(spent) // Spent never decreases
		spent = one.Spent
		total, _ = total.Add(level)
		fmt.Fprintf(rows, "%s\t%s\t%d\t%d\t%s\t\n", kit.Left(sale[0]), level, done.Drawn, done.Derived, cost)
	}
	rows.Flush()
	if err := printEstimates(ctx, out, l, chile); err != nil {
		return err
	}
	fmt.Fprintln(out, "\nPRIVACY   What the four sales cost each person, even if the buyers pool the answers.")
	rows = kit.NewTable(out)
	fmt.Fprintf(rows, "%s\tε = %s\tthe largest level sold\t\n", kit.Left("with the ledger"), spent)
	fmt.Fprintf(rows, "%s\tε = %s\tthe sum of all levels\t\n", kit.Left("four new draws"), total)
	return rows.Flush()
}

// printEstimates prints the share of each vote, and of "no" in each region, beside the real shares.
func printEstimates(ctx context.Context, out io.Writer, l *ledger.Ledger, chile kit.Survey) (err error) {
	columns := "\treal share\tat ε = " + strings.ReplaceAll(levels, " ", "\tat ε = ") + "\t"
	fmt.Fprintln(out, "\nESTIMATES   The buyer's estimate of each share, with its 95 % interval, beside the real one.")
	rows := kit.HeadedTable(out, "vote"+columns)
	for _, vote := range kit.Votes() {
		fmt.Fprintf(rows, "%s\t", kit.Left(kit.VoteName(vote)))
		err = errors.Join(err, printShares(ctx, rows, l, chile, vote, ""))
	}
	rows.Flush()
	fmt.Fprintln(out, "\nBY REGION   The share of \"no\". Fewer people make wider intervals; "+
		"a higher ε makes narrower ones.")
	rows = kit.HeadedTable(out, "region\tpeople"+columns)
	for _, region := range chile.Regions() {
		fmt.Fprintf(rows, "%s\t%d\t", kit.Left(kit.RegionName(region)), chile.Size(region))
		err = errors.Join(err, printShares(ctx, rows, l, chile, "N", region))
	}
	return errors.Join(err, rows.Flush())
}

// printShares completes a row with the real share of a vote in one or all regions, and estimates.
func printShares(ctx context.Context, rows io.Writer, l *ledger.Ledger, chile kit.Survey, vote, region string) error {
	fmt.Fprintf(rows, "%.1f %%\t", 100*chile.Share(vote, region))
	include := func(person string) bool { return region == "" || chile.Region[person] == region }
	for _, level := range strings.Fields(levels) {
		r := api.EstimateRequest{Question: question, Epsilon: privacy.MustEpsilon(level), Include: include}
		estimate, err := l.Estimate(ctx, r)
		if err != nil {
			return err
		}
		share := estimate.Values[slices.Index(kit.Votes(), vote)]
		fmt.Fprintf(rows, "%.1f ± %.1f %%\t", 100*share.Estimate, 100*(share.High-share.Low)/2)
	}
	fmt.Fprintln(rows)
	return nil
}
