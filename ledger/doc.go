// Package ledger keeps, for each object and question, the ε released so far and every response
// handed out, and draws the next response when a policy and a budget allow it.
//
//	l, err := ledger.Open("panel.db", ledger.Options{})
//	defer l.Close()
//	response, err := l.Release(ctx, ledger.ReleaseRequest{
//		Key: orderID, Question: "vote", Object: "person-17", Epsilon: half, Truth: ledger.TruthOf("yes"),
//	})
//
// An object is one privacy unit, such as a person; a question has a fixed list of values; the truth
// stays with the host. The responses of one object to one question form a chain (package rrchain):
// each is a randomized response at its ε, or for a question of many values a row of bits in unary
// encoding, or an output of a mechanism of the host's own ([Encoding], [Mechanism]); all of them together cost the
// object the largest ε only, and a response at or below the current level is free and needs no truth. Across its
// chains an object's spending adds up, and never exceeds its cap.
//
// A query about a panel of objects, such as whether a majority says yes, has one [Ledger.Answer] by
// the mechanism that is optimal at its ε (package mechanism). It is charged to everybody in the panel:
// answers to different queries add up with each other and with the chains. The answers to one query that
// has two of them, about a majority or a threshold, are raised as the responses of a chain are, and cost the
// largest ε together.
//
// Responses are drawn from chance or, with [Options.NoiseKey], from a key of the host's, so that a ledger that
// is lost can be made again with the same responses ([NoiseKeys] says what that costs).
//
// # The market
//
// What a policy (package policy) allows may grow with time; [Ledger.Advance] draws what has been released,
// and [Ledger.Watch] streams it. A policy with terms of sale puts a chain on the market:
//
//   - [Ledger.Quote] says what an order costs, whom it would refuse, and how the responses would come
//     about, and changes nothing.
//   - [Ledger.Sell] carries an order out in one transaction: responses, charges, prices, credits. It can be
//     held to a quote. Buyers read what they bought with [Ledger.Deliveries].
//   - [Ledger.Reserve] holds budget and price while a buyer pays; [Ledger.Commit] or [Ledger.Cancel] ends
//     that, or time does.
//   - [Ledger.Withdraw] takes an object off the market, and out of everything else.
//
// A buyer pays for each object the price of the highest level held, in whatever steps it was bought, and
// the same responses are sold to every buyer. Only an order's draw above the current level costs the
// object privacy. Terms of sale bind orders; the host's own releases ([Ledger.Raise]) are bound by
// ceilings only.
//
// # What can be relied on
//
//   - A response is on disk before a caller sees it. The process may die at any instant.
//   - Every draw is checked against the chain's ceiling and the object's cap in the transaction that
//     records it, in integers.
//   - Nothing is read that could still be lost: a reader who meets a commit under way waits for it.
//   - For an object, question and ε there is one response, for ever, for everyone; unless the object is
//     forgotten ([Ledger.Forget]) and comes back, for what it had spent and the new ε together.
//   - Every request that changes something takes an idempotency key of the caller's choice. The same key
//     with the same request returns the same result; with another request, [ErrKeyConflict]. So a host
//     that uses the id of its own order row as the key gets exactly one draw for each order, however
//     often it must repeat the call (see the example "exactly once").
//   - The truth appears in no file, log line or error. No refusal depends on which value it is, only on
//     whether the host has one; with a truth key, another one than the former counts as none, and only the caller
//     is told which it was, beside the result.
//   - A refused call changes nothing, and says why and what would help ([RefusedError], [QuoteError]).
//   - Prices are integers. What sellers have earned, what buyers have paid and the revenue are equal sums.
//   - The time of events never runs back, whatever the clock does, nor leaps ahead before a person confirms it
//     ([Options.ClockLeap]).
//   - The log is a Merkle tree. A [Ledger.Checkpoint] kept elsewhere proves later that nothing in the log
//     before it was changed or dropped; with [Options.Checkpoint], an older copy of the file does not open.
//   - On one machine with Linux, a ledger and a copy of it are not open for writing at the same time ([Open] says how
//     far that reaches).
//   - A file that is overwritten while it is open, by a backup copied over it, say, is not drawn from: every commit and every
//     read compare where its log ends, number of events and root of the tree, with where this process left it, and stop
//     with [ErrReplaced].
//   - [Ledger.Verify] derives everything that is stored from the events again, and compares.
//
// Calls may come from any number of goroutines. Those that change the ledger share commits; one that
// comes alone commits at once.
//
// After a failed commit the ledger refuses all further work with [ErrStopped], because only the
// file, opened again, can tell whether the commit holds. Open it again and repeat the request with
// its key.
//
// # Evidence
//
// Three kinds of people need not trust the host, only compare what they got from it:
//
//   - A buyer has a [Ledger.Receipt] for each sale: every response and price, proven to be in the log.
//   - A seller has a [Ledger.Statement]: every event about one object, proven to be all of them.
//   - An auditor has the file and a checkpoint from somebody else, and runs [Ledger.Verify]: every
//     balance, level, price and answer follows from the events, and the events are those of the checkpoint.
//
// Receipts and statements are verified offline, with nothing but the host's verifier key. They prove what is
// in the log of a checkpoint. That the log is one that a ledger can have written, that a statement in it is
// true, say, is what the auditor proves; and that everybody was shown the same log, only comparing
// checkpoints does. None of them proves that draws were random, or that the host told the ledger the truth.
//
// [Ledger.Forget] destroys what there is about an object, and leaves all proofs as they were.
//
// # What to do with an error
//
// A request is decided for good by [ErrInvalid] (unless it is an [ErrTruthSource]) and [ErrKeyConflict]: the
// same request fails again. [ErrForgotten] says that it was carried out, and that what came of it is destroyed.
// [RefusedError], [QuoteError], [ErrUnknown] and [ErrNotReserved] say what the state did not allow; nothing has
// happened, the key is free, and the same request may succeed later, so a host that takes a refusal for final
// writes that down itself. After every other error, among them those of the source of truths, of ctx and of the
// disk, repeat the request with its key until it is answered. A [*RollbackError] of Open is for people: the file
// is not the ledger that the checkpoint is of, and whatever is drawn from it may have been drawn before.
//
// # One way to change the state
//
// A request is decided against the state in its transaction and yields events that hold every
// outcome, the drawn response included. A single function, apply, changes the state, by an event. So
// the state is the fold of the log, and can be recomputed from it and compared. Forgetting an object also erases
// what events say of it, and makes the state the fold of what is left.
//
// # File format, version 5
//
// The file is a bbolt database with these buckets. Numbers in keys are big-endian. Every value but
// that of meta/format ends with the CRC-32C (4 bytes, big-endian) of: name of the bucket, length of
// the key (4 bytes), key, payload; the payloads are given here.
//
//	meta
//	  "format"         "sluice ledger " + version (2 bytes); not checksummed, so that any version reads it
//	  "about"          what the ledger was created with
//	  "counters"       sums over the log; written once a transaction
//	  "truth key"      16 bytes that recognize the truth key; absent without one
//	  "noise" number(4)
//	                   noise key
//	questions
//	  "q" number(4)    question
//	  "n" name         number(4)
//	  "e" number(4)    number(8) of the event that defined it
//	policies
//	  "p" number(4)    policy as canonical JSON
//	  "h" sha256(32)   number(4), by the hash of that JSON
//	  "e" number(4)    number(8) of the event that defined it
//	objects
//	  name 0           object
//	  name 0 number(4) number(4): the object is enrolled in this question
//	chains
//	  number(4) name   chain of an object in a question
//	answers
//	  number(4) sha256(32) text
//	                   answers to this query about a question and a panel, by the digest of the panel
//	buyers
//	  "q" number(4)    buyer
//	  "n" name         number(4)
//	  "e" number(4)    number(8) of the event that defined it
//	sales
//	  number(8)        sale or reservation
//	requests
//	  key              request with this idempotency key
//	events
//	  number(8)        event, from 1 without gaps
//	tallies
//	  number(4) ε(8) value(4)
//	                   tally of this response to a question at exactly this ε, in nano-nats
//	strangers
//	  name             stranger: somebody whom requests named and refused, and who was never enrolled
//
// Names have no zero byte, so no object's keys begin with another's.
//
// Field types: u8, u32 and u64 are big-endian; i64 is a time in nanoseconds since 1970, as u64; n is
// an unsigned LEB128 number (Go: uvarint) of the fewest bytes; ε is n nano-nats; text is n bytes of
// UTF-8 after n; tag is 0, or 1 and 16 bytes; flag is 0 or 1; [..]* is n items after n.
//
//	about      i64 time, id 16 bytes, text currency, text log key
//	counters   n events, root of their tree 32 bytes, i64 last event, u32 noise keys, u32 questions, u32 policies, n objects, n chains, u32 buyers,
//	           n sales and reservations, n sales carried out, n revenue; then what is 0 between transactions: n sale not
//	           settled, n refused events not settled, flag whether there are charges not answered, and then n how many, u32 their
//	           question, ε of each, n last event that forgot one of those charged (0: none), n of them erased, text the last object
//	           of the others, digest of the panel of these 32 bytes; n event of
//	           an answer not settled, n event of the one that it was derived from, u8 whom it leaves out (0 not known, 1 nobody,
//	           2 somebody); flag whether there are events not settled, and then n how many, n enrolments, n raises, n other
//	           responses, n erased ones, n erased draws of a sale, n nano-nats that all cost, u8 which requests they can be
//	           of, text last object, flag whether one has several responses; n erased events not accounted for, n of them refusals or settled, n
//	           earned by them, n nano-nats charged by them, n sale whose objects are to come (0, or n objects, n of them erased, n price, 5 × n by method
//	           and upgrades, text last object, n event by which that was reserved)
//	noise key  u32 number, text name, 16 bytes that recognize the key
//	question   u32 number, text name, u8 encoding (1 direct, 2 unary, 3 finite), [text value]*, and in finite
//	           encoding text mechanism as canonical JSON
//	object     ε cap, ε spent, n chains, n event of its withdrawal (0: none), n event that forgot it (0: none),
//	           n earned, links, [n reservation that may hold budget]*
//	stranger   links
//	  links    n last event about it, n how many there are, n last settled event that names it, n how many there
//	           are; without those that are erased
//	chain      n event of its last enrolment, n policy (0: none), n noise key (0: chance), n buyers, tag of the truth,
//	           ε charged by answers or spent before it was forgotten, levels
//	  levels   [ε, response, n event, [n buyer]*]* by rising ε
//	  response direct: n number of the value; finite: n number of the output at this ε; unary: n 2²⁰ + m, then m
//	           bits in ⌈m/8⌉ bytes, bit v%8 of byte v/8 for value v
//	buyer      text name, n sales, n paid
//	sale       u8 status (1 reserved, 2 sold, 3 cancelled), u32 buyer, u32 question, ε, n objects, n price,
//	           n refused, n event that began it, n event that reserved it (0: none), flag and i64 expiry if reserved,
//	           n price reserved before
//	answers    [ε, result, n event, n event of the fresh answer that it comes from (or its own), n objects in the
//	           panel]* by rising ε
//	  result   flag scored, n output; of a score 2y for y ≥ 0 and −2y − 1 for y < 0 instead of the output
//	tally      n chains that have this response at this ε, n chains of which it is the current one; in unary
//	           encoding of all responses, and then of those with the bit of each value, in their order
//	request    digest 32 bytes, flag done, n through event, n objects dealt with, [n settling event]*
//
// The record of an event, the leaf of the log's tree:
//
//	u8 form      1 whole, 2 erased
//	n previous   the event about the same object before it that is not erased (of a settled one, the settled one
//	             before it that names the object); 0: none
//	n length, public bytes
//	whole:       n length, salt 16 random bytes, hidden bytes
//	erased:      commitment 32 bytes, the SHA-256 of salt and hidden bytes
//	hashes       32 bytes each: those of the tree that the event completes, from its leaf up
//
// The leaf is the RFC 6962 hash of the public bytes and the commitment, one after the other. Event number k is
// the leaf with index k−1; it completes 1 + (trailing ones of k−1 in binary) hashes, numbered as package
// golang.org/x/mod/sumdb/tlog stores them. Forgetting an object replaces salt and hidden bytes by their commitment.
//
// The public bytes begin so, and go on as the table says:
//
//	offset size
//	0      1    version of the encoding, 4
//	1      1    kind
//	2      8    i64 time
//
//	kind          public; hidden
//	1 created     nothing; id 16 bytes, text currency, text log key
//	2 truth-key   nothing; 16 bytes
//	3 question    nothing; u32 number, text name, u8 encoding, [text value]*, and in finite encoding text mechanism
//	4 policy      nothing; u32 number, text JSON
//	5 enrolled    nothing; text object, u32 question, u32 policy, u32 noise key (0: chance), ε cap
//	6 released    nothing; text object, u32 question, ε, response, u8 method (1 raise, 2 degrade, 3 insert)
//	7 settled     text key, flag alone, identity unless alone, n first event, n through event, flag final,
//	              3 × n counts, n nano-nats that it cost all objects together, n refused, [n question, n raised, n unchanged, n refused]* of a sweep, n event of an
//	              answer (0: none), n sale or reservation (0: none), n objects dealt with if the request names
//	              objects and this is not its last part; text object, identity if alone
//	              alone: the request names this object and no other; of a part that is not the last, of a request
//	              for all, the object is the last one of the part; else ""
//	              identity: digest 32 bytes of the request, u8 number of its fields, a byte for each (of its CRC-32C), by
//	              which a conflict names the field that differs
//	8 charged     nothing; text object, u32 question, ε; the answered event follows
//	9 answered    nothing; u32 question, text query, digest of the panel 32 bytes, n objects, ε, result,
//	              u8 method (2 degrade, 4 fresh; of a score also 1 raise, 3 insert)
//	10 buyer      nothing; u32 number, text name
//	11 reserved   nothing; deal, i64 expiry; its held events follow, then those of who is refused
//	  deal        n sale, u32 buyer, u32 question, ε, n objects, n price, n refused
//	12 held       n sale, n price; text object
//	13 cancelled  nothing; n sale
//	14 sale       nothing; deal, n draws, n resales, n degradations, n insertions, n upgrades; its sold events follow,
//	              then those of who is refused
//	15 sold       n sale, n price; text object, response, u8 method (1 to 3, or 5 resale)
//	16 withdrawn  nothing; text object
//	17 bound      nothing; text object, u32 question, tag 16 bytes of the truth that is drawn from next
//	18 refused    nothing; u32 question of a sweep (else 0), refusal; the settled event follows
//	  refusal     text object, u8 reason, u8 help, ε ceiling, ε spent, ε asked, ε cost, ε remaining
//	  reasons     1 chain-ceiling, 2 object-cap, 3 not-enrolled, 4 no-truth, 5 cap-differs, 6 policy-differs,
//	              7 withdrawn, 8 not-for-sale, 9 not-on-offer, 10 buyer-refused, 11 sale-closed, 12 holders-full,
//	              13 no-noise-key, 14 no-truth-key
//	  helps       1 nothing, 2 waiting, 3 enrolling, 4 truth, 5 key
//	19 stated     nothing; text object, n event that forgot it (0: none), [n event]* about it since, account
//	  account     ε cap, ε spent, n earned
//	20 forgotten  nothing; text object, n events erased, account, [u32 question, u32 policy, ε spent]*
//	21 noise-key  nothing; u32 number, text name, 16 bytes that recognize the key
//
// Kinds 5, 6, 8, 12, 15 to 19, and 7 where it names an object, are about one object and can be erased. With 7 alone
// the digest in the record of its request becomes zero.
//
// The digest of a panel is made name by name, in order: it is the SHA-256 of text "panel" and then, for each name, that of
// the digest so far and the name. Where somebody is left out it is the SHA-256 of text "left out" and the digest of all who
// were asked for. That of a request is the SHA-256 of a text that names the operation and then its parameters.
//
// Encodings are canonical: equal contents have equal bytes, and a decoder accepts no others.
//
// A program that meets a newer format version refuses with [ErrVersion]. Without a new version,
// buckets, keys in meta, and encodings, kinds, methods, reasons and helps under new numbers may be added: an
// older program reports them as [ErrCorrupt] where it meets them and guesses nothing. The layout of
// what exists does not change, and no number gets a second meaning.
package ledger
