package evidence

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/metrics"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/ledger/api"
	said "github.com/sluicedp/sluice/ledger/event"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/merkle"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain/finite"
)

// hostileHost signs documents of any content. They are well-formed, and their leaves and signatures
// are valid, so that every check of a verifier is reached.
type hostileHost struct {
	t      testing.TB
	signer note.Signer
	keys   note.Verifiers
	about  event.About
}

var hostileTime = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func newHostileHost(t testing.TB) *hostileHost {
	t.Helper()
	secret, public, err := note.GenerateKey(rand.Reader, "example.com/hostile")
	check.Must(t, err)
	signer := check.Value(note.NewSigner(secret))(t)
	key := check.Value(note.NewVerifier(public))(t)
	return &hostileHost{t, signer, note.VerifierList(key), event.About{Created: event.Created{ID: [16]byte{1}, Currency: "USD", LogKey: public}, At: hostileTime}}
}

// statement signs a statement about "ann" with some facts. These are the events of a log from the
// second one on.
func (h *hostileHost) statement(says []said.Detail) []byte {
	h.t.Helper()
	ledger := uuid.UUID(h.about.ID).String()
	st := Statement{
		Format: event.StatementFormat, Ledger: ledger, Created: h.about.At, Currency: h.about.Currency, LogKey: h.about.LogKey, Object: "ann", Time: hostileTime,
		Chains: []StatedChain{}, Terms: []StatedTerms{}, Released: []StatedResponse{}, Charges: []StatedResponse{}, Sales: []StatedSale{}, Proof: []tlog.Hash{},
	}
	says = append([]said.Detail{&said.Created{ID: ledger, Currency: h.about.Currency, LogKey: h.about.LogKey}}, says...)
	g, edge := event.NewGlossary(), &merkle.Frontier{}
	for i, d := range says {
		f := Fact{Event: uint64(i + 1), Time: hostileTime, Says: d, Salt: make(said.Hex, 16)}
		if c, err := f.change(g); err == nil {
			ev := event.Event{Number: f.Event, Time: f.Time, Change: c}
			_ = g.Learn(ev)
			f.Leaf = ev.Leaf()
		}
		check.Must(h.t, check.Err(edge.Append(f.Leaf)))
		st.Events = append(st.Events, f)
	}
	st.Event = edge.Size()
	signed, err := merkle.Checkpoint{Origin: h.about.Origin(), Size: edge.Size(), Root: edge.Root()}.Sign(h.signer)
	check.Must(h.t, err)
	st.Checkpoint = string(signed)
	data := check.Value(json.Marshal(st))(h.t)
	return data
}

func epsilonOf(nano int) privacy.Epsilon {
	e, err := privacy.EpsilonFromNano(int64(nano))
	if err != nil {
		panic(err)
	}
	return e
}

func policyOf(t testing.TB, text string) *policy.Policy {
	t.Helper()
	p := check.Value(policy.Parse([]byte(text)))(t)
	return &p
}

// kindsOfPolicies returns for each kind of policy a function that writes a policy whose ceiling
// takes the most work for its length. Each number gives another policy.
func kindsOfPolicies() map[string]func(i int) string {
	const start = `"start":"2027-01-01T00:00:00Z"`
	list := func(n int, item func(k int) string) string {
		var all []string
		for k := range n {
			all = append(all, item(k))
		}
		return "[" + strings.Join(all, ",") + "]"
	}
	unlock := func(i int) string {
		return fmt.Sprintf(`{"kind":"unlock","total":"1.%09d","orders":%d}`, 1+i, 999_999_937-i)
	}
	step := func(i, k int) string {
		return fmt.Sprintf(`["%s","0.%09d"]`, hostileTime.Add(time.Duration(k)*time.Hour).Format(time.RFC3339), 1_000*k+i%1_000+1)
	}
	return map[string]func(i int) string{
		"fixed": func(i int) string { return fmt.Sprintf(`{"kind":"fixed","ceiling":"1.%09d"}`, 1+i) },
		"linear": func(i int) string {
			return fmt.Sprintf(`{"kind":"linear","from":"0","to":"1.%09d",%s,"end":"2028-01-01T00:00:00Z","stride":"0.001"}`, 1+i, start)
		},
		"steps": func(i int) string {
			return `{"kind":"steps","steps":` + list(1000, func(k int) string { return step(i, k) }) + `}`
		},
		"halving": func(i int) string {
			return fmt.Sprintf(`{"kind":"halving","from":"0","limit":"1.%09d",%s,"half_life":"720h0m0.000000001s","stride":"0.001"}`, 1+i, start)
		},
		"noisy-sampling": func(i int) string {
			return fmt.Sprintf(`{"kind":"noisy-sampling","eps_alpha":"20.%09d","eps_beta":"0.000000001",%s,"period":"1s","rounds":1024}`, i, start)
		},
		"unlock": unlock,
		"sum of unlocks": func(i int) string {
			return `{"kind":"min","of":[{"kind":"sum","of":[` + unlock(i) + `,{"kind":"unlock","total":"1","orders":999}]},{"kind":"sum","of":[` + unlock(2*i) + `,` + unlock(i) + `]}]}`
		},
		"nested": func(i int) string {
			inner := `{"kind":"sum","of":[` + unlock(i) + `,{"kind":"steps","steps":` + list(60, func(k int) string { return step(i, k) }) + `}]}`
			for range 5 {
				inner = `{"kind":"min","of":[` + inner + `,{"kind":"fixed","ceiling":"9"}]}`
			}
			return inner
		},
		"market": func(i int) string {
			return `{"kind":"market","max":"0.3","price":` + list(3000, func(k int) string { return fmt.Sprintf(`["0.%09d",%d]`, 100_000*(k+1)+i%1000, 7*k+i%5) }) + `}`
		},
		"buyers": func(i int) string {
			return `{"kind":"market","max":"0.3","price":[["1",1]],"buyers":` + list(3000, func(k int) string { return fmt.Sprintf(`"b%d-%d"`, k, i) }) + `}`
		},
	}
}

// hostileStatements returns functions that make the facts of statements of a size that is about
// proportional to n.
func hostileStatements(t testing.TB) map[string]func(n int) []said.Detail {
	question := &said.QuestionDefined{Number: 1, Name: "q", Values: []string{"a", "b"}, Encoding: "direct"}
	enrolled := &said.Enrolled{Object: "ann", Question: "q", Cap: epsilonOf(900e9)}
	repeat := func(n int, begin []said.Detail, item func(i int) []said.Detail) []said.Detail {
		for i := range n {
			begin = append(begin, item(i)...)
		}
		return begin
	}
	released := func(epsilon func(i, n int) int) func(n int) []said.Detail {
		return func(n int) []said.Detail {
			return repeat(200*n, []said.Detail{question, enrolled}, func(i int) []said.Detail {
				return []said.Detail{&said.Released{Object: "ann", Question: "q", Epsilon: epsilonOf(epsilon(i, 200*n)), Response: "a", Method: "degrade"}}
			})
		}
	}
	sale := func(n int, buyer string) *said.SaleMade {
		return &said.SaleMade{Sale: 1, Buyer: buyer, Question: "q", Epsilon: epsilonOf(1e9), Objects: uint64(n)}
	}
	sold := &said.Sold{Sale: 1, Object: "ann", Response: "a", Method: "resale"}
	all := map[string]func(n int) []said.Detail{
		"released rising":  released(func(i, _ int) int { return i + 1 }),
		"released falling": released(func(i, n int) int { return n - i }),
		"released mixed":   released(func(i, n int) int { return 1 + i*7919%n }),
		"a long name of a buyer": func(n int) []said.Detail {
			name := strings.Repeat("b", 20_000*n)
			return repeat(200*n, []said.Detail{question, &said.BuyerNamed{Number: 1, Name: name}, sale(200*n, name)}, func(int) []said.Detail { return []said.Detail{sold} })
		},
		"sold": func(n int) []said.Detail {
			return repeat(200*n, []said.Detail{question, enrolled, &said.BuyerNamed{Number: 1, Name: "acme"}, sale(200*n, "acme")}, func(int) []said.Detail { return []said.Detail{sold} })
		},
		"sales": func(n int) []said.Detail {
			return repeat(100*n, []said.Detail{question, enrolled}, func(i int) []said.Detail {
				buyer, made := fmt.Sprint("b", i), *sale(1, fmt.Sprint("b", i))
				made.Sale = uint64(i + 1)
				return []said.Detail{&said.BuyerNamed{Number: uint32(i + 1), Name: buyer}, &made, &said.Sold{Sale: made.Sale, Object: "ann", Response: "a", Method: "raise"}}
			})
		},
		"reserved": func(n int) []said.Detail {
			return repeat(100*n, []said.Detail{question, enrolled, &said.BuyerNamed{Number: 1, Name: "acme"}}, func(i int) []said.Detail {
				return []said.Detail{
					&said.Reserved{Sale: uint64(i + 1), Buyer: "acme", Question: "q", Epsilon: epsilonOf(1), Objects: 1, Expires: hostileTime},
					&said.Held{Sale: uint64(i + 1), Object: "ann"},
				}
			})
		},
		"questions": func(n int) []said.Detail {
			return repeat(5*n, nil, func(i int) []said.Detail {
				values := make([]string, 1000)
				for v := range values {
					values[v] = fmt.Sprint("v", v)
				}
				return []said.Detail{&said.QuestionDefined{Number: uint32(i + 1), Name: fmt.Sprint("q", i), Values: values, Encoding: "unary"}}
			})
		},
		"unary": func(n int) []said.Detail {
			values := make([]string, event.MaxUnaryValues)
			for v := range values {
				values[v] = fmt.Sprint("v", v)
			}
			return repeat(20*n, []said.Detail{&said.QuestionDefined{Number: 1, Name: "q", Values: values, Encoding: "unary"}, enrolled}, func(i int) []said.Detail {
				return []said.Detail{&said.Released{Object: "ann", Question: "q", Epsilon: epsilonOf(i + 1), Response: strings.Repeat("01", len(values)/2), Method: "raise"}}
			})
		},
		"mechanisms": func(n int) []said.Detail {
			m := manyOutputs(t)
			return repeat(n, nil, func(i int) []said.Detail {
				return []said.Detail{&said.QuestionDefined{Number: uint32(i + 1), Name: fmt.Sprint("q", i), Values: []string{"a", "b"}, Encoding: "finite", Mechanism: m}}
			})
		},
	}
	type says = []said.Detail
	about, m := &said.QuestionDefined{Number: 1, Name: "q", Values: []string{"a", "b"}, Encoding: "finite"}, manyOutputs(t)
	about.Mechanism = m
	lengthy := policyOf(t, kindsOfPolicies()["steps"](0))
	defined := &said.PolicyDefined{Number: 1, Policy: *lengthy}
	under := &said.Enrolled{Object: "ann", Question: "q", Policy: lengthy, Cap: epsilonOf(2e9)}
	epoch := &said.EpochBegun{Object: "ann", Question: "q"}
	refused := func(why string) *said.ObjectRefused {
		r := api.Refusal{Object: "ann", Reason: api.NeedsConsent, Remedy: "consent", Why: why}
		return &said.ObjectRefused{Question: "q", Refusal: r}
	}
	for name, c := range map[string]struct {
		times       int
		begin, each says
	}{
		"charged":   {200, says{question, enrolled}, says{&said.Charged{Object: "ann", Question: "q", Epsilon: epsilonOf(1)}}},
		"refused":   {200, says{question, enrolled}, says{refused("more")}},
		"withdrawn": {100, says{question}, says{enrolled, &said.Withdrawn{Object: "ann"}}},
		"epochs": {
			100, says{question, enrolled}, says{&said.TruthBound{Object: "ann", Question: "q", Truth: make(said.Hex, 16)}, epoch},
		},
		"epochs under a long policy": {200, says{question, defined, under}, says{epoch}},
		"enrolled again and again":   {20, says{question, defined}, says{under, &said.Withdrawn{Object: "ann"}}},
		"holdings under long policies": {
			2, says{question, defined, &said.BuyerNamed{Number: 1, Name: "acme"}, enrolled, &said.Reserved{
				Sale: 1, Buyer: "acme", Question: "q", Epsilon: epsilonOf(1), Objects: 1 << 20, Expires: hostileTime,
			}}, says{&said.Held{Sale: 1, Object: "ann", Policy: lengthy}},
		},
		"stated": {20, says{question, enrolled}, says{&said.Stated{Object: "ann", Events: make([]uint64, 1000)}}},
		"forgotten": {4, says{question, enrolled}, says{&said.Forgotten{
			Object: "ann", Chains: slices.Repeat([]said.ForgottenChain{{Question: "q", Spent: epsilonOf(1)}}, 500),
		}}},
		"nothing is defined": {200, nil, says{&said.Released{Object: "ann", Question: "none", Epsilon: epsilonOf(1)}}},
		"another object":     {200, says{question}, says{&said.Withdrawn{Object: "bob"}}},
		"finite": {100, says{about, enrolled}, says{&said.Released{
			Object: "ann", Question: "q", Epsilon: m.Family.Epsilons()[0], Response: m.Outputs[0][len(m.Outputs[0])-1], Method: "raise",
		}}},
		// each byte of the reason is six bytes of JSON
		"refused at length": {50, says{question, enrolled}, says{refused(strings.Repeat("\x01", event.MaxWhy))}},
	} {
		all[name] = func(n int) says { return repeat(c.times*n, slices.Clip(c.begin), func(int) says { return c.each }) }
	}
	all["enrolled in questions with long names"] = func(n int) []said.Detail {
		return repeat(20*n, nil, func(i int) []said.Detail {
			name := fmt.Sprintf("%0*d", event.MaxNameBytes, i)
			return []said.Detail{&said.QuestionDefined{Number: uint32(i + 1), Name: name, Values: []string{"a", "b"}, Encoding: "direct"}, &said.Enrolled{Object: "ann", Question: name, Cap: epsilonOf(9e9)}}
		})
	}
	all["forgotten in many questions"] = func(n int) []said.Detail {
		var chains []said.ForgottenChain
		begin := repeat(50*n, nil, func(i int) []said.Detail {
			name := fmt.Sprint("q", i)
			chains = append(chains, said.ForgottenChain{Question: name, Spent: epsilonOf(i + 1)})
			return []said.Detail{&said.QuestionDefined{Number: uint32(i + 1), Name: name, Values: []string{"a", "b"}, Encoding: "direct"}}
		})
		begin = append(begin, &said.Forgotten{Object: "ann", Chains: chains})
		return repeat(50*n, begin, func(i int) []said.Detail {
			return []said.Detail{&said.Enrolled{Object: "ann", Question: fmt.Sprint("q", i), Cap: epsilonOf(9e9)}}
		})
	}
	all["levels of one mechanism"] = func(n int) []said.Detail {
		m := manyLevels(t, 60)
		return repeat(n, []said.Detail{&said.QuestionDefined{Number: 1, Name: "q", Values: []string{"a", "b"}, Encoding: "finite", Mechanism: m}, enrolled}, func(int) []said.Detail {
			epoch := []said.Detail{&said.EpochBegun{Object: "ann", Question: "q"}}
			for level, epsilon := range slices.Backward(m.Family.Epsilons()) {
				epoch = append(epoch, &said.Released{Object: "ann", Question: "q", Epsilon: epsilon, Response: m.Outputs[level][0], Method: "degrade"})
			}
			return epoch
		})
	}
	all["refused in many questions"] = func(n int) []said.Detail {
		return repeat(50*n, nil, func(i int) []said.Detail {
			name := fmt.Sprint("q", i)
			return []said.Detail{
				&said.QuestionDefined{Number: uint32(i + 1), Name: name, Values: []string{"a", "b"}, Encoding: "direct"},
				&said.ObjectRefused{Question: name, Refusal: api.Refusal{Object: "ann", Reason: api.NotEnrolled, Remedy: "enrolling", Asked: epsilonOf(1)}},
			}
		})
	}
	for kind, text := range kindsOfPolicies() {
		all["pairs of policies of kind "+kind] = func(n int) []said.Detail {
			var policies []*policy.Policy
			says := []said.Detail{question, enrolled}
			for i := range max(3, min(6*n, 8*n*150/len(text(0)))) {
				policies = append(policies, policyOf(t, text(i)))
				says = append(says, &said.PolicyDefined{Number: uint32(i + 1), Policy: *policies[i]})
			}
			for i, one := range policies { // each after each other one
				for _, other := range policies[:i] {
					says = append(says, &said.TermsChanged{Object: "ann", Question: "q", Policy: one, Cap: epsilonOf(2e9)},
						&said.TermsChanged{Object: "ann", Question: "q", Policy: other, Cap: epsilonOf(2e9)})
				}
			}
			return says
		}
	}
	for kind, text := range kindsOfPolicies() {
		number := func(n int) int { return max(2, 20*n*150/len(text(0))) }
		all["policies of kind "+kind] = func(n int) []said.Detail {
			return repeat(number(n), []said.Detail{question}, func(i int) []said.Detail {
				p := policyOf(t, text(i))
				return []said.Detail{&said.PolicyDefined{Number: uint32(i + 1), Policy: *p}, &said.Enrolled{Object: "ann", Question: "q", Policy: p, Cap: epsilonOf(2e9)}}
			})
		}
		all["terms of kind "+kind] = func(n int) []said.Detail {
			return repeat(number(n), []said.Detail{question, enrolled}, func(i int) []said.Detail {
				p := policyOf(t, text(number(n)-i))
				return []said.Detail{&said.PolicyDefined{Number: uint32(i + 1), Policy: *p}, &said.TermsChanged{Object: "ann", Question: "q", Policy: p, Cap: epsilonOf(2e9)}}
			})
		}
	}
	return all
}

// manyOutputs is a mechanism of few inputs and many outputs.
func manyOutputs(t testing.TB) *api.Mechanism {
	t.Helper()
	const outputs = 1000
	var rows [2][]string
	for o := range outputs {
		rows[0], rows[1] = append(rows[0], `"1/3000"`), append(rows[1], `"1/3000"`)
		if o%2 == 0 {
			rows[0][o] = `"5/3000"`
		} else {
			rows[1][o] = `"5/3000"`
		}
	}
	m := &finite.Family{}
	check.Must(t, json.Unmarshal([]byte(`{"levels":[[[`+strings.Join(rows[0], ",")+`],[`+strings.Join(rows[1], ",")+`]]],"channels":[]}`), m))
	return event.NameOutputs(&api.Mechanism{Family: m})
}

// manyLevels is a mechanism of two inputs, two outputs, and many levels.
func manyLevels(t testing.TB, levels int) *api.Mechanism {
	t.Helper()
	symmetric := func(over, under int) string { // the matrix that keeps its input with (over+under)/2·under
		same, other := fmt.Sprintf(`"%d/%d"`, under+over, 2*under), fmt.Sprintf(`"%d/%d"`, under-over, 2*under)
		return "[[" + same + "," + other + "],[" + other + "," + same + "]]"
	}
	var all, channels []string
	for k := 1; k <= levels; k++ {
		all = append(all, symmetric(k, levels+1))
		if k > 1 {
			channels = append(channels, symmetric(k-1, k))
		}
	}
	m := &finite.Family{}
	check.Must(t, json.Unmarshal([]byte(`{"levels":[`+strings.Join(all, ",")+`],"channels":[`+strings.Join(channels, ",")+`]}`), m))
	return event.NameOutputs(&api.Mechanism{Family: m})
}

// hostileReceipt signs a receipt of n responses.
func (h *hostileHost) receipt(n int, q api.Question, epsilon privacy.Epsilon, response string) []byte {
	h.t.Helper()
	var log []entry
	add := func(c event.Change) Proven {
		ev := event.Event{Number: uint64(len(log) + 1), Time: hostileTime, Change: c}
		log = append(log, entry{ev, ev.Leaf()})
		return Proven{ev.Number, make(said.Hex, len(ev.Salt)), ev.Leaf()}
	}
	defined := &event.QuestionDefined{Number: 1, Question: q}
	value, known := event.NewQuestion(defined).Read(epsilon, response)
	check.Need(h.t, known, "%.40q is no response", response)
	made := &event.SaleMade{
		Deal:  event.Deal{Sale: 1, Buyer: 1, Question: 1, Epsilon: epsilon, Objects: uint64(n)},
		Tally: event.SaleTally{Resales: uint64(n)},
	}
	r := Receipt{
		Format: event.ReceiptFormat, Ledger: uuid.UUID(h.about.ID).String(), Created: hostileTime, Currency: h.about.Currency,
		LogKey: h.about.LogKey, Sale: 1, Buyer: "acme", Question: q.Name, Values: q.Values, Encoding: q.Encoding,
		Mechanism: event.NameOutputs(q.Mechanism), Epsilon: epsilon, Objects: uint64(n), Time: hostileTime,
	}
	e := &r.Evidence
	e.Created, e.Question.Proven = add(&h.about.Created), add(defined)
	e.Buyer.Proven, e.Sale = add(&event.BuyerNamed{Number: 1, Name: "acme"}), add(made)
	e.Question.Number, e.Question.Time, e.Buyer.Number, e.Buyer.Time = 1, hostileTime, 1, hostileTime
	shown := event.Withhold(log[3].Event)
	e.Sale.Salt, e.Withheld = shown.Salt[:], shown.Withheld[:]
	for i := range n {
		sold := &event.Sold{Sale: 1, Object: fmt.Sprintf("o%09d", i), Response: event.Response{Value: value, Method: event.MethodResale}}
		in := add(sold)
		shown := event.Withhold(log[len(log)-1].Event)
		r.Responses = append(r.Responses, SoldResponse{
			Object: sold.Object, Response: response, Event: in.Event, Leaf: in.Leaf,
			Salt: shown.Salt[:], Withheld: shown.Withheld[:],
		})
	}
	add(&event.Withdrawn{Object: "o"}) // in place of the settled event
	proof, edge := proofOf(h.t, log, log[:len(log)-1])
	signed, err := merkle.Checkpoint{Origin: h.about.Origin(), Size: edge.Size(), Root: edge.Root()}.Sign(h.signer)
	check.Must(h.t, err)
	e.Proof, e.Checkpoint = proof, string(signed)
	return text(h.t, r)
}

// cost is the memory and the time that are needed to read and verify a document.
type cost struct {
	bytes, allocated, kept, peak int
	processor                    time.Duration
}

func (c cost) String() string {
	return fmt.Sprintf("%d bytes; for each byte, %d bytes are allocated, %d in use at the peak, %d kept, and %d ns used",
		c.bytes, c.allocated/c.bytes, c.peak/c.bytes, c.kept/c.bytes, int(c.processor)/c.bytes)
}

// costOf measures a document: all memory that is allocated, the memory that is still in use at the
// end, and the processor time.
func costOf(data []byte, verify func([]byte) (document any, read bool)) (c cost) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	begun := processorTime()
	document, _ := verify(data)
	c.processor = processorTime() - begun
	runtime.ReadMemStats(&after)
	c.bytes, c.allocated = len(data), int(after.TotalAlloc-before.TotalAlloc)
	runtime.GC()
	runtime.ReadMemStats(&after)
	c.kept = int(after.HeapAlloc) - int(before.HeapAlloc)
	runtime.KeepAlive(document)
	return c
}

// peakOf measures the peak of memory in use while a document is read and verified. It runs one
// garbage collection after another, and returns the most that any of them has found in use.
func peakOf(data []byte, verify func([]byte) (document any, read bool)) int {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	inUse := func() uint64 {
		runtime.GC()
		metrics.Read(live)
		return live[0].Value.Uint64()
	}
	before, done := inUse(), make(chan any)
	go func() {
		document, _ := verify(data)
		done <- document
	}()
	for most := before; ; most = max(most, inUse()) {
		select {
		case document := <-done:
			most = max(most, inUse()) // with the document and its faults
			runtime.KeepAlive(document)
			return int(most - before)
		default:
		}
	}
}

// wantLinear checks that the cost of a document is linear in its size, for two sizes of which one
// is four times the other. Allocated and kept memory must be within their limits in each try. Time
// and peak memory depend on other processes, so they must be within theirs in one of a few tries;
// time may be up to twice the proportional time.
func wantLinear(t *testing.T, name string, document func(n int) []byte, verify func([]byte) (document any, read bool)) {
	t.Helper()
	const kept = 64 // bytes of memory for each byte, beside 1 MiB
	most := kept
	if name == "mechanisms" {
		most *= 2 // their probabilities are checked as large integers, one mechanism after the other
	}
	small, large := document(2), document(8)
	if _, read := verify(small); !read {
		t.Errorf("%s: it cannot be read", name)
		return
	}
	var one, four cost
	for range 5 {
		one, four = costOf(small, verify), costOf(large, verify)
		if testenv.Race == 0 { // under the race detector, collections take most of the time
			four.peak = peakOf(large, verify)
		}
		if four.allocated > (1+testenv.Race)*(1<<20+most*four.bytes) || four.kept > (1+testenv.Race)*(1<<20+kept*four.bytes) {
			t.Errorf("%s: %v", name, four)
			return
		}
		perByte := func(c cost) float64 { return float64(c.processor) / float64(c.bytes) }
		fits := four.peak <= 1<<20+kept*four.bytes && (testenv.Race > 0 || four.processor <= time.Millisecond+time.Duration(four.bytes)*time.Microsecond)
		if fits && (four.processor < 20*time.Millisecond || perByte(four) < 2*perByte(one)) {
			t.Logf("%s: %v", name, four)
			return
		}
	}
	t.Errorf("%s: %v; a quarter of it: %v", name, four, one)
}

func TestCostOfDocuments_AnyKindOfFact_IsLinear(t *testing.T) {
	h := newHostileHost(t)
	for name, says := range hostileStatements(t) {
		t.Run(name, func(t *testing.T) {
			wantLinear(t, name, func(n int) []byte { return h.statement(says(n)) }, func(data []byte) (any, bool) {
				st, err := ReadStatement(data)
				if err != nil {
					t.Logf("%v", err)
					return nil, false
				}
				checked := st.Verify(h.keys)
				return []any{st, checked}, checked.Signed
			})
		})
	}
}

func TestCostOfReceipts_AnyEncoding_IsLinear(t *testing.T) {
	h := newHostileHost(t)
	values := make([]string, event.MaxUnaryValues)
	for v := range values {
		values[v] = fmt.Sprint("v", v)
	}
	m := manyOutputs(t)
	for name, of := range map[string]struct {
		n        int
		question api.Question
		epsilon  privacy.Epsilon
		response string
	}{
		"direct": {200, api.Question{Name: "q", Values: values, Encoding: "direct"}, epsilonOf(1e9), values[len(values)-1]},
		"unary":  {20, api.Question{Name: "q", Values: values, Encoding: "unary"}, epsilonOf(1e9), strings.Repeat("01", len(values)/2)},
		"finite": {200, api.Question{Name: "q", Values: []string{"a", "b"}, Encoding: "finite", Mechanism: m}, m.Family.Epsilons()[0], m.Outputs[0][len(m.Outputs[0])-1]},
	} {
		t.Run(name, func(t *testing.T) {
			wantLinear(t, name, func(n int) []byte { return h.receipt(of.n*n, of.question, of.epsilon, of.response) }, func(data []byte) (any, bool) {
				r, err := ReadReceipt(data)
				if err != nil {
					t.Logf("%v", err)
					return nil, false
				}
				return r, r.Verify(h.keys).OK()
			})
		})
	}
}

// The levels of a chain may be added in any order. Their cost is the highest of them, and each
// addition takes the same time.
func TestChainSummary_AnyOrderOfLevels_CostsTheSame(t *testing.T) {
	chain := func(n int) *chainSummary {
		c := &chainSummary{}
		for i := range n {
			epsilon := epsilonOf(n - i)
			if i > 0 && c.method(epsilon) != event.MethodDegrade || i == 0 && c.method(epsilon) != event.MethodRaise {
				t.Fatalf("level %d of %d has the method %v", i, n, c.method(epsilon))
			}
			c.add(epsilon, event.Value{Index: i})
		}
		return c
	}
	c := chain(3)
	c.add(epsilonOf(7), event.Value{})
	check.That(t, c.method(epsilonOf(5)) == event.MethodInsert && c.method(epsilonOf(8)) == event.MethodRaise &&
		c.spent() == epsilonOf(7) && c.lowest == epsilonOf(1), "%+v", c)
	c.add(epsilonOf(5), event.Value{}) // not the highest, although it is the last
	check.That(t, c.method(epsilonOf(6)) == event.MethodInsert && c.spent() == epsilonOf(7) && c.lowest == epsilonOf(1),
		"after a level in between: %+v", c)
	used := func(n int) time.Duration {
		begun := processorTime()
		chain(n)
		return processorTime() - begun
	}
	var small, large time.Duration
	for range 5 {
		if small, large = used(20_000), used(80_000); large < 8*small || large < 100*time.Millisecond {
			return
		}
	}
	t.Errorf("20,000 levels take %v, 80,000 take %v", small, large)
}

// A proof with far too many hashes is refused in linear time.
func TestCostOfDocuments_LongProof_IsLinear(t *testing.T) {
	h := newHostileHost(t)
	wantLinear(t, "proof", func(n int) []byte {
		st := check.Value(ReadStatement(h.statement([]said.Detail{&said.Withdrawn{Object: "ann"}})))(t)
		st.Proof = make([]tlog.Hash, 1000*n)
		data := check.Value(json.Marshal(st))(t)
		return data
	}, func(data []byte) (any, bool) {
		st, err := ReadStatement(data)
		return st, err == nil && !st.Verify(h.keys).OK()
	})
}

func TestVerify_ForeignSignature_ChecksNothingElse(t *testing.T) {
	h, other := newHostileHost(t), newHostileHost(t)
	st := check.Value(ReadStatement(h.statement([]said.Detail{&said.Withdrawn{Object: "bob"}})))(t)
	checked := st.Verify(other.keys)
	check.That(t, !checked.Signed && !checked.OK() && len(checked.Faults) == 1 &&
		strings.Contains(checked.Faults[0].Text, "checkpoint"), "%+v", checked)
	checked = st.Verify(h.keys)
	check.That(t, checked.Signed && len(checked.Faults) >= 2, "%+v", checked)
	r, err := ReadReceipt(h.receipt(1, api.Question{Name: "q", Values: []string{"a", "b"}, Encoding: "direct"}, epsilonOf(1e9), "a"))
	check.Must(t, err)
	r.Price++
	checked = r.Verify(other.keys)
	check.That(t, !checked.Signed && len(checked.Faults) == 1, "%+v", checked)
}

func TestVerify_ManyFaults_ListsTheFirst(t *testing.T) {
	h := newHostileHost(t)
	var says []said.Detail
	for range 2 * maxFaults {
		says = append(says, &said.Withdrawn{Object: strings.Repeat("b", 10_000)})
	}
	st := check.Value(ReadStatement(h.statement(says)))(t)
	checked := st.Verify(h.keys)
	if n := len(checked.Faults); n != maxFaults+1 || !strings.Contains(checked.Faults[n-1].Text, "more than 1000 faults") {
		t.Errorf("%d faults, at last %v", n, checked.Faults[n-1])
	}
	for _, f := range checked.Faults {
		check.Need(t, len(f.Text) <= 2*maxFaultText, "a fault of %d bytes", len(f.Text))
	}
}

func TestVerify_LongNameOfABuyer_IsAFault(t *testing.T) {
	h := newHostileHost(t)
	for length, fault := range map[int]string{256: "", 257: "at most 256 are allowed"} {
		st, err := ReadStatement(h.statement([]said.Detail{&said.BuyerNamed{Number: 1, Name: strings.Repeat("b", length)}}))
		check.Must(t, err)
		var all strings.Builder
		for _, f := range st.Verify(h.keys).Faults {
			all.WriteString(f.Text + "\n")
		}
		check.That(t, strings.Contains(all.String(), "at most 256") == (fault != ""),
			"%d bytes: %s", length, all.String())
	}
}

// A chain has at most event.MaxEntries entries, so a longer one in a statement is a fault.
func TestVerify_ChainAboveTheBound_IsAFault(t *testing.T) {
	h := newHostileHost(t)
	question := &said.QuestionDefined{Number: 1, Name: "q", Values: []string{"a", "b"}, Encoding: "direct"}
	begin := []said.Detail{question, &said.Enrolled{Object: "ann", Question: "q", Cap: epsilonOf(900e9)}}
	level := func(i int) []said.Detail {
		return []said.Detail{&said.Released{Object: "ann", Question: "q", Epsilon: epsilonOf(i + 1), Response: "a", Method: "raise"}}
	}
	sale := func(i int) []said.Detail {
		buyer, method := fmt.Sprint("b", i), "resale"
		if i == 0 {
			method = "raise"
		}
		return []said.Detail{
			&said.BuyerNamed{Number: uint32(i + 1), Name: buyer}, &said.SaleMade{Sale: uint64(i + 1), Buyer: buyer, Question: "q", Epsilon: epsilonOf(1e9), Objects: 1},
			&said.Sold{Sale: uint64(i + 1), Object: "ann", Response: "a", Method: method},
		}
	}
	epoch := func(i int) []said.Detail { return append(level(i), &said.EpochBegun{Object: "ann", Question: "q"}) }
	for name, test := range map[string]struct {
		most int // how many make the chain full
		item func(i int) []said.Detail
	}{"levels": {event.MaxEntries, level}, "buyers": {event.MaxEntries - 1, sale}, "epochs": {event.MaxEntries / 2, epoch}} {
		for more := range 2 {
			says := slices.Clone(begin)
			for i := range test.most + more {
				says = append(says, test.item(i)...)
			}
			st := check.Value(ReadStatement(h.statement(says)))(t)
			isFault := slices.ContainsFunc(st.Verify(h.keys).Faults, func(f Fault) bool { return strings.Contains(f.Text, "entries; at most 1024 are possible") })
			check.That(t, isFault == (more == 1), "%s: %d more than are possible: a fault is %t", name, more, isFault)
		}
	}
}
