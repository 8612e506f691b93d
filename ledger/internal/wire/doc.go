// Package wire encodes numbers and texts as bytes, and decodes them. It is the lowest layer of the
// log and of the file.
//
// The encoding is canonical: equal values have equal bytes, and the decoder rejects every other
// encoding of a value. A record can therefore be compared, hashed and signed by its bytes.
//
// A decoder does not trust its input. Input that is truncated, too long, or claims more items than
// it has bytes for is [errs.ErrCorrupt]. The decoder never panics, and allocates no more memory
// than the input allows. It keeps its first error, so a caller reads all fields and then calls
// [Decoder.Done] once.
//
// Stored values end with a checksum over their bucket, key and payload: see [Seal]. The checksum
// detects accidental damage, not intended changes. The tree over the log detects those.
//
// The format, byte by byte, is in docs/reference/file-format.md.
package wire
