package httpapi

import (
	"reflect"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/ledger"
)

// Whatever a host can ask in this process, and is told, goes over the API: each field of package ledger has one of the same name here, but for those
// that are named, which are functions, or stand in a header, a path or among the truths.
func TestTheAPIHasEachField(t *testing.T) {
	for _, c := range []struct {
		here, there any
		but         string
	}{
		{NewQuestion{}, ledger.Question{}, ""},
		{Enrolment{}, ledger.EnrollRequest{}, "Key Progress"},
		{NewTerms{}, ledger.ChangeTermsRequest{}, "Key Progress"},
		{Reconcile{}, ledger.ReconcileRequest{}, "Confirm Progress"},
		{Release{}, ledger.ReleaseRequest{}, "Key Truth TrueValue"},
		{Raise{}, ledger.RaiseRequest{}, "Key Truth Progress"},
		{Raised{}, ledger.RaiseResult{}, ""},
		{Advance{}, ledger.AdvanceRequest{}, "Key Truth Progress"},
		{AdvancedQuestion{}, ledger.Advanced{}, ""},
		{Advanced{}, ledger.AdvanceResult{}, ""},
		{Inquiry{}, ledger.AnswerRequest{}, "Key Truth"},
		{Answered{}, ledger.AnswerResult{}, ""},
		{AnswerQuote{}, ledger.AnswerQuote{}, ""},
		{Sell{}, ledger.SellRequest{}, "Key Truth Progress"},
		{Sold{}, ledger.Sale{}, ""},
		{Reserve{}, ledger.ReserveRequest{}, "Key"},
		{Capture{}, ledger.CaptureRequest{}, "Key Reservation Truth Progress"},
		{Verify{}, ledger.VerifyRequest{}, "Verifiers Report Progress"},
		{Verified{}, ledger.Verification{}, ""},
		{ledger.EnrollResult{}, ledger.EnrollResult{}, ""},
		{ledger.ChangeTermsResult{}, ledger.ChangeTermsResult{}, ""},
		{ledger.Member{}, ledger.Member{}, ""},
		{ledger.Order{}, ledger.Order{}, ""},
		{ledger.BudgetRequest{}, ledger.BudgetRequest{}, ""},
	} {
		here, there := reflect.TypeOf(c.here), reflect.TypeOf(c.there)
		but := map[string]bool{}
		for name := range strings.FieldsSeq(c.but) {
			but[name] = true
		}
		for _, field := range reflect.VisibleFields(there) {
			short := strings.TrimPrefix(field.Name, "Truth") // as in Aside
			if !hasInJSON(here, field.Name) && !hasInJSON(here, short) && !but[field.Name] && !field.Anonymous {
				t.Errorf("%v lacks %s of %v", here, field.Name, there)
			}
			delete(but, field.Name)
		}
		if len(but) > 0 {
			t.Errorf("%v has no %v any more", there, but)
		}
	}
}

// hasInJSON tells whether a struct has a field, its own or an embedded one, that is a key in JSON.
func hasInJSON(t reflect.Type, name string) bool {
	for _, field := range reflect.VisibleFields(t) {
		if field.Name == name && field.Tag.Get("json") != "-" && field.Tag.Get("json") != "" {
			return true
		}
	}
	return false
}

// What is asked for by a key can be told from everything else that is asked for by it: times to the nanosecond, in the same words.
func TestDurations(t *testing.T) {
	var d Duration
	if err := d.UnmarshalText([]byte("15m")); err != nil || d != 15*60e9 {
		t.Errorf("%v, %v", d, err)
	}
	if text, err := d.MarshalText(); err != nil || string(text) != "15m0s" {
		t.Errorf("%s, %v", text, err)
	}
	if err := d.UnmarshalText([]byte("soon")); err == nil {
		t.Error("soon is a duration")
	}
}
