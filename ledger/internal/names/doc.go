// Package names says what may be the name of an object, question, value, buyer or key. It rests on the errors alone.
//
// There are two rules. [Check] is for all names, those in old logs too: they may not change. [Fault] is for names that are new to a
// ledger: it also refuses what people cannot tell apart by eye, invisible characters and other forms of the same letters. A log may
// have any name that Check accepts.
package names
