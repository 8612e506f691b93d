package hostile

import "unsafe"

// zeros returns so many zero bytes as a text. The system gives memory for them only when they are written to.
func zeros(n int) string {
	return textOf(make([]byte, n))
}

// textOf returns bytes as a text, without a copy. Nobody may write to them any more.
func textOf(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
