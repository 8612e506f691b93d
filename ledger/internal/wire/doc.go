// Package wire writes numbers and texts as bytes, and reads them back. It is the lowest layer of the
// log and of the file.
//
// The encoding is canonical: equal values have equal bytes, and the decoder refuses every other way
// to write a value. So a record can be compared, hashed and signed by its bytes.
//
// A decoder trusts nothing. What is cut off, too long, or claims more items than there are bytes for
// is [errs.ErrCorrupt]; it never panics, and takes no more memory than the input allows. Its first
// fault sticks, so a caller reads all fields and then asks [Decoder.Done] once.
//
// Stored values end with a checksum over their bucket, key and payload: see [Seal]. It finds damage
// by accident, not by intent; for that there is the tree over the log.
//
// The format, byte by byte, is in docs/reference/file-format.md.
package wire
