// Command build makes the chroots of the Slurm rig before the tests need them.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/quoin-hpc/quoin/testdata/rig/slurmrig"
)

func main() {
	for _, r := range slurmrig.Releases() {
		if err := slurmrig.Build(context.Background(), r); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Printf("Slurm %s is in %s\n", r.Slurm, r.Root())
	}
}
