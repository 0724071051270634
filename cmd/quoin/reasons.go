package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quoin-hpc/quoin/topology"
)

// newReasonsTopic is a page of the help and no command: it explains the reason words.
func newReasonsTopic() *cobra.Command {
	var page strings.Builder
	for _, c := range topology.Reasons {
		fmt.Fprintf(&page, "%s: %s\n\n", c.Title, c.Text)
		for _, w := range c.Words {
			fmt.Fprintf(&page, "  %s: %s\n", w.Reason, w.Meaning)
			for _, line := range [][2]string{{"do", w.Remedy}, {"ends", w.Ends}} {
				if line[1] != "" {
					fmt.Fprintf(&page, "      %s: %s\n", line[0], line[1])
				}
			}
		}
		page.WriteByte('\n')
	}
	return &cobra.Command{Use: "reasons", Short: "Explain the words by which Quoin says why", Long: page.String()}
}
