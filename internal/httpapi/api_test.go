package httpapi

import (
	"reflect"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/api"
)

// Each field of package api has a field of the same name here. The exceptions are functions, and
// fields that are sent in a header, in the path or as true values.
func TestTypes_HaveEachFieldOfPackageAPI(t *testing.T) {
	for _, c := range []struct {
		here, there any
		but         string
	}{
		{NewQuestion{}, api.Question{}, ""},
		{Enrolment{}, api.EnrollRequest{}, "Key Progress"},
		{NewTerms{}, api.ChangeTermsRequest{}, "Key Progress"},
		{Reconcile{}, api.ReconcileRequest{}, "Confirm Progress"},
		{Release{}, api.ReleaseRequest{}, "Key Truth TrueValue"},
		{Raise{}, api.RaiseRequest{}, "Key Truth Progress"},
		{Raised{}, api.RaiseResult{}, ""},
		{Advance{}, api.AdvanceRequest{}, "Key Truth Progress"},
		{AdvancedQuestion{}, api.Advanced{}, ""},
		{Advanced{}, api.AdvanceResult{}, ""},
		{PanelQuery{}, api.AnswerRequest{}, "Key Truth"},
		{Answered{}, api.AnswerResult{}, ""},
		{AnswerQuote{}, api.AnswerQuote{}, ""},
		{Sell{}, api.SellRequest{}, "Key Truth Progress"},
		{Sold{}, api.Sale{}, ""},
		{Reserve{}, api.ReserveRequest{}, "Key"},
		{Capture{}, api.CaptureRequest{}, "Key Reservation Truth Progress"},
		{Verify{}, api.VerifyRequest{}, "Verifiers Report Progress"},
		{Verified{}, api.Verification{}, ""},
		{api.EnrollResult{}, api.EnrollResult{}, ""},
		{api.ChangeTermsResult{}, api.ChangeTermsResult{}, ""},
		{api.Member{}, api.Member{}, ""},
		{api.Order{}, api.Order{}, ""},
		{api.BudgetRequest{}, api.BudgetRequest{}, ""},
	} {
		here, there := reflect.TypeOf(c.here), reflect.TypeOf(c.there)
		but := map[string]bool{}
		for name := range strings.FieldsSeq(c.but) {
			but[name] = true
		}
		for _, field := range reflect.VisibleFields(there) {
			short := strings.TrimPrefix(field.Name, "Truth") // as in HostDetails
			check.That(t, hasInJSON(here, field.Name) || hasInJSON(here, short) || but[field.Name] || field.Anonymous,
				"%v lacks %s of %v", here, field.Name, there)
			delete(but, field.Name)
		}
		check.That(t, len(but) == 0, "%v has no %v any more", there, but)
	}
}

// hasInJSON reports whether a struct has a field, its own or an embedded one, that is a key in
// JSON.
func hasInJSON(t reflect.Type, name string) bool {
	for _, field := range reflect.VisibleFields(t) {
		if field.Name == name && field.Tag.Get("json") != "-" && field.Tag.Get("json") != "" {
			return true
		}
	}
	return false
}

// A duration is read from text, and written to the nanosecond in one form.
func TestDuration_Text_RoundTrips(t *testing.T) {
	var d Duration
	err := d.UnmarshalText([]byte("15m"))
	check.That(t, err == nil && d == 15*60e9, "%v, %v", d, err)
	text, err := d.MarshalText()
	check.That(t, err == nil && string(text) == "15m0s", "%s, %v", text, err)
	err = d.UnmarshalText([]byte("soon"))
	check.That(t, err != nil, "soon is a duration")
}
