package ledger

import (
	"math"
	"testing"

	"github.com/sluicedp/sluice/internal/fixture"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/privacy"
)

func TestChannel_EachEncoding_HasTheProbabilitiesOfTheDraw(t *testing.T) {
	e := math.Exp(0.5)
	direct, unary, finite := vote(), vote(), fixture.Party(t)
	direct.Encoding, unary.Encoding, finite.Encoding = api.Direct, api.Unary, api.Finite
	for _, c := range []struct {
		question api.Question
		want     api.Channel
	}{
		{direct, api.Channel{Encoding: api.Direct, Values: 3, P: e / (e + 2), Q: 1 / (e + 2)}},
		{unary, api.Channel{Encoding: api.Unary, Values: 3, P: 0.5, Q: 1 / (e + 1)}},
		{finite, api.Channel{Encoding: api.Finite, Values: len(finite.Values)}},
	} {
		got, err := c.question.Channel(eps(t, "0.5"))
		must(t, err)
		if math.Abs(got.P-c.want.P) > 1e-15 || math.Abs(got.Q-c.want.Q) > 1e-15 || got.Encoding != c.want.Encoding || got.Values != c.want.Values {
			t.Errorf("%s: %+v, want %+v", c.want.Encoding, got, c.want)
		}
		_, err = c.question.Channel(privacy.Epsilon{})
		wantErr(t, err, api.ErrInvalid)
	}
	_, err := api.Question{Encoding: api.Direct}.Channel(eps(t, "0.5"))
	wantErr(t, err, api.ErrInvalid)
	for _, epsilon := range []privacy.Epsilon{nano(t, 1), eps(t, "40"), privacy.MaxEpsilon()} {
		got, err := direct.Channel(epsilon)
		must(t, err)
		if !(got.P > got.Q && got.P <= 1 && got.Q >= 0) || math.Abs(got.P+2*got.Q-1) > 1e-15 {
			t.Errorf("ε=%s: %+v", epsilon, got)
		}
	}
}

// TestDeliveries_OfASale_HaveItsNumberAndChannel reads what an estimate needs from the deliveries alone.
func TestDeliveries_OfASale_HaveItsNumberAndChannel(t *testing.T) {
	l := sellers(t, inMemory(t, Options{}), "2", "9", "ann", "bob")
	sell(t, l, purchase(t, "1", "acme", "1", "ann", "bob"))
	sale := sell(t, l, purchase(t, "2", "acme", "0.5", "ann", "bob"))
	all := delivered(t, l, sale.Number)
	if len(all) != 2 {
		t.Fatalf("delivered %v", all)
	}
	for _, d := range all {
		want, err := questionsOf(t, l)[0].Channel(d.Epsilon)
		must(t, err)
		if d.Sale != sale.Number || d.Epsilon != eps(t, "0.5") || d.Channel != want || d.P == 0 {
			t.Errorf("%+v, want the channel %+v", d, want)
		}
	}
}
