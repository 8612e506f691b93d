package input

import (
	"cmp"
	"encoding"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/privacy"
)

// None is the type of the flags of a command without flags.
type None struct{}

// Command returns a command whose flags are the fields of F (see [Define]). Its arguments are the
// words of use before the first flag: "make SALE --out FILE" has one argument, and "withdraw
// OBJECT…" one or more. The files of [Output] flags are created before the command runs.
func Command[F any](s *Files, use string, run func(cmd *cobra.Command, args []string, f *F) error) *cobra.Command {
	f := new(F)
	cmd := &cobra.Command{Use: use, Args: arguments(use), RunE: func(cmd *cobra.Command, args []string) error {
		for _, out := range outputsOf(reflect.ValueOf(f).Elem()) {
			if err := s.begin(out); err != nil {
				return err
			}
			defer out.Discard()
		}
		return run(cmd, args, f)
	}}
	Define(cmd, cmd.Flags(), f)
	return cmd
}

// outputsOf returns the [Output] flags of a struct and of the structs in it, and sets in each the
// name of its flag.
func outputsOf(fields reflect.Value) (all []*Output) {
	if fields.Kind() != reflect.Struct {
		return nil
	}
	for i := range fields.NumField() {
		tag, tagged := fields.Type().Field(i).Tag.Lookup("flag")
		out, is := (*Output)(nil), false
		if tagged {
			out, is = fields.Field(i).Addr().Interface().(*Output)
		}
		if is {
			out.by, _, _ = strings.Cut(tag, ",")
			all = append(all, out)
		} else if !tagged {
			all = append(all, outputsOf(fields.Field(i))...)
		}
	}
	return all
}

// Group returns a command that only has subcommands. If it is run without one, it fails with
// message. path is its name after the names of its parents.
func Group(path, message string, subcommands ...*cobra.Command) *cobra.Command {
	names := strings.Fields(path)
	cmd := &cobra.Command{Use: names[len(names)-1], RunE: func(*cobra.Command, []string) error {
		return output.UsageError(fmt.Sprintf(`run "ledgerctl %s --help"`, path), "%s", message)
	}}
	cmd.AddCommand(subcommands...)
	return cmd
}

// arguments returns the check of the number of arguments of a command, from its use text: see
// [Command].
func arguments(use string) cobra.PositionalArgs {
	before, _, _ := strings.Cut(use, " --")
	n := len(strings.Fields(before)) - 1
	switch {
	case n == 0:
		return cobra.NoArgs
	case strings.HasSuffix(before, "…"):
		return cobra.MinimumNArgs(n)
	}
	return cobra.ExactArgs(n)
}

// Define adds a flag for each tagged field of a struct, and of the structs in it. The tag "flag"
// has the name of the flag, and these options after commas:
//
//   - required: the command cannot run without the flag;
//   - repeated: the flag is given once for each item of a list, which may contain commas;
//   - positive: the number is above 0; the tag "zero" has the hint if it is not;
//   - empty: an empty text is allowed;
//   - not=NAME: the flag excludes another flag; needs=NAME: it requires another flag;
//   - reads, writes: the flag names a file that the command reads or writes; reads@ is for a text
//     or @FILE, and reads= for NAME=FILE.
//
// The tag "default" has the default value, "values" the values for shell completion, "ext" the
// extension of the file, and "kind" the [ledgerfile.Kind] of a file that is written. The usage of
// flags is in help.txt.
func Define(cmd *cobra.Command, flags *pflag.FlagSet, into any) {
	define(cmd, flags, reflect.ValueOf(into).Elem())
}

// define is [Define] for a struct and, recursively, for the structs in it without a tag.
func define(cmd *cobra.Command, flags *pflag.FlagSet, fields reflect.Value) {
	for i := range fields.NumField() {
		field := fields.Type().Field(i)
		text, tagged := field.Tag.Lookup("flag")
		switch {
		case tagged:
			f := defineOne(flags, text, fields.Field(i).Addr().Interface())
			annotate(cmd, f, field.Tag, strings.Split(text, ",")[1:])
		case field.Type.Kind() == reflect.Struct:
			define(cmd, flags, fields.Field(i))
		}
	}
}

// defineOne adds the flag of one field. text is the tag "flag", which begins with the name of the
// flag; into is a pointer to the field. It panics for a type of field that no flag can have.
func defineOne(flags *pflag.FlagSet, text string, into any) *pflag.Flag {
	name, options, _ := strings.Cut(text, ",")
	switch at := into.(type) {
	case *string:
		flags.StringVar(at, name, "", "")
	case *bool:
		flags.BoolVar(at, name, false, "")
	case *int:
		flags.IntVar(at, name, 0, "")
	case *int64:
		flags.Int64Var(at, name, 0, "")
	case *uint64:
		flags.Uint64Var(at, name, 0, "")
	case *float64:
		flags.Float64Var(at, name, 0, "")
	case *time.Duration:
		flags.DurationVar(at, name, 0, "")
	case *[]int:
		flags.IntSliceVar(at, name, nil, "")
	case *[]privacy.Epsilon:
		flags.Var(&epsilons{at}, name, "")
	case *[]string:
		if slices.Contains(strings.Split(options, ","), "repeated") {
			flags.StringArrayVar(at, name, nil, "")
		} else {
			flags.StringSliceVar(at, name, nil, "")
		}
	case pflag.Value:
		flags.Var(at, name, "")
	case encoding.TextUnmarshaler:
		zero := reflect.Zero(reflect.TypeOf(into).Elem()).Interface()
		flags.TextVar(at, name, zero.(encoding.TextMarshaler), "")
	default:
		panic(fmt.Sprintf("flag --%s: no flag can be a %T", name, into))
	}
	return flags.Lookup(name)
}

// annotate applies the tags of a flag: as annotations, default value and completions.
func annotate(cmd *cobra.Command, f *pflag.Flag, tags reflect.StructTag, options []string) {
	note := func(key string, values ...string) {
		if f.Annotations == nil {
			f.Annotations = map[string][]string{}
		}
		f.Annotations[key] = values
	}
	for _, option := range options {
		switch rule, other, _ := strings.Cut(option, "="); rule {
		case "required":
			note(cobra.BashCompOneRequiredFlag, "true")
		case isPositive:
			hint := tags.Get("zero")
			if hint == "" && tags.Get("default") != "" {
				hint = "leave it out for the default"
			}
			note(rule, hint)
		case mayBeEmpty, excludes, needs:
			note(rule, other)
		}
		switch option {
		case "reads":
			note(FileNote, string(Reads), string(ByName))
		case "reads@":
			note(FileNote, string(Reads), string(AtName))
		case "reads=":
			note(FileNote, string(Reads), string(Labeled))
		case "writes":
			note(FileNote, string(Writes), string(ByName), tags.Get("kind"))
		}
	}
	if ext := tags.Get("ext"); ext != "" {
		note(cobra.BashCompFilenameExt, ext)
	}
	if otherwise := tags.Get("default"); otherwise != "" {
		if err := f.Value.Set(otherwise); err != nil {
			panic(fmt.Sprintf("flag --%s: the default %q: %v", f.Name, otherwise, err))
		}
		f.DefValue = f.Value.String()
	}
	if values := strings.Fields(tags.Get("values")); len(values) > 0 {
		// Fails only for a flag that is not defined.
		_ = cmd.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	}
}

// Options of flags that are also annotations.
const (
	isPositive = "positive"
	mayBeEmpty = "empty"
	excludes   = "not"
	needs      = "needs"
)

// CheckFlags checks the options of all flags that are given. An empty text is an error, because it
// is most often an unset variable of the shell and not an omitted flag.
func CheckFlags(flags *pflag.FlagSet) (err error) {
	flags.Visit(func(f *pflag.Flag) {
		if err == nil {
			err = checkFlag(flags, f)
		}
	})
	return err
}

// checkFlag checks the options of one flag that is given (see [Define]).
func checkFlag(flags *pflag.FlagSet, f *pflag.Flag) error {
	// rule returns whether the flag has an option, and its parameter: another flag, or a hint.
	rule := func(name string) (other string, is bool) {
		values, is := f.Annotations[name]
		return strings.Join(values, ""), is
	}
	isGiven := func(name string) bool {
		other := flags.Lookup(name)
		return other != nil && other.Changed && other.Value.String() != "false"
	}
	value := f.Value.String()
	if _, is := rule(mayBeEmpty); value == "" && f.Value.Type() == "string" && !is {
		return output.UsageError("is a variable of the shell not set? to give no value, omit the flag", "--%s is empty",
			f.Name)
	}
	if hint, is := rule(isPositive); is && !(numberOf(f.Value) > 0 && numberOf(f.Value) < math.Inf(1)) {
		return output.UsageError(hint, "--%s must be above 0", f.Name)
	}
	if other, is := rule(excludes); is && value != "false" && isGiven(other) {
		return output.UsageError("give one of them", "--%s and --%s exclude each other", f.Name, other)
	}
	if other, is := rule(needs); is && value != "false" && !isGiven(other) {
		return output.UsageError("add --"+other+", or omit --"+f.Name, "--%s needs --%s", f.Name, other)
	}
	return nil
}

// numberOf returns the number in a flag; a duration is in seconds. It returns NaN for other values.
func numberOf(value pflag.Value) float64 {
	if d, err := time.ParseDuration(value.String()); err == nil {
		return d.Seconds()
	}
	n, err := strconv.ParseFloat(value.String(), 64)
	if err != nil {
		return math.NaN()
	}
	return n
}

// Amount is a flag for an amount of money, in minor units of the ledger's currency.
type Amount struct {
	Units *int64 // nil if it is not given
}

// hundredths matches an amount with two decimals, as people write it in major units.
var hundredths = regexp.MustCompile(`^([0-9][0-9,']*[.][0-9]{2})( ?[A-Za-z]{3})?$`)

// Set implements [pflag.Value]. An amount with a decimal point is an error, because the flag does
// not know how many decimals the ledger's currency has.
func (a *Amount) Set(text string) error {
	units, err := strconv.ParseInt(text, 10, 64)
	if err == nil && units >= 0 {
		a.Units = &units
		return nil
	}
	parts := hundredths.FindStringSubmatch(text)
	if parts == nil {
		return fmt.Errorf("%q is not an amount: give a whole number from 0 on, in minor units of the currency "+
			"(cents, say)", text)
	}
	digits := strings.TrimLeft(strings.NewReplacer(",", "", "'", "", ".", "").Replace(parts[1]), "0")
	return fmt.Errorf("%q is not an amount: amounts are in minor units; if the minor unit is a hundredth, write %s",
		text, cmp.Or(digits, "0"))
}

// String implements [pflag.Value].
func (a *Amount) String() string {
	if a.Units == nil {
		return ""
	}
	return strconv.FormatInt(*a.Units, 10)
}

// Type implements [pflag.Value].
func (a *Amount) Type() string { return "AMOUNT" }

// epsilons is a flag for a list of ε, which are separated by commas or given in several flags.
type epsilons struct{ all *[]privacy.Epsilon }

// Set implements [pflag.Value].
func (e *epsilons) Set(text string) error {
	for item := range strings.SplitSeq(text, ",") {
		epsilon, err := privacy.ParseEpsilon(item)
		if err != nil {
			return err
		}
		*e.all = append(*e.all, epsilon)
	}
	return nil
}

// String implements [pflag.Value]. It returns "", because such flags have no defaults.
func (e *epsilons) String() string { return "" }

// Type implements [pflag.Value].
func (e *epsilons) Type() string { return "epsilons" }
