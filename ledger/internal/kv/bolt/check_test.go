package bolt

import (
	"fmt"
	"os"
)

func recordKey(i int) []byte { return fmt.Appendf(nil, "record %08d", i) }

func copyFile(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o600)
}
