package input

import (
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
)

// None is the flags of a command that has none.
type None struct{}

// Command returns a command whose flags are the fields of F (see [Define]), and whose arguments are
// the words of use before its first flag: "make SALE --out FILE" takes one argument, and "withdraw
// OBJECT…" one or more.
func Command[F any](use string, run func(cmd *cobra.Command, args []string, f *F) error) *cobra.Command {
	f := new(F)
	cmd := &cobra.Command{Use: use, Args: arguments(use), RunE: func(cmd *cobra.Command, args []string) error {
		return run(cmd, args, f)
	}}
	Define(cmd, cmd.Flags(), f)
	return cmd
}

// Group returns a command that only has others below it, and asks which one is meant. path is its
// name and those of the commands above it.
func Group(path, ask string, below ...*cobra.Command) *cobra.Command {
	names := strings.Fields(path)
	cmd := &cobra.Command{Use: names[len(names)-1], RunE: func(*cobra.Command, []string) error {
		return output.UsageError(fmt.Sprintf(`run "ledgerctl %s --help"`, path), "%s", ask)
	}}
	cmd.AddCommand(below...)
	return cmd
}

// arguments returns the check of how many arguments a command has.
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

// Define adds a flag for each field of a struct, and of the structs in it, that has a tag. The tag
// flag has the flag's name, and after commas what else is to be known of it:
//
//   - required: the command makes no sense without it;
//   - repeated: a list has an item for each time that the flag is given, not for each comma;
//   - empty: an empty text means something;
//   - reads, writes: it names a file that the command reads or writes; reads@ is for a text or
//     @FILE, and reads= for NAME=FILE.
//
// The tag default has the value of a flag that is not given, values has those that the shell
// completes, ext has the extension of the file, and kind says what a file that is written is to a
// ledger. What a flag means is said where the help of its command is.
func Define(cmd *cobra.Command, flags *pflag.FlagSet, into any) {
	define(cmd, flags, reflect.ValueOf(into).Elem())
}

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

// defineOne adds the flag of one field.
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

// annotate notes what the tags of a flag say.
func annotate(cmd *cobra.Command, f *pflag.Flag, tags reflect.StructTag, options []string) {
	note := func(key string, values ...string) {
		if f.Annotations == nil {
			f.Annotations = map[string][]string{}
		}
		f.Annotations[key] = values
	}
	for _, option := range options {
		switch option {
		case "required":
			note(cobra.BashCompOneRequiredFlag, "true")
		case "empty":
			note(mayBeEmpty)
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
		// It fails only for a flag that is not defined.
		_ = cmd.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	}
}

// mayBeEmpty is the annotation of flags for which an empty text means something.
const mayBeEmpty = "sluice_may_be_empty"

// CheckFlags refuses what is wrong with the flags of any command. An empty text is most often a
// variable of the shell that is not set, and must not count as a flag that is left out.
func CheckFlags(flags *pflag.FlagSet) (err error) {
	if rows := flags.Lookup("id-rows"); rows != nil && rows.Value.String() == "true" && flags.Changed("id-column") {
		return output.UsageError("give one of them", "--id-rows and --id-column exclude each other")
	}
	flags.Visit(func(f *pflag.Flag) {
		_, empty := f.Annotations[mayBeEmpty]
		if f.Value.Type() == "string" && f.Value.String() == "" && !empty && err == nil {
			err = output.UsageError("is a variable of the shell not set? leave the flag out if nothing is meant",
				"--%s is empty", f.Name)
		}
	})
	return err
}
