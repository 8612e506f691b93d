package main

import (
	"context"
	"errors"
	"testing"
)

func TestParseProbability_FractionsAndOtherTexts_ReadOrRejected(t *testing.T) {
	for text, want := range map[string]float64{"0": 0, "1": 1, "0.25": 0.25, ".5": 0.5, "5e-1": 0.5, "1.0": 1, "1e-999": 0} {
		if got, err := parseProbability(text); err != nil || got != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", " ", " 0.5", "NaN", "nan", "Inf", "-Inf", "-0", "-0.1", "1.1", "1e999", "0x1p-1", "0,5", "1_0e-2", "½", "0.5 %"} {
		if got, err := parseProbability(text); err == nil {
			t.Errorf("%q was read as %v", text, got)
		}
	}
}

func TestEachStep_CancelledContext_Stops(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	steps := 0
	err := eachStep(ctx, maxSteps, func(int) error {
		if steps++; steps == 3 {
			cancel()
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) || steps != 3 {
		t.Errorf("%d steps, %v", steps, err)
	}
}
