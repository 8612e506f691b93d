package output

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/pflag"
)

// WrongValue says what is wrong with the value of a flag, "" if it is something else that is wrong.
func WrongValue(err error) string {
	var wrong *pflag.InvalidValueError
	var number *strconv.NumError
	if !errors.As(err, &wrong) {
		return ""
	}
	flag, kinds := wrong.GetFlag(), map[string]string{"uint64": "a whole number from 0 on", "bool": "true or false",
		"float64": "a number"}
	switch {
	case !errors.As(err, &number):
		return fmt.Sprintf("--%s: %v", flag.Name, wrong.Unwrap())
	case errors.Is(err, strconv.ErrRange):
		return fmt.Sprintf("--%s: %q is too large, or too small", flag.Name, wrong.GetValue())
	}
	return fmt.Sprintf("--%s: %q is not %s", flag.Name, wrong.GetValue(),
		cmp.Or(kinds[flag.Value.Type()], "a whole number"))
}
