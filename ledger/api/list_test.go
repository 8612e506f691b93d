package api

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

// A buyer's program that reads "refused" as a list must not meet null, whichever encoder a host
// writes a result with.
func TestList_WithoutElements_IsNoNull(t *testing.T) {
	for _, list := range []List[string]{nil, {}} {
		text, err := json.Marshal(NameList{First: list})
		if err != nil || string(text) != `{"count":0,"first":[]}` {
			t.Errorf("%#v is %s, %v", list, text, err)
		}
	}
	var back NameList
	if err := json.Unmarshal([]byte(`{"count":0,"first":[]}`), &back); err != nil || back.First != nil {
		t.Errorf("[] is read as %#v, %v", back.First, err)
	}
	text, err := json.Marshal(List[string]{"a<b"})
	if err != nil || string(text) != `["a\u003cb"]` && string(text) != `["a<b"]` {
		t.Errorf("%s, %v", text, err)
	}
}

// Every list of a result is a List: null beside [] is what this type is for.
func TestResults_EachList_IsAList(t *testing.T) {
	seen := map[reflect.Type]bool{}
	var look func(at reflect.Type)
	look = func(at reflect.Type) {
		for at.Kind() == reflect.Pointer || at.Kind() == reflect.Slice {
			at = at.Elem()
		}
		if at.Kind() != reflect.Struct || seen[at] || !strings.HasSuffix(at.PkgPath(), "ledger/api") {
			return
		}
		seen[at] = true
		for i := range at.NumField() {
			f := at.Field(i)
			tag := f.Tag.Get("json")
			plain := f.Type.Kind() == reflect.Slice && !strings.HasPrefix(f.Type.Name(), "List[")
			if plain && tag != "-" && !strings.Contains(tag, "omit") {
				t.Errorf("%v.%s is a %v", at, f.Name, f.Type)
			}
			look(f.Type)
		}
	}
	for _, result := range []any{
		RaiseResult{}, AdvanceResult{}, AnswerResult{}, AnswerQuote{}, Budget{}, Quote{}, Sale{}, Reservation{}, EnrollResult{},
		ChangeTermsResult{}, ReconcileResult{}, Estimate{}, ObjectState{}, Stats{}, Delivery{}, Verification{},
	} {
		look(reflect.TypeOf(result))
	}
}
