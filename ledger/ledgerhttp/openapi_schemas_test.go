package ledgerhttp

import (
	"cmp"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/sluicedp/sluice/internal/problem"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/event"
	"github.com/sluicedp/sluice/ledger/evidence"
	logged "github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain/finite"
)

// schemaPrefix begins the references to schemas.
const schemaPrefix = "#/components/schemas/"

// schemas returns a registry that knows the types whose JSON is not that of their fields, and the
// closed lists of words.
func schemas() huma.Registry {
	types := huma.NewMapRegistry(schemaPrefix, func(t reflect.Type, hint string) string {
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		name := huma.DefaultSchemaNamer(t, hint)
		if t == reflect.TypeFor[api.Finding]() {
			name = "api.Finding"
		}
		return cmp.Or(schemaNames()[name], name)
	})
	for t, alias := range map[reflect.Type]reflect.Type{
		reflect.TypeFor[policy.Policy](): reflect.TypeFor[policySchema](),
		reflect.TypeFor[event.Event]():   reflect.TypeFor[eventSchema](),
		reflect.TypeFor[evidence.Fact](): reflect.TypeFor[factSchema](),
		reflect.TypeFor[event.Hex]():     reflect.TypeFor[hexSchema](),
		reflect.TypeFor[finite.Family](): reflect.TypeFor[map[string]any](),
		reflect.TypeFor[tlog.Hash]():     reflect.TypeFor[string](),
		reflect.TypeFor[api.Reason]():    reflect.TypeFor[reasonSchema](),
	} {
		types.RegisterTypeAlias(t, alias)
	}
	return types
}

// schemaNames returns the names of schemas whose Go types have other names.
func schemaNames() map[string]string {
	return map[string]string{
		"api.Finding": "Difference", "EnrollResult": "Enrolled", "ChangeTermsResult": "TermsChanged", "BudgetRequest": "BudgetOf",
		"NameError": "Name", "ClockError": "Clock", "GoneError": "Gone", "ReservationError": "ClosedReservation",
	}
}

// reasonSchema is the schema of reasons.
type reasonSchema string

func (reasonSchema) Schema(r huma.Registry) *huma.Schema {
	return closed(r, "Reason", "Why an object was refused.", logged.Reasons())
}

// closed returns a reference to the schema of one of some words.
func closed[T ~string](types huma.Registry, name, doc string, all []T) *huma.Schema {
	return component(types, name, func() *huma.Schema {
		return &huma.Schema{Type: huma.TypeString, Description: doc, Enum: anys(texts(all))}
	})
}

func anys(all []string) (out []any) {
	for _, one := range all {
		out = append(out, one)
	}
	return out
}

// component returns a reference to a schema, which is made when it is first referred to.
func component(types huma.Registry, name string, make func() *huma.Schema) *huma.Schema {
	if _, there := types.Map()[name]; !there {
		types.Map()[name] = &huma.Schema{} // it may refer to itself
		schema := make()
		schema.PrecomputeMessages()
		types.Map()[name] = schema
	}
	return &huma.Schema{Ref: schemaPrefix + name}
}

// hexSchema is the schema of bytes in hexadecimal digits.
type hexSchema string

func (hexSchema) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Pattern: "^([0-9a-f]{2})*$"}
}

// variant is the schema of one kind.
type variant struct {
	kind   string
	schema *huma.Schema
}

// variants returns a reference to the schema of what has one of several kinds, each with keys of
// its own. all returns them.
func variants(types huma.Registry, name, doc string, all func() []variant) *huma.Schema {
	return component(types, name, func() *huma.Schema {
		out := &huma.Schema{Description: doc, Discriminator: &huma.Discriminator{PropertyName: "kind", Mapping: map[string]string{}}}
		for _, v := range all() {
			v.schema.Properties["kind"] = &huma.Schema{Type: huma.TypeString, Enum: []any{v.kind}}
			v.schema.Required = append([]string{"kind"}, v.schema.Required...)
			ref := component(types, name+camel(v.kind), func() *huma.Schema { return v.schema })
			out.OneOf = append(out.OneOf, ref)
			out.Discriminator.Mapping[v.kind] = ref.Ref
		}
		return out
	})
}

// camel returns a word of several parts in the form of a name.
func camel(kind string) string {
	var out strings.Builder
	for part := range strings.SplitSeq(kind, "-") {
		out.WriteString(strings.ToUpper(part[:1]) + part[1:])
	}
	return out.String()
}

// eventSchema is the schema of events.
type eventSchema struct{}

func (eventSchema) Schema(types huma.Registry) *huma.Schema {
	const doc = "An entry of the log. Its kind says which keys it has. Later versions may add kinds, and keys."
	return variants(types, "Event", doc, func() (all []variant) {
		for _, d := range logged.Details() {
			s := huma.SchemaFromType(types, detailType(d))
			s.Properties["event"] = &huma.Schema{
				Type: huma.TypeInteger, Format: "int64", Description: "Its number: the first is 1, and none is left out.",
			}
			s.Properties["time"] = &huma.Schema{
				Type: huma.TypeString, Format: "date-time", Description: "When it was committed.",
			}
			required := s.Required
			if left, erasable := leftOf(d); erasable {
				s.Properties["erased"] = &huma.Schema{
					Type: huma.TypeBoolean, Description: "It was about an object that is forgotten, and has lost what it said of it.",
				}
				required = slices.DeleteFunc(required, func(key string) bool { return !left[key] })
			}
			s.Required = append([]string{"event", "time"}, required...)
			all = append(all, variant{d.Kind(), s})
		}
		return all
	})
}

// detailType returns a struct with the keys of a detail of an event.
func detailType(d event.Detail) reflect.Type {
	if _, is := d.(event.ObjectRefused); is {
		return reflect.TypeFor[struct {
			Object   string        `json:"object,omitempty"`
			Question string        `json:"question,omitempty"`
			Refused  []api.Refusal `json:"refused"`
		}]()
	}
	return reflect.TypeOf(d)
}

// leftOf returns the keys that are left of an event of a kind when its object is forgotten. It is
// false for events that are not erased.
func leftOf(d event.Detail) (keys map[string]bool, erasable bool) {
	text, err := json.Marshal(event.Event{Number: 1, Time: time.Unix(0, 0).UTC(), Erased: true, Says: d})
	if err != nil || json.Unmarshal(text, &event.Event{}) != nil {
		return nil, false
	}
	var left map[string]any
	_ = json.Unmarshal(text, &left) // it was read just now
	keys = map[string]bool{}
	for key := range maps.Keys(left) {
		keys[key] = true
	}
	return keys, true
}

// factSchema is the schema of the events in a statement.
type factSchema struct{}

func (factSchema) Schema(types huma.Registry) *huma.Schema {
	const doc = "An event of the log in a statement, with its salt and its leaf in the log's tree."
	return variants(types, "Fact", doc, func() (all []variant) {
		for _, d := range logged.FactDetails() {
			s := huma.SchemaFromType(types, reflect.StructOf(logged.FactFields(d)))
			for name, schema := range map[string]*huma.Schema{
				"event": {Type: huma.TypeInteger, Format: "int64"}, "time": {Type: huma.TypeString, Format: "date-time"},
				"salt": hexSchema("").Schema(types), "leaf": {Type: huma.TypeString},
			} {
				s.Properties[name] = schema
			}
			s.Required = append(s.Required, "event", "time", "salt", "leaf")
			all = append(all, variant{d.Kind(), s})
		}
		return all
	})
}

// policySchema is the schema of policies.
type policySchema struct{}

func (policySchema) Schema(types huma.Registry) *huma.Schema {
	const doc = "How the ceiling of a chain rises, and what is for sale of it. Its kind says which keys it has."
	return variants(types, "Policy", doc, func() (all []variant) {
		for kind, fields := range policyFields() {
			all = append(all, variant{kind, huma.SchemaFromType(types, fields)})
		}
		slices.SortFunc(all, func(a, b variant) int { return strings.Compare(a.kind, b.kind) })
		return all
	})
}

// policyFields returns a struct with the fields of each kind of policy.
func policyFields() map[string]reflect.Type {
	type span struct {
		From   privacy.Epsilon `json:"from"`
		To     privacy.Epsilon `json:"to"`
		Start  time.Time       `json:"start"`
		End    time.Time       `json:"end"`
		Stride privacy.Epsilon `json:"stride" doc:"Levels are drawn at its multiples."`
	}
	type combined struct {
		Of []policy.Policy `json:"of"`
	}
	return map[string]reflect.Type{
		"fixed": reflect.TypeFor[struct {
			Ceiling privacy.Epsilon `json:"ceiling"`
		}](),
		"linear": reflect.TypeFor[span](),
		"steps": reflect.TypeFor[struct {
			Steps []stepSchema `json:"steps"`
		}](),
		"halving": reflect.TypeFor[struct {
			From     privacy.Epsilon `json:"from"`
			Limit    privacy.Epsilon `json:"limit"`
			Start    time.Time       `json:"start"`
			HalfLife string          `json:"half_life" doc:"A duration, such as 720h."`
			Stride   privacy.Epsilon `json:"stride"`
		}](),
		"noisy-sampling": reflect.TypeFor[struct {
			Alpha  privacy.Epsilon `json:"eps_alpha"`
			Beta   privacy.Epsilon `json:"eps_beta"`
			Start  time.Time       `json:"start"`
			Period string          `json:"period" doc:"A duration, such as 24h."`
			Rounds int64           `json:"rounds"`
		}](),
		"unlock": reflect.TypeFor[struct {
			Total  privacy.Epsilon `json:"total"`
			Orders int64           `json:"orders" doc:"Of different buyers."`
		}](),
		"min": reflect.TypeFor[combined](), "sum": reflect.TypeFor[combined](),
		"market": reflect.TypeFor[struct {
			Max     privacy.Epsilon   `json:"max"`
			Price   []priceSchema     `json:"price" doc:"What holding a level costs, for one object."`
			Stride  privacy.Epsilon   `json:"stride,omitzero" doc:"Only its multiples are for sale."`
			Levels  []privacy.Epsilon `json:"levels,omitempty" doc:"Only these levels are for sale."`
			Floor   int64             `json:"floor,omitempty" doc:"No level costs less."`
			Buyers  []string          `json:"buyers,omitempty" doc:"Who may buy; without it, all."`
			Barred  []string          `json:"barred,omitempty" doc:"Who may not."`
			From    time.Time         `json:"from,omitzero"`
			Until   time.Time         `json:"until,omitzero"`
			Holders int64             `json:"holders,omitempty" doc:"How many buyers may hold the same level."`
		}](),
	}
}

// stepSchema and priceSchema are the schemas of pairs.
type (
	stepSchema  struct{}
	priceSchema struct{}
)

func (stepSchema) Schema(huma.Registry) *huma.Schema {
	return pair(&huma.Schema{Type: huma.TypeString, Format: "date-time"}, &huma.Schema{Type: huma.TypeString})
}

func (priceSchema) Schema(huma.Registry) *huma.Schema {
	return pair(&huma.Schema{Type: huma.TypeString}, &huma.Schema{Type: huma.TypeInteger, Format: "int64"})
}

func pair(first, second *huma.Schema) *huma.Schema {
	two := 2
	return &huma.Schema{
		Type: huma.TypeArray, Items: &huma.Schema{}, MinItems: &two, MaxItems: &two,
		Extensions: map[string]any{"prefixItems": []*huma.Schema{first, second}},
	}
}

// keyWords returns the words of keys that are plain texts in Go, by schema and key.
func keyWords() map[string][]string {
	released := []string{"raise", "degrade", "insert"}
	sold := append(slices.Clone(released), "resale")
	return map[string][]string{
		"Delivery.method": sold, "EventSold.method": sold, "FactSold.method": sold,
		"StatedResponse.method": released, "EventReleased.method": released, "FactReleased.method": released,
		"EventAnswered.method": append([]string{"fresh"}, released...),
		"Estimate.method":      {"level", "stratified", "pooled"}, "Estimate.covers": {"panel", "population"},
		"Receipt.format": {"sluice receipt 4"}, "Statement.format": {"sluice statement 4"},
	}
}

// closeWords adds those words, and the kinds of problems, to the schemas that there are.
func closeWords(types huma.Registry) {
	all := types.Map()
	if p := all["Problem"]; p != nil {
		kind := closed(types, "ProblemKind", "What went wrong. Later versions may add kinds.", problem.Kinds())
		p.Properties["also"].Items = kind
		refer(p, "kind", kind)
	}
	remedy := closed(types, "Remedy", "What would help.", logged.Remedies())
	for _, name := range []string{"Refusal", "Problem"} {
		refer(all[name], "helps", remedy)
	}
	encoding := closed(types, "Encoding", "What a response is.", logged.Encodings())
	for _, s := range types.Map() {
		refer(s, "encoding", encoding)
	}
	state := closed(types, "ReservationState", "The state of a reservation.", logged.ReservationStates())
	for _, name := range []string{"Reservation", "ClosedReservation"} {
		refer(all[name], "state", state)
	}
	for at, words := range keyWords() {
		name, key, _ := strings.Cut(at, ".")
		if s := all[name]; s != nil && s.Properties[key] != nil {
			s.Properties[key].Enum = anys(words)
			s.Properties[key].PrecomputeMessages()
		}
	}
}

// refer has a key of a schema, if it has it, refer to the schema of a closed list of words.
func refer(s *huma.Schema, key string, to *huma.Schema) {
	if s != nil && s.Properties[key] != nil {
		s.Properties[key] = &huma.Schema{Ref: to.Ref, Description: s.Properties[key].Description}
	}
}

// open lets schemas of answers have more keys than they list: later versions may add some. Those of
// requests refuse others.
func open(all map[string]*huma.Schema, paths map[string]*huma.PathItem) {
	asked := map[*huma.Schema]bool{}
	for _, item := range paths {
		if item.Post != nil && item.Post.RequestBody != nil {
			reach(all, item.Post.RequestBody.Content["application/json"].Schema, asked)
		}
	}
	for _, s := range all {
		if s.AdditionalProperties == false && !asked[s] {
			s.AdditionalProperties = nil
		}
	}
}

// reach marks a schema and all that it refers to.
func reach(all map[string]*huma.Schema, s *huma.Schema, marked map[*huma.Schema]bool) {
	if s == nil || marked[s] {
		return
	}
	marked[s] = true
	reach(all, all[strings.TrimPrefix(s.Ref, schemaPrefix)], marked)
	reach(all, s.Items, marked)
	for _, property := range s.Properties {
		reach(all, property, marked)
	}
	for _, one := range s.OneOf {
		reach(all, one, marked)
	}
}

// neverNull removes what a schema says of lists by default, that they may be null: those of answers
// are there, if empty, and those of requests are left out. A client that is generated from the
// document would have to check each list.
func neverNull(s *huma.Schema) {
	if s == nil {
		return
	}
	s.Nullable = false
	neverNull(s.Items)
	for _, property := range s.Properties {
		neverNull(property)
	}
}
