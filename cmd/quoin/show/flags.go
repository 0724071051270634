package show

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// AddOutput adds the flag --output of the words that it takes. The first one is the default.
func AddOutput(cmd *cobra.Command, output *string, words ...string) {
	last := len(words) - 1
	list := strings.Join(words[:last], ", ") + " or " + words[last]
	*output = words[0]
	cmd.Flags().FuncP("output", "o", "`form` of the output: "+list, func(text string) error {
		if !slices.Contains(words, text) {
			return errors.New("want " + list)
		}
		*output = text
		return nil
	})
	cmd.Flags().Lookup("output").DefValue = words[0]
	Complete(cmd, "output", cobra.ShellCompDirectiveNoFileComp, words...)
}

// isGlobal is the annotation of the flags that many commands have.
const isGlobal = "global"

// Global marks flags that many commands have. The help lists these flags last.
func Global(cmd *cobra.Command, flags ...string) {
	for _, name := range flags {
		_ = cmd.Flags().SetAnnotation(name, isGlobal, nil) // fails only without the flag
	}
}

// listGlobalLast gives the usage of all commands a block of their own for the flags that many commands have.
func listGlobalLast(root *cobra.Command) {
	usage := root.UsageFunc()
	root.SetUsageFunc(func(cmd *cobra.Command) error {
		global := pflag.NewFlagSet("", pflag.ContinueOnError)
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if _, is := f.Annotations[isGlobal]; is {
				global.AddFlag(f)
			}
		})
		hide := func(hidden bool) { global.VisitAll(func(f *pflag.Flag) { f.Hidden = hidden }) }
		hide(true)
		err := usage(cmd)
		hide(false)
		if global.HasFlags() {
			fmt.Fprintf(cmd.OutOrStderr(), "\nGlobal Flags:\n%s", global.FlagUsages())
		}
		return err
	})
}

// Complete gives a flag the values that the shell completes.
func Complete(cmd *cobra.Command, flag string, directive cobra.ShellCompDirective, values ...string) {
	CompleteBy(cmd, flag, cobra.FixedCompletions(values, directive))
}

// CompleteBy lets a function say which values the shell completes.
func CompleteBy(cmd *cobra.Command, flag string, by cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, by); err != nil {
		panic(err) // the command has no such flag
	}
}
