// Package names decides which texts may be names: of objects, questions, values, outputs, buyers,
// noise keys and tokens, and idempotency keys. There is one rule, [Check], for every request, every
// lookup and every event of a log. Names are compared byte by byte. So two names that look the same
// to a person must not both be possible, or one person gets two budgets. See [vocabulary.NameError]
// for the rule.
//
// No name is changed on the way in: the caller decides what a faulty name was meant to be.
package names
