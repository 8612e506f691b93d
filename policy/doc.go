// Package policy says how much may be released of a chain, when, and on what terms.
//
// A [Policy] is an immutable value with a canonical JSON form. Its ceiling is a pure function of an
// instant and of the number of buyers that the chain has served. It never falls as either grows:
// what was allowed once stays allowed, and a clock that jumps back can only forbid. The ledger
// checks every draw against it, and asks it which levels fall due by themselves ([Policy.Releases])
// and on what terms the chain is for sale ([Policy.Terms]).
//
// # Kinds
//
// In JSON every policy is an object with the field "kind" and exactly the other fields of its kind.
// ε is a decimal string of 0 to "1000" with at most 9 decimals, an instant is RFC 3339 from 1970 to
// 2261 with at most 9 decimals, a duration is above 0 and written as by [time.Duration], an integer
// is written in digits. Nothing is rounded on the way in. The canonical form has no spaces, the
// fields in the order shown here, and times in UTC.
//
// The same ε at all times:
//
//	{"kind":"fixed","ceiling":"2"}
//
// Nothing before start, from at start, a straight line to to at end, rounded down to multiples of
// stride but never below from ([Linear]):
//
//	{"kind":"linear","from":"0.1","to":"1","start":"2027-01-01T00:00:00Z","end":"2028-01-01T00:00:00Z","stride":"0.1"}
//
// Nothing before the first instant, then the ε of the latest; both rise strictly ([Steps]):
//
//	{"kind":"steps","steps":[["2027-01-01T00:00:00Z","0.5"],["2028-01-01T00:00:00Z","1"]]}
//
// Nothing before start, from at start, then half of what is missing to limit with every half-life,
// rounded down to multiples of stride but never below from ([Halving]):
//
//	{"kind":"halving","from":"0","limit":"2","start":"2027-01-01T00:00:00Z","half_life":"720h0m0s","stride":"0.1"}
//
// What RAPPOR's repeated noisy sampling would have given away by then, pan2024 Eq. (65)
// ([NoisySampling]):
//
//	{"kind":"noisy-sampling","eps_alpha":"1","eps_beta":"0.5","start":"2027-01-01T00:00:00Z",
//	 "period":"24h0m0s","rounds":10}
//
// An equal part of total with each of the first buyers that the chain serves, however often they
// order ([Unlock]):
//
//	{"kind":"unlock","total":"1","orders":100}
//
// The smallest ceiling of 1 to 16 policies, and the sum of their ceilings ([Min], [Sum]):
//
//	{"kind":"min","of":[{"kind":"unlock","total":"1","orders":100},{"kind":"fixed","ceiling":"0.5"}]}
//	{"kind":"sum","of":[{"kind":"unlock","total":"1","orders":100},{"kind":"fixed","ceiling":"0.5"}]}
//
// A chain for sale up to max ([Market]). All fields after price are optional:
//
//	{"kind":"market","max":"1","price":[["0.5",100],["1",180]],"stride":"0.1","floor":10,
//	 "buyers":["acme","zeta"],"barred":["initech"],
//	 "from":"2027-01-01T00:00:00Z","until":"2028-01-01T00:00:00Z","holders":3}
//
// In place of "stride" there may be "levels", the only ones for sale: "levels":["0.2","0.5","1"].
// One of the two is needed with "holders", the number of buyers that may hold the same level:
// without them the next level is a nano-nat away and says the same. Who is on the list of "buyers"
// is a rule; "barred" is advice, because whoever is barred can come under another name.
//
// A price is that of holding a level, for one object, in minor units: on straight lines between the
// points, starting at (0, 0) unless there is a point at ε = 0, and rounded up. It must not fall,
// which is all it takes to keep buyers from beating it by bundles, upgrades or pooling
// ([Market.Policy]). A market may be part of a min, once in the whole tree, and its terms are then
// those of the whole; it cannot be part of a sum. The ceiling of a market is max even while it is
// closed. In a min of a market and a calendar the calendar says how much may be sold by now; it
// draws nothing by itself.
//
// # Comparing policies
//
// A person who has agreed to a policy need not be asked again about one that allows less:
// [Policy.AtMost] proves it, for all instants from one on and any number of buyers, or says what is
// more.
//
// # Bounds
//
// A policy has at most 1,024 steps over all its parts, 256 policies in it, nested at most 8
// deep, and a canonical form of at most 64 KiB. Reading a text computes no step, and takes time and
// memory in proportion to the text. The first ceiling that is requested computes all steps, in at
// most a millisecond or so, with integers or with intervals that prove the result: every platform
// finds the same nanosecond, and none releases anything early.
package policy
