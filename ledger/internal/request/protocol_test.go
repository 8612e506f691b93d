package request

import (
	"context"
	"errors"
	"testing"

	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

func TestUntilSettled_OvertakenForLong_SucceedsAndForEver_Fails(t *testing.T) {
	tries := 0
	err := untilSettled(func() error {
		if tries++; tries > maxAttempts/2 {
			return nil
		}
		return errOvertaken
	})
	if err != nil || tries != maxAttempts/2+1 {
		t.Errorf("%d tries, %v", tries, err)
	}
	if err := untilSettled(func() error { return errOvertaken }); !errors.Is(err, errOvertaken) {
		t.Errorf("got the error %v", err)
	}
}

// asked is a request over many objects for which the host has returned true values.
type asked struct {
	bulk
	values []int32
	err    error
}

func (x *asked) commit(context.Context) error {
	x.trueValues.Add([]string{"ann", "bob"}, x.values)
	return x.err
}

func (x *asked) decide(*state.State) ([]event.Change, error) { return nil, nil }

func TestRun_EveryOutcome_OverwritesTrueValues(t *testing.T) {
	for _, want := range []error{nil, errors.New("failed"), context.Canceled} {
		x := &asked{values: []int32{2, 1}, err: want}
		x.steps, x.decidesFirst = x, true
		if err := x.run(t.Context()); !errors.Is(err, want) {
			t.Errorf("got the error %v, want %v", err, want)
		}
		if x.values[0] != 0 || x.values[1] != 0 || len(x.trueValues.Batches) != 0 {
			t.Errorf("with the error %v true values are kept: %v", want, x.values)
		}
	}
}
