package ledger_test

import (
	"context"
	"fmt"
	"log"

	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/rrchain/finite"
)

// A question uses subset selection of two out of six values, which estimates better than randomized
// response at a low ε. A response is a pair of values, and can be raised like any other.
func ExampleMechanism() {
	path, remove := newFile()
	defer remove()
	if err := bySubsets(context.Background(), path); err != nil {
		log.Fatal(err)
	}
	// Output:
	// 15 outputs at each ε
	// spent after ε=0.5 and ε=1: 1
	// invalid request: question "grade" has responses at ε=0.5, 1 only, not at 0.7
}

func bySubsets(ctx context.Context, path string) error {
	design, err := finite.SubsetSelection(6, 2)
	if err != nil {
		return err
	}
	family, err := design.Family(must("0.5"), must("1"))
	if err != nil {
		return err
	}
	var pairs []string
	grades := []string{"A", "B", "C", "D", "E", "F"}
	for _, block := range design.Blocks {
		pairs = append(pairs, grades[block[0]]+" or "+grades[block[1]])
	}
	if err := ledger.Create(ctx, path, ledger.CreateOptions{Currency: "USD"}); err != nil {
		return err
	}
	l, err := ledger.Open(ctx, path, ledger.Options{})
	if err != nil {
		return err
	}
	defer l.Close()
	err = l.DefineQuestion(ctx, "setup-1", api.Question{Name: "grade", Values: grades, Mechanism: &api.Mechanism{
		Family: family, Outputs: [][]string{pairs, pairs},
	}})
	if err != nil {
		return err
	}
	if _, err = l.Enroll(ctx, api.EnrollRequest{Key: "setup-2", Question: "grade", Objects: []string{"ann"}, Cap: must("2")}); err != nil {
		return err
	}
	fmt.Println(len(pairs), "outputs at each ε")
	for _, epsilon := range family.Epsilons() {
		_, err := l.Release(ctx, api.ReleaseRequest{
			Key: "order at " + epsilon.String(), Question: "grade", Object: "ann", Epsilon: epsilon, TrueValue: "C",
		})
		if err != nil {
			return err
		}
	}
	ann, err := l.Object(ctx, "ann")
	if err != nil {
		return err
	}
	fmt.Println("spent after ε=0.5 and ε=1:", ann.Spent)
	_, err = l.Release(ctx, api.ReleaseRequest{Key: "order 3", Question: "grade", Object: "ann", Epsilon: must("0.7")})
	fmt.Println(err)
	return nil
}
