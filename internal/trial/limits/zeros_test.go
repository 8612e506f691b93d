package limits

import "unsafe"

// zeros returns so many zero bytes as a text. The system gives memory for them only when they are written to.
func zeros(n int) string {
	b := make([]byte, n)
	return unsafe.String(unsafe.SliceData(b), len(b))
}
