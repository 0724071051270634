package show

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// together finds the flags in an error about flags that exclude each other.
var together = regexp.MustCompile(`; \[(.*)\] were all set$`)

// ExplainUsage adds to the errors of root's flags and arguments, and of all commands below root,
// what is wanted and where to read more.
func ExplainUsage(root *cobra.Command) {
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%w; see %s --help", wanted(err), cmd.CommandPath())
	})
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		err := cmd.ValidateFlagGroups()
		if err == nil {
			return nil
		}
		if found := together.FindStringSubmatch(err.Error()); found != nil {
			err = fmt.Errorf("--%s: want one of them", strings.ReplaceAll(found[1], " ", " beside --"))
		}
		return fmt.Errorf("%w; see %s --help", err, cmd.CommandPath())
	}
	// A command with commands below it shows one line of usage, and not two.
	root.SetUsageTemplate(strings.Replace(root.UsageTemplate(), "{{if .Runnable}}", "{{if and .Runnable (not .HasAvailableSubCommands)}}", 1))
	listGlobalLast(root)
	explainArgs(root)
}

// wanted says of a value that a flag does not take what the flag takes.
func wanted(err error) error {
	bad, ok := errors.AsType[*pflag.InvalidValueError](err)
	if !ok {
		return err
	}
	want := map[string]string{"int": "a whole number", "bool": "true or false", "duration": "a time such as 30s or 5m"}[bad.GetFlag().Value.Type()]
	if want == "" {
		return fmt.Errorf("--%s %q: %w", bad.GetFlag().Name, bad.GetValue(), errors.Unwrap(bad))
	}
	return fmt.Errorf("--%s %q: want %s", bad.GetFlag().Name, bad.GetValue(), want)
}

func explainArgs(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return fmt.Errorf("%w: want %s; see %s --help", err, strings.TrimSuffix(cmd.UseLine(), " [flags]"), cmd.CommandPath())
			}
			return nil
		}
	}
	for _, below := range cmd.Commands() {
		explainArgs(below)
	}
}

// CommandGroup makes a command that only has commands below it show its help, and refuse words that
// name no such command.
func CommandGroup(cmd *cobra.Command) {
	cmd.DisableFlagsInUseLine, cmd.SuggestionsMinimumDistance = true, 2
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		err := cobra.NoArgs(cmd, args)
		if err == nil {
			return nil
		}
		if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			return fmt.Errorf("%w, perhaps %s", err, strings.Join(near, " or "))
		}
		return err
	}
}

// CallPlugin lets examples of a command, and of all commands below the command, say kubectl quoin.
func CallPlugin(cmd *cobra.Command) {
	cmd.Example = strings.NewReplacer("  quoin ", "  kubectl quoin ", "| quoin ", "| kubectl quoin ").Replace(cmd.Example)
	for _, below := range cmd.Commands() {
		CallPlugin(below)
	}
}
