// Package processes holds no code of its own: its tests let two processes want one ledger. The second comes by the same
// name, through a link, after the file was renamed or replaced, or with a copy of it; it opens the ledger for reading
// or for writing, and so has the first. Whoever may not have it is told so, by a typed error and soon.
package processes
