package show

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"
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
