// Package hosts holds no code of its own: its tests let processes be hosts of one ledger, whose journal is in PostgreSQL, each with a file and
// keys of its own. One is stopped, taken over from, and woken; its disk is destroyed at any instant; there is a long way between two of them, which
// is cut; somebody is forgotten while the other host has not heard of them yet. What anybody was told must be there, for good, and once.
package hosts
