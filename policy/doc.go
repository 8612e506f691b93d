// Package policy defines how much may be released of a chain, when, and on what terms.
//
// A [Policy] is an immutable value with a canonical JSON form. Its ceiling is a pure function of an
// instant and of the number of buyers that the chain has served. The ceiling never falls when
// either grows. What was allowed once therefore stays allowed, and a clock that jumps back can only
// forbid. The ledger checks every draw against the policy. The policy also returns the levels that
// are released by time alone ([Policy.Releases]) and the terms of sale ([Policy.Terms]).
//
// # Kinds
//
// In JSON, every policy is an object with the field "kind" and exactly the other fields of its
// kind. ε is a decimal string from "0" to "1000" with at most 9 decimals. An instant is RFC 3339
// from 1970 to 2261 with at most 9 decimals. A duration is above 0, in the notation of
// [time.Duration]. An integer is written in digits. Reading never rounds. The canonical form has no
// spaces, the fields in the order shown here, and times in UTC.
//
// The same ε at all times ([Fixed]):
//
//	{"kind":"fixed","ceiling":"2"}
//
// Nothing before start, "from" at start, then a straight line to "to" at end, rounded down to
// multiples of stride but never below "from" ([Linear]):
//
//	{"kind":"linear","from":"0.1","to":"1","start":"2027-01-01T00:00:00Z",
//	 "end":"2028-01-01T00:00:00Z","stride":"0.1"}
//
// Nothing before the first instant, then the ε of the latest instant; both rise strictly ([Steps]):
//
//	{"kind":"steps","steps":[["2027-01-01T00:00:00Z","0.5"],["2028-01-01T00:00:00Z","1"]]}
//
// Nothing before start and "from" at start. After that, every half-life halves the distance to
// limit. The ceiling is rounded down to multiples of stride but never below "from" ([Halving]):
//
//	{"kind":"halving","from":"0","limit":"2","start":"2027-01-01T00:00:00Z",
//	 "half_life":"720h0m0s","stride":"0.1"}
//
// The privacy loss of RAPPOR's repeated noisy sampling up to an instant, pan2024 Eq. (65)
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
//	{"kind":"min","of":[{"kind":"unlock","total":"1","orders":100},
//	 {"kind":"fixed","ceiling":"0.5"}]}
//	{"kind":"sum","of":[{"kind":"unlock","total":"1","orders":100},
//	 {"kind":"fixed","ceiling":"0.5"}]}
//
// A chain for sale up to max ([Market]). All fields after price are optional:
//
//	{"kind":"market","max":"1","price":[["0.5",100],["1",180]],"stride":"0.1","floor":10,
//	 "buyers":["acme","zeta"],"barred":["initech"],
//	 "from":"2027-01-01T00:00:00Z","until":"2028-01-01T00:00:00Z","holders":3}
//
// Instead of "stride" there may be "levels", a list of the only levels for sale:
// "levels":["0.2","0.5","1"]. "holders" limits the number of buyers that may hold the same level.
// It needs "stride" or "levels": without them, the next level is a nano-nat away and gives the same
// information. The list "buyers" is a rule. The list "barred" is only advice, because a barred
// buyer can order under another name.
//
// A price is the price of holding a level, for one object, in minor units. It is linear between the
// points and rounded up, and starts at (0, 0) unless there is a point at ε = 0. It must not fall.
// This is sufficient to prevent buyers from paying less by bundles, upgrades or pooling
// ([Market.Policy]).
//
// A market may be part of a min, once in the whole tree. The min then has the terms of the market.
// A market cannot be part of a sum. The ceiling of a market is max even while its sale is closed.
// In a min of a market and a policy that depends on time, the latter limits how much may be sold so
// far. It releases nothing by itself.
//
// # Comparing policies
//
// A person who has agreed to a policy need not be asked again about a policy that allows less.
// [Policy.AtMost] proves this for all instants from a given one on and for any number of buyers, or
// reports what is allowed in addition.
//
// # Bounds
//
// A policy has at most 1,024 steps over all its parts, contains at most 256 policies, nests at most
// 8 deep, and has a canonical form of at most 64 KiB. Reading a text computes no more steps than
// fit in the memory of the text, and takes time and memory in proportion to it. The first request
// for a ceiling computes all steps, in at most a millisecond or so. The computation uses integers,
// or intervals that prove the result. Every platform therefore computes the same nanosecond, and no
// platform releases anything early.
package policy
